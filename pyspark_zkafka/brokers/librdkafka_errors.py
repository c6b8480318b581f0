"""librdkafka's errors, mapped to ours: here alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers import errors
from pyspark_zkafka.conditions import (
    BROKERS_UNAVAILABLE,
    FENCED,
    KAFKA_ERROR,
    NO_LEADER,
    REFUSED_BY_BROKER,
    TRANSACTION_FAILED,
    UNKNOWN_TOPIC,
    UNUSABLE_KAFKA_PROPERTY,
)
from pyspark_zkafka.errors import BrokersUnavailable, TransactionFailed, ZKafkaError

REFUSED_FOR_S = 2.0
"""The wait for an answer after a refusal: librdkafka retries, and another broker may accept the connection."""

UNKNOWN_TOPIC_CODES = errors.UNKNOWN_TOPIC_CODES | {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
NO_LEADER_CODES = errors.NO_LEADER_CODES
_UNREACHABLE_CODES = errors.UNREACHABLE_CODES | {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._PARTIAL,
}
_LOST_CODES = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN})
_NO_COORDINATOR_CODES = errors.NO_COORDINATOR_CODES | {KafkaError._WAIT_COORD}
_REFUSED_CODES = {
    **errors.REFUSED_CODES,
    KafkaError._AUTHENTICATION: "check kafka.security.protocol, and the mechanism, user and password in kafka.sasl.*",
    KafkaError._SSL: errors.TLS_REMEDY,
}
_KERBEROS = f"{errors.KERBEROS_REMEDY}; what kinit says is in standard error"
_OFFSETS_UNANSWERED = "Failed to get committed offsets"
_NO_OFFSETS = (
    "no coordinator answered, or a transaction with offsets of the group is open; check that the brokers run, that their "
    "listeners are reachable from here, that kafka.security.protocol is theirs, and that no transaction hangs"
)
_ABOUT_PROPERTIES = ("Failed to create", "onfiguration property")
_TRUNCATED = KafkaError(KafkaError._LOG_TRUNCATION).str()
_UNREADABLE_RESPONSE = "response error"
_TOO_LARGE_RESPONSE = (
    "a response cannot be read; if a record is larger than kafka.receive.message.max.bytes (100,000,000 by default), raise "
    "that limit"
)
_UNKNOWN_EPOCH = "No epoch found"
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_PASSING_CAUSES = ("Local: ", "isconnected", "Failed to acquire")
_CERTIFICATE_ALERT = re.compile("alert .*(certificate|unknown ca|access denied)")
"""A broker's refusal of the client's certificate. With TLS 1.3, it looks like a lost connection after the handshake."""

_TRANSACTION_REMEDIES = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ACLs must allow Write and Describe on the transactional id {id}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "an ACL must allow Read on the group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ACLs must allow Write on the topics written to, and Read on the ledger's topic",
    KafkaError.INVALID_PRODUCER_ID_MAPPING: (
        "the brokers have forgotten the transactional id {id}, which nobody used for transactional.id.expiration.ms; "
        "write again"
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "set kafka.transaction.timeout.ms (now {timeout_ms}) to at most the brokers' transaction.max.timeout.ms"
    ),
    KafkaError.OFFSET_METADATA_TOO_LARGE: "raise the brokers' offset.metadata.max.bytes, which the ledger's entries exceed",
    KafkaError._UNSUPPORTED_FEATURE: "transactions need brokers of version 0.11 or later",
    KafkaError.UNSUPPORTED_VERSION: "transactions need brokers of version 0.11 or later",
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "transactions need topics of message format 0.11 or later (log.message.format.version)"
    ),
}
_TRANSACTION_REMEDY = "write again: the next attempt finds out by the ledger whether the rows were committed"


class ErrorReports:
    """Collects librdkafka's error reports. Pass it as ``error_cb``, and check it between polls.

    `last` is the last report, with the missing right, if any. A refusal (bad credentials, a certificate that does not
    match) is stored apart: this package fails, as Java's clients do, where librdkafka retries without limit. A connection
    that is closed during authentication, or a token that could not be fetched yet, is not a refusal. `has_lost` is True
    after a connection was lost or failed, until the caller resets it.

    A refusal belongs to the request during which it is reported. The caller notes the start of requests, and the answers
    of brokers, which librdkafka does not report.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last: str | None = None
        self._clock = clock
        self._refusal: KafkaError | None = None
        self._refused_at = 0.0
        self._cause: str | None = None
        self._all_down = False
        self.is_answered = False
        self.has_lost = False

    def __call__(self, error: KafkaError) -> None:
        right = "" if is_refusal(error) or error.code() not in _REFUSED_CODES else f"; {_REFUSED_CODES[error.code()]}"
        self.last = f"{error.name()}: {error.str()}{right}"
        self.has_lost |= error.code() in _LOST_CODES
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
        else:
            self._cause = self.last
            self._all_down = self._all_down and error.code() in (KafkaError._TRANSPORT, KafkaError._RESOLVE)
        if is_refusal(error):
            self._refused_at = self._clock() if self._refusal is None else self._refused_at
            self._refusal = error

    def renew(self) -> None:
        """Start with a new client: no broker has answered or refused it, and it has lost no connection."""
        self.is_answered = self.has_lost = self._all_down = False
        self._refusal = self._cause = None

    def begin(self) -> None:
        """Start a request: forget earlier refusals, unless no broker has ever answered.

        A new client may be refused before its first request, and librdkafka reports the same error of a broker again only
        after 30 s.
        """
        if self.is_answered:
            self._refusal = None

    def answered(self) -> None:
        """Note an answer: not all brokers are down."""
        self.is_answered = True
        self._all_down = False
        self._cause = None

    def refusal(self, doing: str, waited_s: float = 0) -> ZKafkaError | None:
        """The error for a refusal at least `waited_s` ago. `doing` describes the request."""
        if self._refusal is None or self._clock() - self._refused_at < waited_s:
            return None
        return from_kafka(self._refusal, doing)

    def polled(self, doing: str, *, answered: bool) -> None:
        """Note a poll. An answer ends earlier refusals. Without one, raises a refusal after `REFUSED_FOR_S`."""
        if answered:
            self.answered()
            self.begin()
        elif (refusal := self.refusal(doing, REFUSED_FOR_S)) is not None:
            raise refusal

    def error(self, error: KafkaException, doing: str) -> ZKafkaError:
        """The error for a failed request. Without an answer, the refusal, or why there is no token or no connection."""
        ours = from_kafka(error.args[0], doing)
        if not isinstance(ours, BrokersUnavailable):
            return ours
        if self._cause is not None and _NO_TOKEN in self._cause:
            return self.refusal(doing) or BROKERS_UNAVAILABLE(f"{doing}: {self._cause}")
        return self.refusal(doing) or self.unreachable(doing) or ours

    def unreachable(self, doing: str) -> ZKafkaError | None:
        """The error if no broker can be reached, by the last report. None otherwise, and after a refusal."""
        if not self._all_down or self._refusal is not None:
            return None
        if self._cause is None and not self.is_answered:  # librdkafka reports refused connections, but not closed ones
            return BROKERS_UNAVAILABLE(f"{doing}: {errors.CLOSED}")
        return BROKERS_UNAVAILABLE(f"{doing}: {self._cause or self.last}; {errors.UNREACHABLE}")


