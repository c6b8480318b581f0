"""Start and end of a read: the specifications in options, and their resolution to offsets.

Pure: facts about the log come through `OffsetBounds`, which clients implement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pyspark_zkafka.errors import ClusterStateError, OptionError, listing
from pyspark_zkafka.protocol.model import OffsetRange, TopicPartition
from pyspark_zkafka.protocol.topic_names import describe_bad_names

__all__ = [
    "EARLIEST",
    "HIGH_WATERMARK",
    "LATEST",
    "AtTimestamp",
    "Bound",
    "OffsetBounds",
    "OffsetSpec",
    "Outside",
    "Position",
    "ResetPolicy",
    "Resolution",
    "canonical_json",
    "parse_assignment",
    "parse_offsets",
    "parse_timestamps",
    "reset_position",
    "resolve",
]

EARLIEST: Literal[-2] = -2
LATEST: Literal[-1] = -1
HIGH_WATERMARK: Literal[-3] = -3
"""The end of a log with its open transactions, before which `LATEST` stops with read_committed; not valid in options."""

ResetPolicy = Literal["earliest", "latest", "error"]
Bound = Literal["starting", "ending", "commit"]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record whose timestamp is not before `timestamp_ms`."""

    timestamp_ms: int

    def __str__(self) -> str:
        return f"timestamp {self.timestamp_ms}"


Position = int | AtTimestamp
"""An offset from 0 on, `EARLIEST`, `LATEST`, or the first record at a timestamp."""


class OffsetBounds(Protocol):
    """The facts about a cluster's logs that a plan needs."""

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position: `EARLIEST`, `LATEST` or `AtTimestamp` (-1 where no record is that late)."""
        ...

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of logs with their open transactions; nothing where `LATEST` does not stop before these."""
        ...

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are absent."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """One end of a read, as specified by an option.

    Parameters
    ----------
    option : str
        The option's name, for messages.
    everywhere : int, AtTimestamp, "committed" or None
        The position of each partition that is not named; None when every partition must be named.
    by_topic, by_partition : mapping
        The positions of named topics and partitions; a partition's own takes precedence.
    """

    option: str
    everywhere: Position | Literal["committed"] | None = None
    by_topic: Mapping[str, Position] = field(default_factory=dict)
    by_partition: Mapping[TopicPartition, Position] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> Position | Literal["committed"] | None:
        """The specified position of a partition; None if it is not named."""
        named = self.by_partition.get(partition, self.by_topic.get(partition.topic))
        return self.everywhere if named is None else named

    def unknown(self, partitions: Collection[TopicPartition]) -> list[str]:
        """The topics and partitions that are named but not read, as text, sorted."""
        known, topics = set(partitions), {tp.topic for tp in partitions}
        extra = [str(tp) for tp in self.by_partition if tp not in known]
        return sorted(extra + [t for t in self.by_topic if t not in topics])


def parse_offsets(option: str, text: str, bound: Bound | None) -> OffsetSpec:
    """An `OffsetSpec` from `startingOffsets` or `endingOffsets` of a read, or `commitOffsets` of a write.

    Parameters
    ----------
    option : str
        The option's name, for messages.
    text : str
        ``earliest``, ``latest``, ``committed``, or JSON: ``{"topic": {"0": 23, "1": -2}, "other": "earliest"}`` with -2 for
        earliest and -1 for latest.
    bound : "starting", "ending", "commit" or None
        A batch cannot start at latest, nor end at earliest or at the committed offset, and only numbers are committed; None
        allows all.

    Raises
    ------
    OptionError
        With the expected form beside the text received.

    References
    ----------
    org.apache.spark.sql.kafka010.JsonUtils and KafkaSourceProvider, Spark 4.2; SPARK-58774 for the form by topic.
    """
    word = text.strip().lower()
    if word in _WORDS:
        return OffsetSpec(option, everywhere=_allowed(option, _WORDS[word], bound))
    by_topic: dict[str, Position] = {}
    by_partition: dict[TopicPartition, Position] = {}
    words = [word for word, position in _WORDS.items() if (bound, position) not in _REFUSED]
    form = f"{', '.join(words)}, or JSON: {_OFFSETS_FORM}" if words else _COMMIT_FORM
    for topic, given in _json_object(option, text, form).items():
        if isinstance(given, str) and given.lower() in ("earliest", "latest"):
            by_topic[topic] = _numeric(_allowed(option, _WORDS[given.lower()], bound))
        else:
            for partition, offset in _partitions(option, topic, given, _OFFSETS_FORM).items():
                by_partition[partition] = _numeric(_allowed(option, offset, bound))
    return OffsetSpec(option, by_topic=by_topic, by_partition=by_partition)


def parse_timestamps(option: str, text: str) -> OffsetSpec:
    """An `OffsetSpec` from JSON of milliseconds since the epoch: ``{"topic": {"0": 1000, "1": 1000}}``."""
    by_partition: dict[TopicPartition, Position] = {}
    for topic, given in _json_object(option, text, _TIMESTAMPS_FORM).items():
        for partition, timestamp_ms in _partitions(option, topic, given, _TIMESTAMPS_FORM).items():
            if not 0 <= timestamp_ms < 2**63:
                raise _malformed(option, text, _TIMESTAMPS_FORM)
            by_partition[partition] = AtTimestamp(timestamp_ms)
    return OffsetSpec(option, by_partition=by_partition)


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions of ``{"topic": [0, 1]}``, sorted, each once."""
    found: set[TopicPartition] = set()
    for topic, numbers in _json_object(option, text, _ASSIGN_FORM).items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise _malformed(option, text, _ASSIGN_FORM)
        found.update(TopicPartition(topic, n) for n in numbers)
    if not found:
        raise _malformed(option, text, _ASSIGN_FORM)
    return tuple(sorted(found))


