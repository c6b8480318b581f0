"""Decisions of a member: claims to release, claims to make, and the time of the next look.

Pure: values in, values out. `pyspark_zkafka.group.member` reads the group, and acts on these decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.protocol.model import Claim, TopicPartition

__all__ = ["Attempts", "Step", "step"]


@dataclass(frozen=True, slots=True)
class Step:
    """A member's next step: first release, then claim.

    Attributes
    ----------
    release : frozenset of TopicPartition
        Claims to delete now.
    overdue : frozenset of TopicPartition
        Those of them that are still being read, and have been kept for `hold_s`.
    claim : mapping
        Threads of the member by the partitions that they are to claim.
    revoking : mapping
        Partitions that must be released and are still being read, with the time until which they are kept.
    """

    release: frozenset[TopicPartition] = frozenset()
    overdue: frozenset[TopicPartition] = frozenset()
    claim: Mapping[TopicPartition, str] = field(default_factory=dict)
    revoking: Mapping[TopicPartition, float] = field(default_factory=dict)

    @property
    def wait_until(self) -> float:
        """The earliest time at which a kept partition must be released; infinite if there is none."""
        return min(self.revoking.values(), default=float("inf"))


def step(
    target: Mapping[TopicPartition, str],
    claims: Mapping[TopicPartition, Claim],
    reading: Collection[TopicPartition],
    revoking: Mapping[TopicPartition, float],
    now: float,
    hold_s: float,
) -> Step:
    """The step from the claims that a member has to those that it is assigned.

    Partitions that are being read are kept until they are not, for `hold_s` at the most; the time counts from the first
    step at which they are to be released, and starts again after a step at which they need not be.

    Parameters
    ----------
    target : mapping
        The member's threads by the partitions that they are assigned.
    reading : collection of TopicPartition
        Partitions that the running micro-batch reads.
    revoking : mapping
        The last step's.
    now : float
        Seconds, as `revoking` counts them.

    Examples
    --------
    >>> t0, t1, t2 = (TopicPartition("t", n) for n in range(3))
    >>> found = step({t0: "c-0"}, {t1: Claim("c-0", 1), t2: Claim("c-0", 1)}, [t2], {}, now=100.0, hold_s=4.0)
    >>> found.release == {t1}, found.claim == {t0: "c-0"}, found.revoking == {t2: 104.0}
    (True, True, True)
    """
    leaving = claims.keys() - target.keys()
    kept = {tp: revoking.get(tp, now + hold_s) for tp in leaving.intersection(reading)}
    overdue = frozenset(tp for tp, until in kept.items() if until <= now)
    revoking = {tp: until for tp, until in kept.items() if tp not in overdue}
    claim = {tp: thread for tp, thread in target.items() if tp not in claims or claims[tp].thread != thread}
    return Step(frozenset(leaving - revoking.keys()), overdue, claim, revoking)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts to claim partitions that others own: how many, and when the next one is due.

    >>> Attempts().fail(now=10.0, pause_s=2.0)
    Attempts(count=1, next_at=12.0)
    >>> Attempts(count=1, next_at=12.0).fail(now=11.0, pause_s=2.0)
    Attempts(count=1, next_at=12.0)
    """

    count: int = 0
    next_at: float = 0.0

    def fail(self, now: float, pause_s: float) -> Attempts:
        """The state after a failed attempt; one that an event triggered before `next_at` does not count."""
        return Attempts(self.count + 1, now + pause_s) if now >= self.next_at else self
