"""A consumer of one partition, without group and commits; gaps between offsets are left to the caller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.kafka.errors import REFUSED_FOR_S, UNKNOWN_TOPIC_CODES, ErrorReports, from_kafka, truncation
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["PartitionConsumer", "PartitionEvents", "Poll", "reading_watermarks"]


@dataclass(slots=True)
class Poll:
    """The result of one poll, with its fields in the order in which they must be handled.

    `records` were added to the batch that is being gathered, `size_bytes` is about their size. `first` and `last` are the
    offsets of the records received, None if there were none; `last` may be beyond the end of the range. `ordered` is True
    if offsets were ascending. `end` is the offset of the log's end if it was reached after them. `out_of_range` is True if
    the position is outside the log, or the log was truncated below it; `truncation` is librdkafka's report of the latter,
    found by the leader epoch of earlier records, and such a log may have grown past the position again. `gone` is True if
    the brokers do not know the partition, and `error` is the last retriable error, for the text of a time-out.
    """

    records: int = 0
    size_bytes: int = 0
    first: int | None = None
    last: int | None = None
    ordered: bool = True
    end: int | None = None
    out_of_range: bool = False
    truncation: str | None = None
    gone: bool = False
    error: str | None = None


class PartitionConsumer(Protocol):
    """Fetches one partition from an offset on, and gathers Arrow batches of a schema. Not thread-safe, not pickle-safe.

    There are two: `pyspark_zkafka.transport.python_consumer.MessageConsumer`, and the compiled path's
    `pyspark_zkafka.transport.native.consumer.ArrowConsumer`.
    """

    def seek(self, offset: int) -> None:
        """Fetch from `offset` on; records fetched but not gathered are dropped. Does not block."""

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """Add the next records before offset `until` to the batch: at most so many, and about so many bytes.

        Returns when they have arrived, or at an event, or after `timeout_s` with those that have arrived.

        Raises
        ------
        ClusterStateError
            For an error that waiting does not resolve: refused, corrupt, unsupported.
        """

    def take(self) -> pa.RecordBatch:
        """Return the batch gathered so far, of at least one record, and begin another.

        Raises
        ------
        ZKafkaError
            As `pyspark_zkafka.protocol.records.build_batch`.
        """

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        """The log's earliest offset and its end, requested from the leader."""


class PartitionEvents:
    """librdkafka's events and errors for a partition, sorted into results of a poll and exceptions."""

    def __init__(self, partition: TopicPartition, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._reports = ErrorReports(clock)
        self._gone = False

    def note(self, error: KafkaError) -> None:
        """Record an error of the client as a whole; librdkafka retries by itself."""
        self._reports(error)
        self._gone = self._gone or error.code() in UNKNOWN_TOPIC_CODES

    def take(self, error: KafkaError, offset: int, poll: Poll) -> None:
        """Add an event that arrived in place of a record to a poll; raises errors that waiting does not resolve."""
        if error.code() == KafkaError._PARTITION_EOF:
            poll.end = offset
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            poll.out_of_range = True
            poll.truncation = truncation(error)
        elif error.code() in UNKNOWN_TOPIC_CODES:
            poll.gone = True
        elif error.retriable() or error.code() in _PASSING:
            self.note(error)
        else:
            raise from_kafka(error, f"reading {self._partition}")

    def finish(self, poll: Poll) -> Poll:
        """Complete the poll with the errors recorded meanwhile; raises a refusal after which no record arrived."""
        poll.gone, self._gone = poll.gone or self._gone, False
        poll.error = self._reports.last
        if poll.first is not None or poll.end is not None:
            self._reports.answered()
            self._reports.begin()
        elif (refusal := self._reports.refusal(f"reading {self._partition}", REFUSED_FOR_S)) is not None:
            raise refusal
        return poll


def reading_watermarks(partition: TopicPartition) -> str:
    """Description of the request for a log's ends, for the text of an error."""
    return f"asking the leader of {partition} for the ends of its log"


_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
