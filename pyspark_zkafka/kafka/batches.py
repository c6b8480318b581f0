"""Batches of partitions for librdkafka, whose work for an answer grows with the square of the number of its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["MAX_PER_REQUEST", "batches"]

T = TypeVar("T")

MAX_PER_REQUEST = 1_000
"""The number of partitions in a request for offsets: for 10,000, librdkafka would take 0.25 s, but each request has its own
round trip."""


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, `size` at a time; fewer in the last batch.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    for start in range(0, len(items), size):
        yield items[start : start + size]
