"""kazoo's errors, mapped to ours: here alone."""

from __future__ import annotations

from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.conditions import (
    REQUEST_TOO_LARGE,
    ZOOKEEPER_CONNECTION_LOST,
    ZOOKEEPER_ERROR,
    ZOOKEEPER_MISUSED,
    ZOOKEEPER_NOT_OPEN,
    ZOOKEEPER_REFUSED,
    ZOOKEEPER_TIMEOUT,
    ZOOKEEPER_UNREACHABLE,
)
from pyspark_zkafka.errors import ZKafkaError, ZooKeeperMisused, ZooKeeperRefused
from pyspark_zkafka.options.values import ZooKeeperConfig

KAZOO_ERRORS: tuple[type[BaseException], ...] = (kazoo.KazooException, KazooTimeoutError)
NO_NODE: type[BaseException] = kazoo.NoNodeError
NO_NODE_CODE: int = kazoo.NoNodeError.code
UNKNOWN_REQUEST: type[BaseException] = kazoo.UnimplementedError
TIMED_OUT: type[BaseException] = KazooTimeoutError
CLOSED: type[BaseException] = kazoo.ConnectionClosedError
AUTH_FAILED: type[BaseException] = kazoo.AuthFailedError
CONNECTION_LOSS: type[BaseException] = kazoo.ConnectionLoss

_LARGEST_REQUEST_BYTES = 0xFFFFF  # jute.maxbuffer, where it is not set
_PASSING = (kazoo.ConnectionLoss, kazoo.OperationTimeoutError, kazoo.SessionExpiredError, kazoo.SessionMovedError)
_REFUSALS = (
    kazoo.NoAuthError,
    kazoo.AuthFailedError,
    kazoo.InvalidACLError,
    kazoo.NotReadOnlyCallError,
    kazoo.SessionClosedRequireSaslError,
    kazoo.QuotaExceededError,
)
_MALFORMED = (kazoo.BadArgumentsError, kazoo.MarshallingError, kazoo.UnimplementedError)


def is_passing(error: BaseException) -> bool:
    """True if a read may be sent again: the connection or session was lost, and kazoo opens another."""
    return isinstance(error, _PASSING) and not isinstance(error, kazoo.ConnectionClosedError)


def is_rolled_back(error: BaseException) -> bool:
    """True if an operation failed only because another one of the transaction failed."""
    return isinstance(error, (kazoo.RolledBackError, kazoo.RuntimeInconsistency))


def is_too_large(error: BaseException, size: int) -> bool:
    """True if servers may have closed the connection because a request exceeds their default limit."""
    return size > _LARGEST_REQUEST_BYTES and isinstance(error, (*_PASSING, kazoo.ConnectionDropped))


def too_large(size: int, doing: str, config: ZooKeeperConfig) -> ZooKeeperRefused:
    """The error for a request that is probably too large. Servers also close connections for other reasons."""
    return REQUEST_TOO_LARGE(
        f"{doing} got no answer: {config.hosts} closed the connection at a request of some {size} bytes, probably because "
        f"it is larger than their jute.maxbuffer ({_LARGEST_REQUEST_BYTES} by default); whether it was applied is unknown; "
        "subscribe to fewer topics, or by a pattern, or raise jute.maxbuffer on all servers",
        size=size,
    )


def translate(error: BaseException, doing: str, config: ZooKeeperConfig) -> ZKafkaError:
    """Our error for one of kazoo's. `doing` describes the request, e.g. ``reading /brokers/ids``."""
    if isinstance(error, _REFUSALS):
        return _refused(error, doing, config)
    if isinstance(error, kazoo.ConnectionClosedError):
        return not_open()
    if isinstance(error, _MALFORMED):
        return ZOOKEEPER_MISUSED(
            f"{doing} at {config.hosts} failed: the servers do not understand the request ({_name(error)}); "
            "check that they are of ZooKeeper 3.4 or later, and report this",
        )
    if isinstance(error, KazooTimeoutError):
        return ZOOKEEPER_TIMEOUT(
            f"{doing} at {config.hosts} got no answer within {config.connection_timeout_ms} ms; "
            "check that the ensemble has a quorum, or raise zookeeper.connection.timeout.ms",
        )
    if isinstance(error, (*_PASSING, kazoo.ConnectionDropped)):
        return ZOOKEEPER_CONNECTION_LOST(
            f"{doing} at {config.hosts} failed: the connection or the session was lost ({_name(error)}); "
            "try again, and if it recurs, see the servers' logs",
        )
    return ZOOKEEPER_ERROR(f"{doing} at {config.hosts} failed ({_name(error)}); see the servers' logs")


def _refused(error: BaseException, doing: str, config: ZooKeeperConfig) -> ZooKeeperRefused:
    if isinstance(error, (kazoo.AuthFailedError, kazoo.SessionClosedRequireSaslError)):
        found, advice = "ZooKeeper does not accept the credentials", "check zookeeper.auth"
    elif isinstance(error, kazoo.NotReadOnlyCallError):
        found, advice = "the server is in read-only mode", "wait until the ensemble has a quorum"
    elif isinstance(error, kazoo.QuotaExceededError):
        found, advice = "a quota is exceeded", "ask the ensemble's administrator for a higher one"
    else:
        who = "anonymously" if config.auth is None else f"as the {config.auth[0]} user of zookeeper.auth"
        mend = "set zookeeper.auth" if config.auth is None else "check its user and password"
        found, advice = f"an ACL forbids it, asked {who}", f"{mend}, or have the ACL changed"
    return ZOOKEEPER_REFUSED(f"{doing} was refused: {found} ({_name(error)}); {advice}")


def no_session(error: BaseException, config: ZooKeeperConfig, troubles: list[str]) -> ZKafkaError:
    """The error for a session that could not be established. `troubles` are the errors meanwhile."""
    if isinstance(error, _REFUSALS):
        return _refused(error, f"Connecting to {config.hosts}", config)
    found = "; ".join(troubles) or "no server answered"
    also = " and that they support SASL (zookeeper.auth)" if config.auth is not None and config.auth[0] == "sasl" else ""
    also += " on a TLS port that matches zookeeper.ssl.*" if config.tls is not None else ""
    return ZOOKEEPER_UNREACHABLE(
        f"No connection to ZooKeeper at {config.hosts} within {config.connection_timeout_ms} ms: {found}; check that "
        "zookeeper.connect has ZooKeeper's hosts and ports, not a broker's, and "
        f"that the servers run{also} and have a quorum, or raise zookeeper.connection.timeout.ms",
        hosts=config.hosts,
    )


def not_open() -> ZooKeeperMisused:
    """The error for a client used outside of its ``with`` block."""
    return ZOOKEEPER_NOT_OPEN("The ZooKeeper client is not open; use it inside its with block")


def _name(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
