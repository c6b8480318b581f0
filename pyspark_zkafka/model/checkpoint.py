"""The offsets of a stream, as its checkpoint stores them: canonical JSON with a version.

An offset is the end of a micro-batch and describes all of it: for each partition, the planned range ``[start, until)``. A
micro-batch that Spark runs again therefore reads the same records, whatever happened to the group or the log since. A
partition that the stream has read and does not read now keeps an empty range.

::

    {"version": 1,
     "stores": ["zookeeper"],
     "topics": {"orders": {"czxid": 77, "id": "Lq4...", "known": 8,
                           "partitions": {"0": [10, 25], "1": [7, 7, 3, 901]},
                           "left": {"kafka": {"1": [3, -1, 7]}}}}}

``czxid`` and ``id`` distinguish a topic from a later one of the same name. The query, or its group when
the query started, has read the partitions below ``known``. Later partitions are new, and are read from their beginning.

The third number of a range is the group's committed offset at planning time, and the fourth is the ``mzxid`` of the commit.
The third is left out without a group, or if the group had no offset. Earlier versions also left it out if it equalled the
start and there was no fourth. The fifth is `PlannedRange.left`; a range with a fifth has -1 instead of a missing fourth.

``stores`` has the stores of these committed offsets, and is empty if the query was never in a group. Earlier versions left
it out.
``left`` has each `LeftOffset` by its store: ``committed`` and ``mzxid``, or -1, and then ``pending``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from pyspark_zkafka.conditions import UNKNOWN_CHECKPOINT
from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.nouns import OffsetStore, Topic, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name

VERSION = 1
_MOST_PARTITIONS = 2**31
_OF_TOPIC = {"czxid", "id", "known", "left", "partitions"}
_STORES: tuple[OffsetStore, ...] = ("kafka", "zookeeper")


class LeftOffset(NamedTuple):
    """The query's last offset in a `store` that it no longer commits to.

    `committed` and `mzxid` are as in `PlannedRange`. The query may have committed the offsets in `pending` later.
    """

    store: OffsetStore
    committed: int | None
    mzxid: int | None
    pending: tuple[int, ...]


class PlannedRange(NamedTuple):
    """A micro-batch's range ``[start, until)`` of a partition.

    `committed` is the group's offset when the range was planned. It is None without a group, or without an offset. `mzxid`
    is the `StoredOffset.mzxid` of that offset. Once the query has left its group, both fields keep their last values, and
    `left` is the end of the query's last micro-batch in the group, which the query may still have committed. `elsewhere`
    has a `LeftOffset` for each store that the query has left, until the query commits there again.
    """

    start: int
    until: int
    committed: int | None = None
    mzxid: int | None = None
    left: int | None = None
    elsewhere: tuple[LeftOffset, ...] = ()

    @property
    def size(self) -> int:
        """The number of offsets in the range."""
        return self.until - self.start

    @property
    def pending(self) -> tuple[int, ...]:
        """The offsets that the query may have committed since the range was planned."""
        if self.left is not None:
            return (self.left,)
        is_behind = self.committed is not None and self.committed < self.start
        return tuple(sorted({self.until, *([self.start] if is_behind else [])}))

    def committed_to(self, stores: Collection[OffsetStore], before: Collection[OffsetStore] | None) -> PlannedRange:
        """Return the range for a query that now commits to `stores`, and has committed to the stores `before`.

        `before` is empty if the query was never in a group, None if an earlier version wrote the checkpoint. The
        `LeftOffset` of a store stays unchanged while the query does not commit there. A partition without a committed
        offset gets no `LeftOffset`.
        """
        if before is None:
            store: OffsetStore = "kafka" if self.mzxid is None else "zookeeper"
            before = (store,)
        elif not before:  # the query has committed nothing, not even the start of its last micro-batch
            return PlannedRange(self.until, self.until)
        known = {at.store for at in self.elsewhere}
        left = [
            LeftOffset(at, self.committed, self.mzxid if at == "zookeeper" else None, self.pending)
            for at in _STORES
            if at in before and at not in stores and at not in known and self.committed is not None
        ]
        elsewhere = tuple(sorted((*self.elsewhere, *left)))
        if not set(before).intersection(stores):
            return PlannedRange(self.start, self.until, elsewhere=elsewhere)
        return self._replace(mzxid=self.mzxid if "zookeeper" in stores else None, elsewhere=elsewhere)


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Ids that distinguish a topic from other topics of its name, and the number of partitions that the stream knows.

    Partitions from number `known` on are new to the stream.
    """

    topic_id: str | None = None
    czxid: int | None = None
    known: int = 0

    @classmethod
    def of(cls, topic: Topic, known: int = 0) -> TopicIdentity:
        """Return the present identity of a topic."""
        return cls(topic.topic_id, topic.czxid, known)

    def differs_from(self, topic: Topic) -> bool:
        """Return True if `topic` is another topic of the same name. Unknown ids are not compared."""
        if self.topic_id is not None and topic.topic_id is not None:
            return self.topic_id != topic.topic_id
        return self.czxid is not None and topic.czxid is not None and self.czxid != topic.czxid

    def equals(self, topic: Topic) -> bool:
        """Return True if `topic` is the same topic. False if the two topics have no known id to compare."""
        ids = {(self.topic_id, topic.topic_id), (self.czxid, topic.czxid)}
        return any(None not in both for both in ids) and not self.differs_from(topic)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The end of a micro-batch: the planned range of each partition, and the identities of the topics.

    `stores` are the stores of the committed offsets in the ranges. `stores` is empty if the query was never in a group, and
    None if an earlier version wrote the offset.
    """

    ranges: Mapping[TopicPartition, PlannedRange] = field(default_factory=dict)
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    stores: frozenset[OffsetStore] | None = None

    def committed_to(self, stores: Collection[OffsetStore]) -> StreamOffset:
        """Return the offset for a query that commits to these stores: see `PlannedRange.committed_to`."""
        if self.stores == frozenset(stores):
            return self
        moved = {tp: planned.committed_to(stores, self.stores) for tp, planned in self.ranges.items()}
        return StreamOffset(moved, self.topics, frozenset(stores))

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON, for Spark. Topics and partitions are in order, so that equal offsets give equal text.

        >>> StreamOffset({TopicPartition("t", 0): PlannedRange(1, 5)}, {"t": TopicIdentity("id", 7, 1)}).to_json()
        {'version': 1, 'topics': {'t': {'czxid': 7, 'id': 'id', 'known': 1, 'partitions': {'0': [1, 5]}}}}
        """
        topics: dict[str, dict[str, Any]] = {}
        for name in sorted({*self.topics, *(tp.topic for tp in self.ranges)}):
            identity = self.topics.get(name, TopicIdentity())
            ids = {"czxid": identity.czxid, "id": identity.topic_id}
            topics[name] = {**{k: v for k, v in ids.items() if v is not None}, "known": identity.known, "partitions": {}}
        for tp in sorted(self.ranges):
            start, until, committed, mzxid, left, elsewhere = self.ranges[tp]
            numbers = [start, until]
            if mzxid is not None or left is not None:
                numbers += [start if committed is None else committed, -1 if mzxid is None else mzxid]
                numbers += [] if left is None else [left]
            elif committed is not None:
                numbers.append(committed)
            topics[tp.topic]["partitions"][str(tp.partition)] = numbers
            for store, *known, pending in elsewhere:
                by_store = topics[tp.topic].setdefault("left", {}).setdefault(store, {})
                by_store[str(tp.partition)] = [*(-1 if number is None else number for number in known), *pending]
        stores = {} if self.stores is None else {"stores": sorted(self.stores)}
        return {"version": VERSION, **stores, "topics": topics}

    @classmethod
    def from_json(cls, found: object) -> StreamOffset:
        """Parse the result of `to_json`. Raises CheckpointError for a corrupt offset, another source or a newer version."""
        if not isinstance(found, dict) or type(found.get("version")) is not int or found["version"] != VERSION:
            raise _unreadable(found)
        try:
            topics = {name: _parse_identity(name, given) for name, given in found["topics"].items()}
            ranges = {
                TopicPartition(name, _parse_partition(partition)): _parse_range(numbers, _parse_left(partition, given))
                for name, given in found["topics"].items()
                for partition, numbers in given["partitions"].items()
            }
            stores = frozenset(_parse_store(store) for store in found["stores"]) if "stores" in found else None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _unreadable(found) from None
        return cls(ranges, topics, stores)


