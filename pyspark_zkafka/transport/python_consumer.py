"""A consumer of one partition: no group, no commits, no opinion on what a gap means."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.clients.kafka_errors import (
    REFUSED_FOR_S,
    UNKNOWN_TOPIC_CODES,
    Reports,
    from_exception,
    from_kafka,
    truncation,
)
from pyspark_zkafka.clients.librdkafka_log import librdkafka_logger
from pyspark_zkafka.clients.new_clients import CLIENT_DEFAULTS, INTRODUCTION_S
from pyspark_zkafka.option_values import Connection
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import build_batch

__all__ = [
    "MessageBatch",
    "MessageClient",
    "MessageConsumer",
    "PartitionConsumer",
    "PartitionEvents",
    "Poll",
    "consumer_properties",
    "log_range_of",
]

_FIRST_POLL_RECORDS = 256
_MOST_POLL_RECORDS = 10_000

_DEFAULTS: dict[str, Any] = {
    **CLIENT_DEFAULTS,
    "allow.auto.create.topics": False,
    # Java's default; librdkafka's own is read_committed.
    "isolation.level": "read_uncommitted",
    # Java checks them; librdkafka would not.
    "check.crcs": True,
    # A planned topic exists: what the brokers do not know for so long is gone (the reader makes sure of that).
    "topic.metadata.propagation.max.ms": 3000,
    # What is planned is there: an answer that waits for more than that only holds up the next range on its connection.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True, slots=True)
class _InAdvance:
    """How much to fetch at a time, and how much in advance: librdkafka takes about 1 KB for a message beside its bytes."""

    fetch_bytes: int
    messages: int
    kilobytes: int


# By the records to read: what is fetched beyond the end of a range costs as much as the range itself, and is thrown away.
# Few classes, so that a consumer can be used again for a range that is a little longer or shorter.
_RANGES = ((1_000, _InAdvance(128 * 1024, 1_000, 4 * 1024)), (100_000, _InAdvance(1024 * 1024, 10_000, 4 * 1024)))
_LONG_RANGE = _InAdvance(2 * 1024 * 1024, 50_000, 32 * 1024)
_FORCED: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Anything else would skip data without a word.
    "auto.offset.reset": "error",
    # The only way to learn that nothing visible is left before the end of a range.
    "enable.partition.eof": True,
}
# Fetches larger than librdkafka's leave brokers less to do for a record; still larger ones leave the processor's cache.
_FETCH_BYTES = 64 * 1024 * 1024
_RESPONSE_OVERHEAD_BYTES = 512


def consumer_properties(
    connection: Connection, bootstrap_servers: str, group: str, records: int | None = None
) -> dict[str, Any]:
    """librdkafka's properties for reading: tuned defaults, then the user's, then what the proof of a range needs.

    `records` is how many are to be read, if that is known: few are not fetched with thousands of others.
    """
    properties = {**_DEFAULTS, **_in_advance(records), **connection.kafka, **_FORCED}
    properties |= {"bootstrap.servers": bootstrap_servers, "group.id": group}
    properties.setdefault("fetch.max.bytes", _fetch_bytes(connection.kafka))
    # librdkafka wants room for a whole response; its default suits fetches of up to 95 MiB.
    room = int(properties["fetch.max.bytes"]) + _RESPONSE_OVERHEAD_BYTES
    properties.setdefault("receive.message.max.bytes", max(100_000_000, room))
    return properties


def _fetch_bytes(kafka: Mapping[str, Any]) -> int:
    """How much to fetch where the user does not say: what librdkafka wants is at least a message, and fits a response."""
    room = int(kafka.get("receive.message.max.bytes", 2**31 - 1)) - _RESPONSE_OVERHEAD_BYTES
    return min(max(_FETCH_BYTES, int(kafka.get("message.max.bytes", 0))), room)


def _in_advance(records: int | None) -> dict[str, Any]:
    fitting = (found for most, found in _RANGES if records is not None and records <= most)
    found = next(fitting, _LONG_RANGE)
    return {
        "max.partition.fetch.bytes": found.fetch_bytes,
        "queued.min.messages": found.messages,
        "queued.max.messages.kbytes": found.kilobytes,
    }


@dataclass(slots=True)
class Poll:
    """What one poll brought, in the order in which it must be looked at.

    `records` were added to the batch that is being gathered, `size_bytes` is about their size. `first` and `last` are
    offsets of what came, None if nothing did; `last` may lie behind the end of the range. `ordered` says that offsets
    rose. `end` is the offset of the log's end if it was reached after them. `out_of_range` says that the position lies
    outside the log, or that the log was truncated below it; `truncation` is the report of the latter, by the leader epoch
    of the records that came before, and such a log may have grown past the position again. `gone` says that the brokers do
    not know the partition, and `error` is the last passing error, for the text of a time-out.
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

    There are two: `MessageConsumer`, and the compiled path's `pyspark_zkafka.native.consumer.ArrowConsumer`.
    """

    def seek(self, offset: int) -> None:
        """Fetch from `offset` on; what was fetched and not gathered is dropped. Does not block."""

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """Add the next records before offset `until` to the batch: at most so many, and about so many bytes.

        Returns when they are there, or when an event comes, or after `timeout_s` with those that came.

        Raises
        ------
        ClusterStateError
            For an error that waiting does not mend: refused, corrupt, unsupported.
        """

    def take(self) -> pa.RecordBatch:
        """The batch gathered so far, of at least one record; another one is begun.

        Raises
        ------
        ZKafkaError
            As `pyspark_zkafka.protocol.records.build_batch`.
        """

    def log_range(self, timeout_s: float) -> tuple[int, int]:
        """The log's earliest offset and its end, asked from the leader."""


