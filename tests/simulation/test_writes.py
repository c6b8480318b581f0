"""Exactly-once writes under random schedules of deaths, restarts, copies, zombies, and changes of plan and ledger."""

from __future__ import annotations

import pytest

from tests.simulation.schedules import shortest
from tests.simulation.writes import STEPS, simulate

SCHEDULES = pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 1_500), marks=pytest.mark.long)], ids=["first", "more"]
)


@SCHEDULES
def test_each_row_is_visible_once(seeds: range) -> None:
    """Each row of a completed micro-batch is visible once, and no row is ever visible twice.

    The query stops only for a reason that its error names, and continues when restarted in one of its earlier layouts.
    """
    for seed in seeds:
        failure = simulate(seed)
        assert failure is None, shortest(failure, simulate, STEPS)
