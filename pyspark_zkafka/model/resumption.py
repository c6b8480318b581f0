"""The start of a newly assigned partition in a stream: ordered rules over the checkpoint, the group and the options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.model.checkpoint import LeftOffset, PlannedRange
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetStore, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, NamedPosition, moves


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A group's offset, and the ``mzxid`` of its znode: the ZooKeeper transaction that wrote it. None for Kafka's store.

    Reports also have the time of that write and the znode's version. An offset in a report may be negative, which means
    that there is no offset.
    """

    offset: int
    mzxid: int | None = None
    modified_ms: int | None = None
    version: int = 0

    def is_older_than(self, czxid: int | None) -> bool:
        """Return True if the offset was written before ZooKeeper transaction `czxid`, which created the partition."""
        return self.mzxid is not None and czxid is not None and self.mzxid < czxid


def resume(planned: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None = None) -> int | None:
    """Return the next offset to read of a newly assigned partition, None if it is unknown.

    The stream resumes after its last finished micro-batch if it committed the group's offset itself, at the end of that
    micro-batch or of the previous micro-batch. Any other offset is another member's progress or an operator's reset, and
    takes precedence. A reset to the offset of the stream's own commit is recognized only by its `mzxid`.

    `planned` is the partition's range in the checkpoint's last finished micro-batch, None if the stream never read it.
    `stored` is the group's offset, read after the partition was claimed. `last` is this process's last commit.

    The stream's own commit, before micro-batch [10, 20); an operator's reset; a reset to the same offset:

    >>> planned = PlannedRange(10, 20, committed=10, mzxid=7)
    >>> [resume(planned, StoredOffset(*stored)) for stored in ((10, 7), (5, 9), (10, 9))]
    [20, 5, 10]

    A commit of 20 that had failed when micro-batch [20, 30) was planned, and succeeded later:

    >>> resume(PlannedRange(20, 30, committed=10, mzxid=7), StoredOffset(20, mzxid=8))
    30

    A query that left its group after micro-batch [0, 10), committed its end when it stopped, and read alone since:

    >>> resume(PlannedRange(20, 30, committed=0, mzxid=7, left=10), StoredOffset(10, mzxid=9))
    30

    A query that committed 10 and perhaps 20 to Kafka, continued in ZooKeeper, and returns to Kafka:

    >>> left = LeftOffset("kafka", 10, None, (20,)), LeftOffset("zookeeper", 80, 7, (90,))
    >>> planned = PlannedRange(80, 90, elsewhere=left)
    >>> [resume(planned, StoredOffset(offset)) for offset in (10, 20, 80, 50)]
    [90, 90, 90, 50]
    """
    if planned is None:
        return None if stored is None else stored.offset
    return planned.until if stored is None or _is_own(planned, stored, last) else stored.offset


def is_followed(planned: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None) -> bool:
    """Return True if another member wrote the group's offset after the topic was created again.

    `stored` is not `outdated`. An offset in Kafka's store may still belong to the deleted topic, because brokers remove it
    some time later. Such an offset counts only if it differs from the stream's own offsets, as `resume` compares them.

    >>> is_followed(PlannedRange(10, 20, committed=10, mzxid=7), StoredOffset(20, mzxid=9), None)
    True
    >>> is_followed(PlannedRange(10, 20, committed=10, mzxid=7), StoredOffset(20, mzxid=9), StoredOffset(20, mzxid=9))
    False
    >>> is_followed(PlannedRange(10, 20, committed=10), StoredOffset(20), None)
    False
    """
    if stored is None:
        return False
    if stored.mzxid is not None:
        return last is None or stored.mzxid != last.mzxid
    return planned is not None and resume(planned, stored, last) != planned.until


def outdated(stored: Mapping[TopicPartition, StoredOffset], snapshot: ClusterSnapshot) -> set[TopicPartition]:
    """Return the partitions created after the group's offset was written. Such an offset belongs to a deleted topic.

    In ZooKeeper, offsets outlive their topics. Used in another log, they would skip records silently.
    """
    states = snapshot.states
    return {tp for tp, offset in stored.items() if tp in states and offset.is_older_than(states[tp].czxid)}


def without_left(
    by_store: Mapping[OffsetStore, Mapping[TopicPartition, StoredOffset]],
    left: Mapping[TopicPartition, Collection[LeftOffset]],
) -> dict[OffsetStore, dict[TopicPartition, StoredOffset]]:
    """Return the offsets of a group's stores. Omit an offset that the query `left` in one store if the other has an offset.

    The other store's offset is the later one. The query itself, or another client, committed it.

    >>> tp = TopicPartition("t", 0)
    >>> by_store = {"kafka": {tp: StoredOffset(20)}, "zookeeper": {tp: StoredOffset(50, 7)}}
    >>> without_left(by_store, {tp: [LeftOffset("zookeeper", 50, 7, (60,))]})["zookeeper"]
    {}
    """
    found = {store: dict(offsets) for store, offsets in by_store.items()}
    for tp, known in left.items():
        stores = [store for store in by_store if tp in by_store[store]]
        old = [at.store for at in known if at.store in stores and _is_left(at, by_store[at.store][tp])]
        for store in old if len(old) < len(stores) else ():
            del found[store][tp]
    return found


