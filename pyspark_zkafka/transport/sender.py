"""What hands records to librdkafka and knows what becomes of them: the two ways of doing it have this in common."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pyspark_zkafka.protocol.rows import OutgoingBatch

__all__ = ["Counts", "Failure", "QueueLimits", "Sender"]


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much may wait for the brokers at a time.

    It is kept to here: librdkafka's own queue is never let run full, since a record that it refuses could be overtaken by
    the next. A batch of a partition is full with `batch_bytes`, and then sent by itself.
    """

    records: int = 200_000
    size_bytes: int = 64 * 1024 * 1024
    batch_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """What has become of the records since the last beginning; `acknowledged` is exact where none is queued."""

    handed_over: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The first record that could not be delivered: ``topic-partition``, and why."""

    partition: str
    cause: str

    @classmethod
    def of(cls, topic: str, partition: int, code: int) -> Failure:
        """The failure by librdkafka's code alone: which call told of it is no matter of the user's."""
        error = KafkaError(code)
        return cls(f"{topic}-{partition}", f"{error.name()}: {error.str()}")


class Sender(Protocol):
    """What hands records to librdkafka, and knows what becomes of them. Not thread-safe, not pickle-safe.

    There are two: `MessageSender`, and the compiled path's `pyspark_zkafka.transport.native.producer.ArrowSender`.
    """

    def __enter__(self) -> Sender: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self) -> None:
        """Count anew, from nothing; only while nothing is queued."""

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32], partition_count: int) -> None:
        """Take rows, each with its partition of the `partition_count` that the topic has; nothing is sent yet."""

    def advance(self, timeout_s: float) -> bool:
        """Hand over what was added as far as the limits allow, those of a partition in order; True once all is.

        Waits for room up to `timeout_s`; stops at a failure.
        """

    def poll(self, timeout_s: float) -> None:
        """Look at delivery reports and errors; wait for one."""

    def flush(self, timeout_s: float) -> None:
        """Send at once, whatever linger.ms, what is not behind records on their way; wait for all reports."""

    def purge(self, *, in_flight: bool) -> None:
        """Give up what is queued, and perhaps what is on its way."""

    @property
    def queued(self) -> int:
        """How many records wait for their reports, at the most; 0 once none does."""

    @property
    def is_moving(self) -> bool:
        """Whether records are on their way that no flush is needed for: in full batches, or sent by the last flush."""

    @property
    def counts(self) -> Counts:
        """What has become of the records since `begin`."""

    @property
    def failure(self) -> Failure | None:
        """The first failure."""

    def delivered(self, topic: str) -> dict[int, int]:
        """Acknowledged records by partition, those without any left out; to be asked after a flush."""

    def leaders(self, topic: str, timeout_s: float) -> tuple[KafkaError | None, dict[int, int]]:
        """The brokers' error for a topic, and the leader of each of its partitions, -1 for none.

        Raises
        ------
        KafkaException
            They cannot be asked.
        """
