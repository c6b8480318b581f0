"""Laws of plans."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.planning import Split, coalesce, in_fixed_order, split_ranges

LIMITS = st.none() | st.integers(1, 60)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[OffsetRange]:
    """Draw ranges of different partitions, also empty, inverted and very large ones."""
    starts = draw(st.lists(st.integers(0, 2**40), max_size=8))
    sizes = st.integers(-3, 40) | st.integers(0, 2000)
    return [OffsetRange(TopicPartition("t", n), start, start + draw(sizes)) for n, start in enumerate(starts)]


@given(some_ranges(), LIMITS, LIMITS)
def test_a_plan_covers_each_range_exactly_once(ranges: list[OffsetRange], minimum: int | None, maximum: int | None) -> None:
    """The pieces of each range are consecutive, complete, not empty, and in the order of the ranges."""
    pieces = split_ranges(ranges, minimum, maximum)
    assert all(piece.start < piece.until for piece in pieces)
    joined = []
    for partition, found in groupby(pieces, key=lambda piece: piece.partition):
        cuts = list(found)
        assert all(left.until == right.start for left, right in pairwise(cuts))
        joined.append(OffsetRange(partition, cuts[0].start, cuts[-1].until))
    assert joined == [r for r in ranges if r.size > 0]


@given(some_ranges(), LIMITS, st.integers(1, 60))
def test_no_piece_is_larger_than_the_cap(ranges: list[OffsetRange], minimum: int | None, maximum: int) -> None:
    """No piece exceeds maxRecordsPerPartition, whatever minPartitions is."""
    assert max((piece.size for piece in split_ranges(ranges, minimum, maximum)), default=0) <= maximum


@given(some_ranges(), st.integers(1, 60))
def test_the_cap_makes_no_more_pieces_than_it_must(ranges: list[OffsetRange], maximum: int) -> None:
    """maxRecordsPerPartition alone cuts a range into the fewest pieces, as equal as possible."""
    pieces = split_ranges(ranges, None, maximum)
    for whole in ranges:
        sizes = [piece.size for piece in pieces if piece.partition == whole.partition]
        assert len(sizes) == -(-whole.size // maximum)
        assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(some_ranges(), st.integers(1, 60))
def test_min_partitions_never_makes_fewer(ranges: list[OffsetRange], minimum: int) -> None:
    """minPartitions leaves at least one piece of each range, and cuts nothing if there are enough."""
    full = [r for r in ranges if r.size > 0]
    pieces = split_ranges(ranges, minimum)
    assert len(pieces) >= len(full)
    if minimum <= len(full):
        assert pieces == full


@given(st.integers(1, 10_000), st.integers(1, 200))
def test_a_single_range_is_cut_exactly(size: int, minimum: int) -> None:
    """minPartitions is exact for a single range with enough records."""
    assert len(split_ranges([OffsetRange(TopicPartition("t", 0), 7, 7 + size)], minimum)) == min(size, minimum)


@given(st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 9)), max_size=40), st.randoms())
def test_order_does_not_depend_on_leaders(places: set[tuple[str, int, int]], random: Random) -> None:
    """Splits are in the same order whoever leads, each once. The pieces of a partition stay in order, one in each turn."""

    def shuffled() -> list[Split]:
        found = [Split(TopicPartition(t, n), at, at + 1, random.randrange(5), 0, (), ()) for t, n, at in places]
        return random.sample(found, len(found))

    orders = [[(*split.partition, split.start) for split in in_fixed_order(shuffled())] for _ in range(2)]
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(places)
    turns = Counter[tuple[str, int]]()
    for topic, number, _ in orders[0]:
        turns[topic, number] += 1
        assert turns[topic, number] == max(turns.values())


@given(st.lists(st.integers(1, 50), max_size=40), LIMITS, LIMITS)
def test_lots_are_large_enough(sizes: list[int], minimum: int | None, maximum: int | None) -> None:
    """Lots have every split once, in order; each except the last has enough records, or no room for the next split."""
    splits = [Split(TopicPartition("t", n), 7, 7 + size, 1, 0, (), ()) for n, size in enumerate(sizes)]
    lots = coalesce(splits, minimum, maximum)
    assert [split for lot in lots for split in lot] == splits
    totals = [sum(split.size for split in lot) for lot in lots]
    if minimum is None:
        assert all(len(lot) == 1 for lot in lots)
        return
    for total, (lot, following) in zip(totals, pairwise(lots), strict=False):
        assert sum(split.size for split in lot[:-1]) < minimum
        assert total >= minimum or (maximum is not None and total + following[0].size > maximum)
    assert all(len(lot) == 1 or maximum is None or total <= maximum for lot, total in zip(lots, totals, strict=True))
