"""Errors of brokers and of connections to them, mapped to ours."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, KAFKA_ERROR, NO_LEADER, REFUSED_BY_BROKER, UNKNOWN_TOPIC
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.error_codes import ErrorCode, name_of
from pyspark_zkafka.wire.protocol import (
    ConnectionLost,
    LoginRefused,
    MalformedResponse,
    MechanismRefused,
    TlsRefused,
    TokenRefused,
    UnknownVersion,
)

REFUSED_FOR_S = 2.0
"""The wait for an answer after a refusal: another broker may accept the connection."""

UNKNOWN_TOPIC_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
NO_LEADER_CODES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        # A broker that was just elected or started may not know the epoch yet, or may know a newer one.
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
NO_COORDINATOR_CODES = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
UNREACHABLE_CODES = frozenset(
    {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER}
)

TLS_REMEDY = (
    "check kafka.ssl.*: the authorities, the client's certificate, and that the broker's has not expired and names its host"
)
LOGIN_REMEDY = "check the user and password in kafka.sasl.*"
TOKEN_REMEDY = (
    "check kafka.sasl.oauthbearer.* or the token provider, and that the brokers accept the token's issuer, audience and "
    "claims"
)
KERBEROS_REMEDY = (
    "check kafka.sasl.kerberos.principal, keytab and service.name, that the keytab is on the driver and on every executor, "
    "and that the KDC can be reached"
)
REFUSED_CODES = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: LOGIN_REMEDY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "an ACL must allow Read, Write or Describe on the topic, Create to make a missing one, Alter to add partitions, "
        "and AlterConfigs to check or change its configuration"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "an ACL must allow Read on the group, and Delete to delete it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "an ACL must allow Write on the topic, and before Kafka 2.8 IdempotentWrite on the cluster, "
        "or set kafka.enable.idempotence to false; reading a broker's configuration needs DescribeConfigs on the cluster, "
        "and creating a topic before Kafka 2.0 needs Create"
    ),
}
UNREACHABLE = (
    "no broker answered; check that kafka.bootstrap.servers has brokers that run, not ZooKeeper (port 2181), that the "
    "addresses in their advertised.listeners can be resolved and reached from here, and that kafka.security.protocol is "
    "theirs"
)
CLOSED = (
    "servers accept connections, but close them or do not answer. Check first that kafka.security.protocol (PLAINTEXT by "
    "default) is the listener's: with TLS SSL or SASL_SSL, with a login SASL_PLAINTEXT or SASL_SSL. Then check that "
    "kafka.bootstrap.servers has brokers that run, not ZooKeeper (port 2181), nor a proxy without a broker"
)
NO_COORDINATOR = (
    "the group has no coordinator now, or it does not answer; check that the brokers with __consumer_offsets run "
    "and are reachable from here"
)


def explained(code: int) -> str:
    """Return Kafka's name of an error code, with the right that is missing, if any."""
    return f"{name_of(code)}; {REFUSED_CODES[ErrorCode(code)]}" if code in REFUSED_CODES else name_of(code)


def broker_error(code: int, doing: str, words: str | None = None) -> ZKafkaError:
    """Translate a response's error code. `doing` describes the request (``listing offsets``). `words` are the broker's."""
    text = f"{doing}: {name_of(code)}" + (f" ({words})" if words else "")
    if code in UNKNOWN_TOPIC_CODES:
        return UNKNOWN_TOPIC(f"{text}; the topic or partition does not exist, or was deleted")
    if code in NO_LEADER_CODES:
        return NO_LEADER(
            f"{text}; the partition has no leader, or its leader is changing. Try again with a broker of its ISR running",
        )
    if code == ErrorCode.BROKER_NOT_AVAILABLE:
        return BROKERS_UNAVAILABLE(f"{text}; the broker is not in the cluster now. Check that it runs")
    if code in UNREACHABLE_CODES:
        return BROKERS_UNAVAILABLE(f"{text}; {UNREACHABLE}")
    if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return BROKERS_UNAVAILABLE(f"{text}; a transaction with offsets of the group is open. Check that none hangs")
    if code in NO_COORDINATOR_CODES:
        return BROKERS_UNAVAILABLE(f"{text}; {NO_COORDINATOR}")
    if code in REFUSED_CODES:
        return REFUSED_BY_BROKER(f"{text}; {REFUSED_CODES[ErrorCode(code)]}")
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return KAFKA_ERROR(f"{text}; correct the topic's name, which has at most 249 characters since Kafka 0.10")
    return KAFKA_ERROR(f"{text}; see Kafka's documentation of that error")


def connection_error(error: Exception, doing: str, *, answered: bool = True) -> ZKafkaError:
    """Translate an error of a connection: ConnectionLost, or a kind of Unsupported. `doing` describes the request.

    `answered` is True if a broker has answered this client before: the security protocol is then right.
    """
    if isinstance(error, ZKafkaError):
        return error
    text = f"{doing}: {error}"
    if isinstance(error, MalformedResponse):
        return KAFKA_ERROR(f"{text}; a server that is not a broker, or a proxy, may have answered")
    if isinstance(error, ConnectionLost):
        return BROKERS_UNAVAILABLE(f"{text}; {CLOSED if error.is_silent and not answered else UNREACHABLE}")
    if isinstance(error, MechanismRefused):
        return REFUSED_BY_BROKER(f"{text}; set kafka.sasl.mechanism to one of them")
    if isinstance(error, TokenRefused):
        return REFUSED_BY_BROKER(f"{text}; {TOKEN_REMEDY}")
    if isinstance(error, LoginRefused):
        return REFUSED_BY_BROKER(f"{text}; {KERBEROS_REMEDY if 'GSSAPI' in text else LOGIN_REMEDY}")
    if isinstance(error, TlsRefused):
        return REFUSED_BY_BROKER(f"{text}; {TLS_REMEDY}")
    if isinstance(error, UnknownVersion):
        return KAFKA_ERROR(f"{text}; the broker is too old for this")
    return KAFKA_ERROR(f"{text}; check kafka.*")


class ConnectionReports:
    """The last error of a client's connections, and the first refusal since the start of a request.

    A refusal (bad credentials, a certificate that does not match) ends a request that no broker answers. The caller notes
    the start of requests, and the answers of brokers.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last: str | None = None
        self.is_answered = False
        self._clock = clock
        self._refusal: Callable[[str], ZKafkaError] | None = None
        self._refused_at = 0.0

    def note(self, text: str, refusal: Callable[[str], ZKafkaError] | None = None) -> None:
        """Note an error. `refusal` makes the error of a refused request from the request's description."""
        self.last = text
        if refusal is not None:
            self._refused_at = self._clock() if self._refusal is None else self._refused_at
            self._refusal = refusal

    def begin(self) -> None:
        """Start a request: forget earlier refusals, unless no broker has ever answered.

        A new client may be refused before its first request, and may not repeat the report soon.
        """
        if self.is_answered:
            self._refusal = None

    def answered(self) -> None:
        """Note an answer of a broker."""
        self.is_answered = True

    def refusal(self, doing: str, waited_s: float = 0) -> ZKafkaError | None:
        """The error for a refusal at least `waited_s` ago. `doing` describes the request."""
        if self._refusal is None or self._clock() - self._refused_at < waited_s:
            return None
        return self._refusal(doing)

    def polled(self, doing: str, *, answered: bool) -> None:
        """Note a poll. An answer ends earlier refusals. Without one, raises a refusal after `REFUSED_FOR_S`."""
        if answered:
            self.answered()
            self.begin()
        elif (refusal := self.refusal(doing, REFUSED_FOR_S)) is not None:
            raise refusal
