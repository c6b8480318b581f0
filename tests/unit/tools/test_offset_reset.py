"""Resets of offsets, with logs of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import ClusterStateError, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.tools.offset_reset import (
    FromFile,
    ResetPlan,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToOffset,
    ToPosition,
    clamp,
    parse_datetime_ms,
    parse_iso_duration_ms,
    plan_reset,
)
from tests.support.cases import each

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class FakeLogs:
    """Logs [start, end); a record at offset n has the timestamp n."""

    ends: Mapping[TopicPartition, tuple[int, int]]
    asked: list[TopicPartition] = field(default_factory=list)

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position."""
        self.asked += wanted
        return {tp: self._offset(position, *self.ends[tp]) for tp, position in wanted.items()}

    def _offset(self, position: Position, start: int, end: int) -> int:
        if isinstance(position, AtTimestamp):
            return max(start, position.timestamp_ms) if position.timestamp_ms < end else -1
        return {EARLIEST: start, LATEST: end}[position]


LOGS = {P0: (10, 100), P1: (0, 50)}


@pytest.mark.parametrize(
    ("scenario", "offsets"),
    [
        (ToPosition(EARLIEST), {P0: 10, P1: 0}),
        (ToPosition(LATEST), {P0: 100, P1: 50}),
        (ToPosition(AtTimestamp(5)), {P0: 10, P1: 5}),
        (ToPosition(AtTimestamp(70)), {P0: 70, P1: 50}),
        (ToOffset(60), {P0: 60, P1: 50}),
        (ToOffset(5), {P0: 10, P1: 5}),
        (ShiftBy(-30), {P0: 10, P1: 0}),
        (ShiftBy(1000), {P0: 100, P1: 50}),
        (ToCurrent(), {P0: 20, P1: 5}),
        (FromFile({P1: 7}), {P1: 7}),
    ],
)
def test_scenarios(scenario: Scenario, offsets: dict[TopicPartition, int]) -> None:
    """Each scenario sets the partitions to offsets within their logs; a file only those that it names."""
    assert plan_reset(scenario, [P0, P1], {P0: 20, P1: 5}, FakeLogs(LOGS)).offsets == offsets


def test_to_current_without_an_offset() -> None:
    """A partition without an offset is set to the latest; the others stay as they are, even outside of the log."""
    logs = FakeLogs(LOGS)
    assert plan_reset(ToCurrent(), [P0, P1], {P0: 5}, logs) == ResetPlan({P0: 5, P1: 50})
    assert logs.asked == [P1]


def test_nothing_to_shift() -> None:
    """A partition without an offset cannot be shifted, and is named."""
    with pytest.raises(ClusterStateError, match=r"NO_COMMITTED_OFFSET.*t-1 cannot be shifted"):
        plan_reset(ShiftBy(1), [P0, P1], {P0: 20}, FakeLogs(LOGS))


def test_warnings_are_those_of_kafka() -> None:
    """An offset outside of its log is reported in Kafka's words, and a time after the last record, too."""
    assert clamp({P0: 500, P1: 7}, FakeLogs(LOGS)).warnings == (
        "New offset (500) is higher than latest offset for topic partition t-0. Value will be set to 100",
    )
    assert clamp({P0: 5}, FakeLogs(LOGS)).warnings == (
        "New offset (5) is lower than earliest offset for topic partition t-0. Value will be set to 10",
    )
    assert len(plan_reset(ToPosition(AtTimestamp(70)), [P0, P1], {}, FakeLogs(LOGS)).warnings) == 1


@given(st.integers(-(2**63), 2**63), st.integers(0, 1000), st.integers(0, 1000))
def test_no_reset_leaves_the_log(offset: int, start: int, length: int) -> None:
    """Whatever is asked for, an offset is never below 0 nor outside of the log."""
    logs = FakeLogs({P0: (start, start + length)})
    for scenario in (ToOffset(offset), ShiftBy(offset), FromFile({P0: offset})):
        found = plan_reset(scenario, [P0], {P0: start}, logs)
        assert start <= found.offsets[P0] <= start + length
        assert bool(found.warnings) == (found.offsets[P0] != (offset + start if isinstance(scenario, ShiftBy) else offset))


@each(
    ("text", "milliseconds"),
    [
        ("P7D", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("p1dt1s", 86_401_000),
        ("PT1.5S", 1500),
        ("PT-1M", -60_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    """Durations are those of Java."""
    assert parse_iso_duration_ms(text) == milliseconds


@each("text", ["", "P", "PT", "1D", "P1H", "P1DT", "PT1X", "P1Y", "P1M", "P99999999999D"])
def test_malformed_durations(text: str) -> None:
    """Years and months, which Java's Duration has not, and texts without a number are refused."""
    with pytest.raises(OptionError, match="--by-duration"):
        parse_iso_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.000", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T01:00:00.000+01", 0),
        ("1970-01-01T00:00:00.000-0130", 5_400_000),
        ("1970-01-01T00:01", 60_000),
    ],
)
def test_datetimes(text: str, milliseconds: int) -> None:
    """A time without a zone is in UTC; seconds and their fraction may be left out."""
    assert parse_datetime_ms(text) == milliseconds


@each("text", ["", "2026-11-22", "2026-11-22 10:00:00.000", "2026-13-01T00:00:00.000", "10:00", "2026-11-22T25:00:00"])
def test_malformed_datetimes(text: str) -> None:
    """A date without a time is refused, as by Kafka, and what no calendar has."""
    with pytest.raises(OptionError, match="--to-datetime"):
        parse_datetime_ms(text)
