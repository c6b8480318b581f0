"""Lookups in logs: truncation, and sizes of records, from librdkafka's mock cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError

from pyspark_zkafka.brokers.clients import consumer_properties, make_consumer
from pyspark_zkafka.brokers.log_lookups import (
    LogPosition,
    batches,
    find_truncated,
    sample_record_bytes,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection


def test_batches() -> None:
    """Batches are never empty, even if the size divides the number of items or there are no items."""
    assert list(batches([1, 2, 3, 4], 2)) == [[1, 2], [3, 4]]
    assert list(batches([], 2)) == []


CONNECTION = parse_connection({"kafka.bootstrap.servers": "mock"})
T0, T1, EMPTY = (TopicPartition("t", number) for number in range(3))


def test_truncated(servers: str) -> None:
    """A log was truncated if it ends before a position of the same epoch. An empty log was not."""
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


def test_no_client_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout, no further client is opened: each one blocks for up to a second."""
    seconds, opened = count(step=10), []

    def make(*given: object) -> Consumer:
        opened.append(given)
        return make_consumer(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("pyspark_zkafka.brokers.clients.make_consumer", make)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    positions = {TopicPartition("t", number): LogPosition(3, 0) for number in range(1_501)}
    found = find_truncated(properties, positions, 15, clock=lambda: float(next(seconds)))
    assert found == ({}, positions.keys())
    assert len(opened) == 1


def test_mean_sizes(servers: str) -> None:
    """Keys and values count; a partition without records has no mean, and does not delay the others."""
    began = time.monotonic()
    found = sample_record_bytes(consumer_properties(CONNECTION, servers, "g"), {T0: 0, T1: 3, EMPTY: 0}, 30)
    assert found == {T0: 4.0, T1: 4.0}
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("kafka", "fetch_bytes"),
    [
        ({}, 1_048_576),
        ({"kafka.message.max.bytes": "2000000"}, 2_000_000),
        ({"kafka.fetch.max.bytes": "1000000"}, 1_000_000),
    ],
)
def test_a_sample_takes_little_memory(monkeypatch: pytest.MonkeyPatch, kafka: dict[str, str], fetch_bytes: int) -> None:
    """A broker's response to a sample has 1 MiB at most, or what librdkafka requires for the user's settings."""
    requested = []

    def make(properties: Mapping[str, Any], note: Callable[[KafkaError], None]) -> Consumer:
        requested.append(properties["fetch.max.bytes"])
        return make_consumer(properties, note)

    monkeypatch.setattr("pyspark_zkafka.brokers.log_lookups.make_consumer", make)
    connection = parse_connection({"kafka.bootstrap.servers": "127.0.0.1:1", **kafka})
    assert sample_record_bytes(consumer_properties(connection, "127.0.0.1:1", "g"), {}, 0) == {}
    assert requested == [fetch_bytes]


def test_timeout(servers: str) -> None:
    """A sample ends at its time-out."""
    seconds = count(step=10)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    assert sample_record_bytes(properties, {T0: 0}, 15, clock=lambda: float(next(seconds))) == {}
    assert next(seconds) == 30  # 0 at the start, 10 before the only poll, and 20
