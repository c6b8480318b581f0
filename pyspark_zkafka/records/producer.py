"""The interface of senders, and a producer that counts their records as acknowledged, failed or in flight."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from pyspark_zkafka.brokers.errors import REFUSED_FOR_S, UNKNOWN_TOPIC_CODES, ConnectionReports, broker_error
from pyspark_zkafka.brokers.properties import CLIENT_DEFAULTS
from pyspark_zkafka.conditions import DELIVERY_FAILED, NO_LEADER, UNKNOWN_TOPIC
from pyspark_zkafka.errors import DeliveryFailed, ZKafkaError
from pyspark_zkafka.model.error_codes import NONE, ErrorCode, name_of
from pyspark_zkafka.model.producing import OVERDUE
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.values import DELIVERY_TIMEOUT_MS, ConnectionOptions
from pyspark_zkafka.retries import Deadline

if TYPE_CHECKING:
    from typing_extensions import Self

_DEFAULTS: dict[str, Any] = {
    **CLIENT_DEFAULTS,
    "enable.idempotence": True,
    "acks": "all",
    # Options are translated to these names, so a user's setting in any spelling replaces the default.
    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    # Large batches reduce the work per record. `flush` sends the last batches at once.
    "linger.ms": 1_000,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    # The default of Java's max.request.size, which limits the rows of Spark's sink.
    "message.max.bytes": 1_048_576,
    # Like Java's producer, create a missing topic if the brokers allow it.
    "allow.auto.create.topics": True,
    # If a broker does not know a topic, librdkafka fails all records of the topic, unless the client has known the topic
    # for less than this time. A broker that is starting knows no topic. More than 2,147,483 ms overflow to 0.
    "topic.metadata.propagation.max.ms": 2_100_000,
}
_UNLIMITED = {"queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 2_000_000_000}

_HINTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "an ACL must allow Write on the topic",
    ErrorCode.MESSAGE_TOO_LARGE: (
        "kafka.message.max.bytes or the topic's max.message.bytes is smaller than the record, or with transport=librdkafka "
        "than kafka.batch.size"
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: (
        "the topic's segment.bytes is smaller than the record, or with transport=librdkafka than kafka.batch.size"
    ),
    **dict.fromkeys(
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        "fewer replicas are in sync than the topic's min.insync.replicas",
    ),
    ErrorCode.INVALID_RECORD: "with cleanup.policy=compact, a topic takes only records with a key",
    ErrorCode.CORRUPT_MESSAGE: (
        "before Kafka 2.4, this may be the answer to a record without a key, in a topic with cleanup.policy=compact"
    ),
    ErrorCode.INVALID_TIMESTAMP: (
        "the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms does not allow the row's timestamp"
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "set kafka.enable.idempotence to false, or raise the topic's message.format.version to 0.11"
    ),
}
_THROTTLED = (
    "a quota of the brokers throttles the client: raise the quota or kafka.delivery.timeout.ms (exactly once, also "
    "kafka.transaction.timeout.ms), or lower kafka.queue.buffering.max.kbytes"
)

_REMEDY = "Correct the cause and write again, which duplicates the acknowledged rows, and any written without an answer"

_ADVANCE_S = 0.01
_STALLED_S = 0.1
_NO_PROGRESS = -1, 0.0
_METADATA_TIMEOUT_S = 30.0
_ANSWER_S = 3.0
_CREATION_S = 10.0
_MISSING_ANSWERS = 3
_MISSING_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits on the records that are queued for the brokers.

    `MessageSender` enforces both limits, so that librdkafka's queue is never full: the next record could overtake a record
    that the queue has refused.
    `DirectSender` limits the bytes of its queue, and the records of each batch.
    """

    records: int = 200_000
    size_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """The first undelivered record: its partition, the cause, and its topic if the delivery timed out."""

    partition: str
    cause: str
    overdue_topic: str | None = None

    @classmethod
    def of(cls, topic: str, partition: int, code: int, answer: int = NONE, *, is_throttled: bool = False) -> Failure:
        """Return the failure of a record with the brokers' error code, or with `OVERDUE`.

        `answer` is the error with which the brokers refused the last attempt before a time-out. `is_throttled` says that a
        quota has delayed requests.
        """
        if code != OVERDUE:
            return cls(f"{topic}-{partition}", _explained(code))
        cause = "the brokers did not acknowledge the record within kafka.delivery.timeout.ms"
        if answer != NONE:
            cause += f"; they refused the last attempt with {_explained(answer)}"
        if is_throttled:
            cause += f"; {_THROTTLED}"
        return cls(f"{topic}-{partition}", cause, topic)