def _refuses_certificate(error: KafkaError) -> bool:
    return error.code() == KafkaError._TRANSPORT and _CERTIFICATE_ALERT.search(error.str()) is not None


def is_refusal(error: KafkaError) -> bool:
    """True if a broker refuses the client's login or certificate, or the client the broker's."""
    if _refuses_certificate(error):
        return True
    refused = error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
    return refused and not any(cause in error.str() for cause in _PASSING_CAUSES)


def truncation(error: KafkaError) -> str | None:
    """The report of a log that was truncated below a position. None for other errors of a partition.

    The code only says to reset the offset; the reason is in the text. If brokers have no epoch for a log, it is not
    truncated: it has an old message format, or belongs to a new topic of the same name.
    """
    text = error.str()
    known = _TRUNCATED in text and _UNKNOWN_EPOCH not in text
    return text if known and error.code() == KafkaError._AUTO_OFFSET_RESET else None


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Raise our error for an exception of confluent-kafka in the ``with`` block. See `from_kafka`."""
    try:
        yield
    except KafkaException as error:
        raise from_kafka(error.args[0], doing) from error


def from_kafka(error: KafkaError, doing: str) -> ZKafkaError:
    """Our error for one of librdkafka's, with the original name and text. `doing` is the request: ``listing offsets``."""
    code, text = error.code(), f"{doing}: {error.name()} ({error.str()})"
    if code == KafkaError._INVALID_ARG and any(sign in text for sign in _ABOUT_PROPERTIES):
        return UNUSABLE_KAFKA_PROPERTY(
            f"{text}; check the kafka.* option of this property; the driver and every executor must have the "
            "same librdkafka (confluent-kafka), a file must be on the driver and on every executor, and a key's password "
            "must fit",
        )
    if code in UNKNOWN_TOPIC_CODES:
        return UNKNOWN_TOPIC(f"{text}; the topic or partition does not exist, or was deleted")
    if code in NO_LEADER_CODES or (code == KafkaError._NOENT and "No leaders found" in error.str()):
        return NO_LEADER(
            f"{text}; the partition has no leader, or its leader is changing; try again with a broker of its ISR running",
        )
    if _refuses_certificate(error):
        return REFUSED_BY_BROKER(f"{text}; {_REFUSED_CODES[KafkaError._SSL]}")
    if code in _UNREACHABLE_CODES:
        return BROKERS_UNAVAILABLE(f"{text}; {_NO_OFFSETS if _OFFSETS_UNANSWERED in text else errors.UNREACHABLE}")
    if code in _NO_COORDINATOR_CODES:
        return BROKERS_UNAVAILABLE(f"{text}; {errors.NO_COORDINATOR}")
    if code in _REFUSED_CODES:
        return REFUSED_BY_BROKER(f"{text}; {_KERBEROS if 'GSSAPI' in text else _REFUSED_CODES[code]}")
    if code == KafkaError._BAD_MSG and _UNREADABLE_RESPONSE in text:
        return KAFKA_ERROR(f"{text}; {_TOO_LARGE_RESPONSE}")
    if code == KafkaError.TOPIC_EXCEPTION:
        return KAFKA_ERROR(f"{text}; correct the topic's name, which has at most 249 characters since Kafka 0.10")
    return KAFKA_ERROR(f"{text}; see librdkafka's documentation of that error")


