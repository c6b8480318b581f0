"""Facts about logs from librdkafka's consumer: the sizes of records, and truncation below a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import MessageClient, make_consumer
from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports, from_exception, truncation
from pyspark_zkafka.brokers.offset_lookups import batches
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import UNREADABLE_HEADERS, read_headers

_POLL_S = 0.1
_SAMPLE_RECORDS = 200
_SAMPLE_BYTES = 1024 * 1024
# A sample needs few records of many partitions. The defaults would fetch far more.
_SMALL_SAMPLE: dict[str, Any] = {
    "max.partition.fetch.bytes": _SAMPLE_BYTES,
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
    with closing(make_consumer({**properties, **_SMALL_SAMPLE}, reports)) as consumer:
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
        for message in _answers(properties, {tp: positions[tp] for tp in some}, deadline, clock, waiting):
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            report = None if message.error() is None else truncation(message.error())
            if report is not None and tp in waiting:
                truncated[tp] = report
            waiting.discard(tp)
        unanswered |= waiting
    return truncated, unanswered


def _answers(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, LogPosition],
    deadline: float,
    clock: Callable[[], float],
    waiting: set[TopicPartition],
) -> Iterator[Message]:
    """Yield messages until no partition is waiting. Pause partitions that have answered, to let the others proceed."""
    with MessageClient({**properties, **_VALIDATION}) as client:
        try:
            client.consumer.assign(
                [KafkaTopicPartition(*tp, p.offset, leader_epoch=p.leader_epoch) for tp, p in positions.items()]
            )
            client.warm_up(next(iter(positions)).topic)
            while waiting and (left_s := deadline - clock()) > 0:
                before = set(waiting)
                yield from client.consumer.consume(_MOST_MESSAGES, min(left_s, _POLL_S))
                client.consumer.pause([KafkaTopicPartition(*tp) for tp in before - waiting])
        except KafkaException as error:
            raise from_exception(error, "looking for truncated logs") from error
