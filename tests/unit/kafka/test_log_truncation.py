"""Truncated logs, from librdkafka's mock cluster."""

from __future__ import annotations

from itertools import count

from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.kafka.log_probes import LogPosition, find_truncated
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import TopicPartition

CONNECTION = parse_connection({"kafka.bootstrap.servers": "mock"})
T0, T1, EMPTY = (TopicPartition("t", number) for number in range(3))


def test_truncated(servers: str) -> None:
    """A log that ends before a position of the same epoch was truncated; one that contains it, or is empty, was not."""
    positions = {T0: LogPosition(3, 0), T1: LogPosition(50, 0), EMPTY: LogPosition(0, 0)}
    truncated, silent = find_truncated(consumer_properties(CONNECTION, servers, "g"), positions, 30)
    assert list(truncated) == [T1]
    assert "broker end offset is 5" in truncated[T1]
    assert not silent


def test_no_answer() -> None:
    """Partitions whose brokers do not answer in time are silent, and not truncated."""
    seconds = count(step=10)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    found = find_truncated(properties, {T0: LogPosition(3, 0)}, 15, clock=lambda: float(next(seconds)))
    assert found == ({}, {T0})
