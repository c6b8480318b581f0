"""A Spark standalone cluster: executors that are other processes than the driver, on two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import pyspark
import pytest

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.ports import LOOPBACK, PortReservations
from pyspark_zkafka.testing.processes import ServerProcesses
from pyspark_zkafka.testing.waiting import Deadline

DRIVER = Path(__file__).parent / "drivers" / "standalone.py"
SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Standalone:
    """The master's URL, and the folder of each worker."""

    master: str
    workers: list[Path]


@pytest.fixture
def standalone() -> Iterator[Standalone]:
    """A master and two workers with one core each; they end with this process, however it ends."""
    ports, servers = PortReservations(), ServerProcesses()
    with closing(ports), closing(servers):
        servers.open()
        master, web = ports.take(), ports.take()
        spark_class, package = str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy"
        environ = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "192m"}
        address = ["--host", LOOPBACK, "--port", str(master), "--webui-port", str(web)]
        servers.start("master", [spark_class, f"{package}.master.Master", *address], environ)
        workers = [servers.folder / name for name in ("worker-a", "worker-b")]
        for folder in workers:
            size = ["--cores", "1", "--memory", "512m", "--work-dir", str(folder)]
            address = ["--host", LOOPBACK, "--port", str(ports.take()), "--webui-port", str(ports.take())]
            command = [spark_class, f"{package}.worker.Worker", *address, *size, f"spark://{LOOPBACK}:{master}"]
            servers.start(folder.name, command, environ)
        ready = Deadline(60).until(lambda: alive_workers(f"http://{LOOPBACK}:{web}/json/") == 2 or None)
        assert ready, "\n".join(servers.log_tail(name) for name in ("master", "worker-a", "worker-b"))
        yield Standalone(f"spark://{LOOPBACK}:{master}", workers)


def alive_workers(status_page: str) -> int:
    """How many workers the master tells of; 0 while it does not answer."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(status_page, timeout=5) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
    except (URLError, ConnectionError, TimeoutError):
        return 0


def test_two_workers(
    standalone: Standalone, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A topic is written and read by the executors of both workers, each row once, and not by the driver."""
    topic = new_topic(partitions=6, replication=2)
    command = [sys.executable, str(DRIVER), standalone.master, zkafka_cluster.zookeeper_connect, topic]
    environ = {**os.environ, "SPARK_HOME": str(SPARK_HOME)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path, env=environ)
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
