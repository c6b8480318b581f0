"""A Spark standalone cluster with executors in separate processes on two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.spark_standalone import SparkStandalone, spark_standalone

DRIVER = Path(__file__).parent / "drivers" / "standalone.py"


@pytest.fixture
def standalone() -> Iterator[SparkStandalone]:
    """A master and two workers with one core each."""
    with spark_standalone(workers=2) as cluster:
        yield cluster


@pytest.mark.long
def test_two_workers(
    standalone: SparkStandalone, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The executors of both workers, and not the driver, write and read a topic, each row once."""
    topic = new_topic(partitions=6, replication=2)
    command = [sys.executable, str(DRIVER), standalone.master, zkafka_cluster.zookeeper_connect, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])

    assert sorted(int(row["key"]) for row in answer["rows"]) == list(range(600))
    assert {row["partition"] for row in answer["rows"]} == set(range(6))
    writers = Counter(tuple(row["value"].split(" ", 1)) for row in answer["rows"])
    readers = Counter((str(row["pid"]), row["folder"]) for row in answer["rows"])
    for places in (writers, readers):
        assert str(answer["driver"]) not in {pid for pid, _ in places}
        assert {next(w for w in standalone.workers if w in Path(folder).parents) for _, folder in places} == {
            *standalone.workers
        }
