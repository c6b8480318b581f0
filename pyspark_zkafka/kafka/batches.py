"""Batches of partitions, and requests for their offsets.

librdkafka's work for an answer grows with the square of the number of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, HIGH_WATERMARK, AtTimestamp, Position

__all__ = ["DEFAULT_SIZES", "LookupSizes", "batches", "offset_requests"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LookupSizes:
    """Numbers of partitions in lookups of offsets.

    Parameters
    ----------
    request : int
        The most in one request: for 10,000, librdkafka would take 0.25 s, but each request has its own round trip.
    bulk : int
        The fewest for which a second connection to the brokers pays.
    """

    request: int = 1_000
    bulk: int = 1_000


DEFAULT_SIZES = LookupSizes()


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, `size` at a time; fewer in the last batch.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    for start in range(0, len(items), size):
        yield items[start : start + size]


def offset_requests(
    positions: Mapping[TopicPartition, Position], size: int, *, read_committed: bool
) -> Iterator[tuple[IsolationLevel, dict[TopicPartition, OffsetSpec]]]:
    """The offsets to request, by partition, in requests of one isolation level and of at most `size` partitions.

    With `read_committed` the latest offset is the last stable one, and only the high watermark is that of the whole log.
    """
    specs = {position: _spec(position) for position in set(positions.values())}
    for committed in (True, False):
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        partitions = [tp for tp, p in positions.items() if committed == (read_committed and p != HIGH_WATERMARK)]
        for batch in batches(partitions, size):
            yield level, {tp: specs[positions[tp]] for tp in batch}


def _spec(position: Position) -> OffsetSpec:
    if isinstance(position, AtTimestamp):
        return OffsetSpec.for_timestamp(position.timestamp_ms)
    return OffsetSpec.earliest() if position == EARLIEST else OffsetSpec.latest()
