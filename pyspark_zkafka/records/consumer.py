"""A consumer of one partition, without group and commits; gaps between offsets are left to the caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient, ignore
from pyspark_zkafka.brokers.librdkafka_errors import (
    UNKNOWN_TOPIC_CODES,
    ErrorReports,
    from_exception,
    from_kafka,
    truncation,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import build_batch

# The size of records is not known before the first: 16 of 1 MiB are half of what librdkafka holds for a long range.
_FIRST_POLL_RECORDS = 16
_MOST_POLL_RECORDS = 1_000


class Unsupported(Exception):
    """What only librdkafka can do or read; librdkafka continues. The text says what, without secrets."""


@dataclass(slots=True)
class Poll:
    """The result of one poll, with its fields in the order in which they must be handled.

    `records` were added to the batch that is being gathered, `size_bytes` is about their size. `first` and `last` are the
    offsets of the records received, None if there were none; `last` may be beyond the end of the range. `ordered` is True
    if offsets were ascending. `end` is the offset of the log's end if it was reached after them. `out_of_range` is True if
    the position is outside the log, or the log was truncated below it; `truncation` is librdkafka's report of the latter,
    found by the leader epoch of earlier records, and such a log may have grown past the position again. `gone` is True if
    the brokers do not know the partition, and `error` is the last retriable error, for the text of a time-out. `by_id` is
    True if the broker has compared the topic's id with the planned one in each fetch until now.
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
    by_id: bool = False


class PartitionConsumer(Protocol):
    """Fetches one partition from an offset on, and gathers Arrow batches of a schema. Not thread-safe, not pickle-safe.

    There are two: `pyspark_zkafka.records.direct.consumer.DirectConsumer`, and
    `pyspark_zkafka.records.consumer.MessageConsumer` over librdkafka. Each uses an open client, alone, for the
    time of its own ``with`` block, and fetches nothing after it.
    """

    def seek(self, offset: int) -> None:
        """Fetch from `offset` on; records fetched but not gathered are dropped. Does not block."""

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """Add the next records before offset `until` to the batch: at most `most_records`, of about `most_bytes`.

        Returns when they have arrived, at an event, or after `timeout_s` with what has arrived. Raises ClusterStateError
        for an error that waiting does not resolve: refused, corrupt, unsupported.
        """

    def take(self) -> pa.RecordBatch:
        """Return the batch gathered so far, of at least one record, and begin another; raises as `build_batch`."""

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        """The log's earliest offset and its end, requested from the leader."""


class PartitionEvents:
    """librdkafka's events and errors for a partition, sorted into results of a poll and exceptions."""

    def __init__(self, partition: TopicPartition, clock: Callable[[], float] = time.monotonic) -> None:
        self._doing = f"reading {partition}"
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
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # librdkafka's consumer looks for the coordinator of its group, which a read does not use
        elif error.retriable() or (failure := from_kafka(error, self._doing)).retriable:
            self.note(error)
        else:
            raise failure

    def finish(self, poll: Poll) -> Poll:
        """Complete the poll with the errors recorded meanwhile; raises a refusal after which no record arrived."""
        poll.gone, self._gone = poll.gone or self._gone, False
        poll.error = self._reports.last
        self._reports.polled(self._doing, answered=poll.first is not None or poll.end is not None)
        return poll


def reading_watermarks(partition: TopicPartition) -> str:
    """Description of the request for a log's ends, for the text of an error."""
    return f"asking the leader of {partition} for the ends of its log"


class MessageBatch:
    """Messages gathered for one batch; limits the number to request next, so that large records do not fill memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._messages: list[Message] = []
        self._next_records = _FIRST_POLL_RECORDS
        self._mean_bytes = 0

    def request_size(self, most_records: int, most_bytes: int) -> int:
        """The number of messages to request."""
        room = max(most_bytes // self._mean_bytes, 1) if self._mean_bytes else _FIRST_POLL_RECORDS
        return min(self._next_records, room, most_records)

    def add(self, messages: Sequence[Message], until: int) -> Poll:
        """Add the messages before offset `until`."""
        if not messages:
            return Poll()
        first, last = messages[0].offset(), messages[-1].offset()
        visible = messages if last < until else [m for m in messages if m.offset() < until]
        size = _size(visible)
        if visible:
            self._messages += visible
            self._mean_bytes = max(size // len(visible), 1)
            self._next_records = min(4 * self._next_records, _MOST_POLL_RECORDS)
        return Poll(len(visible), size, first, last, _ascending(messages, last - first))

    def take(self) -> pa.RecordBatch:
        """Return the batch of the messages added, and begin another."""
        messages, self._messages = self._messages, []
        return build_batch(messages, self._schema)


def _size(messages: Sequence[Message]) -> int:
    """Bytes of keys and values."""
    keys = map(type(messages[0]).key, messages) if messages else ()
    return sum(map(len, messages)) + sum(map(len, filter(None, keys)))


def _ascending(messages: Sequence[Message], span: int) -> bool:
    """True if offsets are strictly ascending; without gaps, the span is enough to know."""
    if span == len(messages) - 1:
        return True
    offsets = [m.offset() for m in messages]
    return all(a < b for a, b in pairwise(offsets))


class MessageConsumer:
    """The `PartitionConsumer` in pure Python, which converts confluent-kafka's messages to columns."""

    def __init__(self, client: MessageClient, partition: TopicPartition, schema: pa.Schema) -> None:
        self._client = client
        self._partition = partition
        self._events = PartitionEvents(partition)
        self._batch = MessageBatch(schema)

    def __enter__(self) -> MessageConsumer:
        self._client.note = self._events.note
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.note = ignore
        self._client.consumer.unassign()
        # Fetched messages stay in librdkafka's queue, outdated, until they are consumed.
        while self._client.consumer.consume(_MOST_POLL_RECORDS, 0):
            pass

    def seek(self, offset: int) -> None:
        self._client.consumer.assign([KafkaTopicPartition(*self._partition, offset)])
        self._client.warm_up(self._partition.topic)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """The records of the last poll may exceed the bytes."""
        found = self._client.consumer.consume(self._batch.request_size(most_records, most_bytes), timeout_s)
        if not any(map(Message.error, found)):
            return self._events.finish(self._batch.add(found, until))
        poll = self._batch.add([m for m in found if m.error() is None], until)
        for message in found:
            if (error := message.error()) is not None:
                self._events.take(error, message.offset(), poll)
        return self._events.finish(poll)

    def take(self) -> pa.RecordBatch:
        return self._batch.take()

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        tp = KafkaTopicPartition(*self._partition)
        try:
            low, high = self._client.consumer.get_watermark_offsets(tp, timeout=timeout_s, cached=False)
        except KafkaException as error:
            raise from_exception(error, reading_watermarks(self._partition)) from error
        return low, high
