"""The source through Spark Connect, found by its name on the server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.processes import LOOPBACK, ServerProcesses, Wait

DRIVER = Path(__file__).parent / "drivers" / "connect.py"
SPARK_HOME = Path(os.environ["SPARK_HOME"])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server with one core, started from pyspark's jars. It always ends with this process."""
    with closing(ServerProcesses()) as servers:
        servers.open()
        port = servers.port("connect")
        settings = {
            "spark.master": "local[1]",
            "spark.driver.memory": "512m",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
        }
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        servers.start("connect", [*command, "spark-internal"], {})
        assert Wait(90).until(lambda: accepts(port)), servers.log_tail("connect")
        yield f"sc://{LOOPBACK}:{port}"


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@pytest.fixture
def run(server: str, zkafka_cluster: LocalCluster, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs the client on a topic, or on a topic and a copy of it, and returns its result."""

    def run(*topics: str) -> dict[str, Any]:
        command = [sys.executable, str(DRIVER), server, zkafka_cluster.zookeeper_connect, *topics]
        environ = {**os.environ, "JAVA_HOME": str(tmp_path), "SPARK_HOME": str(tmp_path)}  # neither exists there
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path, env=environ)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert answer["session"].startswith("pyspark.sql.connect")
        return answer

    return run


@pytest.mark.long
def test_write_and_read(
    run: Callable[..., dict[str, Any]], zkafka_cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    """A client without a JVM writes, reads, queries a view, and gets the error of a misspelt option."""
    answer = run(new_topic(partitions=3))
    assert answer["columns"] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert sorted(int(row["value"]) for row in answer["rows"]) == list(range(100))
    assert len({(row["key"], row["partition"]) for row in answer["rows"]}) == 10
    assert answer["brokers"] == len(zkafka_cluster.broker_ids)
    assert "unknown option subscribes; did you mean subscribe?" in answer["refused"]


@pytest.mark.long
@pytest.mark.spark(4, 1)  # tasks of such a query fail in Spark 4.0.5: "key not found: PythonWorker"
def test_exactly_once_in_foreach_batch(
    run: Callable[..., dict[str, Any]], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """An exactly-once write in foreachBatch needs a name and the micro-batch's number, which identify its repetition."""
    answer = run(new_topic(partitions=3), new_topic(partitions=2), str(tmp_path))
    assert ["[UNNAMED_WRITE]" in error for error in answer["unnamed"]] == [True, True]
    assert "injected" in answer["copies"][0]
    assert answer["copies"][1] == ""
    assert answer["copied"] == 100
