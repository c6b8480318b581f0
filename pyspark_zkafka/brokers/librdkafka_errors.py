"""The mapping of librdkafka's errors to ours. No other module maps them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers import errors
from pyspark_zkafka.brokers.errors import ConnectionReports
from pyspark_zkafka.conditions import (
    BROKERS_UNAVAILABLE,
    KAFKA_ERROR,
    NO_LEADER,
    REFUSED_BY_BROKER,
    UNKNOWN_TOPIC,
    UNUSABLE_KAFKA_PROPERTY,
)
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError
from pyspark_zkafka.model.error_codes import name_of

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
"""Matches a refusal of the client's certificate. With TLS 1.3, it looks like a lost connection after the handshake."""


class ErrorReports(ConnectionReports):
    """Collects librdkafka's error reports. Pass it as ``error_cb``, and check it between polls.

    `last` is the last report, with the missing right, if any. After a refusal, this package fails, as Java's clients do,
    where librdkafka retries without limit. A connection that is closed during authentication, or a token that could not be
    fetched yet, is not a refusal. `has_lost` is True after a connection was lost or failed, until the caller resets it.

    librdkafka does not report answers of brokers, and repeats the same error of a broker only after 30 s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._cause: str | None = None
        self._all_down = False
        self.has_lost = False

    def __call__(self, error: KafkaError) -> None:
        refused = is_refusal(error)
        right = "" if refused or error.code() not in _REFUSED_CODES else f"; {_REFUSED_CODES[error.code()]}"
        self.note(f"{named(error)}{right}", partial(from_kafka, error) if refused else None)
        self.has_lost |= error.code() in _LOST_CODES
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
        else:
            self._cause = self.last
            self._all_down = self._all_down and error.code() in (KafkaError._TRANSPORT, KafkaError._RESOLVE)

    def renew(self) -> None:
        """Start with a new client: no broker has answered or refused it, and it has lost no connection."""
        self.is_answered = self.has_lost = self._all_down = False
        self._refusal = self._cause = None

    def answered(self) -> None:
        """Note an answer: not all brokers are down."""
        super().answered()
        self._all_down = False
        self._cause = None

    def error(self, error: KafkaException, doing: str) -> ZKafkaError:
        """Translate the error of a failed request. Without an answer, prefer an earlier refusal or loss as its cause."""
        ours = from_kafka(error.args[0], doing)
        if not isinstance(ours, BrokersUnavailable):
            return ours
        if self._cause is not None and _NO_TOKEN in self._cause:
            return self.refusal(doing) or BROKERS_UNAVAILABLE(f"{doing}: {self._cause}")
        return self.refusal(doing) or self.unreachable(doing) or ours

    def unreachable(self, doing: str) -> ZKafkaError | None:
        """The error if the last reports say that no broker can be reached. None otherwise, and after a refusal."""
        if not self._all_down or self._refusal is not None:
            return None
        if self._cause is None and not self.is_answered:  # librdkafka reports refused connections, but not closed ones
            return BROKERS_UNAVAILABLE(f"{doing}: {errors.CLOSED}")
        return BROKERS_UNAVAILABLE(f"{doing}: {self._cause or self.last}; {errors.UNREACHABLE}")


def _refuses_certificate(error: KafkaError) -> bool:
    return error.code() == KafkaError._TRANSPORT and _CERTIFICATE_ALERT.search(error.str()) is not None


def is_refusal(error: KafkaError) -> bool:
    """True if a broker refuses the client's login or certificate, or if the client refuses the broker's certificate."""
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


def named(error: KafkaError) -> str:
    """The name and the text of an error: Kafka's name for an error of brokers, librdkafka's for its own."""
    return f"{_name(error)}: {error.str()}"


def _name(error: KafkaError) -> str:
    return name_of(error.code()) if error.code() > 0 else error.name()


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Raise our error for an exception of confluent-kafka in the ``with`` block. See `from_kafka`."""
    try:
        yield
    except KafkaException as error:
        raise from_kafka(error.args[0], doing) from error


def from_kafka(error: KafkaError, doing: str) -> ZKafkaError:
    """Translate an error of librdkafka, with its name and text. `doing` describes the request (``listing offsets``)."""
    code, text = error.code(), f"{doing}: {_name(error)} ({error.str()})"
    if code == KafkaError._INVALID_ARG and any(sign in text for sign in _ABOUT_PROPERTIES):
        return UNUSABLE_KAFKA_PROPERTY(
            f"{text}; check the kafka.* option of this property. The driver and every executor must have the "
            "same librdkafka (confluent-kafka), a file must be on the driver and on every executor, and a key's password "
            "must fit",
        )
    if code in UNKNOWN_TOPIC_CODES:
        return UNKNOWN_TOPIC(f"{text}; the topic or partition does not exist, or was deleted")
    if code in NO_LEADER_CODES or (code == KafkaError._NOENT and "No leaders found" in error.str()):
        return NO_LEADER(
            f"{text}; the partition has no leader, or its leader is changing. Try again with a broker of its ISR running",
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
