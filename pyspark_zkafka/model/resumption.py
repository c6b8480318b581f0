"""Where a stream starts in a partition that it gains: ordered rules over the checkpoint, the group and the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.model.checkpoint import PlannedRange
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Position

__all__ = [
    "RULES",
    "PartitionFacts",
    "Resumption",
    "StoredOffset",
    "checkpoint_or_group",
    "deleted_topic",
    "is_followed",
    "outdated",
    "resume",
    "start_of",
    "topic_created_again",
]


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


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What is known of one partition when a stream gains it.

    `span` is its range in the checkpoint's last finished micro-batch. `stored` is the group's offset, `last` the offset
    that this process committed last, and `named` the position in the options. `is_outdated`: the group's offset is of a
    deleted topic. `is_replaced`: the topic was created again since the last micro-batch. `is_younger`: the partition was
    created after the group subscribed to the topic, or after the query started. `is_added`: the query did not know the
    partition when it started.
    """

    span: PlannedRange | None = None
    stored: StoredOffset | None = None
    last: StoredOffset | None = None
    named: Position | None = None
    is_first_start: bool = False
    is_outdated: bool = False
    is_replaced: bool = False
    is_younger: bool = False
    is_added: bool = False

    @property
    def current(self) -> StoredOffset | None:
        """The group's offset, unless it is of a deleted topic."""
        return None if self.is_outdated else self.stored


Rule: TypeAlias = Callable[[PartitionFacts], Position | None]


def topic_created_again(facts: PartitionFacts) -> Position | None:
    """The beginning of a topic that was created again, unless another member has read the new topic."""
    is_unread = facts.is_replaced and not is_followed(facts.span, facts.current, facts.last)
    return EARLIEST if is_unread else None


def option_at_first_start(facts: PartitionFacts) -> Position | None:
    """The position in the options, at the first start of a query; for `latest`, the beginning of newer partitions."""
    if not facts.is_first_start:
        return None
    return EARLIEST if facts.named == LATEST and facts.is_younger else facts.named


def checkpoint_or_group(facts: PartitionFacts) -> Position | None:
    """The end of the last micro-batch, or the group's offset; see `resume`."""
    return resume(facts.span, facts.current, facts.last).position


def deleted_topic(facts: PartitionFacts) -> Position | None:
    """The beginning, where the group's offset is of a deleted topic of the same name."""
    return EARLIEST if facts.is_outdated else None


def new_partition(facts: PartitionFacts) -> Position | None:
    """The beginning of a partition that came after the group's subscription, or after the query's start."""
    return EARLIEST if facts.is_younger or facts.is_added else None


def option_later(facts: PartitionFacts) -> Position | None:
    """The position that the options name, for a partition that the query knew and had no position in."""
    return facts.named


RULES: tuple[Rule, ...] = (
    topic_created_again,
    option_at_first_start,
    checkpoint_or_group,
    deleted_topic,
    new_partition,
    option_later,
)
"""The rules in the order of their precedence; docs/streaming.md has them as a table."""


def start_of(facts: PartitionFacts) -> tuple[Rule | None, Position | None]:
    """Return the first rule that gives a position, and the position; ``(None, None)`` leaves it to `auto.offset.reset`.

    >>> start_of(PartitionFacts(span=PlannedRange(10, 20), named=LATEST))[1]
    20
    """
    return next(((rule, found) for rule in RULES if (found := rule(facts)) is not None), (None, None))