class PartitionEvents:
    """What librdkafka says of a partition beside its records, and which of it is an error."""

    def __init__(self, partition: TopicPartition, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._reports = Reports(clock)
        self._gone = False

    def note(self, error: KafkaError) -> None:
        """An error of the client as a whole; librdkafka goes on by itself."""
        self._reports(error)
        self._gone = self._gone or error.code() in UNKNOWN_TOPIC_CODES

    def take(self, error: KafkaError, offset: int, poll: Poll) -> None:
        """An event that came in place of a record; raises what waiting does not mend."""
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
        """The poll with what was noted meanwhile; raises a refusal after which nothing came."""
        poll.gone, self._gone = poll.gone or self._gone, False
        poll.error = self._reports.last
        if poll.first is not None or poll.end is not None:
            self._reports.answered()
            self._reports.begin()
        elif (refusal := self._reports.refusal(f"reading {self._partition}", REFUSED_FOR_S)) is not None:
            raise refusal
        return poll


class MessageBatch:
    """Messages gathered for one batch, and how many to ask for next, so that large records do not fill memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._messages: list[Message] = []
        self._next_records = _FIRST_POLL_RECORDS
        self._mean_bytes = 0

    def wanted(self, most_records: int, most_bytes: int) -> int:
        """How many messages to ask for."""
        room = max(most_bytes // self._mean_bytes, 1) if self._mean_bytes else _FIRST_POLL_RECORDS
        return min(self._next_records, room, most_records)

    def add(self, messages: Sequence[Message], until: int) -> Poll:
        """Add those before offset `until`."""
        if not messages:
            return Poll()
        first, last = messages[0].offset(), messages[-1].offset()
        visible = messages if last < until else [m for m in messages if m.offset() < until]
        self._messages += visible
        size = _size(visible)
        self._learn(len(visible), size)
        return Poll(len(visible), size, first, last, _ascending(messages, last - first))

    def take(self) -> pa.RecordBatch:
        """The batch of what was added; another one is begun."""
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
    """Whether offsets rise from each message to the next; without gaps, the span tells."""
    if span == len(messages) - 1:
        return True
    offsets = [m.offset() for m in messages]
    return all(a < b for a, b in pairwise(offsets))


class MessageClient:
    """confluent-kafka's consumer, open for the time of a ``with`` block; it serves one `MessageConsumer` after the other.

    Make it where it is used, after any fork.

    Parameters
    ----------
    properties : mapping
        As `consumer_properties` makes them.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)
        self._open: Consumer | None = None
        self._introduced = False
        self.note: Callable[[KafkaError], None] = _ignore

    def __enter__(self) -> MessageClient:
        settings = {**self._properties, "error_cb": lambda error: self.note(error)}
        try:
            self._open = Consumer(settings, logger=librdkafka_logger())
            self._introduced = False
        except KafkaException as error:
            raise from_exception(error, "making a consumer") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def introduce(self, topic: str) -> None:
        """Ask the brokers for a topic, once, after it was assigned: else a new client may begin a second late.

        Blocks for up to a second; see `pyspark_zkafka.clients.new_clients`.
        """
        if not self._introduced:
            self._introduced = True
            with suppress(KafkaException):
                self.consumer.list_topics(topic, timeout=INTRODUCTION_S)

    @property
    def consumer(self) -> Consumer:
        """The consumer itself."""
        if self._open is None:
            raise RuntimeError("MessageClient is used outside of its with block")
        return self._open


def _ignore(error: KafkaError) -> None:
    """An error of a client that nobody uses now: the next one to use it finds out by itself."""


class MessageConsumer:
    """The `PartitionConsumer` in pure Python: confluent-kafka's messages, turned into columns.

    Parameters
    ----------
    client : MessageClient
        Open; it is this consumer's alone for the time of the ``with`` block, and fetches nothing after it.
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
        self._client.note = _ignore
        self._handle().unassign()
        # What was fetched stays in librdkafka's queue, outdated, until it is looked at.
        while self._handle().consume(_MOST_POLL_RECORDS, 0):
            pass

    def seek(self, offset: int) -> None:
        """See `PartitionConsumer`."""
        tp = self._partition
        self._handle().assign([KafkaTopicPartition(tp.topic, tp.partition, offset)])
        self._client.introduce(tp.topic)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """See `PartitionConsumer`; the bytes may be exceeded by what the last poll brought."""
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

    def log_range(self, timeout_s: float) -> tuple[int, int]:
        """See `PartitionConsumer`."""
        tp = KafkaTopicPartition(self._partition.topic, self._partition.partition)
        try:
            low, high = self._handle().get_watermark_offsets(tp, timeout=timeout_s, cached=False)
        except KafkaException as error:
            raise from_exception(error, log_range_of(self._partition)) from error
        return low, high

    def _handle(self) -> Consumer:
        return self._client.consumer


def log_range_of(partition: TopicPartition) -> str:
    """What is being done when the ends of a log are asked for, for the text of an error."""
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
