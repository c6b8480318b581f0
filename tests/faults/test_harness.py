"""Short runs of the harness: workloads under random faults, checked by all invariants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness.history import Fault, Sent
from tests.faults.harness.nemesis import Planned
from tests.faults.harness.run import Scenario, run
from tests.faults.harness.workloads import Workload, workload

pytestmark = [pytest.mark.timeout(900), pytest.mark.spark(4, 2)]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the random faults."""
    found: int = request.config.getoption("--zkafka-seed")
    return found


def violations(scenario: Scenario, folder: Path) -> list[str]:
    """Return the violations of all workloads, after checking that records were sent and faults were injected.

    None of the scenario's own faults may be left out.
    """
    results = run(scenario, folder)
    for result in results:
        assert result.history.of(Sent)
        injected = [fault.kind for fault in result.history.of(Fault)]
        assert injected
        if scenario.faults is not None:
            assert sorted(injected) == sorted(planned.kind for planned in scenario.planned)
    return [f"{result.workload.name}: {found}" for result in results for found in result.violations]


@pytest.mark.long
def test_a_stream_under_faults(tmp_path: Path) -> None:
    """A stream survives a killed planner, a killed broker and a cut ZooKeeper connection, and delivers each record."""
    faults = (
        Planned(0.5, 0.0, "planner killed", 0.0),
        Planned(20.0, 1.0, "broker killed", 0.5),  # once the query runs again
        Planned(35.0, 1.0, "zookeeper connections cut", 0.0),
    )
    alone = Workload("stream-zookeeper", "direct", 1)
    assert violations(Scenario(workloads=(alone,), seed=1, duration_s=40, faults=faults), tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stream-kafka", "sink-at-least-once", "sink-exactly-once"])
def test_full_disks(kind: str, tmp_path: Path) -> None:
    """No record is lost when two brokers, one after the other, stop because their disks are full."""
    faults = (Planned(2.0, 5.0, "broker's disk full", 0.0), Planned(15.0, 2.0, "broker's disk full", 0.5))
    alone = Workload(kind, "direct", 1)
    assert violations(Scenario(workloads=(alone,), seed=1, duration_s=30, faults=faults), tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("transport", ["direct", "librdkafka"])
@pytest.mark.parametrize("kind", ["batch", "stream-zookeeper", "stream-kafka"])
def test_groups(kind: str, transport: str, seed: int, tmp_path: Path) -> None:
    """A group delivers each record and commits what it finished under random faults."""
    scenario = Scenario(workloads=(workload(kind, transport),), seed=seed, duration_s=60)
    assert violations(scenario, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("kafka", ["0.10.2.2", "4.3.1"])
def test_other_brokers(kafka: str, seed: int, tmp_path: Path) -> None:
    """Groups in old brokers, and in those without ZooKeeper, deliver each record under random faults."""
    kinds = ("batch", "stream-kafka")
    scenario = Scenario(workloads=tuple(workload(kind, kafka=kafka) for kind in kinds), seed=seed, duration_s=60)
    assert violations(scenario, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sink-at-least-once", "sink-exactly-once", "sink-exactly-once-foreach"])
def test_sinks(kind: str, seed: int, tmp_path: Path) -> None:
    """A sink receives each record under random faults; an exactly-once sink receives it once."""
    scenario = Scenario(workloads=(workload(kind, "direct"),), seed=seed, duration_s=60)
    assert violations(scenario, tmp_path) == []