def canonical_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as JSON with topics and partitions in order, without blanks: equal offsets are equal text.

    >>> canonical_json({TopicPartition("b", 10): 7, TopicPartition("b", 2): 5, TopicPartition("a", 0): 1})
    '{"a":{"0":1},"b":{"2":5,"10":7}}'
    """
    by_topic: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return json.dumps(by_topic, separators=(",", ":"), ensure_ascii=False)


_OFFSETS_FORM = '{"topicA": {"0": 23, "1": -2}, "topicB": "earliest"}, with -2 for earliest and -1 for latest'
_COMMIT_FORM = 'offsets of 0 or more by partition: {"topicA": {"0": 23}}'
_TIMESTAMPS_FORM = '{"topicA": {"0": 1700000000000, "1": 1700000000000}}, in milliseconds since the epoch'
_ASSIGN_FORM = '{"topicA": [0, 1], "topicB": [2]}'
_WORDS: dict[str, Position | Literal["committed"]] = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "committed": "committed",
}
_REFUSED: dict[tuple[Bound | None, object], str] = {
    ("starting", LATEST): "a batch that starts at latest reads nothing; use earliest, committed or offsets",
    ("ending", EARLIEST): "a batch that ends at earliest reads nothing; use latest or offsets",
    ("ending", "committed"): "a batch cannot end at the committed offset; use latest or offsets",
    **{("commit", position): f"expected {_COMMIT_FORM}" for position in _WORDS.values()},
}


def _allowed(
    option: str, position: Position | Literal["committed"], bound: Bound | None
) -> Position | Literal["committed"]:
    reason = _REFUSED.get((bound, position))
    if reason is not None:
        raise OptionError("INVALID_OPTION", f"{option} is {_word(position)}: {reason}")
    if isinstance(position, int) and position < EARLIEST:
        raise OptionError("INVALID_OPTION", f"{option} has the offset {position}; use 0 or more, -1 or -2")
    return position


def _word(position: object) -> str:
    return {"-2": "earliest (-2)", "-1": "latest (-1)"}.get(str(position), str(position))


def _numeric(position: Position | Literal["committed"]) -> Position:
    if position == "committed":
        raise OptionError("INVALID_OPTION", "committed applies to all partitions; it cannot be set by topic")
    return position


def _json_object(option: str, text: str, form: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _malformed(option, text, form) from None
    if not isinstance(found, dict) or not found:
        raise _malformed(option, text, form)
    if (problem := describe_bad_names(option, found)) is not None:
        raise OptionError("INVALID_OPTION", problem)
    return found


def _partitions(option: str, topic: str, given: object, form: str) -> dict[TopicPartition, int]:
    if not isinstance(given, dict) or not given:
        raise _malformed(option, json.dumps({topic: given}), form)
    if not all(p.isascii() and p.isdecimal() and type(n) is int for p, n in given.items()):
        raise _malformed(option, json.dumps({topic: given}), form)
    return {TopicPartition(topic, int(p)): n for p, n in given.items()}


def _malformed(option: str, text: str, form: str) -> OptionError:
    shown = text if len(text) <= 200 else text[:200] + "..."
    return OptionError("INVALID_OPTION", f"{option} is {shown!r}; expected {form}")


@dataclass(frozen=True, slots=True)
class Outside:
    """An end of a read that lies outside the log `[earliest, latest]`, of which open transactions are a part."""

    partition: TopicPartition
    bound: Bound
    offset: int
    earliest: int
    latest: int

    def __str__(self) -> str:
        return (
            f"{self.partition}: {self.bound} offset {self.offset} is outside the log, "
            f"which spans [{self.earliest}, {self.latest})"
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """The ranges of a read, in the given order of partitions, and the ends that were outside the log."""

    ranges: tuple[OffsetRange, ...]
    outside: tuple[Outside, ...] = ()


def resolve(
    partitions: Collection[TopicPartition],
    start: OffsetSpec,
    end: OffsetSpec,
    bounds: OffsetBounds,
    *,
    reset: ResetPolicy | None = None,
    no_match: Literal["error", "latest"] = "error",
    subscribed: Collection[TopicPartition] | None = None,
) -> Resolution:
    """The offsets at which each partition starts and ends, from two requests to the cluster (three or four if it must be).

    Parameters
    ----------
    reset : "earliest", "latest", "error" or None
        Where a partition starts that has no committed offset (None means latest, as in Kafka), or that `start` does
        not name (None means that each must be named, as in Spark's own source).
    no_match : "error" or "latest"
        The result of a start by timestamp if no record is at or after it. An end by timestamp is then the log's end.
    subscribed : collection, optional
        The partitions that the specifications may and must name, if filters have reduced `partitions`.

    Returns
    -------
    Resolution
        One range a partition, `start <= until`, both inside the log; an explicit or committed offset outside the log
        is moved to its nearer end and reported in `outside`, for the caller to handle. One among the records of open
        transactions is inside the log, though `LATEST` may stop before it.

    Raises
    ------
    OptionError
        A named partition is not read, a read one is not named, or a start lies after its end.
    ClusterStateError
        `reset` or `no_match` is "error" and a partition needs it.
    """
    named = partitions if subscribed is None else subscribed
    _check_named(start, named, reset is not None)
    _check_named(end, named, False)
    starts = _start_positions(partitions, start, bounds, reset)
    ends = {tp: _end_position(end, tp) for tp in partitions}
    _check_order({tp: p for tp, p in starts.items() if start.of(tp) == p}, ends)
    lows = bounds.list_offsets({tp: EARLIEST if _exact(p) else p for tp, p in starts.items()})
    highs = bounds.list_offsets({tp: LATEST if _exact(p) else p for tp, p in ends.items()})
    _check_matches(starts, lows, no_match)
    log_ends = _log_ends(starts, ends, lows, highs, bounds)
    beyond = [tp for tp in partitions if _is_beyond(starts[tp], log_ends[tp]) or _is_beyond(ends[tp], log_ends[tp])]
    limits = {**log_ends, **(bounds.high_watermarks(beyond) if beyond else {})}
    return _ranges(partitions, starts, ends, lows, highs, log_ends, limits)


def _check_named(spec: OffsetSpec, partitions: Collection[TopicPartition], may_omit: bool) -> None:
    unknown = spec.unknown(partitions)
    missing = [] if may_omit else [str(tp) for tp in partitions if spec.of(tp) is None]
    if unknown:
        raise OptionError(
            "OFFSETS_DO_NOT_MATCH",
            f"{spec.option} names {listing(unknown)}, which this read does not contain; "
            f"it contains {listing(partitions)}; correct the topic names and partition numbers",
        )
    if missing:
        raise OptionError(
            "OFFSETS_DO_NOT_MATCH",
            f"{spec.option} does not name {listing(missing)}; name every partition (or the whole topic), "
            "or, for a start, set auto.offset.reset",
        )


def _exact(position: Position) -> bool:
    return isinstance(position, int) and position >= 0


def _start_positions(
    partitions: Collection[TopicPartition], spec: OffsetSpec, bounds: OffsetBounds, reset: ResetPolicy | None
) -> dict[TopicPartition, Position]:
    given = {tp: spec.of(tp) for tp in partitions}
    asked = [tp for tp, p in given.items() if p == "committed"]
    committed = bounds.committed(asked) if asked else {}
    missing = {tp for tp, p in given.items() if p is None or (p == "committed" and tp not in committed)}
    fallback = reset_position(sorted(missing), reset)
    return {tp: fallback if tp in missing else committed[tp] if p == "committed" else _given(p) for tp, p in given.items()}


def _given(position: Position | Literal["committed"] | None) -> Position:
    if position is None or position == "committed":
        raise TypeError("positions without an offset are resolved before")
    return position


def reset_position(missing: Collection[TopicPartition], reset: ResetPolicy | None) -> Position:
    """The start of partitions without an offset; ClusterStateError (NO_COMMITTED_OFFSET) if the policy is error."""
    if missing and reset == "error":
        raise ClusterStateError(
            "NO_COMMITTED_OFFSET",
            f"No offset is known for {listing(missing)}, and auto.offset.reset is error; "
            "commit one, name the partitions in startingOffsets, or set auto.offset.reset to earliest or latest",
        )
    return EARLIEST if reset == "earliest" else LATEST


def _end_position(spec: OffsetSpec, partition: TopicPartition) -> Position:
    return _given(spec.of(partition))


def _check_matches(starts: Mapping[TopicPartition, Position], found: Mapping[TopicPartition, int], no_match: str) -> None:
    unmatched = [tp for tp, p in starts.items() if isinstance(p, AtTimestamp) and found[tp] < 0]
    if unmatched and no_match == "error":
        raise ClusterStateError(
            "NO_OFFSET_FOR_TIMESTAMP",
            f"No record at or after the starting timestamp in {listing(unmatched)}; "
            "choose an earlier timestamp, or set startingOffsetsByTimestampStrategy to latest",
        )


def _log_ends(
    starts: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, Position],
    lows: Mapping[TopicPartition, int],
    highs: Mapping[TopicPartition, int],
    bounds: OffsetBounds,
) -> dict[TopicPartition, int]:
    """The log's end; or an end by timestamp, if it is in the log and the start before it, which spares a request."""
    later = [tp for tp, p in ends.items() if isinstance(p, AtTimestamp) and _is_open(starts[tp], lows[tp], highs[tp])]
    return {**highs, **(bounds.list_offsets(dict.fromkeys(later, LATEST)) if later else {})}


def _is_open(start: Position, low: int, high: int) -> bool:
    return high < 0 or (isinstance(start, int) and start >= 0 and not low <= start <= high)


def _is_beyond(position: Position, log_end: int) -> bool:
    return isinstance(position, int) and position > log_end


def _ranges(
    partitions: Collection[TopicPartition],
    starts: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, Position],
    lows: Mapping[TopicPartition, int],
    highs: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, int],
) -> Resolution:
    ranges: list[OffsetRange] = []
    outside: list[Outside] = []
    for tp in partitions:
        low, high = (found if found >= 0 else log_ends[tp] for found in (lows[tp], highs[tp]))
        begin = _into_log(tp, "starting", starts[tp], low, low, limits[tp], outside)
        until = _into_log(tp, "ending", ends[tp], high, low, limits[tp], outside)
        ranges.append(OffsetRange(tp, begin, max(begin, until)))
    return Resolution(tuple(ranges), tuple(outside))


def _check_order(given: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, Position]) -> None:
    """Raise for a specified start after the end; a committed one there only means that nothing is left to read."""
    for tp, start in given.items():
        if _is_behind(start, ends[tp]):
            raise OptionError(
                "START_AFTER_END", f"{tp} starts at {start} and ends at {ends[tp]}; set a start that is not after the end"
            )


def _is_behind(start: Position, end: Position) -> bool:
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp):
        return start.timestamp_ms > end.timestamp_ms
    return isinstance(start, int) and isinstance(end, int) and 0 <= end < start


def _into_log(
    tp: TopicPartition, bound: Bound, asked: Position, found: int, low: int, high: int, outside: list[Outside]
) -> int:
    """An exact offset, moved into the log `[low, high]`; any other position as resolved."""
    if not isinstance(asked, int) or asked < 0:
        return found
    if asked > high or (asked < low and bound == "starting"):
        outside.append(Outside(tp, bound, asked, low, high))
    return min(max(asked, low), high)
