"""Start and end of a read: their specification, and its resolution to offsets.

Pure: facts about the log come through `OffsetBounds`, which clients implement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeGuard

from pyspark_zkafka.errors import ClusterStateError, OptionError, listing
from pyspark_zkafka.protocol.model import OffsetRange, TopicPartition

__all__ = [
    "EARLIEST",
    "HIGH_WATERMARK",
    "LATEST",
    "AtTimestamp",
    "Bound",
    "OffsetBounds",
    "OffsetSpec",
    "Position",
    "ResetPolicy",
    "Resolution",
    "canonical_json",
    "check_named",
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
    """One end of a read, as specified by `option`.

    `everywhere` is the position of each partition that is not named, None when every partition must be named. A partition's
    own position takes precedence over that of its topic.
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


def canonical_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as JSON with topics and partitions in order, without blanks: equal offsets are equal text.

    >>> canonical_json({TopicPartition("b", 10): 7, TopicPartition("b", 2): 5, TopicPartition("a", 0): 1})
    '{"a":{"0":1},"b":{"2":5,"10":7}}'
    """
    by_topic: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return json.dumps(by_topic, separators=(",", ":"), ensure_ascii=False)


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
    """The offsets at which each partition starts and ends, from two requests to the cluster, three or four if needed.

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
    check_named(start, named, reset is not None)
    check_named(end, named, False)
    starts = _start_positions(partitions, start, bounds, reset)
    ends = {tp: _given(end.of(tp)) for tp in partitions}
    _check_order({tp: p for tp, p in starts.items() if start.of(tp) == p}, ends)
    lows = bounds.list_offsets({tp: EARLIEST if _is_exact(p) else p for tp, p in starts.items()})
    highs = bounds.list_offsets({tp: LATEST if _is_exact(p) else p for tp, p in ends.items()})
    _check_matches(starts, lows, no_match)
    log_ends = _log_ends(starts, ends, lows, highs, bounds)
    beyond = [tp for tp in partitions if _is_beyond(starts[tp], log_ends[tp]) or _is_beyond(ends[tp], log_ends[tp])]
    limits = {**log_ends, **(bounds.high_watermarks(beyond) if beyond else {})}
    return _ranges(partitions, starts, ends, lows, highs, log_ends, limits)


def check_named(spec: OffsetSpec, partitions: Collection[TopicPartition], may_omit: bool) -> None:
    """Raise OptionError for a specification that names other partitions, or not all of these, unless it `may_omit` some."""
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


def _is_exact(position: Position) -> TypeGuard[int]:
    return isinstance(position, int) and position >= 0


def _start_positions(
    partitions: Collection[TopicPartition], spec: OffsetSpec, bounds: OffsetBounds, reset: ResetPolicy | None
) -> dict[TopicPartition, Position]:
    given = {tp: spec.of(tp) for tp in partitions}
    at_committed = [tp for tp, p in given.items() if p == "committed"]
    committed = bounds.committed(at_committed) if at_committed else {}
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
    return high < 0 or (_is_exact(start) and not low <= start <= high)


def _is_beyond(position: Position, log_end: int) -> bool:
    return _is_exact(position) and position > log_end


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
    tp: TopicPartition, bound: Bound, position: Position, found: int, low: int, high: int, outside: list[Outside]
) -> int:
    """An exact offset, moved into the log `[low, high]`; any other position as resolved."""
    if not _is_exact(position):
        return found
    if position > high or (position < low and bound == "starting"):
        outside.append(Outside(tp, bound, position, low, high))
    return min(max(position, low), high)
