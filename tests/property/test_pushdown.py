"""PushedFilters on simulated logs: no filter leaves out a matching record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.pushdown import Comparison, pushed_filters

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    def column(self, name: str) -> Any:
        return EPOCH + timedelta(milliseconds=self.timestamp_ms) if name == "timestamp" else getattr(self, name)

    def matches(self, comparison: Comparison) -> bool:
        have, value = self.column(comparison.column), comparison.value
        tests = {
            "=": lambda: have == value,
            "in": lambda: have in value,
            ">": lambda: have > value,
            ">=": lambda: have >= value,
            "<": lambda: have < value,
            "<=": lambda: have <= value,
        }
        return bool(tests[comparison.operator]())


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b", "c"]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-2, 40),
    # microseconds around a few milliseconds on both sides of the epoch, because records without a time show as -1 ms
    "timestamp": st.integers(-3000, 12_000).map(lambda us: EPOCH + timedelta(microseconds=us)),
}


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    column = draw(st.sampled_from(list(VALUES)))
    operator = draw(st.sampled_from(["=", "in", ">", ">=", "<", "<="]))
    values = VALUES[column]
    return Comparison(column, operator, draw(st.lists(values, max_size=3).map(tuple) if operator == "in" else values))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Draw a log with gaps, and with timestamps in any order."""
    partition = TopicPartition(draw(VALUES["topic"]), draw(st.integers(0, 2)))
    offsets = sorted(draw(st.sets(st.integers(0, 35), max_size=12)))
    return [Record(partition.topic, partition.partition, o, draw(st.integers(-1, 9))) for o in offsets]


@given(logs(), st.lists(comparisons(), max_size=4))
def test_narrowing_never_drops_a_matching_record(log: list[Record], filters: list[Comparison]) -> None:
    """A record that passes all filters is in an admitted partition and in the remaining range."""
    pushed = pushed_filters(filters)
    for record in log:
        if not all(record.matches(comparison) for comparison in filters):
            continue
        partition = TopicPartition(record.topic, record.partition)
        left = pushed.cut(OffsetRange(partition, 0, 36))
        assert pushed.admits(partition)
        assert left.start <= record.offset < left.until


@given(st.integers(0, 30), st.integers(0, 30), st.lists(comparisons(), max_size=4))
def test_narrowing_never_adds(start: int, size: int, filters: list[Comparison]) -> None:
    """The range that filters leave is inside the whole range, or empty."""
    partition = TopicPartition("a", 0)
    left = pushed_filters(filters).cut(OffsetRange(partition, start, start + size))
    assert left.start <= left.until
    assert left.size == 0 or start <= left.start < left.until <= start + size
