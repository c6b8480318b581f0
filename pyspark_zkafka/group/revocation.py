"""Partitions that a member is to give away, and keeps while they are being read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["Holds"]


class Holds:
    """What is being read, and until when that is waited for.

    Parameters
    ----------
    longest_s : float
        How long a partition is kept at the most.
    clock : callable
        Monotonic seconds.

    Examples
    --------
    >>> one, two = TopicPartition("t", 1), TopicPartition("t", 2)
    >>> now = 0.0
    >>> holds = Holds(10, lambda: now)
    >>> holds.reading = {one}
    >>> holds.part({one, two})
    ({TopicPartition(topic='t', partition=2)}, set())
    >>> now = 10.0
    >>> holds.part({one})
    ({TopicPartition(topic='t', partition=1)}, {TopicPartition(topic='t', partition=1)})
    """

    def __init__(self, longest_s: float, clock: Callable[[], float]) -> None:
        self._longest_s = longest_s
        self._clock = clock
        self._until: dict[TopicPartition, float] = {}
        self.reading: Collection[TopicPartition] = frozenset()

    def __len__(self) -> int:
        return len(self._until)

    @property
    def ends_at(self) -> float:
        """When the first of them is kept no longer; infinite if nothing is."""
        return min(self._until.values(), default=float("inf"))

    @property
    def have_finished(self) -> bool:
        """Whether something is kept that is not being read any more."""
        return bool(self._until.keys() - set(self.reading))

    def part(self, leaving: Collection[TopicPartition]) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Of all that is to be given away: what can be now, and what of it is being read, but has been kept long enough."""
        now = self._clock()
        held = set(leaving) & set(self.reading)
        self._until = {tp: self._until.get(tp, now + self._longest_s) for tp in held}
        overdue = {tp for tp, until in self._until.items() if until <= now}
        for tp in overdue:
            del self._until[tp]
        return set(leaving) - self._until.keys(), overdue
