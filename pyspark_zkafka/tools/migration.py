"""Pure decisions of a migration of a group's offsets: how the stores differ, what to copy, and when to stop.

`group_migrate` reads both stores, copies, and reads both again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition, Partition

State = Literal["copied", "equal", "behind", "ahead", "failed", "skipped"]
"""The state of a partition.

``copied``: this run has written the source's offset to the target. ``equal``: the target had it before. ``behind``: the
target is lower, or has no offset. ``ahead``: the target is higher, or the source has no offset. ``failed``: it could not be
copied. ``skipped``: there is nothing to copy, as the partition does not exist, or is one of Kafka 0.7.
"""

SETTLED_AFTER = 3
"""After this many equal comparisons, a target that is ahead counts as settled."""

_OUTDATED = "the offset is older than the topic: it belongs to a deleted one of the same name; reset it, or use --force"
_LEGACY = "a byte position of Kafka 0.7"
_FURTHER = "the target is ahead; if the records in between must be read, use --force"
_NO_SOURCE = "the source has no offset; check that the target's is right, or reset it"
_MOVED = "the source has moved on meanwhile; run this again"
_GONE = "the partition does not exist"


@dataclass(frozen=True, slots=True)
class Compared:
    """A partition in both stores, None where there is no offset.

    `before` is the target's offset before this run. `reason` explains every state except ``copied``, ``equal`` and
    ``behind``.
    """

    partition: Partition
    source: int | None
    before: int | None
    target: int | None
    state: State
    reason: str | None = None


def compare(
    source: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    existing: Collection[TopicPartition],
    *,
    unreadable: Mapping[TopicPartition, str] | None = None,
    legacy: Collection[LegacyPartition] = (),
    outdated: Collection[TopicPartition] = (),
) -> list[Compared]:
    """Return each partition with an offset in either store, sorted. Partitions of Kafka 0.7 come last.

    `source` and `target` have the next offsets to read, 0 or more. `unreadable` has the reason why an offset in either
    store cannot be read. `legacy` has partitions with a byte position in the source, and `outdated` partitions that are
    newer than their offset in the source.

    >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> [c.state for c in compare({t0: 5, t1: 5}, {t0: 5, t1: 4}, [t0, t1])]
    ['equal', 'behind']
    """
    unreadable = unreadable or {}
    found = []
    for tp in sorted({*source, *target, *unreadable}):
        here, there = source.get(tp), target.get(tp)
        state: State = "behind"
        reason = None
        if tp not in existing:
            state, reason = "skipped", _GONE
        elif tp in unreadable:
            state, reason = "failed", unreadable[tp]
        elif here == there:
            state = "equal"
        elif here is None:
            state, reason = "ahead", _NO_SOURCE
        elif there is not None and there > here:
            state, reason = "ahead", _FURTHER
        elif tp in outdated and here > 0:
            state, reason = "failed", _OUTDATED
        found.append(Compared(tp, here, there, there, state, reason))
    return found + [Compared(lp, None, None, None, "skipped", _LEGACY) for lp in sorted(legacy)]


def to_copy(found: Iterable[Compared], *, force: bool = False) -> dict[TopicPartition, int]:
    """Return the offsets to write. Without `force`, none moves the target back or replaces an unreadable offset."""
    states = {"behind", "ahead", "failed"} if force else {"behind"}
    return {
        c.partition: c.source
        for c in found
        if c.state in states and c.source is not None and isinstance(c.partition, TopicPartition)
    }


def report(
    before: Sequence[Compared],
    after: Sequence[Compared],
    written: Collection[Partition],
    failed: Mapping[TopicPartition, str] | None = None,
) -> list[Compared]:
    """Return the result for each partition, from a comparison of both stores before the copying and another one after it.

    `written` has the partitions that were written to the target, `failed` the reasons why others were not.
    """
    failed, was = failed or {}, {c.partition: c.target for c in before}
    found = []
    for one in after:
        result = replace(one, before=was.get(one.partition))
        if one.state == "equal" and one.partition in written:
            result = replace(result, state="copied")
        elif one.state != "equal" and isinstance(one.partition, TopicPartition):
            reason = failed.get(one.partition, _MOVED if one.state == "behind" else None)
            result = result if reason is None else replace(result, state="failed", reason=reason)
        found.append(result)
    return found


@dataclass(frozen=True, slots=True)
class LiveRounds:
    """The progress of a group whose members continue to commit, from one comparison to the next.

    A member with dual commits writes to Kafka first and to ZooKeeper right after. A commit to Kafka cannot depend on the
    stored offset: a copy may cross with a member's own commit, and set it back. Therefore a partition is only written while
    no other client moves its target, and the group is caught up only if a later comparison finds the stores equal, without
    a write in between.
    """

    last: Mapping[Partition, Compared] | None = None
    wrote: bool = True
    unchanged: int = 0

    def writes(self, found: Sequence[Compared]) -> dict[TopicPartition, int]:
        """Return the offsets to write now: none at the first check, later all with a target that has not moved since."""
        if self.last is None:
            return {}
        still = {c.partition for c in found if c.partition in self.last and self.last[c.partition].target == c.target}
        return {tp: offset for tp, offset in to_copy(found).items() if tp in still}

    def seen(self, found: Sequence[Compared], *, wrote: bool) -> LiveRounds:
        """Return the progress after a comparison and the writes that followed it."""
        now = {c.partition: c for c in found}
        same = not wrote and self.last is not None and _differing(now) == _differing(self.last)
        return LiveRounds(now, wrote, self.unchanged + 1 if same else 0)

    def is_caught_up(self, found: Sequence[Compared]) -> bool:
        """Return whether nothing is left to copy, and nothing was written since the previous check.

        A target that is ahead may be a commit under way: it counts as settled if it stays.
        """
        if self.last is None or self.wrote or any(c.state == "behind" for c in found):
            return False
        if all(c.state in ("equal", "skipped") for c in found):
            return True
        return self.unchanged >= SETTLED_AFTER


def _differing(found: Mapping[Partition, Compared]) -> dict[Partition, Compared]:
    return {partition: c for partition, c in found.items() if c.state not in ("equal", "skipped")}
