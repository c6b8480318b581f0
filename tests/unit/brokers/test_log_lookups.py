"""Lookups in logs: requests for offsets, bulk lookups, truncation, and sizes of records, from librdkafka's mock cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import consumer_properties, make_consumer
from pyspark_zkafka.brokers.log_lookups import (
    LogPosition,
    batches,
    find_truncated,
    find_watermarks,
    lookup_client,
    offset_requests,
    sample_record_bytes,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, HIGH_WATERMARK, LATEST, AtTimestamp
from pyspark_zkafka.options.batch import parse_connection

POSITIONS = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): EARLIEST}


class FakeClient:
    """A client whose partition 0 ends at 5; partition 1 is answered with `second`, or left as it was requested.

    New metadata changes `second` to `refreshed`.
    """

    def __init__(self, second: int | Exception | None, refreshed: int | Exception | None = None) -> None:
        self.second = second
        self.refreshed = refreshed
        self.refreshes: list[tuple[str, ...]] = []
        self.consumer = self

    def warm_up(self, topic: str) -> None:
        assert topic == "t"

    def list_topics(self, *topic: str, timeout: float) -> None:
        assert timeout > 0
        self.refreshes.append(topic)
        self.second = self.refreshed

    def offsets_for_times(self, partitions: list[Any], timeout: float) -> list[Any]:
        assert [partition.offset for partition in partitions] == [-1, -2]
        if isinstance(self.second, Exception):
            raise self.second
        second = partitions[1].offset if self.second is None else self.second
        return [KafkaTopicPartition("t", 0, 5), KafkaTopicPartition("t", 1, second)]


def test_all_answered() -> None:
    """A bulk lookup returns all offsets if all leaders answer."""
    assert find_watermarks(FakeClient(0), POSITIONS, 2, {}, 1_000) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


@pytest.mark.parametrize("second", [None, -1001, KafkaException(KafkaError(KafkaError._TIMED_OUT))])
def test_not_all_answered(second: int | Exception | None) -> None:
    """A bulk lookup returns None if a partition has no answer, or if the request failed."""
    assert find_watermarks(FakeClient(second), POSITIONS, 2, {}, 1_000) is None


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_outdated_metadata(code: int) -> None:
    """If no leader is known, the request is repeated once with new metadata."""
    unknown = KafkaException(KafkaError(code))
    client = FakeClient(unknown, refreshed=0)
    assert find_watermarks(client, POSITIONS, 2, {}, 1_000) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
    client = FakeClient(unknown, refreshed=unknown)
    assert find_watermarks(client, POSITIONS, 2, {}, 1_000) is None
    assert client.refreshes == [("t",)]


def test_not_open() -> None:
    """A client outside its with block is refused."""
    with pytest.raises(RuntimeError, match="with block"):
        find_watermarks(lookup_client({"bootstrap.servers": "host:1"}, read_committed=False), POSITIONS, 2, {}, 1_000)


PARTITIONS = [TopicPartition("t", number) for number in range(5)]


def test_batches() -> None:
    """Batches are never empty, even if the size divides the number of items or there are no items."""
    assert list(batches([1, 2, 3, 4], 2)) == [[1, 2], [3, 4]]
    assert list(batches([], 2)) == []


def test_sizes() -> None:
    """Each partition is in one request, and no request is too large."""
    requests = list(offset_requests(dict.fromkeys(PARTITIONS, LATEST), 2, read_committed=False))
    assert [list(specs) for _, specs in requests] == [PARTITIONS[:2], PARTITIONS[2:4], PARTITIONS[4:]]
    assert {level for level, _ in requests} == {IsolationLevel.READ_UNCOMMITTED}


def test_isolation_levels() -> None:
    """A client that reads committed records requests only the high watermark uncommitted."""
    positions = dict(zip(PARTITIONS, [LATEST, HIGH_WATERMARK, EARLIEST, AtTimestamp(7)], strict=False))
    requests = dict(offset_requests(positions, 100, read_committed=True))
    assert list(requests[IsolationLevel.READ_COMMITTED]) == [PARTITIONS[0], PARTITIONS[2], PARTITIONS[3]]
    assert list(requests[IsolationLevel.READ_UNCOMMITTED]) == [PARTITIONS[1]]


def test_positions() -> None:
    """Each position is requested with its timestamp, -2 for the earliest and -1 for the latest."""
    positions = dict(zip(PARTITIONS, [EARLIEST, LATEST, HIGH_WATERMARK, AtTimestamp(7)], strict=False))
    ((_, specs),) = offset_requests(positions, 100, read_committed=False)
    assert [spec._value for spec in specs.values()] == [-2, -1, -1, 7]


# --- librdkafka's mock cluster

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
