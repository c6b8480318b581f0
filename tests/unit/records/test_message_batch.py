"""The number of messages that the consumer in pure Python requests: memory is bounded before a record's size is known."""

from __future__ import annotations

from pyspark_zkafka.records.librdkafka_consumer import MessageBatch
from tests.support.split_logs import OFFSETS, FakeMessage

MIB = 1024 * 1024


def requests(size: int, count: int, most_records: int = 1_000_000, most_bytes: int = 8 * MIB) -> list[int]:
    """The requests for messages of one size."""
    batch = MessageBatch(OFFSETS)
    made: list[int] = []
    for _ in range(count):
        made.append(batch.request_size(most_records, most_bytes))
        batch.add([FakeMessage(offset, size) for offset in range(made[-1])], 1_000_000)
    return made


def test_large_records() -> None:
    """Of records of unknown size some are requested, then as many as there is room for, and one at the least."""
    assert requests(MIB, 3) == [16, 8, 8]
    assert requests(100 * MIB, 3) == [16, 1, 1]


def test_small_records() -> None:
    """Requests grow up to a limit, so that records that are suddenly large are not requested by the thousand."""
    assert requests(100, 6) == [16, 64, 256, 1_000, 1_000, 1_000]
    assert requests(100, 4, most_records=50) == [16, 50, 50, 50]
    assert requests(100, 1, most_records=3) == [3]


def test_records_that_grow() -> None:
    """Where records become large, the next request is for as many as there is room for."""
    batch = MessageBatch(OFFSETS)
    batch.add([FakeMessage(offset, 100) for offset in range(16)], 1_000_000)
    assert batch.request_size(1_000_000, 8 * MIB) == 64
    batch.add([FakeMessage(offset, MIB) for offset in range(16, 80)], 1_000_000)
    assert batch.request_size(1_000_000, 8 * MIB) == 8
