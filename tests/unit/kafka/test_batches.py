"""Requests for offsets."""

from __future__ import annotations

from confluent_kafka import IsolationLevel

from pyspark_zkafka.kafka.batches import batches, offset_requests
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, HIGH_WATERMARK, LATEST, AtTimestamp

PARTITIONS = [TopicPartition("t", number) for number in range(5)]


def test_batches() -> None:
    """A size that divides the number of items leaves no empty batch, and no items are no batch."""
    assert list(batches([1, 2, 3, 4], 2)) == [[1, 2], [3, 4]]
    assert list(batches([], 2)) == []


def test_sizes() -> None:
    """Each partition is in one request, none of which is too large."""
    requests = list(offset_requests(dict.fromkeys(PARTITIONS, LATEST), 2, read_committed=False))
    assert [list(specs) for _, specs in requests] == [PARTITIONS[:2], PARTITIONS[2:4], PARTITIONS[4:]]
    assert {level for level, _ in requests} == {IsolationLevel.READ_UNCOMMITTED}


def test_isolation_levels() -> None:
    """Of a client that reads committed records, only a high watermark is requested uncommitted."""
    positions = dict(zip(PARTITIONS, [LATEST, HIGH_WATERMARK, EARLIEST, AtTimestamp(7)], strict=False))
    requests = dict(offset_requests(positions, 100, read_committed=True))
    assert list(requests[IsolationLevel.READ_COMMITTED]) == [PARTITIONS[0], PARTITIONS[2], PARTITIONS[3]]
    assert list(requests[IsolationLevel.READ_UNCOMMITTED]) == [PARTITIONS[1]]


def test_positions() -> None:
    """Each position is requested by its own timestamp, -2 for the earliest and -1 for the latest."""
    positions = dict(zip(PARTITIONS, [EARLIEST, LATEST, HIGH_WATERMARK, AtTimestamp(7)], strict=False))
    ((_, specs),) = offset_requests(positions, 100, read_committed=False)
    assert [spec._value for spec in specs.values()] == [-2, -1, -1, 7]
