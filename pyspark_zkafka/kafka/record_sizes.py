"""Mean record size of partitions, from a sample of their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import chain
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.clients import make_consumer
from pyspark_zkafka.kafka.errors import ErrorReports
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import UNREADABLE_HEADERS

__all__ = ["sample_record_bytes"]

_SAMPLE_RECORDS = 200
_SAMPLE_BYTES = 1024 * 1024
_POLL_S = 0.1
# Few records are needed, of many partitions: the defaults would fetch far more.
_FEW: dict[str, Any] = {
    "max.partition.fetch.bytes": _SAMPLE_BYTES,
    "queued.min.messages": _SAMPLE_RECORDS,
    "queued.max.messages.kbytes": _SAMPLE_BYTES // 1024,
}


def sample_record_bytes(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, int],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[TopicPartition, float]:
    """The mean size of the first records from each position on, in bytes of key, value and headers, uncompressed.

    Partitions of which no record was fetched in time are absent. A record's headers do not count if the name of one is not
    UTF-8. Blocks until about 200 records or 1 MiB of each partition are read, or all that it has, or until the timeout.
    `properties` are those of `consumer_properties`. Raises ZKafkaError if the brokers refuse the connection.
    """
    samples = {tp: _Sample() for tp in positions}
    deadline, reports = clock() + timeout_s, ErrorReports(clock)
    with closing(make_consumer({**properties, **_FEW}, reports)) as consumer:
        consumer.assign([KafkaTopicPartition(*tp, offset) for tp, offset in positions.items()])
        while any(not s.done for s in samples.values()) and (left_s := deadline - clock()) > 0:
            found = consumer.consume(_SAMPLE_RECORDS, min(left_s, _POLL_S))
            for message in found:
                _take(message, samples, consumer)
            reports.polled("sampling the sizes of records", answered=any(map(_is_answer, found)))
    return {tp: s.size_bytes / s.records for tp, s in samples.items() if s.records > 0}


class _Sample:
    """The sample of one partition; `done` when it is large enough, or at the end of the log."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self.done = False

    def add(self, message: Message) -> None:
        self.records += 1
        self.size_bytes += _size(message)
        self.done = self.records >= _SAMPLE_RECORDS or self.size_bytes >= _SAMPLE_BYTES


def _size(message: Message) -> int:
    parts = [message.key(), message.value(), *chain.from_iterable(_headers(message))]
    return sum(len(part) for part in parts if part is not None)


def _is_answer(message: Message) -> bool:
    """True if a broker has answered: with a record, or the end of a log."""
    return message.error() is None or message.error().code() == KafkaError._PARTITION_EOF


def _headers(message: Message) -> list[tuple[bytes, bytes | None]]:
    """Names and values; none if a name is not UTF-8, as a read without the column headers accepts such a record."""
    try:
        [found] = map(Message.headers, [message])
    except UNREADABLE_HEADERS:
        return []
    return [(name.encode(), value) for name, value in found or ()]


def _take(message: Message, samples: Mapping[TopicPartition, _Sample], consumer: Consumer) -> None:
    """Count a record; any other message of a partition, such as the end of its log, completes its sample."""
    sample = samples.get(TopicPartition(message.topic() or "", message.partition()))
    if sample is None or sample.done:
        return
    if message.error() is not None:
        sample.done = True
    else:
        sample.add(message)
    if sample.done:
        consumer.pause([KafkaTopicPartition(message.topic(), message.partition())])
