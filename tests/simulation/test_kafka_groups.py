"""Groups of streaming queries in Kafka under random schedules of plans, rebalances, deaths, zombies and resets."""

from __future__ import annotations

import pytest

from tests.simulation.kafka_group import KINDS, STEPS, simulate
from tests.simulation.schedules import shortest

SCHEDULES = pytest.mark.parametrize(
    "seeds", [range(30), pytest.param(range(30, 334), marks=pytest.mark.long)], ids=["first", "more"]
)


@pytest.mark.parametrize("kind", KINDS)
@SCHEDULES
def test_a_group_skips_nothing(kind: str, seeds: range) -> None:
    """Random schedules of a Kafka group satisfy the invariants of `tests.simulation.schedules`."""
    for seed in seeds:
        failure = simulate(seed, kind)
        assert failure is None, shortest(failure, simulate, STEPS)