def _is_own(planned: PlannedRange, stored: StoredOffset, last: StoredOffset | None) -> bool:
    store = "kafka" if stored.mzxid is None else "zookeeper"
    if any(_is_left(at, stored) for at in planned.elsewhere if planned.committed is None or at.store == store):
        return True
    is_pending = planned.left is None and planned.committed is not None and planned.committed < planned.start
    if stored.offset == (planned.start if is_pending else planned.left):
        return True
    known = {planned.mzxid, None if last is None else last.mzxid} - {None}
    if stored.mzxid is not None and known:
        return stored.mzxid in known
    return stored.offset in {planned.committed, planned.start, None if last is None else last.offset}


def _is_left(left: LeftOffset, stored: StoredOffset) -> bool:
    """Return True if the stored offset is the query's own `left` offset in that store, or a copy of it in another store."""
    if stored.offset in left.pending:
        return True
    is_written_again = None not in (left.mzxid, stored.mzxid) and stored.mzxid != left.mzxid
    return stored.offset == left.committed and not is_written_again


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The facts about a newly assigned partition that decide where the stream starts to read it.

    - `planned`: its range in the checkpoint's last finished micro-batch.
    - `stored`: the group's offset.
    - `last`: the offset that this process committed last.
    - `named`: the position in the options.
    - `is_first_start`: the query has no checkpoint, or the partition has appeared in this run.
    - `is_outdated`: the group's offset is of a deleted topic.
    - `is_replaced`: the topic was created again since the last micro-batch.
    - `created_after_subscription`: the group subscribed to the topic, or the query started, before the partition existed.
    - `is_added`: the query did not know the partition when it started.
    - `has_grown`: the partition was added to a topic that the query was reading. It is to be read from offset 0.
    """

    planned: PlannedRange | None = None
    stored: StoredOffset | None = None
    last: StoredOffset | None = None
    named: NamedPosition | None = None
    is_first_start: bool = False
    is_outdated: bool = False
    is_replaced: bool = False
    created_after_subscription: bool = False
    is_added: bool = False
    has_grown: bool = False

    @property
    def current(self) -> StoredOffset | None:
        """The group's offset, unless it is of a deleted topic."""
        return None if self.is_outdated else self.stored


Rule: TypeAlias = Callable[[PartitionFacts], NamedPosition | None]


def topic_created_again(facts: PartitionFacts) -> NamedPosition | None:
    """The beginning of a topic that was created again, unless another member has read the new topic."""
    is_unread = facts.is_replaced and not is_followed(facts.planned, facts.current, facts.last)
    return EARLIEST if is_unread else None


def option_at_first_start(facts: PartitionFacts) -> NamedPosition | None:
    """At a query's first start, the position in the options.

    New partitions start at their beginning if the position is the log's end, or depends on it or on the present time.
    """
    if not facts.is_first_start:
        return None
    return EARLIEST if moves(facts.named) and facts.created_after_subscription else facts.named


def checkpoint_or_group(facts: PartitionFacts) -> NamedPosition | None:
    """The end of the last micro-batch, or the group's offset; see `resume`."""
    return resume(facts.planned, facts.current, facts.last)


def deleted_topic(facts: PartitionFacts) -> NamedPosition | None:
    """The beginning, if the group's offset is of a deleted topic of the same name."""
    return EARLIEST if facts.is_outdated else None


def new_partition(facts: PartitionFacts) -> NamedPosition | None:
    """The beginning of a partition that was created after the group subscribed, or after the query started.

    In a topic that the query was reading, that is offset 0. If the log starts later, records were deleted unread.
    """
    if facts.has_grown:
        return 0
    return EARLIEST if facts.created_after_subscription or facts.is_added else None


def option_later(facts: PartitionFacts) -> NamedPosition | None:
    """The position in the options, for a partition that the query knew and had no position in.

    The end of the log would skip records: it is left to `auto.offset.reset`.
    """
    return None if facts.named == LATEST else facts.named


RULES: tuple[Rule, ...] = (
    topic_created_again,
    option_at_first_start,
    checkpoint_or_group,
    deleted_topic,
    new_partition,
    option_later,
)
"""The rules in the order of their precedence; docs/streaming.md has them as a table."""


def start_of(facts: PartitionFacts) -> tuple[Rule | None, NamedPosition | None]:
    """Return the first rule that gives a position, and the position; ``(None, None)`` leaves it to `auto.offset.reset`."""
    return next(((rule, found) for rule in RULES if (found := rule(facts)) is not None), (None, None))
