"""Search of a log by the leader epochs of its records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.kafka.clients import make_consumer
from pyspark_zkafka.kafka.errors import ErrorReports
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["first_after_epoch", "first_record"]

_POLL_S = 0.1
_ONE_AT_A_TIME: dict[str, Any] = {
    "max.partition.fetch.bytes": 64 * 1024,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
}


def first_after_epoch(
    properties: Mapping[str, Any],
    partition: TopicPartition,
    epoch: int,
    offsets: range,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> int | None:
    """The first of the offsets that was written in a later leader epoch; the end of the range if there is none.

    None if a record has no epoch, as those of Kafka before 0.11. Epochs never decrease along a log, so the search halves
    the range with each record that it fetches; each may take `timeout_s`. `properties` are those of `consumer_properties`.
    Raises as `first_record`.
    """
    reports, (low, high) = ErrorReports(clock), (offsets.start, offsets.stop)
    with closing(make_consumer({**properties, **_ONE_AT_A_TIME}, reports)) as consumer:
        while low < high:
            middle = (low + high) // 2
            offset, found = first_record(consumer, KafkaTopicPartition(*partition, middle), timeout_s, reports, clock)
            if found is not None and found < 0:
                return None
            low, high = (low, middle) if found is None or found > epoch else (offset + 1, high)
    return low


def first_record(
    consumer: Consumer,
    position: KafkaTopicPartition,
    timeout_s: float,
    reports: ErrorReports,
    clock: Callable[[], float],
) -> tuple[int, int | None]:
    """The offset and the leader epoch of the first record from a position on: -1 for one without, None for no record.

    `reports` is the ``error_cb`` of the consumer, which reports the ends of logs. Raises BrokersUnavailable for a record
    that is not fetched in time, and ZKafkaError if the brokers refuse the connection.
    """
    doing = f"searching {position.topic}-{position.partition} for its first record of a leader epoch"
    consumer.assign([position])
    deadline = clock() + timeout_s
    while clock() < deadline:
        message = consumer.poll(_POLL_S)
        found = None if message is None else _epoch(message, position.offset)
        reports.polled(doing, answered=found is not None)
        if found is not None:
            return found
    raise BrokersUnavailable(
        "BROKERS_UNAVAILABLE", f"{doing}: no records from offset {position.offset} on; it will be retried"
    )


def _epoch(message: Message, begin: int) -> tuple[int, int | None] | None:
    """A record's offset and epoch, or None for the epoch at the log's end; None for other errors."""
    if message.error() is None:
        epoch = message.leader_epoch()
        return message.offset(), -1 if epoch is None else epoch
    return (begin, None) if message.error().code() == KafkaError._PARTITION_EOF else None
