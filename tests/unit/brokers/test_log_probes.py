"""Truncated logs and samples of records, from librdkafka's mock cluster."""

from __future__ import annotations

from itertools import count

from pyspark_zkafka.brokers.consumer_properties import consumer_properties
from pyspark_zkafka.brokers.log_probes import LogPosition, find_truncated, sample_record_bytes
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection

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
    """Partitions whose brokers do not answer in time are reported as silent, not as truncated."""
    seconds = count(step=10)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    found = find_truncated(properties, {T0: LogPosition(3, 0)}, 15, clock=lambda: float(next(seconds)))
    assert found == ({}, {T0})


def test_mean_sizes(servers: str) -> None:
    """Keys and values count; a partition without records has no mean, and does not delay the others."""
    found = sample_record_bytes(consumer_properties(CONNECTION, servers, "g"), {T0: 0, T1: 3, EMPTY: 0}, 30)
    assert found == {T0: 4.0, T1: 4.0}


def test_timeout(servers: str) -> None:
    """A sample ends at its time-out."""
    seconds = count(step=10)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    assert sample_record_bytes(properties, {T0: 0}, 5, clock=lambda: float(next(seconds))) == {}
