"""Schedules of faults."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.faults.harness.nemesis import KINDS, kinds, schedule
from tests.faults.harness.workloads import workload

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.floats(1, 600))
def test_within_the_duration(seed: int, duration_s: float) -> None:
    """Faults are ordered by their start, and end within the duration."""
    planned = schedule(seed, duration_s, KINDS)
    assert list(planned) == sorted(planned, key=lambda one: one.at_s)
    assert all(0 <= one.at_s <= one.end_s <= duration_s for one in planned)


@given(SEEDS)
def test_one_fault_of_a_resource(seed: int) -> None:
    """Faults of one resource do not overlap."""
    planned = schedule(seed, 600, KINDS)
    for resource in {kind.resource for kind in KINDS}:
        faults = [one for one in planned if one.resource == resource]
        assert all(before.end_s < after.at_s for before, after in pairwise(faults))


@given(SEEDS)
def test_every_kind_comes(seed: int) -> None:
    """Each kind of fault occurs within 20 minutes."""
    assert {one.kind for one in schedule(seed, 1200, KINDS)} == {kind.name for kind in KINDS}


@given(SEEDS)
def test_the_same_again(seed: int) -> None:
    """Equal seeds give the same schedule, and different seeds different ones."""
    assert schedule(seed, 300, KINDS) == schedule(seed, 300, KINDS)
    assert schedule(seed, 300, KINDS) != schedule(seed + 1, 300, KINDS)


def test_kinds_of_workloads() -> None:
    """Faults that concern none of the workloads are left out."""
    assert "session expired" in {kind.name for kind in kinds({"reader", "zookeeper"})}
    assert "session expired" not in {kind.name for kind in kinds({"reader", "kafka"})}
    assert "offsets reset" not in {kind.name for kind in kinds({"sink", "zookeeper"})}
    assert not [kind.name for kind in kinds(workload("stream-kafka", kafka="4.3.1").traits) if "zookeeper" in kind.name]
    assert "all brokers killed" in {kind.name for kind in kinds(workload("batch").traits)}
    assert "all brokers killed" not in {kind.name for kind in kinds(workload("batch", kafka="0.10.2.2").traits)}
