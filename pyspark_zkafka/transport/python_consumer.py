"""The consumer in pure Python, which converts confluent-kafka's messages to columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.consumer_client import MessageClient, ignore
from pyspark_zkafka.kafka.errors import from_exception
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import build_batch
from pyspark_zkafka.transport.consumer import PartitionEvents, Poll, reading_watermarks

__all__ = ["MessageBatch", "MessageConsumer"]

_FIRST_POLL_RECORDS = 256
_MOST_POLL_RECORDS = 10_000


class MessageBatch:
    """Messages gathered for one batch; limits the number to request next, so that large records do not fill memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._messages: list[Message] = []
        self._next_records = _FIRST_POLL_RECORDS
        self._mean_bytes = 0

    def wanted(self, most_records: int, most_bytes: int) -> int:
        """The number of messages to request."""
        room = max(most_bytes // self._mean_bytes, 1) if self._mean_bytes else _FIRST_POLL_RECORDS
        return min(self._next_records, room, most_records)

    def add(self, messages: Sequence[Message], until: int) -> Poll:
        """Add the messages before offset `until`."""
        if not messages:
            return Poll()
        first, last = messages[0].offset(), messages[-1].offset()
        visible = messages if last < until else [m for m in messages if m.offset() < until]
        self._messages += visible
        size = _size(visible)
        self._learn(len(visible), size)
        return Poll(len(visible), size, first, last, _ascending(messages, last - first))

    def take(self) -> pa.RecordBatch:
        """Return the batch of the messages added, and begin another."""
        messages, self._messages = self._messages, []
        return build_batch(messages, self._schema)

    def _learn(self, records: int, size_bytes: int) -> None:
        if records:
            self._mean_bytes = max(size_bytes // records, 1)
            self._next_records = min(4 * self._next_records, _MOST_POLL_RECORDS)


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
    """The `PartitionConsumer` in pure Python, which converts confluent-kafka's messages to columns.

    Parameters
    ----------
    client : MessageClient
        Open; used by this consumer alone during the ``with`` block, and fetches nothing after it.
    partition : TopicPartition
    schema : pyarrow.Schema
        The columns to build.
    """

    def __init__(self, client: MessageClient, partition: TopicPartition, schema: pa.Schema) -> None:
        self._client = client
        self._partition = partition
        self._events = PartitionEvents(partition)
        self._batch = MessageBatch(schema)

    def __enter__(self) -> MessageConsumer:
        self._client.note = self._events.note
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.note = ignore
        self._handle().unassign()
        # Fetched messages stay in librdkafka's queue, outdated, until they are consumed.
        while self._handle().consume(_MOST_POLL_RECORDS, 0):
            pass

    def seek(self, offset: int) -> None:
        """See `PartitionConsumer`."""
        tp = self._partition
        self._handle().assign([KafkaTopicPartition(tp.topic, tp.partition, offset)])
        self._client.warm_up(tp.topic)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """See `PartitionConsumer`; the records of the last poll may exceed the bytes."""
        found = self._handle().consume(self._batch.wanted(most_records, most_bytes), timeout_s)
        if not any(map(Message.error, found)):
            return self._events.finish(self._batch.add(found, until))
        poll = self._batch.add([m for m in found if m.error() is None], until)
        for message in found:
            if (error := message.error()) is not None:
                self._events.take(error, message.offset(), poll)
        return self._events.finish(poll)

    def take(self) -> pa.RecordBatch:
        """See `PartitionConsumer`."""
        return self._batch.take()

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        """See `PartitionConsumer`."""
        tp = KafkaTopicPartition(self._partition.topic, self._partition.partition)
        try:
            low, high = self._handle().get_watermark_offsets(tp, timeout=timeout_s, cached=False)
        except KafkaException as error:
            raise from_exception(error, reading_watermarks(self._partition)) from error
        return low, high

    def _handle(self) -> Consumer:
        return self._client.consumer
