"""Search of a log by the leader epochs of its records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.kafka.errors import REFUSED_FOR_S, ErrorReports, from_exception
from pyspark_zkafka.kafka.log import librdkafka_logger
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["EpochReader", "first_after_epoch"]

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
    """The first offset that was written in a later leader epoch; the end of the range if there is none.

    Epochs never decrease along a log, so the search halves the range with each record that it fetches.

    Parameters
    ----------
    properties : mapping
        Those of `consumer_properties`.
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
        A record was not fetched in time.
    ZKafkaError
        The brokers refuse the connection.
    """
    reports = ErrorReports(clock)
    try:
        consumer = Consumer({**properties, **_ONE_AT_A_TIME, "error_cb": reports}, logger=librdkafka_logger())
    except KafkaException as error:
        raise from_exception(error, "making a consumer") from error
    try:
        return _search(EpochReader(consumer, partition, reports, clock), epoch, offsets, timeout_s)
    finally:
        consumer.close()


class EpochReader:
    """Leader epochs of single records of a partition.

    Parameters
    ----------
    consumer : confluent_kafka.Consumer
        One that reports the ends of logs.
    reports : ErrorReports
        The consumer's ``error_cb``.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        consumer: Consumer,
        partition: TopicPartition,
        reports: ErrorReports,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._partition = partition
        self._reports = reports
        self._clock = clock
        self._doing = f"searching {partition} for its first record of a leader epoch"

    def first_from(self, begin: int, timeout_s: float) -> tuple[int, int | None]:
        """The offset and the leader epoch of the first record from an offset on: -1 for one without, None for no record.

        Blocks for `timeout_s` at the most; raises as `first_after_epoch`.
        """
        self._consumer.assign([KafkaTopicPartition(self._partition.topic, self._partition.partition, begin)])
        deadline = self._clock() + timeout_s
        while self._clock() < deadline:
            message = self._consumer.poll(_POLL_S)
            if message is not None and (found := _epoch(message, begin)) is not None:
                self._reports.answered()
                self._reports.begin()
                return found
            if (refusal := self._reports.refusal(self._doing, REFUSED_FOR_S)) is not None:
                raise refusal
        raise BrokersUnavailable(
            "BROKERS_UNAVAILABLE", f"{self._doing}: no records from offset {begin} on; it will be retried"
        )


def _search(reader: EpochReader, epoch: int, offsets: range, timeout_s: float) -> int | None:
    low, high = offsets.start, offsets.stop
    while low < high:
        middle = (low + high) // 2
        offset, found = reader.first_from(middle, timeout_s)
        if found is not None and found < 0:
            return None
        low, high = (low, middle) if found is None or found > epoch else (offset + 1, high)
    return low


def _epoch(message: Message, begin: int) -> tuple[int, int | None] | None:
    """A record's offset and epoch, or None for the epoch at the log's end; None for other errors."""
    if message.error() is None:
        epoch = message.leader_epoch()
        return message.offset(), -1 if epoch is None else epoch
    return (begin, None) if message.error().code() == KafkaError._PARTITION_EOF else None
