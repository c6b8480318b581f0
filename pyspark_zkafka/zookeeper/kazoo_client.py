"""kazoo's client: a handler with bounded waits, credentials, a log without secrets, and errors mapped to this package's."""

from __future__ import annotations

import importlib.util
import logging
import math
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import WATCH_XID
from kazoo.protocol.states import KeeperState

from pyspark_zkafka.conditions import (
    REQUEST_TOO_LARGE,
    SASL_MISSING,
    UNUSABLE_TLS_FILE,
    ZOOKEEPER_CONNECTION_LOST,
    ZOOKEEPER_ERROR,
    ZOOKEEPER_MISUSED,
    ZOOKEEPER_NOT_OPEN,
    ZOOKEEPER_REFUSED,
    ZOOKEEPER_TIMEOUT,
    ZOOKEEPER_UNREACHABLE,
)
from pyspark_zkafka.errors import ZKafkaError, ZooKeeperMisused, ZooKeeperRefused
from pyspark_zkafka.options.values import ZooKeeperConfig, ZooKeeperTls

KAZOO_ERRORS: tuple[type[BaseException], ...] = (kazoo.KazooException, KazooTimeoutError)
NO_NODE: type[BaseException] = kazoo.NoNodeError
NO_NODE_CODE: int = kazoo.NoNodeError.code
UNKNOWN_REQUEST: type[BaseException] = kazoo.UnimplementedError
TIMED_OUT: type[BaseException] = KazooTimeoutError
CLOSED: type[BaseException] = kazoo.ConnectionClosedError
AUTH_FAILED: type[BaseException] = kazoo.AuthFailedError
CONNECTION_LOSS: type[BaseException] = kazoo.ConnectionLoss

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

_LARGEST_REQUEST_BYTES = 0xFFFFF  # jute.maxbuffer, where it is not set
_MAX_TROUBLES = 8
_SHORTEST_S = 0.01
_FIRST_ANSWER_S = 1.0  # kazoo waits for the requested session timeout, but servers grant longer ones
_AHEAD_BYTES = 64 * 1024
_LENGTH_BYTES = 4
_HEADER = struct.Struct(">ii")  # a message's length and its xid; in a connection's first answer, the protocol's version
_GRANTED = slice(8, 12)  # the timeout in a connection's first answer


class Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, which counts refused logins in a row: later errors say only that the client is closed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.refusals = 0
        self._connect = self._connection._connect
        self._connection._connect = self._log_in

    def _log_in(self, *args: Any) -> Any:
        """Connect and log in. kazoo reports CONNECTED before the login."""
        answer = self._connect(*args)
        self.refusals = 0
        return answer

    @property
    def has_ended(self) -> bool:
        """True if the thread of the connection has ended, or was not started."""
        thread = self._connection._connection_routine
        return thread is None or not thread.is_alive()

    def _session_callback(self, state: object) -> None:
        if state == KeeperState.AUTH_FAILED:
            self.refusals += 1
        super()._session_callback(state)


class BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with a `deadline` (monotonic seconds) for connecting and closing.

    Without a deadline, a server that accepts connections but does not answer blocks both for longer than the session
    timeout. A session timeout of some milliseconds does not shorten the wait for a server's first answer.
    Connections use `tls` if given: kazoo's own context also trusts the system's authorities.
    """

    def __init__(self, clock: Callable[[], float], deadline: float = math.inf, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.deadline = deadline
        self._clock = clock
        self._tls = tls
        self._connection: ReadAhead | None = None
        self._last: ReadAhead | None = None

    @property
    def session(self) -> ReadAhead | None:
        """The last connection with a session. None before the first session."""
        current = self._connection
        return self._last if current is None or current.granted_ms is None else current

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        """Return the wake-ups of kazoo's thread, as both ends of the pair."""
        wake_ups = WakeUps()
        return wake_ups, wake_ups

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect a socket, or raise, before the deadline."""
        plain = super().create_connection(*args, **{**kwargs, "timeout": self._left_s(kwargs["timeout"]), "use_ssl": False})
        if self._tls is not None:
            plain.settimeout(self._left_s(kwargs["timeout"]))
            try:
                plain = self._tls.wrap_socket(plain, server_hostname=kwargs["hostname"])
            except OSError:
                plain.close()
                raise
        self._last, self._connection = self.session, ReadAhead(plain, self._clock)
        return self._connection

    def _left_s(self, timeout_s: float) -> float:
        return max(_SHORTEST_S, min(max(timeout_s, _FIRST_ANSWER_S), self.deadline - self._clock()))

    def select(self, rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
        """Return the sockets that are ready to read and to write, after `timeout` or at the deadline.

        Uses poll, because kazoo's own method creates a selector for each call, which is most of the cost of a small read. A
        socket with data received ahead is also ready.
        """
        left = self.deadline - self._clock()
        if left <= 0:
            raise KazooTimeoutError("gave up at the deadline")
        if timeout is not None and any(isinstance(s, ReadAhead) and s.granted_ms is None for s in (*rlist, *wlist)):
            timeout = max(timeout, _FIRST_ANSWER_S)
        ahead = {s.fileno() for s in rlist if isinstance(s, ReadAhead) and s.pending() > 0}
        wait = 0 if ahead else left if timeout is None else min(timeout, left)
        poller = select.poll()
        for sockets, event in ((rlist, select.POLLIN), (wlist, select.POLLOUT)):
            for registered in sockets:
                poller.register(registered, event)
        ready = ahead | {fd for fd, _ in poller.poll(None if wait == math.inf else math.ceil(wait * 1000))}
        return [s for s in rlist if s.fileno() in ready], [s for s in wlist if s.fileno() in ready], []


class WakeUps:
    """A socket that can be read once for each `send`, which never blocks.

    kazoo's thread reads no wake-ups while it reconnects. A plain pair of sockets is full after some 280 wake-ups: a round
    of many requests would then block until the ensemble answers.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._count = 0

    def send(self, data: bytes) -> int:
        """Add a wake-up, whatever the data."""
        with self._lock:
            if not self._count:
                self._writer.send(b"\0")
            self._count += 1
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take a wake-up. Returns no bytes if there is none."""
        with self._lock:
            if not self._count:
                return b""
            self._count -= 1
            return b"\0" if self._count else self._reader.recv(1)

    def fileno(self) -> int:
        """The descriptor, which is ready to read while a wake-up is left."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close both sockets; `send` raises OSError then. Idempotent."""
        with self._lock:
            self._count = 0
            self._reader.close()
            self._writer.close()


