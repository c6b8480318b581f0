"""Planted faults, one by one: histories of streams and of writes find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.use import streams, writes
from tests.faults.use.histories import STREAMS, WRITES
from tests.faults.use.plants import PLANTS

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2), pytest.mark.timeout(1500)]


@pytest.mark.parametrize("name", PLANTS)
def test_found_by_the_model(one_broker: LocalCluster, name: str) -> None:
    """The history that once exposed the fault violates an invariant.

    Random schedules find the fault as well: ``python -m tests.faults.use --plant NAME``.
    """
    with pytest.MonkeyPatch.context() as patch:  # in the planner's process, an outdated plant would count as a violation
        PLANTS[name].apply(patch)
    history = PLANTS[name].history
    if history in WRITES:
        assert writes.violation(one_broker, WRITES[history], name) is not None
    else:
        assert streams.violation(one_broker, STREAMS[history], name) is not None
