"""The offsets of a stream, as stored in its checkpoint: canonical JSON with a version.

An offset is the end of a micro-batch, and describes all of it: for each partition the range ``[from, until)`` that the
micro-batch reads. So a micro-batch that Spark runs again reads the same, whatever has happened to the group, or to the log,
since. Partitions that the stream has read before and does not read now are kept with an empty range.

::

    {"version": 1,
     "topics": {"orders": {"czxid": 77, "id": "Lq4...", "known": 8,
                           "partitions": {"0": [10, 25], "1": [7, 7, 3, 901]}}}}

``czxid`` and ``id`` distinguish a topic from a later one of the same name. ``known`` is the number of partitions that the
query, or its group, read of the topic when it began, plus those after them that it has read: others are new, and read from
their beginning. A
third number is the group's committed offset when the micro-batch was planned, if it was not ``from``, or if a fourth
follows: the ZooKeeper transaction that wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from pyspark_zkafka.conditions import UNKNOWN_CHECKPOINT
from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.nouns import Topic, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name

VERSION = 1
_MOST_PARTITIONS = 2**31
_INT64 = range(-(2**63), 2**63)


class PlannedRange(NamedTuple):
    """A micro-batch's range of a partition, ``[start, until)``; `committed` is the group's offset when it was planned.

    `committed` is None if there was none, or no group. `mark` is the `StoredOffset.mark` of that offset.
    """

    start: int
    until: int
    committed: int | None = None
    mark: int | None = None

    @property
    def size(self) -> int:
        """The number of offsets in the range."""
        return self.until - self.start


@dataclass(frozen=True, slots=True)
class TopicMark:
    """A topic's identity, distinct from others of its name, and the partitions of it that the stream knows.

    Partitions from number `known` on are new to the stream.
    """

    topic_id: str | None = None
    czxid: int | None = None
    known: int = 0

    @classmethod
    def of(cls, topic: Topic, known: int = 0) -> TopicMark:
        """Return the mark of a topic as it is now."""
        return cls(topic.topic_id, topic.czxid, known)

    def is_other(self, topic: Topic) -> bool:
        """Return True if a topic of this name is another one; ids that are unknown on either side are not compared."""
        if self.topic_id is not None and topic.topic_id is not None:
            return self.topic_id != topic.topic_id
        return self.czxid is not None and topic.czxid is not None and self.czxid != topic.czxid


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The end of a micro-batch: its range of each partition, and the topics as they were."""

    spans: Mapping[TopicPartition, PlannedRange] = field(default_factory=dict)
    topics: Mapping[str, TopicMark] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The offset as JSON, for Spark; equal offsets give equal text, as topics and partitions are in order.

        >>> StreamOffset({TopicPartition("t", 0): PlannedRange(1, 5)}, {"t": TopicMark("id", 7, 1)}).to_json()
        {'version': 1, 'topics': {'t': {'czxid': 7, 'id': 'id', 'known': 1, 'partitions': {'0': [1, 5]}}}}
        """
        names = sorted({*self.topics, *(tp.topic for tp in self.spans)})
        topics = {name: _mark_json(self.topics.get(name, TopicMark())) for name in names}
        for tp in sorted(self.spans):
            topics[tp.topic]["partitions"][str(tp.partition)] = _span_json(self.spans[tp])
        return {"version": VERSION, "topics": topics}

    @classmethod
    def from_json(cls, found: object) -> StreamOffset:
        """The offset that `to_json` returned as `found`.

        Raises
        ------
        CheckpointError
            It is of another source or a newer version, or it is corrupt.
        """
        if not isinstance(found, dict) or type(found.get("version")) is not int or found["version"] != VERSION:
            raise _unreadable(found)
        try:
            topics = {_topic(name): _mark(given) for name, given in found["topics"].items()}
            spans = {
                TopicPartition(name, _partition(partition)): _span(span)
                for name, given in found["topics"].items()
                for partition, span in given["partitions"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _unreadable(found) from None
        return cls(spans, topics)


def first_mark(topic: Topic, known: Collection[TopicPartition]) -> TopicMark:
    """The mark of a topic for a new query.

    `known` are the partitions that the query, or its group, reads. Others count as new: they are still being created, or
    not assigned to the query.
    """
    first_new = next(n for n in count() if TopicPartition(topic.name, n) not in known)
    return TopicMark.of(topic, first_new)


def mark_after(topic: Topic, before: TopicMark, spans: Collection[TopicPartition]) -> TopicMark:
    """The mark of a topic after one more micro-batch.

    New partitions are known up to the first one without a position: another member of the group may own that one, and end
    before it commits a first offset.

    >>> spans = {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 3)}
    >>> mark_after(Topic("t", dict.fromkeys(range(4), (1,))), TopicMark(known=1), spans).known
    2
    """
    known = before.known
    while known in topic.partitions and TopicPartition(topic.name, known) in spans:
        known += 1
    return TopicMark.of(topic, known)


def _span_json(span: PlannedRange) -> list[int]:
    start, until, committed, mark = span
    if mark is not None:
        return [start, until, start if committed is None else committed, mark]
    return [start, until] if committed is None or committed == start else [start, until, committed]


def _mark_json(mark: TopicMark) -> dict[str, Any]:
    identity = {"czxid": mark.czxid, "id": mark.topic_id}
    return {**{k: v for k, v in identity.items() if v is not None}, "known": mark.known, "partitions": {}}


def _mark(given: Mapping[str, Any]) -> TopicMark:
    topic_id, czxid, known = given.get("id"), given.get("czxid"), given["known"]
    if not isinstance(topic_id, str | None) or (czxid is not None and not _are_longs([czxid])):
        raise ValueError("a topic's identity")
    if type(known) is not int or not 0 <= known <= _MOST_PARTITIONS:
        raise ValueError("a number of partitions")
    return TopicMark(topic_id, czxid, known)


def _partition(text: str) -> int:
    if not text.isdecimal() or str(int(text)) != text or int(text) >= _MOST_PARTITIONS:
        raise ValueError("a partition's number")
    return int(text)


def _topic(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError("a topic's name")
    return name


def _are_longs(numbers: list[Any]) -> bool:
    return all(type(number) is int and number in _INT64 for number in numbers)


def _span(numbers: list[Any]) -> PlannedRange:
    if not 2 <= len(numbers) <= 4 or not _are_longs(numbers) or min(numbers) < 0 or numbers[1] < numbers[0]:
        raise ValueError("a range of offsets")
    return PlannedRange(*numbers) if len(numbers) > 2 else PlannedRange(numbers[0], numbers[1], numbers[0])


def _unreadable(found: object) -> CheckpointError:
    version = found.get("version") if isinstance(found, dict) else None
    return UNKNOWN_CHECKPOINT(
        f"The checkpoint has an offset that this version of zkafka cannot read (version {version!r}, expected {VERSION}): "
        f"{_quoted(found)}; use the version that wrote it, or a new checkpointLocation",
    )


def _quoted(found: object) -> str:
    try:
        return str(found)[:200]
    except RecursionError:
        return "JSON that is nested too deeply"
