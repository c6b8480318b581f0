"""Groups that Kafka coordinates under random schedules of planning calls, rebalances, deaths, zombies and resets."""

from __future__ import annotations

import pytest

from tests.simulation.kafka_group import KINDS, STEPS, simulate
from tests.simulation.schedules import shortest

SCHEDULES = pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 334), marks=pytest.mark.long)], ids=["first", "more"]
)


@pytest.mark.parametrize("kind", KINDS)
@SCHEDULES
def test_a_group_skips_nothing(kind: str, seeds: range) -> None:
    """Whatever is produced after a group has begun with a partition is in a finished micro-batch in the end.

    And no commit is backwards, ahead of finished work, or by a member that has lost the partition; each repeated
    micro-batch is the same; no partition is owned twice; when all is quiet, each is owned.
    """
    for seed in seeds:
        failure = simulate(seed, kind)
        assert failure is None, shortest(failure, simulate, STEPS)
