"""Start and end of a read: how they are specified, and how they are resolved to offsets.

`LogOffsets`, which the admin client implements, asks the brokers for offsets of logs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeGuard

from pyspark_zkafka.conditions import NO_COMMITTED_OFFSET, NO_OFFSET_FOR_TIMESTAMP, START_AFTER_END
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.retries import Retry

EARLIEST: Literal[-2] = -2
LATEST: Literal[-1] = -1
HIGH_WATERMARK: Literal[-3] = -3
"""The end of a log, including open transactions. With read_committed, `LATEST` excludes them. Not valid in options."""

ResetPolicy = Literal["earliest", "latest", "error"]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record with a timestamp of at least `timestamp_ms`."""

    timestamp_ms: int

    def __str__(self) -> str:
        return f"timestamp {self.timestamp_ms}"


Position = int | AtTimestamp
"""An offset of 0 or more, `EARLIEST`, `LATEST`, or the first record at a timestamp."""


@dataclass(frozen=True, slots=True)
class FromEdge:
    """The offset `records` after the earliest or latest offset, or before it if negative. Never outside the log."""

    edge: Literal[-2, -1]
    records: int

    def __str__(self) -> str:
        return f"{'latest' if self.edge == LATEST else 'earliest'}{self.records:+d}"

    def within(self, low: int, high: int) -> int:
        """Return the offset in the log ``[low, high)``.

        >>> FromEdge(LATEST, -100).within(950, 1000), FromEdge(EARLIEST, 10).within(950, 1000)
        (950, 960)
        """
        return min(max((high if self.edge == LATEST else low) + self.records, low), high)


@dataclass(frozen=True, slots=True)
class Ago:
    """A time before the read is planned, in milliseconds."""

    ms: int

    def __str__(self) -> str:
        return f"{self.ms} ms ago"

    def at(self, now_ms: int) -> AtTimestamp:
        """Return the time for the present time in milliseconds since the epoch."""
        return AtTimestamp(max(0, now_ms - self.ms))


NamedPosition = Position | FromEdge | Ago
"""A position as options name it."""


def moves(position: NamedPosition | None) -> bool:
    """True if the position depends on the present time or on the log's end, and is later if it is resolved later."""
    return position == LATEST or isinstance(position, Ago) or (isinstance(position, FromEdge) and position.edge == LATEST)


