"""Numbered rows in topics, and the count of each number for a reader."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["fill_numbered", "numbers", "wait_until_stable"]

_ALL, _COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED


def fill_numbered(cluster: LocalCluster, topic: str, rows: range, partitions: int) -> None:
    """Write a row for each number: value is the number, key its last digit; partitions alternate."""
    records = [{"key": str(n % 10), "value": str(n), "partition": n % partitions} for n in rows]
    cluster.produce(topic, records)


def numbers(servers: str, topic: str, *, committed: bool = True, timeout_s: float = 60) -> Counter[int]:
    """Return how often each number is in a topic, for a reader of committed records or of all records.

    The number is the value up to a colon. Waits until no transaction is open or in completion.
    """
    wait_until_stable(servers, topic, timeout_s)
    level = "read_committed" if committed else "read_uncommitted"
    settings = {"bootstrap.servers": servers, "group.id": "numbers", "isolation.level": level, "fetch.wait.max.ms": 10}
    found: Counter[int] = Counter()
    with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
        left = set(_partitions(consumer, topic))
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        end = time.monotonic() + timeout_s
        while left:
            assert time.monotonic() < end, f"{topic} has not been read after {timeout_s:g} s"
            for message in consumer.consume(5000, 0.2):
                if message.error() is None:
                    found[int(message.value().split(b":")[0])] += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    return found


def wait_until_stable(servers: str, topic: str, timeout_s: float = 60) -> None:
    """Wait until the last stable offset of each partition equals its high watermark."""
    with AdminClient({"bootstrap.servers": servers}) as admin:
        end = time.monotonic() + timeout_s
        while (stable := _latest(admin, topic, _COMMITTED)) != (every := _latest(admin, topic, _ALL)):
            assert time.monotonic() < end, f"{topic} has open transactions: {stable} of {every}"
            time.sleep(0.05)


def _latest(admin: AdminClient, topic: str, level: IsolationLevel) -> dict[int, int]:
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in _partitions(admin, topic)}
    found = admin.list_offsets(asked, isolation_level=level)
    return {tp.partition: future.result(30).offset for tp, future in found.items()}


def _partitions(client: AdminClient | Consumer, topic: str) -> list[int]:
    return list(client.list_topics(topic, timeout=30).topics[topic].partitions)