def first_identity(topic: Topic, known: Collection[TopicPartition]) -> TopicIdentity:
    """Return a topic's identity for a new query.

    `known` are the partitions that the query or its group reads. Partitions count as new from the first number that is not
    `known`: that partition is still being created, or not assigned to the query.
    """
    first_new = next(n for n in count() if TopicPartition(topic.name, n) not in known)
    return TopicIdentity.of(topic, first_new)


def identity_after(topic: Topic, before: TopicIdentity, ranges: Collection[TopicPartition]) -> TopicIdentity:
    """Return a topic's identity after one more micro-batch, which has `ranges`.

    New partitions become known up to the first partition without a range. Another member of the group may own that
    partition, and stop before it commits a first offset. The partitions of a new topic become known together, because all
    of them exist before the query reads the topic.

    >>> ranges = {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 3)}
    >>> identity_after(Topic("t", dict.fromkeys(range(4), (1,))), TopicIdentity(known=1), ranges).known
    2
    """
    known = before.known
    if not known and not all(TopicPartition(topic.name, number) in ranges for number in topic.partitions):
        return TopicIdentity.of(topic, 0)
    while known in topic.partitions and TopicPartition(topic.name, known) in ranges:
        known += 1
    return TopicIdentity.of(topic, known)


def _parse_identity(name: str, given: Mapping[str, Any]) -> TopicIdentity:
    topic_id, czxid, known = given.get("id"), given.get("czxid"), given["known"]
    if not is_topic_name(name):
        raise ValueError("a topic's name")
    if given.keys() - _OF_TOPIC:  # from another version: to ignore the key could lose records
        raise ValueError("an unknown key")
    if not isinstance(topic_id, str | None) or (czxid is not None and not _are_longs([czxid])):
        raise ValueError("a topic's identity")
    if type(known) is not int or not 0 <= known <= _MOST_PARTITIONS:
        raise ValueError("a number of partitions")
    return TopicIdentity(topic_id, czxid, known)