class LogOffsets(Protocol):
    """Offsets of logs, as their leaders report them. `timeout_s` can only shorten the client's own time-out."""

    def list_offsets(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """Return the offset of each `EARLIEST`, `LATEST` or `AtTimestamp`; -1 if no record is at or after a timestamp."""
        ...

    def high_watermarks(
        self, partitions: Collection[TopicPartition], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """Return the ends of logs, including open transactions. Empty if `LATEST` already includes open transactions."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """One end of a read, as `option` specifies it.

    `everywhere` is the position of partitions that are not named, None if every partition must be named. A partition's own
    position takes precedence over its topic's.
    """

    option: str
    everywhere: NamedPosition | Literal["committed"] | None = None
    by_topic: Mapping[str, NamedPosition] = field(default_factory=dict)
    by_partition: Mapping[TopicPartition, NamedPosition] = field(default_factory=dict)

    def at(self, now_ms: int) -> OffsetSpec:
        """Return the specification with each `Ago` replaced, for the present time in milliseconds since the epoch."""
        return OffsetSpec(
            self.option,
            self.everywhere.at(now_ms) if isinstance(self.everywhere, Ago) else self.everywhere,
            self.by_topic,
            {tp: p.at(now_ms) if isinstance(p, Ago) else p for tp, p in self.by_partition.items()},
        )

    @property
    def moves(self) -> bool:
        """True if a position depends on the present time or on a log's end, and is later if it is resolved later."""
        positions = (self.everywhere, *self.by_topic.values(), *self.by_partition.values())
        return any(position != "committed" and moves(position) for position in positions)

    def of(self, partition: TopicPartition) -> NamedPosition | Literal["committed"] | None:
        """Return the position of a partition; None if it is not named."""
        named = self.by_partition.get(partition, self.by_topic.get(partition.topic))
        return self.everywhere if named is None else named


def canonical_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Format offsets as JSON without blanks, topics and partitions in order: equal offsets give equal text.

    >>> canonical_json({TopicPartition("b", 10): 7, TopicPartition("b", 2): 5, TopicPartition("a", 0): 1})
    '{"a":{"0":1},"b":{"2":5,"10":7}}'
    """
    by_topic: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return json.dumps(by_topic, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Outside:
    """A start outside `[earliest, latest]`, or an end after `latest`. `latest` is after the open transactions."""

    partition: TopicPartition
    bound: Literal["starting", "ending"]
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
    """The ranges of a read, in the given order of partitions, and the starts and ends that lie outside their logs."""

    ranges: tuple[OffsetRange, ...]
    outside: tuple[Outside, ...] = ()


def resolve(
    partitions: Collection[TopicPartition],
    start: OffsetSpec,
    end: OffsetSpec,
    logs: LogOffsets,
    *,
    retry: Retry,
    committed: Mapping[TopicPartition, int] = MappingProxyType({}),
    reset: ResetPolicy | None = None,
    no_match: Literal["error", "latest"] = "error",
    timeout_s: float = math.inf,
) -> Resolution:
    """Find the offsets at which each partition starts and ends.

    Requests offsets twice, or up to six times if needed, and up to twice more for each retry.

    `end` names every partition; see `check_named`. Neither end has an `Ago`; see `OffsetSpec.at`.

    - `retry` requests the log's end again if an offset lies beyond it. Up to Kafka 2.1, a new leader may at first report an
      end that is too low (KAFKA-7703).
    - `committed` has the group's offsets, if `start` is "committed".
    - `reset` is the start of partitions without a committed offset, and of partitions that `start` does not name. None is
      latest, as in Kafka.
    - `no_match`: the start is the log's end ("latest") or an error if no record is at or after a starting timestamp. An
      ending timestamp that no record reaches is always the log's end.
    - `timeout_s` limits each request, if it is shorter than the client's own time-out.

    Returns one range per partition, `start <= until`, both inside the log. An explicit or committed offset outside the log
    moves to the nearer end of the log. It is reported in `outside`, unless it is an end before the earliest offset. Open
    transactions are inside the log, even if `LATEST` stops before them.

    Raises OptionError if a start in the options lies after its end in every log, as `is_behind` decides, and
    ClusterStateError if `reset` or `no_match` is "error" and a partition needs it.
    """
    given = {tp: committed.get(tp) if (position := start.of(tp)) == "committed" else position for tp in partitions}
    fallback = reset_position(sorted(tp for tp, position in given.items() if position is None), reset)
    named_starts = {tp: fallback if position is None else position for tp, position in given.items()}
    named_ends = {tp: _end_position(end, tp) for tp in partitions}
    for tp, named in named_starts.items():
        # A committed offset may be after its end: then nothing is left to read.
        if start.of(tp) == named and is_behind(named, named_ends[tp]):
            text = f"{tp} starts at {named} and ends at {named_ends[tp]}; set a start that is not after the end"
            raise START_AFTER_END(text)
    starts, ends = _at_offsets(named_starts, named_ends, logs, timeout_s)
    # Ends first: if no record reaches a starting timestamp, a record that arrives in between must not be skipped.
    highs = logs.list_offsets({tp: LATEST if _is_offset(p) else p for tp, p in ends.items()}, timeout_s)
    lows = logs.list_offsets({tp: EARLIEST if _is_offset(p) else p for tp, p in starts.items()}, timeout_s)
    unmatched = [tp for tp, p in starts.items() if isinstance(p, AtTimestamp) and lows[tp] < 0]
    if unmatched and no_match == "error":
        raise NO_OFFSET_FOR_TIMESTAMP(
            f"No record at or after the starting timestamp in {listing(unmatched)}; "
            "choose an earlier timestamp, or set startingOffsetsByTimestampStrategy to latest",
        )
    # If a record reaches an ending timestamp, the log's end is needed only for a start after that record.
    late = [
        tp
        for tp, p in ends.items()
        if isinstance(p, AtTimestamp) and (highs[tp] < 0 or _is_outside(starts[tp], lows[tp], highs[tp]))
    ]
    log_ends = {**highs, **(logs.list_offsets(dict.fromkeys(late, LATEST), timeout_s) if late else {})}
    furthest = {tp: max(p if _is_offset(p) else 0 for p in (starts[tp], ends[tp])) for tp in partitions}

    def with_transactions(found: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        beyond = [tp for tp, end in found.items() if furthest[tp] > end]
        limits = logs.high_watermarks(beyond, timeout_s) if beyond else {}
        return {tp: (end, limits.get(tp, end)) for tp, end in found.items()}

    reached = retry.ask_again(
        with_transactions(log_ends),
        lambda tp, found: furthest[tp] > found[1],
        lambda doubtful: with_transactions(logs.list_offsets(dict.fromkeys(doubtful, LATEST), timeout_s)),
    )
    ranges: list[OffsetRange] = []
    outside: list[Outside] = []
    for tp in partitions:
        log_end, limit = reached[tp]
        first, until = starts[tp], ends[tp]
        low = lows[tp] if lows[tp] >= 0 else log_ends[tp]
        high = highs[tp] if isinstance(until, AtTimestamp) and highs[tp] >= 0 else log_end
        if _is_outside(first, low, limit) and named_starts[tp] == first:
            outside.append(Outside(tp, "starting", first, low, limit))
        if _is_outside(until, 0, limit) and named_ends[tp] == until:
            outside.append(Outside(tp, "ending", until, low, limit))
        range_start = min(max(first, low), limit) if _is_offset(first) else low
        range_end = min(max(until, low), limit) if _is_offset(until) else high
        ranges.append(OffsetRange(tp, range_start, max(range_start, range_end)))
    return Resolution(tuple(ranges), tuple(outside))


def _is_offset(position: Position) -> TypeGuard[int]:
    return isinstance(position, int) and position >= 0


def _is_outside(position: Position, low: int, high: int) -> TypeGuard[int]:
    return _is_offset(position) and not low <= position <= high


def _at_offsets(
    starts: Mapping[TopicPartition, NamedPosition],
    ends: Mapping[TopicPartition, NamedPosition],
    logs: LogOffsets,
    timeout_s: float,
) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, Position]]:
    """Replace each `FromEdge` by its offset, for both ends with the same edges of a log."""
    partitions = [tp for tp in starts if any(isinstance(p, FromEdge) for p in (starts[tp], ends[tp]))]
    lows, highs = (
        logs.list_offsets(dict.fromkeys(partitions, edge), timeout_s) if partitions else {} for edge in (EARLIEST, LATEST)
    )

    def found(tp: TopicPartition, position: NamedPosition) -> Position:
        if isinstance(position, FromEdge):
            return position.within(lows[tp], max(lows[tp], highs[tp]))
        if isinstance(position, Ago):
            raise TypeError("a time before the plan is resolved by OffsetSpec.at first")
        return position

    return {tp: found(tp, p) for tp, p in starts.items()}, {tp: found(tp, p) for tp, p in ends.items()}


def _end_position(spec: OffsetSpec, partition: TopicPartition) -> NamedPosition:
    position = spec.of(partition)
    if position is None or position == "committed":
        raise TypeError("an end is never committed, and names each partition")
    return position


def reset_position(missing: Collection[TopicPartition], reset: ResetPolicy | None) -> Position:
    """Return the start of partitions without an offset. Raises ClusterStateError (NO_COMMITTED_OFFSET) for `error`."""
    if missing and reset == "error":
        raise NO_COMMITTED_OFFSET(
            f"No offset is known for {listing(missing)}, and auto.offset.reset is error; "
            "commit one, name the partitions in startingOffsets, or set auto.offset.reset to earliest or latest",
        )
    return EARLIEST if reset == "earliest" else LATEST


def is_behind(start: NamedPosition, end: NamedPosition) -> bool:
    """True if a start is after an end in every log, at any time."""
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp):
        return start.timestamp_ms > end.timestamp_ms
    if isinstance(start, Ago) and isinstance(end, Ago):
        return start.ms < end.ms
    if isinstance(start, FromEdge) and isinstance(end, FromEdge):
        return start.edge == end.edge and start.records > end.records
    return isinstance(start, int) and isinstance(end, int) and 0 <= end < start
