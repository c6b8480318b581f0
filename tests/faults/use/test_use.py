"""Random schedules of what users change between runs, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.use import streams, writes
from tests.faults.use.steps import KINDS
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

_FEW = {"alone": 2, "member": 1, "pair": 1}
_MANY = 60


@pytest.mark.parametrize("kind", KINDS)
def test_streams(one_broker: LocalCluster, kind: str) -> None:
    """Some schedules satisfy what every schedule must; see `streams`."""
    found = [streams.find(one_broker, seed, kind) for seed in range(_FEW[kind])]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", KINDS)
def test_many_streams(one_broker: LocalCluster, kind: str, request: pytest.FixtureRequest) -> None:
    """So do many; `--zkafka-seed` chooses others."""
    first = 1000 * request.config.getoption("--zkafka-seed")
    failures = [text for seed in range(first, first + _MANY) if (text := streams.find(one_broker, seed, kind)) is not None]
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("schedules", seldom(10))
def test_writes(one_broker: LocalCluster, schedules: int, request: pytest.FixtureRequest) -> None:
    """Rows are in the topic once, whatever is changed between attempts; see `writes`."""
    first = 1000 * request.config.getoption("--zkafka-seed")
    found = [text for seed in range(first, first + schedules) if (text := writes.find(one_broker, seed)) is not None]
    assert not found, "\n".join(found)
