"""Laws of the limits of micro-batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.planning import TriggerLimits

Ranges = dict[TopicPartition, OffsetRange]
LIMITS = st.integers(1, 200) | st.integers(1, 2**63 - 1)
RECORD_BYTES = st.floats(0, 1e7, allow_nan=False)


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    """Draw ranges of different partitions, also empty, inverted and very large ones."""
    starts = draw(st.lists(st.integers(0, 2**62), max_size=8))
    sizes = st.integers(-3, 40) | st.integers(0, 2000) | st.integers(0, 2**62)
    partitions = [TopicPartition("t", n) for n in range(len(starts))]
    return {tp: OffsetRange(tp, start, start + draw(sizes)) for tp, start in zip(partitions, starts, strict=True)}


@st.composite
def some_sizes(draw: st.DrawFn) -> dict[TopicPartition, float]:
    """Draw mean record sizes for some partitions."""
    return {TopicPartition("t", n): draw(RECORD_BYTES) for n in draw(st.sets(st.integers(0, 9)))}


def limit_records(ranges: Ranges, limit: int) -> Ranges:
    return TriggerLimits(max_records=limit).apply(ranges, {})


def limit_bytes(ranges: Ranges, limit: int, record_bytes: dict[TopicPartition, float]) -> Ranges:
    return TriggerLimits(max_bytes=limit).apply(ranges, record_bytes)


def size(ranges: Ranges) -> int:
    return sum(r.size for r in ranges.values())


@given(some_ranges(), LIMITS, some_sizes())
def test_every_limit_stays_within_its_range(ranges: Ranges, limit: int, record_bytes: dict[TopicPartition, float]) -> None:
    """A limit changes no partition, start or empty range, raises no end, and lets every backlog advance."""
    for found in (limit_records(ranges, limit), limit_bytes(ranges, limit, record_bytes)):
        assert list(found) == list(ranges)
        for tp, whole in ranges.items():
            assert found[tp].start == whole.start
            assert found[tp] == whole if whole.size == 0 else whole.start < found[tp].until <= whole.until


@given(some_ranges(), LIMITS)
def test_records_are_hardly_more_than_the_limit(ranges: Ranges, limit: int) -> None:
    """All shares together exceed a limit of records by at most one record per backlog."""
    assert size(limit_records(ranges, limit)) <= limit + sum(r.size > 0 for r in ranges.values())


@given(some_ranges(), LIMITS, st.integers(0, 1000))
def test_a_higher_limit_never_reads_less(ranges: Ranges, limit: int, more: int) -> None:
    """A larger limit of records lowers no end."""
    low, high = limit_records(ranges, limit), limit_records(ranges, limit + more)
    assert all(low[tp].until <= high[tp].until for tp in ranges)


@given(some_ranges(), st.integers(0, 1000))
def test_nothing_changes_when_all_fits(ranges: Ranges, spare: int) -> None:
    """A limit of at least the whole backlog changes nothing."""
    assert limit_records(ranges, max(size(ranges), 1) + spare) == ranges


@given(some_ranges(), LIMITS, st.integers(1, 2000))
def test_bytes_are_records_where_all_are_of_one_size(ranges: Ranges, limit: int, each: int) -> None:
    """If all records have one size, a limit of bytes equals the corresponding limit of records."""
    assert limit_bytes(ranges, limit * each, {TopicPartition("t", 0): float(each)}) == limit_records(ranges, limit)


@given(some_ranges(), LIMITS, LIMITS, some_sizes())
def test_two_limits_are_as_strict_as_each(
    ranges: Ranges, max_records: int, max_bytes: int, record_bytes: dict[TopicPartition, float]
) -> None:
    """With both limits, each partition ends at the lower of its two ends."""
    by_records, by_bytes = limit_records(ranges, max_records), limit_bytes(ranges, max_bytes, record_bytes)
    found = TriggerLimits(max_records, max_bytes).apply(ranges, record_bytes)
    assert {tp: r.until for tp, r in found.items()} == {tp: min(by_records[tp].until, by_bytes[tp].until) for tp in ranges}
