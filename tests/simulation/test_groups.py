"""Groups of streaming queries in ZooKeeper under random schedules of plans, claims, deaths, growth and production."""

from __future__ import annotations

import pytest

from tests.simulation.group import KINDS, STEPS, simulate
from tests.simulation.schedules import shortest

SCHEDULES = pytest.mark.parametrize(
    "seeds", [range(30), pytest.param(range(30, 300), marks=pytest.mark.long)], ids=["first", "more"]
)


@pytest.mark.parametrize("kind", KINDS)
@SCHEDULES
def test_a_group_skips_nothing(kind: str, seeds: range) -> None:
    """Random schedules of a ZooKeeper group satisfy the invariants of `tests.simulation.schedules`."""
    for seed in seeds:
        failure = simulate(seed, kind)
        assert failure is None, shortest(failure, simulate, STEPS)
