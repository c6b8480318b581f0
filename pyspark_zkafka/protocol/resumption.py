"""Where a member goes on reading a partition that it has gained: at its own last position, or where the group is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_zkafka.protocol.checkpoint import PlannedRange
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition

__all__ = ["Resumption", "StoredOffset", "outdated", "resume"]


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A group's offset; `mark` is the ZooKeeper transaction that wrote it, None where it is stored elsewhere."""

    offset: int
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class Resumption:
    """The next offset to read, None where nothing is known; `moved`: somebody else has moved the group's offset."""

    position: int | None
    moved: bool = False


def resume(span: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None = None) -> Resumption:
    """Where to go on with a partition that was gained.

    The stream's own finished work goes on where the group's offset is one that the stream itself committed: that of the
    finished micro-batch or, as commits follow work, the one before. Any other offset is somebody else's, another member's
    progress or an operator's reset, forward or back, and wins. A reset to just the offset before is told from it by the
    mark; where there are no marks, it is not.

    Parameters
    ----------
    span : PlannedRange or None
        What the checkpoint's last finished micro-batch tells of the partition; None if the stream never read it.
    stored : StoredOffset or None
        The group's offset, read after the partition was claimed.
    last : StoredOffset or None
        What this process itself committed last.

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


def outdated(stored: Mapping[TopicPartition, StoredOffset], snapshot: ClusterSnapshot) -> set[TopicPartition]:
    """The partitions whose group's offset was written before they existed: it is of a deleted topic of the same name.

    Offsets outlive their topics in ZooKeeper, and in another log they would skip records without a word.
    """
    created = {tp: snapshot.states[tp].czxid for tp in stored if tp in snapshot.states}
    return {tp for tp, czxid in created.items() if czxid is not None and (stored[tp].mark or czxid) < czxid}


def _is_own(span: PlannedRange, stored: StoredOffset, last: StoredOffset | None) -> bool:
    known = [span.mark, *([] if last is None else [last.mark])]
    if stored.mark is not None and any(mark is not None for mark in known):
        return stored.mark in known
    return stored.offset in {span.committed, span.start, None if last is None else last.offset}
