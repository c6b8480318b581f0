"""Run of a scenario: workloads under faults, then healing, reading until nothing is left, and the checks."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.checker import Violation, check
from tests.faults.harness.health import Growth, growths
from tests.faults.harness.history import Healed, History
from tests.faults.harness.injectors import Injectors
from tests.faults.harness.nemesis import Planned, kinds, schedule
from tests.faults.harness.network import Network, wired_cluster
from tests.faults.harness.report import write_report
from tests.faults.harness.running import Running
from tests.faults.harness.sampling import Sampler, zookeeper_sample
from tests.faults.harness.workloads import Workload

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["Result", "Scenario", "run", "run_on"]

_HEALTH_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Workloads that run at the same time, and the faults that they share.

    Parameters
    ----------
    duration_s : float
        The time in which faults are injected. Faults chosen by the seed that come later, after others took longer than
        planned, are left out.
    quiet_s : tuple of float
        The least and the greatest time between the starts of two faults.
    rate : int
        The records per second of each workload.
    faults : sequence of Planned, optional
        All of these faults are injected. By default, the seed chooses faults.
    """

    workloads: tuple[Workload, ...]
    seed: int
    duration_s: float
    quiet_s: tuple[float, float] = (2.0, 8.0)
    rate: int = 100
    faults: tuple[Planned, ...] | None = None

    @property
    def planned(self) -> tuple[Planned, ...]:
        """The faults, in the order of time."""
        if self.faults is not None:
            return self.faults
        traits = set().union(*(workload.traits for workload in self.workloads))
        return schedule(self.seed, self.duration_s, kinds(traits), self.quiet_s)


@dataclass(frozen=True)
class Result:
    """A workload's history, violations and growths."""

    workload: Workload
    history: History
    violations: list[Violation]
    growths: list[Growth]

    @property
    def failed(self) -> bool:
        """Whether an invariant is violated or a resource leaks."""
        return bool(self.violations) or not all(growth.flat for growth in self.growths)


def run(scenario: Scenario, folder: Path) -> list[Result]:
    """Run a scenario on a new cluster; histories and reports are in the folder."""
    kafka = scenario.workloads[0].kafka
    with wired_cluster(**{"kafka_version": kafka} if kafka else {}) as cluster, Network(cluster) as network:
        return run_on(cluster, network, scenario, folder)


def run_on(cluster: LocalCluster, network: Network, scenario: Scenario, folder: Path) -> list[Result]:
    """Run a scenario on a running cluster."""
    with _started(cluster, network, scenario, folder) as running:
        _inject(scenario, Injectors(cluster, network, running, folder))
        network.mend()
        cluster.wait_ready()
        for one in running:
            one.journal.add(Healed(time.time()))
        with ThreadPoolExecutor() as waiting:
            list(waiting.map(lambda one: one.rest(one.workload.terms().recovery_s), running))
        for one in running:
            one.stop()
    return [_judged(one, scenario, folder) for one in running]


@contextmanager
def _started(cluster: LocalCluster, network: Network, scenario: Scenario, folder: Path) -> Iterator[list[Running]]:
    with ExitStack() as opened:
        running = []
        for workload in scenario.workloads:
            one = Running(workload, cluster, network, folder / workload.name, scenario.rate)
            opened.callback(one.kill)
            running.append(one)
        with ThreadPoolExecutor() as starting:
            list(starting.map(Running.start, running))
        if not cluster.is_kraft:
            sampler = Sampler(lambda: [zookeeper_sample(cluster.port("zookeeper"))], running[0].journal, _HEALTH_S)
            sampler.start()
            opened.callback(sampler.stop)
        yield running


def _inject(scenario: Scenario, injectors: Injectors) -> None:
    """Inject faults at their times, one after another for each resource; raises the error of an injector."""
    begin = time.monotonic()
    by_resource: dict[str, list[Planned]] = defaultdict(list)
    for one in scenario.planned:
        by_resource[one.resource].append(one)
    stopped = threading.Event()

    def work(faults: list[Planned]) -> None:
        for fault in faults:
            if stopped.wait(max(0.0, begin + fault.at_s - time.monotonic())):
                return
            if scenario.faults is None and time.monotonic() - begin > scenario.duration_s:
                return
            injectors.inject(fault)

    with ThreadPoolExecutor() as workers:
        done = [workers.submit(work, faults) for faults in by_resource.values()]
        try:
            for one in done:
                one.result()
        finally:
            stopped.set()
    stopped.wait(max(0.0, begin + scenario.duration_s - time.monotonic()))


def _judged(running: Running, scenario: Scenario, folder: Path) -> Result:
    history = running.history()
    result = Result(running.workload, history, check(history), growths(history))
    write_report(
        result.history, result.violations, result.growths, running.folder, f"{running.workload.name}, seed {scenario.seed}"
    )
    return result