def _explained(code: int) -> str:
    hint = f"; {_HINTS[ErrorCode(code)]}" if code in _HINTS else ""
    return f"{name_of(code)}{hint}"


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset to commit for a group. It must not be negative.

    The metadata must not have a zero byte. A zero byte is stored after it, and counts towards the brokers' size limit.
    """

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class Sender(Protocol):
    """Sends rows, and counts them as acknowledged or failed. Not thread-safe, not pickle-safe.

    Implemented by `pyspark_zkafka.records.direct.sender.DirectSender`, and by
    `pyspark_zkafka.records.librdkafka_sender.MessageSender`. A sender is open for its ``with`` block, which raises
    ZKafkaError if the client cannot be made.
    """

    def __enter__(self) -> Sender: ...
    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None:
        """Reset the counts, while nothing is queued."""

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> None:
        """Add rows without sending them. `partitions` has the partition of each row."""

    def advance(self, timeout_s: float) -> bool:
        """Send added rows up to the limits, in order for each partition. Returns True once all rows are sent.

        Waits for room up to `timeout_s`, and stops at a failure.
        """

    def poll(self, timeout_s: float) -> None:
        """Wait for a delivery report or an error, and handle all that have arrived."""

    def flush(self, timeout_s: float) -> None:
        """Send queued records at once, regardless of linger.ms, unless records of the partition are in flight.

        Waits up to `timeout_s` for all reports. The direct transport waits only while requests are in flight.
        """

    def purge(self, *, in_flight: bool) -> None:
        """Drop queued records, and with `in_flight` the records in flight."""

    @property
    def queued(self) -> int:
        """An upper bound of the records without a report. 0 once every record has a report."""

    @property
    def is_moving(self) -> bool:
        """True if some queued records need no flush to be sent: they fill batches, or the last flush sends them."""

    @property
    def acknowledged(self) -> int:
        """The number of records acknowledged since `begin`. Exact when no record is queued."""

    @property
    def failure(self) -> Failure | None:
        """The first failure."""

    @property
    def reports(self) -> ConnectionReports:
        """Errors of connections and logins since the ``with`` block began."""

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, dict[int, int]]:
        """Request the brokers' error code for a topic, and the leader of each partition (-1 without a leader).

        Raises BrokersUnavailable if no broker answers in time, and ClusterStateError (``REFUSED_BY_BROKER``) if brokers
        refuse the login or the certificate.
        """


def asking_for_partitions(topic: str) -> str:
    """Describe the request for a topic's partitions, for the text of an error."""
    return f"asking for the partitions of {topic}"


def producer_properties(connection: ConnectionOptions, bootstrap_servers: str) -> dict[str, Any]:
    """librdkafka's properties for writing: our defaults, and the user's settings over them."""
    properties = {**_DEFAULTS, **connection.kafka, "bootstrap.servers": bootstrap_servers}
    if (timeout_ms := float(properties["delivery.timeout.ms"])) and "linger.ms" not in connection.kafka:
        properties["linger.ms"] = min(_DEFAULTS["linger.ms"], int(timeout_ms / 2))
    return properties


