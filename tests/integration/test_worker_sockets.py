"""The TCP connection between Spark's JVM and a Python worker, seen by a task's reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import socket, sys
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark_zkafka.worker import TaskObject, _locals

class Reader(TaskObject, DataSourceReader):
    def __init__(self):
        self.state = "some"
    def read(self, partition):
        connection = next(filter(None, _locals("pyspark.daemon", "sock")))
        options = (socket.TCP_QUICKACK, socket.TCP_NODELAY) if connection.family == socket.AF_INET else ()
        yield " ".join(str(connection.getsockopt(socket.IPPROTO_TCP, option)) for option in options) or "unix",

class Source(DataSource):
    def schema(self):
        return "found string"
    def reader(self, schema):
        return Reader()

builder = SparkSession.builder.master("local[1]").config("spark.python.unix.domain.socket.enabled", sys.argv[1])
spark = builder.config("spark.python.worker.reuse", "true").getOrCreate()
spark.dataSource.register(Source)
frame = spark.read.format("Source").load()
print([frame.collect()[0].found for _ in range(3)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is an option of Linux")
@pytest.mark.parametrize(("unix_sockets", "found"), [("false", "1 1"), ("true", "unix")])
@pytest.mark.long
def test_each_task_of_a_worker_is_acknowledged_at_once(unix_sockets: str, found: str) -> None:
    """Every task of a reused worker gets its TCP socket without delays, and a worker with a Unix socket works."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(ROOT / "spark-conf")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, unix_sockets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([found] * 3)
