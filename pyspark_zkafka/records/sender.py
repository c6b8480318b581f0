"""Interface of the senders, which send rows to the brokers and count acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from pyspark_zkafka.model.rows import OutgoingBatch

_HINTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "an ACL must allow Write on the topic",
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "kafka.message.max.bytes or the topic's max.message.bytes is smaller than the record, or with transport=librdkafka "
        "than kafka.batch.size"
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: (
        "the topic's segment.bytes is smaller than the record, or with transport=librdkafka than kafka.batch.size"
    ),
    **dict.fromkeys(
        (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        "fewer replicas are in sync than the topic's min.insync.replicas",
    ),
    **dict.fromkeys(
        (KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD),
        "with cleanup.policy=compact, a topic takes only records with a key",
    ),
    KafkaError.INVALID_MSG: (
        "before Kafka 2.4, this may be the answer to a record without a key, in a topic with cleanup.policy=compact"
    ),
    KafkaError.INVALID_TIMESTAMP: (
        "the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms does not allow the row's timestamp"
    ),
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "set kafka.enable.idempotence to false, or raise the topic's message.format.version to 0.11"
    ),
}

_THROTTLED = (
    "a quota of the brokers throttles the client: raise the quota or kafka.delivery.timeout.ms, or lower "
    "kafka.queue.buffering.max.kbytes"
)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits on the records that are queued for the brokers.

    The sender enforces them, so that librdkafka's queue is never full: the next record could overtake a refused one.
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
    def of(
        cls, topic: str, partition: int, code: int, answer: int = KafkaError.NO_ERROR, *, is_throttled: bool = False
    ) -> Failure:
        """The failure with a code of librdkafka, whichever call reported it.

        `answer` is the error with which the brokers refused the last attempt before a time-out; `is_throttled` if a quota
        has delayed requests.
        """
        cause = explained(code)
        if answer != KafkaError.NO_ERROR:
            cause += f"; the brokers refused the last attempt with {explained(answer)}"
        overdue_topic = topic if code == KafkaError._MSG_TIMED_OUT else None
        if overdue_topic is not None and is_throttled:
            cause += f"; {_THROTTLED}"
        return cls(f"{topic}-{partition}", cause, overdue_topic)


def explained(code: int) -> str:
    """The name and text of a code of librdkafka, with a remedy if there is one."""
    error = KafkaError(code)
    hint = f"; {_HINTS[code]}" if code in _HINTS else ""
    return f"{error.name()}: {error.str()}{hint}"


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset to commit for a group. It must not be negative: librdkafka ignores negative offsets.

    The metadata must not have a zero byte. A zero byte is stored after it, and counts towards the brokers' size limit.
    """

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class Transactions(Protocol):
    """Transactions of a sender whose properties have a ``transactional.id``.

    Each call raises KafkaException with librdkafka's error. The error is fatal, retriable (repeat the call to continue), or
    requires an abort of the transaction (``txn_requires_abort``). Signals are not handled while a call waits.
    """

    resumes_offsets: bool
    """True if `commit_offset` continues after a time-out, and returns in time."""

    @property
    def may_lose_offsets(self) -> bool:
        """True if the brokers may forget the offset of a committed transaction.

        Brokers without KIP-890 do so if a late request of a fenced producer with the same id adds an offset meanwhile.
        """

    def init(self, transactional_id: str, timeout_s: float) -> None:
        """Fence the earlier producers of an id, and wait until their transactions are complete.

        If `Sender.serves_any_id`, call it before each transaction, with any id. Otherwise call it once, with the sender's
        own id.
        """

    def begin(self) -> None:
        """Begin a transaction, without a request."""

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        """Add the offset of a group to the transaction. Unless it resumes, abort the transaction after a time-out."""

    def commit(self, timeout_s: float) -> None:
        """Commit the transaction. Flush the sender first."""

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction, and drop queued records."""


class Sender(Protocol):
    """Sends rows, and counts them as acknowledged or failed. Not thread-safe, not pickle-safe.

    Implemented by `pyspark_zkafka.records.direct.sender.DirectSender`, and by
    `pyspark_zkafka.records.librdkafka_sender.MessageSender`. Each is open for its ``with`` block, and calls `note` with
    errors of the whole client.
    """

    serves_any_id: ClassVar[bool]
    """True if one sender writes the transactions of several transactional ids, one after the other."""

    def __enter__(self) -> Sender: ...
    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None:
        """Reset the counts, while nothing is queued."""

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> None:
        """Add rows, each with its partition, without sending them."""

    def advance(self, timeout_s: float) -> bool:
        """Send added rows up to the limits, in order for each partition. True once all are sent.

        Waits for room up to `timeout_s`, and stops at a failure.
        """

    def poll(self, timeout_s: float) -> None:
        """Wait for a delivery report or an error, and handle all that have arrived."""

    def flush(self, timeout_s: float) -> None:
        """Send at once, regardless of linger.ms, unless records of the partition are in flight; wait for all reports."""

    def purge(self, *, in_flight: bool) -> None:
        """Drop queued records, and with `in_flight` the records in flight."""

    @property
    def queued(self) -> int:
        """An upper bound of the records without a report. 0 once there are none."""

    @property
    def is_moving(self) -> bool:
        """True if some records are sent without a flush: in full batches, or by the last flush."""

    @property
    def acknowledged(self) -> int:
        """The number of records acknowledged since `begin`, exact when none is queued."""

    @property
    def failure(self) -> Failure | None:
        """The first failure."""

    def leaders(self, topic: str, timeout_s: float) -> tuple[KafkaError | None, dict[int, int]]:
        """Request the brokers' error for a topic, and the leader of each partition, -1 for none.

        Raises KafkaException if no broker answers.
        """

    @property
    def transactions(self) -> Transactions:
        """The transactions of the client."""
