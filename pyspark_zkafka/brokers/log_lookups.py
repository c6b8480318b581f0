"""Lookups in many logs at once: offsets, the sizes of records, and truncation below a position.

librdkafka's work for an answer grows with the square of the number of its partitions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient, make_consumer
from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports, kafka_errors, truncation
from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Position
from pyspark_zkafka.model.records import UNREADABLE_HEADERS, read_headers

T = TypeVar("T")
_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
_TIMESTAMPS: dict[Position, int] = {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}

_POLL_S = 0.1
_SAMPLE_RECORDS = 200
_SAMPLE_BYTES = 1024 * 1024
# A sample needs few records of many partitions. The defaults would fetch far more, and each record takes a KB in memory.
_SMALL_SAMPLE: dict[str, Any] = {
    "max.partition.fetch.bytes": 64 * 1024,
    "queued.min.messages": _SAMPLE_RECORDS,
    "queued.max.messages.kbytes": _SAMPLE_BYTES // 1024,
}

_MOST_MESSAGES = 1_000
_MOST_PARTITIONS = 500
# A record only proves that the position is valid, so records of open transactions count, too.
_VALIDATION: dict[str, Any] = {
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": 16 * 1024,
    "queued.min.messages": 1,
}


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, `size` at a time, or fewer in the last batch.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    for start in range(0, len(items), size):
        yield items[start : start + size]


def sample_record_bytes(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, int],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[TopicPartition, float]:
    """The mean size of the first records at each position, in uncompressed bytes of key, value and headers.

    Partitions without a record before the timeout are absent. Headers do not count if the name of one is not UTF-8. Blocks
    until each partition has about 200 records or 1 MiB, or its log ends, or until the timeout. `properties` are from
    `consumer_properties`. Raises ZKafkaError if the brokers refuse the connection.
    """
    samples = {tp: _Sample() for tp in positions}
    deadline, reports = clock() + timeout_s, ErrorReports(clock)
    # librdkafka requires that a message fits.
    fetch_bytes = min(max(_SAMPLE_BYTES, int(properties.get("message.max.bytes", 0))), int(properties["fetch.max.bytes"]))
    with closing(make_consumer({**properties, **_SMALL_SAMPLE, "fetch.max.bytes": fetch_bytes}, reports)) as consumer:
        consumer.assign([KafkaTopicPartition(*tp, offset) for tp, offset in positions.items()])
        while any(not s.done for s in samples.values()) and (left_s := deadline - clock()) > 0:
            found = consumer.consume(_SAMPLE_RECORDS, min(left_s, _POLL_S))
            for message in found:
                _take(message, samples, consumer)
            reports.polled("sampling the sizes of records", answered=any(map(_is_answer, found)))
    return {tp: s.size_bytes / s.records for tp, s in samples.items() if s.records > 0}


class _Sample:
    """The sample of one partition. `done` if it is large enough, or at the end of the log."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.done = False

    def add(self, message: Message) -> None:
        self.records += 1
        parts = [message.key(), message.value(), *chain.from_iterable(_headers(message))]
        self.size_bytes += sum(len(part) for part in parts if part is not None)
        self.done = self.records >= _SAMPLE_RECORDS or self.size_bytes >= _SAMPLE_BYTES


def _is_answer(message: Message) -> bool:
    """True if a broker has answered: with a record, or the end of a log."""
    return message.error() is None or message.error().code() == KafkaError._PARTITION_EOF


def _headers(message: Message) -> list[tuple[bytes, bytes | None]]:
    """Names and values. Empty if a name is not UTF-8: a read without the column headers accepts such records."""
    try:
        return [(name.encode(), value) for name, value in read_headers(message)]
    except UNREADABLE_HEADERS:
        return []


def _take(message: Message, samples: Mapping[TopicPartition, _Sample], consumer: Consumer) -> None:
    """Count a record. Any other message, such as the end of the log, completes the partition's sample."""
    sample = samples.get(TopicPartition(message.topic() or "", message.partition()))
    if sample is None or sample.done:
        return
    if message.error() is not None:
        sample.done = True
    else:
        sample.add(message)
    if sample.done:
        consumer.pause([KafkaTopicPartition(message.topic(), message.partition())])


def find_without_records(
    properties: Mapping[str, Any],
    ranges: Sequence[OffsetRange],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[OffsetRange]:
    """The ranges that hold no record: only markers of transactions, or gaps. A range without an answer in time is absent.

    Blocks until all have answered, or until the timeout. `properties` are from `consumer_properties`. Raises ZKafkaError if
    the brokers refuse the connection.
    """
    waiting, empty = {found.partition: found for found in ranges}, list[OffsetRange]()
    deadline, reports = clock() + timeout_s, ErrorReports(clock)
    with closing(make_consumer({**properties, **_SMALL_SAMPLE}, reports)) as consumer:
        consumer.assign([KafkaTopicPartition(*found.partition, found.start) for found in ranges])
        while waiting and (left_s := deadline - clock()) > 0:
            messages = consumer.consume(_SAMPLE_RECORDS, min(left_s, _POLL_S))
            for message in messages:
                found = waiting.pop(TopicPartition(message.topic() or "", message.partition() or 0), None)
                if found is not None and _is_answer(message) and (message.offset() or 0) >= found.until:
                    empty.append(found)
            reports.polled("looking for records that are left", answered=any(map(_is_answer, messages)))
    return empty


class LogPosition(NamedTuple):
    """An offset in a log, and the leader epoch of the log when it contained all records before the offset."""

    offset: int
    leader_epoch: int


def find_truncated(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, LogPosition],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[dict[TopicPartition, str], set[TopicPartition]]:
    """The logs truncated below their position, with librdkafka's reports, and the logs without an answer.

    Blocks until all have answered, or until the timeout. Brokers before Kafka 2.1 (KIP-320) report no truncation.
    `properties` are from `consumer_properties`. Raises ZKafkaError if a consumer cannot be created.

    librdkafka validates an assigned position only when it first receives the partition's leader. Each consumer is therefore
    new, and is assigned once.
    """
    deadline = clock() + timeout_s
    truncated: dict[TopicPartition, str] = {}
    unanswered: set[TopicPartition] = set()
    for some in batches(list(positions), _MOST_PARTITIONS):
        waiting = set(some)
        for message in _poll_positions(properties, {tp: positions[tp] for tp in some}, deadline, clock, waiting):
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            report = None if message.error() is None else truncation(message.error())
            if report is not None and tp in waiting:
                truncated[tp] = report
            waiting.discard(tp)
        unanswered |= waiting
    return truncated, unanswered


def _poll_positions(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, LogPosition],
    deadline: float,
    clock: Callable[[], float],
    waiting: set[TopicPartition],
) -> Iterator[Message]:
    """Yield messages until no partition is waiting. Pause partitions that have answered, to let the others proceed."""
    if clock() >= deadline:
        return
    with MessageClient({**properties, **_VALIDATION}) as client, kafka_errors("looking for truncated logs"):
        client.consumer.assign(
            [KafkaTopicPartition(*tp, p.offset, leader_epoch=p.leader_epoch) for tp, p in positions.items()]
        )
        client.warm_up(next(iter(positions)).topic)
        while waiting and (left_s := deadline - clock()) > 0:
            before = set(waiting)
            yield from client.consumer.consume(_MOST_MESSAGES, min(left_s, _POLL_S))
            client.consumer.pause([KafkaTopicPartition(*tp) for tp in before - waiting])
