"""Placement of replicas, over all numbers of brokers, racks, partitions and replicas."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.tools.placement import place_replicas


@st.composite
def placements(draw: st.DrawFn, with_racks: bool) -> tuple[dict[int, str | None], int, int, int, int]:
    """Arguments of `place_replicas`."""
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True))
    racks: dict[int, str | None] = {b: draw(st.sampled_from("abcd")) if with_racks else None for b in ids}
    index = st.integers(0, len(ids) - 1)
    return racks, draw(st.integers(0, 30)), draw(st.integers(1, len(ids))), draw(index), draw(index)


@given(placements(with_racks=False))
def test_leaders_are_balanced(arguments: tuple[dict[int, str | None], int, int, int, int]) -> None:
    """Each partition has distinct replicas, and brokers are preferred leaders of as many partitions, but for one."""
    racks, partitions, replication, *_ = arguments
    placed = place_replicas(*arguments)
    assert len(placed) == partitions
    assert all(len(set(replicas)) == len(replicas) == replication and set(replicas) <= set(racks) for replicas in placed)
    leaders = Counter({broker: 0 for broker in racks})
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


@given(placements(with_racks=True))
def test_racks_are_used(arguments: tuple[dict[int, str | None], int, int, int, int]) -> None:
    """The replicas of a partition are in as many racks as there are, or in racks of their own."""
    racks, _, replication, *_ = arguments
    for replicas in place_replicas(*arguments):
        assert len(set(replicas)) == replication
        assert len({racks[broker] for broker in replicas}) == min(replication, len(set(racks.values())))
