"""The faults of the last review, planted one by one: schedules of use find them, or another test does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults.use import streams, writes
from tests.faults.use.plants import PLANTS

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

_MOST_SEEDS = 40

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.kinds])
def test_found_by_schedules(one_broker: LocalCluster, name: str) -> None:
    """Some schedule violates what every schedule must satisfy."""
    plant = PLANTS[name]
    for seed in (*plant.seeds, *range(_MOST_SEEDS)):
        for kind in plant.kinds:
            find = writes.find if kind in writes.KINDS else streams.find
            if find(one_broker, seed, kind, name) is not None:
                return
    pytest.fail(f"no schedule finds {name}")


@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.test])
def test_found_by_another_test(name: str) -> None:
    """The test fails that is named with the fault."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.faults.use.planting"]
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
