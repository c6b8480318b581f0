"""Moves of a group's offsets from one store to the other: differences, copies, and the end of a live move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark_zkafka.inspect.groups import Partition
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition

__all__ = ["Difference", "Facts", "LiveRounds", "Outcome", "State", "compare", "outcomes", "to_copy"]

State = Literal["copied", "equal", "behind", "ahead", "failed", "skipped"]
"""The state of a partition: the target has the source's offset since this run, or had it before; it is lower or there is
none; it is higher; it could not be copied; it is nothing to copy, as the partition does not exist."""

_OUTDATED = "the offset is older than the topic: it belongs to a deleted one of the same name; reset it, or use --force"
_LEGACY = "a byte position of Kafka 0.7"
_FURTHER = "the target is further; check that it may skip these records, or set it back with --force"
_NO_SOURCE = "the source has no offset; check that the target's is right, or reset it"
_MOVED = "the source has moved on meanwhile; run this again"
_GONE = "the partition does not exist"
SETTLED_AFTER = 3
"""The number of equal looks after which a target that is ahead is no commit under way."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The offsets of a group in both stores at one moment.

    Parameters
    ----------
    source, target : mapping
        The next offsets to read, 0 or more; partitions without one are absent.
    unreadable : mapping
        Why the offset of a partition in either store cannot be read, by partition.
    legacy : collection of LegacyPartition
        Those that the source has byte positions of.
    existing : collection of TopicPartition
        The partitions that the cluster has.
    outdated : collection of TopicPartition
        Those whose offset in the source is older than the partition.
    """

    source: Mapping[TopicPartition, int]
    target: Mapping[TopicPartition, int]
    unreadable: Mapping[TopicPartition, str] = field(default_factory=dict)
    legacy: Collection[LegacyPartition] = ()
    existing: Collection[TopicPartition] = ()
    outdated: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition in both stores, None where there is no offset; `reason` explains what is neither behind nor equal."""

    partition: Partition
    source: int | None
    target: int | None
    state: State
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for a partition, with the target's offset before and after."""

    partition: Partition
    source: int | None
    before: int | None
    after: int | None
    state: State
    reason: str | None = None


def compare(facts: Facts) -> list[Difference]:
    """Each partition of which either store has an offset, sorted; those of Kafka 0.7 come last.

    >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> [d.state for d in compare(Facts({t0: 5, t1: 5}, {t0: 5, t1: 4}, existing=[t0, t1]))]
    ['equal', 'behind']
    """
    partitions = sorted({*facts.source, *facts.target, *facts.unreadable})
    existing, outdated = set(facts.existing), set(facts.outdated)
    found = [_difference(facts, tp, existing, outdated) for tp in partitions]
    return found + [Difference(lp, None, None, "skipped", _LEGACY) for lp in sorted(facts.legacy)]


def _difference(
    facts: Facts, tp: TopicPartition, existing: Collection[TopicPartition], outdated: Collection[TopicPartition]
) -> Difference:
    source, target = facts.source.get(tp), facts.target.get(tp)
    if tp not in existing:
        return Difference(tp, source, target, "skipped", _GONE)
    if tp in facts.unreadable:
        return Difference(tp, source, target, "failed", facts.unreadable[tp])
    if source == target:
        return Difference(tp, source, target, "equal")
    if source is None or (target is not None and target > source):
        reason = _NO_SOURCE if source is None else _FURTHER
        return Difference(tp, source, target, "ahead", reason)
    if tp in outdated and source > 0:
        return Difference(tp, source, target, "failed", _OUTDATED)
    return Difference(tp, source, target, "behind")


def to_copy(found: Iterable[Difference], *, force: bool = False) -> dict[TopicPartition, int]:
    """The offsets to write: those that move the target forward; with `force`, also back and over what is unreadable."""
    states = {"behind", "ahead", "failed"} if force else {"behind"}
    return {
        d.partition: d.source
        for d in found
        if d.state in states and d.source is not None and isinstance(d.partition, TopicPartition)
    }


def outcomes(
    before: Sequence[Difference],
    after: Sequence[Difference],
    written: Collection[Partition],
    failed: Mapping[TopicPartition, str] | None = None,
) -> list[Outcome]:
    """The report of each partition, from a comparison of both stores before the copying and another one after it.

    Parameters
    ----------
    written : collection of TopicPartition
        Those that were written to the target.
    failed : mapping
        The reasons for which partitions were not written.
    """
    failed, first = failed or {}, {d.partition: d for d in before}
    return [_outcome(first.get(d.partition), d, written, failed) for d in after]


def _outcome(
    before: Difference | None,
    after: Difference,
    written: Collection[Partition],
    failed: Mapping[TopicPartition, str],
) -> Outcome:
    was = None if before is None else before.target
    found = Outcome(after.partition, after.source, was, after.target, after.state, after.reason)
    if after.state == "equal":
        return replace(found, state="copied" if after.partition in written else "equal")
    if after.state == "behind" and isinstance(after.partition, TopicPartition):
        reason = failed.get(after.partition, _MOVED)
        return replace(found, state="failed", reason=reason)
    return found


@dataclass(frozen=True, slots=True)
class LiveRounds:
    """The progress of a group whose members go on committing: one look after the other.

    A member with dual commits writes Kafka first and ZooKeeper right after. A commit to Kafka cannot depend on what is
    stored, so a copy may cross with a member's own commit, and set it back. Therefore a partition is only written while
    nobody else moves its target, and the group is caught up only if a later look finds the stores equal without a write in
    between.
    """

    last: Mapping[Partition, Difference] | None = None
    wrote: bool = True
    unchanged: int = 0

    def writes(self, found: Sequence[Difference]) -> dict[TopicPartition, int]:
        """The offsets to write now: none at the first look, then those whose target has not moved since."""
        if self.last is None:
            return {}
        still = {d.partition for d in found if d.partition in self.last and self.last[d.partition].target == d.target}
        return {tp: offset for tp, offset in to_copy(found).items() if tp in still}

    def seen(self, found: Sequence[Difference], *, wrote: bool) -> LiveRounds:
        """The progress after a look, and after the writes that followed from it."""
        now = {d.partition: d for d in found}
        same = not wrote and self.last is not None and _stuck(now) == _stuck(self.last)
        return LiveRounds(now, wrote, self.unchanged + 1 if same else 0)

    def is_caught_up(self, found: Sequence[Difference]) -> bool:
        """True if nothing is left to copy, and nothing was written since the look before.

        A target that is ahead may be a commit that is under way: it counts as settled if it stays.
        """
        if self.last is None or self.wrote or any(d.state == "behind" for d in found):
            return False
        if all(d.state in ("equal", "skipped") for d in found):
            return True
        return self.unchanged >= SETTLED_AFTER


def _stuck(found: Mapping[Partition, Difference]) -> dict[Partition, Difference]:
    return {partition: d for partition, d in found.items() if d.state not in ("equal", "skipped")}
