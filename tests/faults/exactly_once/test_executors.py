"""Executors and workers that die, halt or race; executors run in processes apart from the driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.applications import Application, Rule
from tests.support.copied_rows import Copy
from tests.support.eventually import eventually
from tests.support.processes import alive, parent_of
from tests.support.spark_standalone import SparkStandalone, spark_standalone

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2)]

ROOT = Path(__file__).resolve().parents[3]
INJECTION = ROOT / "tests" / "faults" / "drivers" / "injection"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}
SLOW_S = 30.0


@pytest.fixture(scope="module")
def standalone() -> Iterator[SparkStandalone]:
    """A Spark master and two workers with one core each."""
    with spark_standalone(workers=2, worker_memory="640m", apart=True) as cluster:
        yield cluster


@pytest.fixture
def on_executors(standalone: SparkStandalone, tmp_path: Path) -> Iterator[Application]:
    """An application with two executors of one core each, and with speculation."""
    folder = tmp_path / "distributed"
    paths = os.pathsep.join(map(str, filter(None, [INJECTION, ROOT, os.environ.get("PYTHONPATH")])))
    conf = {
        **SPECULATION,
        "spark.python.task.killTimeout": "120s",  # let an attempt that another one has replaced find this by itself
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": paths,
        "spark.executorEnv.ZKAFKA_TEST_FAULTS": str(folder / "marks"),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "100s",
    }
    application = Application(folder, master=standalone.master, conf=conf)
    yield application
    application.close()


@pytest.fixture(params=["stream", "job"])
def spread(
    request: pytest.FixtureRequest,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    on_executors: Application,
    tmp_path: Path,
) -> tuple[Copy, dict[str, Any], int]:
    """A copy that runs on executors, as a stream or as a batch job; the arguments of `Copy.run`; the batch to disturb."""
    topics = new_topic(partitions=4), new_topic(partitions=3)
    copy = Copy(zkafka_cluster, on_executors, *topics, tmp_path / "checkpoint")
    if request.param == "stream":
        return copy, {}, 1
    source = {name: value for name, value in copy.request.source.items() if name != "maxOffsetsPerTrigger"}
    copy.set_sink(writerName=tmp_path.name, batchId="0")
    return copy, {"is_batch": True, "source": source}, 0


def run_with(rule: Rule, copy: Copy, how: dict[str, Any]) -> None:
    """Run to the end with a rule that takes effect."""
    assert copy.run(rule, **how).error is None
    assert (copy.application.marks / "fired-0").exists()


def test_executor_killed_after_its_commit(spread: tuple[Copy, dict[str, Any], int]) -> None:
    """A task whose executor dies after the commit, before the driver has its result, is repeated and writes nothing."""
    copy, how, batch = spread
    rule = {"point": "commit.after", "batch": batch, "slot": 2, "action": "kill_executor"}
    run_with(rule, copy, how)
    copy.expect_each_once()


def test_executor_killed_before_its_commit(spread: tuple[Copy, dict[str, Any], int]) -> None:
    """A task whose executor dies inside its transaction is repeated; committed readers see its rows once."""
    copy, how, batch = spread
    rule = {"point": "commit.before", "batch": batch, "slot": 2, "action": "kill_executor"}
    run_with(rule, copy, how)
    copy.expect_each_once()
    assert copy.counts(committed=False).total() > copy.rows


def test_speculation(spread: tuple[Copy, dict[str, Any], int]) -> None:
    """When two attempts write one slot at the same time, the later one fences the earlier, and one commits."""
    copy, how, batch = spread
    rule = {"point": "commit_offset.before", "batch": batch, "slot": 3, "action": "sleep", "seconds": SLOW_S}
    run_with(rule, copy, how)
    copy.application.mark(f"abort.before-{batch}-3")
    copy.expect_each_once()
    assert copy.counts(committed=False).total() > copy.rows


def test_zombie_of_a_killed_query(copy: Copy, new_application: Callable[..., Application]) -> None:
    """A worker that outlives its killed query and commits after the restarted query did adds no row."""
    victim = new_application(cores=4)
    # Not SIGSTOP: the kernel ends a halted process whose parent dies (SIGHUP to an orphaned process group).
    victim.start(
        copy.request, {"point": "commit_offset.before", "batch": 1, "slot": 2, "after": ["go on"], "action": "wait"}
    )
    zombie = victim.mark("commit_offset.before-1-2")
    daemon = parent_of(zombie)
    for pid in [daemon, *(victim.processes.keys() - {daemon, zombie})]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    copy.complete()
    copy.expect_each_once()
    assert alive(zombie)
    victim.leave("go on")
    eventually(lambda: not alive(zombie), timeout_s=60)
    copy.expect_each_once()
    assert copy.counts(committed=False).total() > copy.rows
    assert not (victim.marks / "commit.after-1-2").exists()
