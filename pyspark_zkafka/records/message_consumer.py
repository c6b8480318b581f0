"""The consumer of one partition over confluent-kafka, in pure Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import lt

import pyarrow as pa
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient, ignore
from pyspark_zkafka.brokers.librdkafka_errors import (
    UNKNOWN_TOPIC_CODES,
    ErrorReports,
    from_kafka,
    kafka_errors,
    truncation,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import build_batch
from pyspark_zkafka.records.consumer import Poll, reading_watermarks
from pyspark_zkafka.retries import Deadline

# The size of records is not known before the first poll: 16 records of 1 MiB fill half of librdkafka's queue.
_FIRST_POLL_RECORDS = 16
_MOST_POLL_RECORDS = 1_000


class PartitionEvents:
    """Sorts librdkafka's events and errors of a partition into results of a poll and exceptions."""

    def __init__(self, partition: TopicPartition, clock: Callable[[], float] = time.monotonic) -> None:
        self._doing = f"reading {partition}"
        self._reports = ErrorReports(clock)
        self._gone = False

    def note(self, error: KafkaError) -> None:
        """Note an error of the whole client. librdkafka retries by itself."""
        self._reports(error)
        self._gone = self._gone or error.code() in UNKNOWN_TOPIC_CODES

    def take(self, error: KafkaError, offset: int, poll: Poll) -> None:
        """Add an event to a poll. Raises an error that waiting does not resolve."""
        if error.code() == KafkaError._PARTITION_EOF:
            poll.end = offset
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            poll.out_of_range = True
            poll.truncation = truncation(error)
        elif error.code() in UNKNOWN_TOPIC_CODES:
            poll.gone = True
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # librdkafka looks for its group's coordinator, but a read does not use the group
        elif error.retriable() or (failure := from_kafka(error, self._doing)).retriable:
            self.note(error)
        else:
            raise failure

    def finish(self, poll: Poll) -> Poll:
        """Add the client's last error, and whether the partition is gone. Raises a refusal if no answer follows it."""
        poll.gone, self._gone = poll.gone or self._gone, False
        poll.error = self._reports.last
        self._reports.polled(self._doing, answered=poll.first is not None or poll.end is not None)
        return poll


class MessageBatch:
    """Messages gathered for one batch. Limits each request, so that large records do not fill memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._messages: list[Message] = []
        self._next_records = _FIRST_POLL_RECORDS
        self._mean_bytes = 0

    def request_size(self, most_records: int, most_bytes: int) -> int:
        """Return the number of messages to request."""
        room = max(most_bytes // self._mean_bytes, 1) if self._mean_bytes else _FIRST_POLL_RECORDS
        return min(self._next_records, room, most_records)

    def add(self, messages: Sequence[Message], until: int) -> Poll:
        """Add the messages before offset `until`."""
        if not messages:
            return Poll()
        offsets = [m.offset() for m in messages]
        first, last = offsets[0], offsets[-1]
        visible = messages if last < until else [m for m in messages if m.offset() < until]
        size = 0
        if visible:
            size = sum(map(len, visible)) + sum(map(len, filter(None, map(type(visible[0]).key, visible))))
            self._messages += visible
            self._mean_bytes = max(size // len(visible), 1)
            self._next_records = min(4 * self._next_records, _MOST_POLL_RECORDS)
        return Poll(len(visible), size, first, last, ordered=all(map(lt, offsets, offsets[1:])))

    def take(self) -> pa.RecordBatch:
        """Return the batch of the added messages, and start another."""
        messages, self._messages = self._messages, []
        return build_batch(messages, self._schema)


class MessageConsumer:
    """The `PartitionConsumer` that converts confluent-kafka's messages to columns, in pure Python."""

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

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        """The records of the last poll may exceed `most_bytes`."""
        found = self._client.consumer.consume(self._batch.request_size(most_records, most_bytes), deadline.left_s)
        if not any(map(Message.error, found)):
            return self._events.finish(self._batch.add(found, until))
        poll = self._batch.add([m for m in found if m.error() is None], until)
        for message in found:
            if (error := message.error()) is not None:
                self._events.take(error, message.offset(), poll)
        return self._events.finish(poll)

    def take(self) -> pa.RecordBatch:
        return self._batch.take()

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        tp = KafkaTopicPartition(*self._partition)
        with kafka_errors(reading_watermarks(self._partition)):
            low, high = self._client.consumer.get_watermark_offsets(tp, timeout=deadline.left_s, cached=False)
        return low, high
