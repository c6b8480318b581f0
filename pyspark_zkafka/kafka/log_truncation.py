"""Logs that were truncated below a position, found by the leader epoch that they had."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.kafka.clients import MessageClient
from pyspark_zkafka.kafka.errors import from_exception, truncation
from pyspark_zkafka.kafka.offset_lookups import batches
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["LogPosition", "find_truncated"]

_POLL_S = 0.1
_MOST_MESSAGES = 1_000
_MOST_PARTITIONS = 500
# A record only proves that the position is valid. All records count: those of open transactions are a part of the log.
_FEW: dict[str, Any] = {
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": 16 * 1024,
    "queued.min.messages": 1,
}


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
    """The logs truncated below a position since, with librdkafka's reports, and those whose brokers did not answer.

    Blocks until all have, or until the timeout. Brokers before Kafka 2.1 do not support it: nothing is found. `properties`
    are those of `consumer_properties`. Raises ZKafkaError if a consumer cannot be created.

    References
    ----------
    KIP-320. librdkafka validates a position that is assigned with its epoch when it first receives the partition's leader:
    so each consumer is new, and is assigned once.
    """
    deadline = clock() + timeout_s
    truncated: dict[TopicPartition, str] = {}
    silent: set[TopicPartition] = set()
    for some in batches(list(positions), _MOST_PARTITIONS):
        waiting = set(some)
        for message in _answers(properties, {tp: positions[tp] for tp in some}, deadline, clock, waiting):
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            report = None if message.error() is None else truncation(message.error())
            if report is not None and tp in waiting:
                truncated[tp] = report
            waiting.discard(tp)
        silent |= waiting
    return truncated, silent


def _answers(
    properties: Mapping[str, Any],
    positions: Mapping[TopicPartition, LogPosition],
    deadline: float,
    clock: Callable[[], float],
    waiting: set[TopicPartition],
) -> Iterator[Message]:
    """Messages of the partitions until none is waiting; one that has answered is paused, to let the others proceed."""
    with MessageClient({**properties, **_FEW}) as client:
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
