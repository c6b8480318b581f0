"""The consumer in pure Python, which converts confluent-kafka's messages to columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient, ignore
from pyspark_zkafka.brokers.librdkafka_errors import from_exception
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import build_batch
from pyspark_zkafka.records.consumer import PartitionEvents, Poll, reading_watermarks

__all__ = ["MessageBatch", "MessageConsumer"]

# The size of records is not known before the first: 16 of 1 MiB are half of what librdkafka holds for a long range.
_FIRST_POLL_RECORDS = 16
_MOST_POLL_RECORDS = 1_000


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