class CountingProducer:
    """Sends records and accounts for each. Not pickle-safe: create it in the process that uses it, after any fork.

    A ``with`` block opens and closes the producer. Within it, send in one `counting` block after the other. `properties`
    come from `producer_properties`; their queue limits become the limits of the sender. `remedy` ends the text of the error
    for undelivered records, and `explain` may replace this error.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make_sender: Callable[[Mapping[str, Any], QueueLimits], Sender],
        clock: Callable[[], float] = time.monotonic,
        remedy: str = _REMEDY,
        explain: Callable[[Failure, DeliveryFailed], ZKafkaError] = lambda _, undelivered: undelivered,
    ) -> None:
        limits = QueueLimits()
        # 0 means no limit, as in librdkafka.
        records = int(properties.get("queue.buffering.max.messages", limits.records)) or sys.maxsize
        kilobytes = properties.get("queue.buffering.max.kbytes", limits.size_bytes // 1024)
        self._limits = QueueLimits(records, int(kilobytes) * 1024)
        self._properties = {**properties, **_UNLIMITED}
        self._make_sender = make_sender
        self._clock = clock
        self._remedy = remedy
        self._explain = explain
        self._handed_over = self._last_acknowledged = 0
        self._progress = _NO_PROGRESS  # a count of acknowledged records, and the time at which it was reached
        self._open: Sender | None = None
        self._known_partitions: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._open = self._make_sender(self._properties, self._limits).__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._drop_queued()
        finally:
            self._sender.__exit__(*exc)
            self._open = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the records sent within a ``with`` block, from zero.

        A normal end waits for every record. An error drops queued records; do not use the producer after it.
        """
        self._sender.begin()
        self.begin_request()
        self._handed_over = self._last_acknowledged = 0
        try:
            yield
            self.flush()
        except BaseException:
            self._drop_queued()
            raise

    @property
    def acknowledged(self) -> int:
        """The number of the block's records that the brokers have acknowledged so far."""
        return self._sender.acknowledged

    def send(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> None:
        """Send rows to their `partitions`, in order within each partition.

        Blocks while the queue is full, and up to delivery.timeout.ms until brokers report the partitions. Raises
        DeliveryFailed if any record since the start of `counting` cannot be delivered.
        """
        needed = int(partitions.max(initial=-1)) + 1
        if self._known_partitions.get(rows.topic, -1) < needed:
            self._known_partitions[rows.topic] = max(needed, self._await_partitions(rows.topic, needed))
        self._handed_over += len(partitions)
        self._sender.add(rows, partitions)
        self._progress = _NO_PROGRESS
        done = False
        while not done:
            done = self._sender.advance(_ADVANCE_S)
            self._raise_failure()
            if not done:
                # The queue is full of incomplete batches: send them, as Java's producer does without buffer memory.
                self._flush_partial_batches()

    def flush(self) -> None:
        """Wait until every record is acknowledged. Raises DeliveryFailed, also when delivery.timeout.ms has passed.

        In the direct transport, this time starts again whenever the leader acknowledges other batches of the partition.
        """
        self._progress = _NO_PROGRESS
        while self._sender.queued > 0:
            if not self._flush_partial_batches():
                self._sender.poll(_STALLED_S)
            self._raise_failure()
        self._raise_failure()

    def partitions_of(self, topic: str) -> tuple[int, tuple[int, ...]]:
        """Request the number of a topic's partitions, and the partitions with a leader.

        May create a missing topic (auto.create.topics.enable). Asks for up to 10 s until all partitions have leaders, and
        waits up to 30 s for each answer. Then raises UnknownTopic if the topic does not exist, and NoLeader if no partition
        has a leader. Does not ask again if the topic is missing and allow.auto.create.topics is false. Raises
        BrokersUnavailable without an answer, and ClusterStateError (``REFUSED_BY_BROKER``) if an ACL hides the topic.
        """
        self.begin_request()
        creates = str(self._properties.get("allow.auto.create.topics")).lower() == "true"
        deadline = Deadline.after(_CREATION_S, self._clock)
        while True:
            code, leaders = self._sender.leaders(topic, _METADATA_TIMEOUT_S)
            self._sender.reports.answered()
            led = tuple(sorted(partition for partition, leader in leaders.items() if leader >= 0))
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise broker_error(code, asking_for_partitions(topic))
            late = deadline.has_passed
            if led and (late or len(led) == len(leaders)):
                return len(leaders), led
            if late and leaders:
                raise NO_LEADER(f"No partition of {topic} has a leader. Start a broker that has a replica of it")
            is_unknown = code in UNKNOWN_TOPIC_CODES
            if late or (is_unknown and not creates):
                reason = "" if code == NONE or is_unknown else f" ({name_of(code)})"
                raise UNKNOWN_TOPIC(
                    f"The cluster has no topic {topic}, and does not create it automatically{reason}. "
                    "Create it, or correct the name",
                )
            self._sender.poll(0.2)

    def begin_request(self) -> None:
        """Handle earlier reports, which do not belong to the next request."""
        self._sender.poll(0)
        self._sender.reports.begin()

    @property
    def _sender(self) -> Sender:
        if self._open is None:
            raise RuntimeError("CountingProducer is used outside of its with block")
        return self._open

    def _flush_partial_batches(self) -> bool:
        """Send batches that are not full, unless reports are expected anyway. Returns True if it has sent them.

        librdkafka's idempotent producer waits in a busy loop to send a flushed batch while records of the partition are in
        flight. This method therefore first waits for these records.
        """
        now, acknowledged = self._clock(), self.acknowledged
        if acknowledged != self._progress[0]:
            self._progress = acknowledged, now
        if now - self._progress[1] < _STALLED_S and self._sender.is_moving:
            return False
        self._sender.flush(_ADVANCE_S)
        self._progress = _NO_PROGRESS
        return True

    def _await_partitions(self, topic: str, needed: int) -> int:
        """Wait up to delivery.timeout.ms until brokers report enough partitions. Returns their number, or 0 if unknown.

        Brokers may learn of new partitions later than ZooKeeper, and do not report a partition that never had a leader.
        librdkafka fails a record for such a partition at once, where Java's producer waits. If no broker answers, gives up
        after ten seconds and lets the delivery wait for the brokers.
        """
        deadline = Deadline.after(float(self._properties["delivery.timeout.ms"]) / 1000 or math.inf, self._clock)
        first_answer = deadline.or_sooner(Deadline.after(_CREATION_S, self._clock))
        known = 0
        while (left_s := (deadline if known else first_answer).left_s) > 0:
            with suppress(ZKafkaError):  # the cause is reported when the records are not delivered
                known = len(self._sender.leaders(topic, max(min(left_s, _METADATA_TIMEOUT_S), _ANSWER_S))[1])
                if not 0 < known < needed:
                    break
            self._sender.poll(0.2)
            if self._sender.failure is not None or self._refusal() is not None:
                break
        return known

    def _raise_failure(self) -> None:
        failure = self._sender.failure or self._refusal()
        if failure is not None:
            raise self._explain(failure, self._undelivered(failure))

    def _undelivered(self, failure: Failure) -> DeliveryFailed:
        """Drop queued records, and return the error for a failure, with the counts."""
        missing = failure.overdue_topic if self._is_missing(failure.overdue_topic) else None
        why = failure.cause if missing is None else f"{failure.cause}, and the brokers have no topic {missing}"
        self._drop_queued()
        acknowledged = self.acknowledged
        failed = self._handed_over - acknowledged
        return DELIVERY_FAILED(
            f"{failure.partition}: {why}; of {self._handed_over} records handed over by this task "
            f"{acknowledged} were acknowledged and {failed} were not (last error of the connection: "
            f"{self._sender.reports.last or 'none'}). {self._remedy}",
            acknowledged=acknowledged,
            failed=failed,
            missing_topic=missing,
        )

    def _is_missing(self, topic: str | None) -> bool:
        """True if the brokers do not know a topic. Asks several times, as a broker that is starting knows no topic."""
        if topic is None:
            return False
        with suppress(ZKafkaError):
            for _ in range(_MISSING_ANSWERS):
                if self._sender.leaders(topic, _ANSWER_S)[0] not in UNKNOWN_TOPIC_CODES:
                    return False
                self._sender.poll(_MISSING_PAUSE_S)
            return True
        return False

    def _refusal(self) -> Failure | None:
        if (acknowledged := self.acknowledged) > self._last_acknowledged:
            self._last_acknowledged = acknowledged
            self._sender.reports.answered()
            self._sender.reports.begin()
        refusal = self._sender.reports.refusal("writing", REFUSED_FOR_S)
        return None if refusal is None else Failure("the brokers refuse", refusal.message)

    def _drop_queued(self) -> None:
        """Drop records that are not sent, and wait briefly for reports of the records in flight."""
        sender = self._sender
        if sender.queued > 0:
            sender.purge(in_flight=False)
            sender.flush(5)
        if sender.queued > 0:
            sender.purge(in_flight=True)
            sender.flush(1)