class ReadAhead:
    """A connected socket that receives all available data. kazoo reads each answer in two small pieces.

    This saves half of the system calls of a round of many requests. `alive_at` is the time at which the last answered
    request was sent. The server counts the session timeout from then, or from a later request.
    """

    def __init__(self, connected: socket.socket, clock: Callable[[], float]) -> None:
        self._socket = connected
        self._clock = clock
        self._received = memoryview(b"")
        self._first = b""
        self._sent_at: deque[float] = deque()  # of requests without an answer
        self._unsent = 0  # bytes of the request that is being sent
        self._header = b""
        self._body = 0  # bytes left of the message whose header was received
        self.alive_at = -math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes, first the bytes received ahead. Empty if the peer has closed."""
        if not self._received:
            received = self._socket.recv(_AHEAD_BYTES)
            self._count_answers(received)
            self._first += received[: _GRANTED.stop - len(self._first)]
            self._received = memoryview(received)
        found, self._received = self._received[:size], self._received[size:]
        return bytes(found)

    def send(self, data: bytes) -> int:
        """Send some of the data, and return the number of bytes sent."""
        now = self._clock()
        sent = self._socket.send(data)
        if not self._unsent:
            self._sent_at.append(now)
            self._unsent = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
        self._unsent -= sent
        return sent

    def _count_answers(self, received: bytes) -> None:
        """Find the headers of messages, in any pieces. Answers have the order of their requests. Events have no request."""
        at = 0
        while at < len(received):
            if self._body:
                step = min(self._body, len(received) - at)
                self._body -= step
            else:
                step = min(_HEADER.size - len(self._header), len(received) - at)
                self._header += received[at : at + step]
                if len(self._header) == _HEADER.size:
                    length, xid = _HEADER.unpack(self._header)
                    # Another server than ZooKeeper may send any length: kazoo reports it.
                    self._header, self._body = b"", max(0, length - (_HEADER.size - _LENGTH_BYTES))
                    if xid != WATCH_XID and self._sent_at:
                        self.alive_at = self._sent_at.popleft()
            at += step

    @property
    def granted_ms(self) -> int | None:
        """The session timeout in the server's first answer. None before that answer, or without a session."""
        is_whole = len(self._first) == _GRANTED.stop
        return int.from_bytes(self._first[_GRANTED], "big") or None if is_whole else None

    def pending(self) -> int:
        """The number of bytes received ahead, here or within TLS. poll does not report them."""
        return len(self._received) + (self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0)


