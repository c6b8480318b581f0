"""Check of resources over time: whether memory, threads, file handles, watches and connections stay flat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.faults.harness.history import History, Ready, Sample

__all__ = ["LIMITS", "Growth", "Limit", "growth", "growths", "is_flat"]


@dataclass(frozen=True)
class Limit:
    """The growth that counts as no leak: a share of the first third's median or an amount, whichever is more."""

    share: float
    amount: float


LIMITS = {
    "rss_mb": Limit(0.25, 40),
    "threads": Limit(0.25, 6),
    "file_handles": Limit(0.25, 12),
    # Of a process that also runs tasks: up to eight idle clients of these come and go.
    "threads_with_tasks": Limit(0.25, 72),
    "file_handles_with_tasks": Limit(0.25, 108),
    "watches": Limit(0.25, 12),
    "connections": Limit(0.25, 8),
}
_LEAST_SAMPLES = 36  # three minutes


@dataclass(frozen=True)
class Growth:
    """The median of a figure in the first and in the last third of its samples."""

    subject: str
    figure: str
    first: float
    last: float
    flat: bool

    def __str__(self) -> str:
        return f"{self.subject}: {self.figure} grew from {self.first:g} to {self.last:g}"


def is_flat(values: Sequence[float], limit: Limit) -> bool:
    """Return whether a figure stays flat: its last third is not above its first by more than the limit.

    Compares medians, because a restart or a garbage collection moves single samples. Few samples always count as flat.

    >>> is_flat([100, 101, 99] * 20, Limit(0.1, 5)), is_flat(range(100, 160), Limit(0.1, 5))
    (True, False)
    """
    if len(values) < _LEAST_SAMPLES:
        return True
    first, last = _thirds(values)
    return last - first <= max(limit.share * first, limit.amount)


def growth(subject: str, figure: str, values: Sequence[float], limit: Limit) -> Growth:
    """Return the growth of one figure."""
    return Growth(subject, figure, *_thirds(values), is_flat(values, limit))


def growths(history: History) -> list[Growth]:
    """Return the growth of each subject's figures once all members were ready, in order, without figures of few samples."""
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    begin = max((ready.at for ready in history.of(Ready)), default=0.0)
    for sample in (sample for sample in history.of(Sample) if sample.at >= begin):
        for figure, value in sample.figures:
            if figure in LIMITS:
                series[sample.subject, figure].append(value)
    return [
        growth(subject, figure, values, LIMITS[figure])
        for (subject, figure), values in sorted(series.items())
        if len(values) >= _LEAST_SAMPLES
    ]


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    third = max(1, len(values) // 3)
    return median(values[:third]), median(values[-third:])
