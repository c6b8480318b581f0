"""Interface of the two senders, which hand records to librdkafka and count their delivery reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from pyspark_zkafka.model.rows import OutgoingBatch

_WRITE = "an ACL must allow Write on the topic"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of the records queued for the brokers at a time.

    They are enforced here: librdkafka's own queue must never be full, since a record that it refuses could be overtaken by
    the next. A partition's batch is full at `batch_bytes`, and then sent without a flush.
    """

    records: int = 200_000
    size_bytes: int = 64 * 1024 * 1024
    batch_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the records since the last `begin`; `acknowledged` is exact where none is queued."""

    handed_over: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The first record that could not be delivered: ``topic-partition``, the cause, and the topic if its time was over."""

    partition: str
    cause: str
    overdue_topic: str | None = None

    @classmethod
    def of(cls, topic: str, partition: int, code: int) -> Failure:
        """The failure by librdkafka's code alone, regardless of the call that reported it."""
        error = KafkaError(code)
        right = f"; {_WRITE}" if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else ""
        overdue_topic = topic if code == KafkaError._MSG_TIMED_OUT else None
        return cls(f"{topic}-{partition}", f"{error.name()}: {error.str()}{right}", overdue_topic)


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset to commit for a group: not negative, as librdkafka would ignore it, and metadata without a zero byte.

    A zero byte is stored behind the metadata, which counts for the brokers' limit of their length.
    """

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class Transactions(Protocol):
    """The transactions of a sender's client, which needs a ``transactional.id``.

    Each call raises KafkaException if it fails, with librdkafka's error: fatal; or retriable, so that the same call may be
    made again and continues; or one after which the transaction must be aborted (``txn_requires_abort``). While a call
    waits, no signal is handled.
    """

    def init(self, timeout_s: float) -> None:
        """Register the id, and fence earlier producers of it; once. Waits until their transactions are complete."""

    def begin(self) -> None:
        """Begin a transaction; without a request."""

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        """Add the offset of a group to the transaction. After a time-out the transaction must be aborted."""

    def commit(self, timeout_s: float) -> None:
        """Commit the transaction; flush the sender before."""

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction; drops queued records."""


class Sender(Protocol):
    """Hands records to librdkafka, and counts their delivery reports. Not thread-safe, not pickle-safe.

    There are two: `MessageSender`, and the compiled path's `pyspark_zkafka.records.native.producer.ArrowSender`. Each is
    open for the time of its ``with`` block; its `note` is called with errors of the client as a whole.
    """

    def __enter__(self) -> Sender: ...
    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None:
        """Reset the counts; only while nothing is queued."""

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32], partition_count: int) -> None:
        """Add rows, each with its partition in ``[0, partition_count)``; nothing is sent yet."""

    def advance(self, timeout_s: float) -> bool:
        """Send added rows as far as the limits allow, those of a partition in order; True once all are sent.

        Waits for room up to `timeout_s`; stops at a failure.
        """

    def poll(self, timeout_s: float) -> None:
        """Handle delivery reports and errors; wait for one."""

    def flush(self, timeout_s: float) -> None:
        """Send records not queued behind others in flight, regardless of linger.ms; wait for all reports."""

    def purge(self, *, in_flight: bool) -> None:
        """Drop queued records, and those in flight if `in_flight`."""

    @property
    def queued(self) -> int:
        """Upper bound of the records without a report; 0 once there are none."""

    @property
    def is_moving(self) -> bool:
        """True if records are in flight that need no flush: in full batches, or sent by the last flush."""

    @property
    def counts(self) -> Counts:
        """The counts of records since `begin`."""

    @property
    def failure(self) -> Failure | None:
        """The first failure."""

    def delivered(self, topic: str) -> dict[int, int]:
        """Acknowledged records by partition, without empty partitions; call after a flush."""

    def leaders(self, topic: str, timeout_s: float) -> tuple[KafkaError | None, dict[int, int]]:
        """The brokers' error for a topic, and the leader of each of its partitions, -1 for none.

        Raises KafkaException if no broker can be reached.
        """

    @property
    def transactions(self) -> Transactions:
        """The transactions of the client."""
