"""Groups of streaming queries under random schedules of planning calls, claims, deaths, growth and production."""

from __future__ import annotations

import pytest

from tests.simulation.group import shortest, simulate

SCHEDULES = 300


@pytest.mark.parametrize("by_pattern", [False, True], ids=["by name", "by pattern"])
def test_a_group_skips_nothing(by_pattern: bool) -> None:
    """Whatever is produced after a group's first query has started is in a finished micro-batch in the end.

    And no commit is backwards, ahead of finished work, or by a member that has lost the partition; each repeated
    micro-batch is the same; when all is quiet, each partition is owned.
    """
    for seed in range(SCHEDULES):
        failure = simulate(seed, by_pattern=by_pattern)
        assert failure is None, shortest(failure)