def _parse_partition(text: str) -> int:
    if not text.isdecimal() or str(int(text)) != text or int(text) >= _MOST_PARTITIONS:
        raise ValueError("a partition's number")
    return int(text)


def _parse_range(numbers: list[Any], elsewhere: tuple[LeftOffset, ...]) -> PlannedRange:
    if not 2 <= len(numbers) <= 5 or not _are_longs(numbers):
        raise ValueError("numbers of a range")
    found = PlannedRange(*numbers)
    if found.left is not None and found.mzxid == -1:
        found = found._replace(mzxid=None)
    if min(number for number in found[:5] if number is not None) < 0 or found.until < found.start:
        raise ValueError("a range of offsets")
    return found._replace(elsewhere=elsewhere) if elsewhere else found


def _parse_left(partition: str, topic: Mapping[str, Any]) -> tuple[LeftOffset, ...]:
    """Parse the `LeftOffset` of each store for a partition of a topic."""
    found = []
    for store, by_partition in sorted(topic.get("left", {}).items()):
        if partition in by_partition:
            committed, mzxid, *pending = by_partition[partition]
            if not _are_longs([committed, mzxid, *pending]) or min(committed, mzxid, *(n - 1 for n in pending)) < -1:
                raise ValueError("numbers of an offset")
            committed, mzxid = (None if number == -1 else number for number in (committed, mzxid))
            found.append(LeftOffset(_parse_store(store), committed, mzxid, tuple(pending)))
    return tuple(found)


def _parse_store(name: object) -> OffsetStore:
    store = next((store for store in _STORES if store == name), None)
    if store is None:
        raise ValueError("the name of a store")
    return store


def _are_longs(numbers: list[Any]) -> bool:
    return all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers)


def _unreadable(found: object) -> CheckpointError:
    version = found.get("version") if isinstance(found, dict) else None
    try:
        shown = str(found)[:200]
    except RecursionError:
        shown = "JSON that is nested too deeply"
    is_other = type(version) is int and version != VERSION
    problem = f"has version {version} instead of {VERSION}" if is_other else "is damaged, or of another source"
    return UNKNOWN_CHECKPOINT(
        f"An offset in the checkpoint {problem}: {shown}; use the version that wrote it, or a new checkpointLocation"
    )
