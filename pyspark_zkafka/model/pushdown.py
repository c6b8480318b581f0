"""Pushed-down filters, by which a plan leaves out partitions and offsets that cannot match.

The engine evaluates every filter again on the rows. Filters on timestamps are left to the engine: brokers may not find a
record by its timestamp if records without a timestamp, from before Kafka 0.10, precede it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition

Operator = Literal["=", "in", ">", ">=", "<", "<="]

_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "in": lambda candidate, values: candidate in values,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A filter of the form `column operator value`, e.g. ``Comparison("partition", "in", (1, 2))``."""

    column: str
    operator: Operator
    value: Any

    def admits(self, candidate: Any) -> bool:
        """Return True if a value of the column may match. Values that cannot be compared are left to the engine."""
        values = self.value if self.operator == "in" else (self.value,)
        if not all(isinstance(value, type(candidate)) for value in values):
            return True
        return bool(_COMPARE[self.operator](candidate, self.value))


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """The restrictions of a read by pushed-down filters.

    `comparisons` concern the columns topic and partition. Only offsets in ``[from_offset, until_offset)`` can match.
    """

    comparisons: tuple[Comparison, ...] = ()
    from_offset: int | None = None
    until_offset: int | None = None

    def admits(self, partition: TopicPartition) -> bool:
        """Return True if the partition can contain a matching record."""
        columns = {"topic": partition.topic, "partition": partition.partition}
        return all(c.admits(columns[c.column]) for c in self.comparisons)

    def cut(self, whole: OffsetRange) -> OffsetRange:
        """Return the part of a range that can match."""
        start = max(whole.start, self.from_offset or 0)
        until = whole.until if self.until_offset is None else min(whole.until, self.until_offset)
        return OffsetRange(whole.partition, start, max(start, until))


def pushed_filters(comparisons: Iterable[Comparison]) -> PushedFilters:
    """Combine filters that must all match."""
    by_column: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_column.setdefault(comparison.column, []).append(comparison)
    offsets = [bounds for c in by_column.get("offset", []) if (bounds := _offset_bounds(c)) is not None]
    return PushedFilters(
        comparisons=tuple(by_column.get("topic", []) + by_column.get("partition", [])),
        from_offset=max((low for low, _ in offsets if low is not None), default=None),
        until_offset=min((high for _, high in offsets if high is not None), default=None),
    )


def _offset_bounds(c: Comparison) -> tuple[int | None, int | None] | None:
    """Return the half-open bounds of offsets for a comparison; None if a value is not an integer, or without values."""
    values = c.value if c.operator == "in" else (c.value,)
    if not values or not all(isinstance(v, int) for v in values):
        return None
    if c.operator in ("=", "in"):
        return min(values), max(values) + 1
    if c.operator in (">", ">="):
        return c.value + (c.operator == ">"), None
    return None, c.value + (c.operator == "<=")
