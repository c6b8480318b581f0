"""Rates of a group and of its logs, and the time in which the group catches up, from two observations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.operations.group_state import PartitionDescription

__all__ = ["Observation", "Progress", "progress", "total"]

_LEAST_GAIN_PER_S = 0.001  # below it, a difference of rates is noise


@dataclass(frozen=True, slots=True)
class Observation:
    """Descriptions at a time, in seconds of a monotonic clock."""

    time_s: float
    rows: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The rates of a partition, in records per second; None where an observation lacks the offset.

    `consumed_per_s` is negative if the offset was moved back.
    """

    lag: int | None = None
    consumed_per_s: float | None = None
    produced_per_s: float | None = None

    @property
    def catch_up_s(self) -> float | None:
        """The time until the lag is 0 at these rates; None if it does not shrink, or is unknown.

        >>> Progress(lag=900, consumed_per_s=40.0, produced_per_s=10.0).catch_up_s
        30.0
        """
        if self.lag is not None and self.lag <= 0:
            return 0.0
        if self.lag is None or self.consumed_per_s is None or self.produced_per_s is None:
            return None
        gain = self.consumed_per_s - self.produced_per_s
        return self.lag / gain if gain >= _LEAST_GAIN_PER_S else None


def progress(first: Observation, last: Observation) -> list[Progress]:
    """The progress of each row of the last observation, in its order, since the first one."""
    earlier = {_place(row): row for row in first.rows}
    elapsed_s = last.time_s - first.time_s
    return [_progress(earlier.get(_place(row)), row, elapsed_s) for row in last.rows]


def total(partitions: Iterable[Progress]) -> Progress:
    """The sums over partitions; None where a part is unknown.

    The lag that is 0 in one partition does not make up for another: the time to catch up is an estimate for the whole.
    """
    found = list(partitions)
    return Progress(
        _sum(p.lag for p in found), _sum(p.consumed_per_s for p in found), _sum(p.produced_per_s for p in found)
    )


def _place(row: PartitionDescription) -> tuple[object, ...]:
    return row.group, row.topic, row.partition


def _progress(before: PartitionDescription | None, row: PartitionDescription, elapsed_s: float) -> Progress:
    if before is None or elapsed_s <= 0:
        return Progress(row.lag)
    return Progress(
        row.lag,
        _rate(before.current_offset, row.current_offset, elapsed_s),
        _rate(before.log_end_offset, row.log_end_offset, elapsed_s),
    )


def _rate(before: int | None, now: int | None, elapsed_s: float) -> float | None:
    return None if before is None or now is None else (now - before) / elapsed_s


def _sum(values: Iterable[float | None]) -> Any:
    found = list(values)
    return None if None in found or not found else sum(filter(None, found))
