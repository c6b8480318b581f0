"""Rows of a sink, as a reader of committed records finds them."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.faults.harness.values import digest
from tests.support.numbered_rows import wait_until_stable

__all__ = ["stored_rows"]

_TIMEOUT_S = 120


def stored_rows(servers: str, topic: str) -> dict[str, int]:
    """Return how often each row is in a topic, by the digest of its value.

    Waits until no transaction is open.
    """
    wait_until_stable(servers, topic, _TIMEOUT_S)
    settings = {"bootstrap.servers": servers, "group.id": "sinks", "isolation.level": "read_committed"}
    found: Counter[str] = Counter()
    with closing(Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})) as consumer:
        left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        deadline = time.monotonic() + _TIMEOUT_S
        while left:
            assert time.monotonic() < deadline, f"{topic} is not read after {_TIMEOUT_S} s"
            for message in consumer.consume(5000, 0.2):
                if message.error() is None:
                    found[digest(message.value())] += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    return dict(found)
