"""Faults of a review, planted one by one: schedules of use or other tests find them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults.use import streams, writes
from tests.faults.use.histories import STREAMS, WRITES
from tests.faults.use.plants import PLANTS

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2), pytest.mark.timeout(1500)]


@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.history])
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


@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.test])
def test_found_by_another_test(name: str) -> None:
    """The test named with the fault fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.faults.use.planting"]
    command += ["-m", "long or not long"]  # as many examples as in this run
    done = subprocess.run(
        [*command, "--timeout=60", PLANTS[name].test],
        env={**os.environ, "ZKAFKA_PLANT": name},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed" in done.stdout or "Timeout" in done.stdout + done.stderr
