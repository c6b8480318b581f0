"""Groups of streaming queries under random schedules of planning calls, claims, deaths, growth and production."""

from __future__ import annotations

import pytest

from tests.simulation.group import KINDS, STEPS, simulate
from tests.simulation.schedules import shortest

SCHEDULES = pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 300), marks=pytest.mark.long)], ids=["first", "more"]
)


@pytest.mark.parametrize("kind", KINDS)
@SCHEDULES
def test_a_group_skips_nothing(kind: str, seeds: range) -> None:
    """Whatever is produced after a group's first query has started is in a finished micro-batch in the end.

    And no commit is backwards, ahead of finished work, or by a member that has lost the partition; each repeated
    micro-batch is the same; when all is quiet, each partition is owned.
    """
    for seed in seeds:
        failure = simulate(seed, kind)
        assert failure is None, shortest(failure, simulate, STEPS)