class ConnectionLog(logging.LoggerAdapter):  # type: ignore[type-arg]
    """kazoo's log without its debug lines, which contain credentials.

    While `quiet` (connecting, closing), warnings are logged as INFO and collected in `troubles`, for an error to report.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})
        self.quiet = True
        self._troubles: dict[str, None] = {}

    @property
    def troubles(self) -> list[str]:
        """The warnings while quiet, each once, in order."""
        return list(self._troubles)

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log INFO and above."""
        if level < logging.INFO:
            return
        if self.quiet and level >= logging.WARNING:
            text = (str(msg) % args if args else str(msg)).removeprefix("Connection dropped: ")
            text = text.removeprefix("socket connection error: ")
            if text != "Transition to CONNECTING" and len(self._troubles) < _MAX_TROUBLES:
                self._troubles[text] = None
            level = logging.INFO
        super().log(level, msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """The name that kazoo still uses for `warning`."""
        self.warning(msg, *args, **kwargs)


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """The TLS context for connections. A truststore replaces the system's authorities.

    Raises OptionError for a missing or invalid file, or a wrong password. OpenSSL never prompts for a password.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    if tls.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load("truststore", tls.truststore, "PEM certificates", context.load_verify_locations)
    if tls.keystore is not None:
        what = "the PEM certificate and private key, and zookeeper.ssl.keystore.password its password if it has one"
        password = tls.keystore_password or ""
        _load("keystore", tls.keystore, what, lambda file: context.load_cert_chain(file, None, lambda: password))
    return context


def _load(store: str, file: str, what: str, load: Callable[[str], None]) -> None:
    try:
        load(file)
    except OSError as error:
        raise UNUSABLE_TLS_FILE(
            f"zookeeper.ssl.{store}.location is {file!r}, which cannot be used here ({error}); it must be a file on the "
            f"driver and on every executor, with {what}",
        ) from error


def credentials(auth: tuple[str, str] | None) -> dict[str, object]:
    """The arguments of kazoo's client for `zookeeper.auth`. Raises OptionError for SASL without pure-sasl."""
    if auth is None:
        return {}
    scheme, credential = auth
    if scheme != "sasl":
        return {"auth_data": [(scheme, credential)]}
    if importlib.util.find_spec("puresasl") is None:
        raise SASL_MISSING(
            "zookeeper.auth asks for SASL, and the package pure-sasl is not installed; pip install 'pyspark-zkafka[sasl]'",
        )
    mechanism, user, password = credential.split(":", 2)
    return {"sasl_options": {"mechanism": mechanism.upper(), "username": user, "password": password}}


def from_kazoo(error: BaseException, doing: str, config: ZooKeeperConfig) -> ZKafkaError:
    """Return this package's error for an error of kazoo. `doing` describes the request, e.g. ``reading /brokers/ids``."""
    if isinstance(error, _REFUSALS):
        return _refused(error, doing, config)
    if isinstance(error, kazoo.ConnectionClosedError):
        return not_open()
    if isinstance(error, _MALFORMED):
        return ZOOKEEPER_MISUSED(
            f"{doing} at {config.hosts} failed: the servers do not understand the request ({_shown(error)}); "
            "check that they are of ZooKeeper 3.4 or later, and report this",
        )
    if isinstance(error, KazooTimeoutError):
        return ZOOKEEPER_TIMEOUT(
            f"{doing} at {config.hosts} got no answer within {config.connection_timeout_ms} ms; "
            "check that the ensemble has a quorum, or raise zookeeper.connection.timeout.ms",
        )
    if isinstance(error, (*_PASSING, kazoo.ConnectionDropped)):
        return ZOOKEEPER_CONNECTION_LOST(
            f"{doing} at {config.hosts} failed: the connection or the session was lost ({_shown(error)}); "
            "try again, and if it recurs, see the servers' logs",
        )
    return ZOOKEEPER_ERROR(f"{doing} at {config.hosts} failed ({_shown(error)}); see the servers' logs")


def no_session(error: BaseException, config: ZooKeeperConfig, troubles: list[str]) -> ZKafkaError:
    """The error for a session that could not be established. `troubles` are the warnings that kazoo has logged."""
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


def too_large(size: int, doing: str, config: ZooKeeperConfig) -> ZooKeeperRefused:
    """The error for a request that is probably too large. Servers also close connections for other reasons."""
    return REQUEST_TOO_LARGE(
        f"{doing} got no answer: {config.hosts} closed the connection at a request of some {size} bytes, probably because "
        f"it is larger than their jute.maxbuffer ({_LARGEST_REQUEST_BYTES} by default); whether it was applied is unknown. "
        "Subscribe to fewer topics, or by a pattern, or raise jute.maxbuffer on all servers",
        size=size,
    )


def not_open() -> ZooKeeperMisused:
    """The error for a client used outside of its ``with`` block."""
    return ZOOKEEPER_NOT_OPEN("The ZooKeeper client is not open; use it inside its with block")


def is_passing(error: BaseException) -> bool:
    """True if a read may be sent again: the connection or session was lost, and kazoo connects again."""
    return isinstance(error, _PASSING) and not isinstance(error, kazoo.ConnectionClosedError)


def is_rolled_back(error: BaseException) -> bool:
    """True if an operation failed only because another operation of the transaction failed."""
    return isinstance(error, (kazoo.RolledBackError, kazoo.RuntimeInconsistency))


def is_too_large(error: BaseException, size: int) -> bool:
    """True if servers may have closed the connection because a request exceeds their default limit."""
    return size > _LARGEST_REQUEST_BYTES and isinstance(error, (*_PASSING, kazoo.ConnectionDropped))


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
    return ZOOKEEPER_REFUSED(f"{doing} was refused: {found} ({_shown(error)}); {advice}")


def _shown(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
