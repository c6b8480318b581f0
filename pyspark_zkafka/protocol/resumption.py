"""Resumption of a claimed partition: at the member's own last position, or at the group's offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_zkafka.protocol.checkpoint import PlannedRange
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition

__all__ = ["Resumption", "StoredOffset", "is_followed", "outdated", "resume"]


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A group's offset; `mark` is the ZooKeeper transaction that wrote it, None if it is stored elsewhere."""

    offset: int
    mark: int | None = None

    def is_older_than(self, czxid: int | None) -> bool:
        """True if the offset was written before the partition was created, in ZooKeeper transaction `czxid`."""
        return self.mark is not None and czxid is not None and self.mark < czxid


@dataclass(frozen=True, slots=True)
class Resumption:
    """The next offset to read, None if unknown; `moved` is true if another process has changed the group's offset."""

    position: int | None
    moved: bool = False


def resume(span: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None = None) -> Resumption:
    """The position at which to resume a partition that was claimed.

    The stream resumes after its own last finished micro-batch if it has committed the group's offset itself: that of this
    micro-batch or, as commits follow work, the one before. Any other offset is another member's progress or an operator's
    reset, forward or back, and takes precedence. A reset to exactly the offset before is recognized by
    the mark; without marks, it is not.

    `span` is the partition's range in the checkpoint's last finished micro-batch, None if the stream never read it.
    `stored` is the group's offset, read after the partition was claimed, and `last` this process's own last commit.

    Examples
    --------
    One finished micro-batch, [10, 20), ahead of the commit; an operator's reset; one to the very same offset:

    >>> resume(PlannedRange(10, 20, committed=10, mark=7), StoredOffset(10, mark=7))
    Resumption(position=20, moved=False)
    >>> resume(PlannedRange(10, 20, committed=10, mark=7), StoredOffset(5, mark=9))
    Resumption(position=5, moved=True)
    >>> resume(PlannedRange(10, 20, committed=10, mark=7), StoredOffset(10, mark=9))
    Resumption(position=10, moved=True)
    """
    if span is None or stored is None:
        offset = None if stored is None else stored.offset
        return Resumption(offset if span is None else span.until)
    if stored.offset == span.until or _is_own(span, stored, last):
        return Resumption(span.until)
    return Resumption(stored.offset, moved=True)


def is_followed(span: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None) -> bool:
    """True if a group's offset of a topic created again was written by another member, which has read the new topic.

    `stored` is not `outdated`. Without a mark, it may be of the deleted topic: brokers remove offsets some time after their
    topic. It counts only if it is another one than those that the stream knows, as `resume` compares them.

    >>> is_followed(PlannedRange(10, 20, committed=10, mark=7), StoredOffset(20, mark=9), None)
    True
    >>> is_followed(PlannedRange(10, 20, committed=10, mark=7), StoredOffset(20, mark=9), StoredOffset(20, mark=9))
    False
    >>> is_followed(PlannedRange(10, 20, committed=10), StoredOffset(20), None)
    False
    """
    if stored is None:
        return False
    if stored.mark is not None:
        return last is None or stored.mark != last.mark
    return span is not None and resume(span, stored, last).moved


def outdated(stored: Mapping[TopicPartition, StoredOffset], snapshot: ClusterSnapshot) -> set[TopicPartition]:
    """The partitions whose group offset is older than they are: it is of a deleted topic of the same name.

    Offsets outlive their topics in ZooKeeper, and in another log they would skip records silently.
    """
    states = snapshot.states
    return {tp for tp, offset in stored.items() if tp in states and offset.is_older_than(states[tp].czxid)}


def _is_own(span: PlannedRange, stored: StoredOffset, last: StoredOffset | None) -> bool:
    known = [span.mark, *([] if last is None else [last.mark])]
    if stored.mark is not None and any(mark is not None for mark in known):
        return stored.mark in known
    return stored.offset in {span.committed, span.start, None if last is None else last.offset}
