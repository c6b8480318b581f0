"""Search of a log by the leader epochs of its records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.kafka.errors import REFUSED_FOR_S, Reports, from_exception
from pyspark_zkafka.kafka.log import librdkafka_logger
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["first_after_epoch"]

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
    """The first offset that was written in a later leader epoch; the end of the range if none was.

    Epochs never fall along a log, so the search halves the range with each record that it fetches.

    Parameters
    ----------
    properties : mapping
        As `consumer_properties` makes them.
    offsets : range
        The log, or the part of it to search.
    timeout_s : float
        For each of the records.

    Returns
    -------
    int or None
        None if a record has no epoch, as those of Kafka before 0.11.

    Raises
    ------
    BrokersUnavailable
        A record did not come in time.
    ZKafkaError
        The brokers refuse us.
    """
    reports, (low, high) = Reports(), (offsets.start, offsets.stop)
    try:
        consumer = Consumer({**properties, **_ONE_AT_A_TIME, "error_cb": reports}, logger=librdkafka_logger())
    except KafkaException as error:
        raise from_exception(error, "making a consumer") from error
    try:
        while low < high:
            middle = (low + high) // 2
            offset, found = _first_from(consumer, partition, middle, reports, clock() + timeout_s, clock)
            if found is not None and found < 0:
                return None
            low, high = (low, middle) if found is None or found > epoch else (offset + 1, high)
        return low
    finally:
        consumer.close()


def _first_from(
    consumer: Consumer, partition: TopicPartition, begin: int, reports: Reports, deadline: float, clock: Callable[[], float]
) -> tuple[int, int | None]:
    """The offset and the leader epoch of the first record from an offset on: -1 for one without, None for no record."""
    doing = f"searching {partition} for its first record of a leader epoch"
    consumer.assign([KafkaTopicPartition(partition.topic, partition.partition, begin)])
    while clock() < deadline:
        message = consumer.poll(_POLL_S)
        if (refusal := reports.refusal(doing, REFUSED_FOR_S)) is not None:
            raise refusal
        if message is not None and message.error() is None:
            epoch = message.leader_epoch()
            return message.offset(), -1 if epoch is None else epoch
        if message is not None and message.error().code() == KafkaError._PARTITION_EOF:
            return begin, None
    raise BrokersUnavailable("BROKERS_UNAVAILABLE", f"{doing}: no records from offset {begin} on; it is tried again")