def transaction_failed(
    error: KafkaError, doing: str, transactional_id: str, timeout_ms: int, elapsed_ms: int | None
) -> TransactionFailed:
    """Our error for an error of a transaction, with the original name and text; `doing` describes the step.

    `elapsed_ms` counts from the transaction's start, and is None before it.
    """
    found = f"{doing}: {error.name()} ({error.str()})"
    parameters = {"transactional_id": transactional_id, "code": error.name()}
    # Brokers return the same errors after another producer has taken the id, and after they have aborted the transaction.
    if error.code() == KafkaError._FENCED:
        if elapsed_ms is not None and elapsed_ms >= timeout_ms:
            reason = (
                f"the transaction of {transactional_id} was begun {elapsed_ms} ms ago, and brokers abort one after "
                f"{timeout_ms} ms; write less in each task, or raise kafka.transaction.timeout.ms"
            )
            return FENCED(f"{found}; {reason}", overdue=True, **parameters)
        reason = (
            f"another producer has begun to write as {transactional_id}. Unless this attempt was committed before, its "
            "rows never become visible. The other producer is a later attempt of the same task, or another query or job, "
            "which then needs its own checkpoint or writerName"
        )
        return FENCED(f"{found}; {reason}", overdue=False, **parameters)
    remedy = _TRANSACTION_REMEDIES.get(error.code(), _TRANSACTION_REMEDY).format(id=transactional_id, timeout_ms=timeout_ms)
    return TRANSACTION_FAILED(f"{found}; {remedy}", **parameters)
