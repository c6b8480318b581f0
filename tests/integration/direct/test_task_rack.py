"""Reads with `kafka.client.rack` taken from the executor's environment."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from tests.support.librdkafka_log import librdkafka_log
from tests.support.spark_standalone import spark_standalone

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

COLUMNS = pa.schema([("offset", pa.int64())])
COUNT = 2000
RACKS = {"a": 0, "b": 1, "c": 2}
Open = Callable[[str, str], tuple[ZKafkaReader, SplitPartition]]

DRIVER = """
import json, sys
from pyspark.sql import SparkSession

master, brokers, topic, rack = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.executor.memory", "512m").config("spark.task.maxFailures", "1")
spark = builder.getOrCreate()
options = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "kafka.client.rack": rack, "transport": "direct"}
try:
    print(json.dumps({"rows": spark.read.format("zkafka").options(**options).load().count()}))
except Exception as error:
    print(json.dumps({"error": str(error)}))
spark.stop()
"""


@pytest.fixture
def replicated(breakable_cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic led by broker 0 in rack a, with replicas in racks b and c."""
    topic = re.sub(r"[^a-z_-]", "-", request.node.name)
    breakable_cluster.create_topic(topic, assignment={0: [0, 1, 2]})
    breakable_cluster.produce(topic, [{"value": b"%d" % n * 20} for n in range(COUNT)], {"batch.size": 10_000})
    breakable_cluster.wait_in_sync(topic)
    return topic


@pytest.fixture
def planned(breakable_cluster: LocalCluster, replicated: str, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Plans a read of the topic on a driver where the variable ZONE is not set: ``planned(transport, rack)``."""
    monkeypatch.delenv("ZONE", raising=False)

    def plan(transport: str, rack: str) -> tuple[ZKafkaReader, SplitPartition]:
        given = {"kafka.bootstrap.servers": breakable_cluster.bootstrap_servers, "subscribe": replicated}
        size = {"kafka.max.partition.fetch.bytes": "20000"}
        log = {"kafka.debug": "fetch,msg,protocol"} if transport == "librdkafka" else {}
        options = parse_read({**given, **size, **log, "transport": transport, "kafka.client.rack": rack})
        found = plan_batch(options)
        return ZKafkaReader(options, COLUMNS), SplitPartition(found.splits, found.bootstrap_servers)

    return plan


class Fetches(logging.Handler):
    """Collects the brokers that were asked for records, from the logs of both transports."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.brokers: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if found := re.search(r"/(\d+): Fetch topic|fetches go to the preferred replica (\d+)", text):
            self.brokers.append(int(found[1] or found[2]))


@pytest.mark.parametrize("transport", ["direct", "librdkafka"])
@pytest.mark.parametrize("zone", ["b", *(pytest.param(zone, marks=pytest.mark.long) for zone in "ac")])
def test_each_task_reads_in_its_zone(
    planned: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, transport: str, zone: str
) -> None:
    """A task fetches from the replica in its executor's zone, which the driver does not know."""
    reader, partition = planned(transport, "${env:ZONE}")
    monkeypatch.setenv("ZONE", zone)
    seen, logger = Fetches(), logging.getLogger("pyspark_zkafka.records")
    logger.addHandler(seen)
    try:
        with librdkafka_log(seen), caplog.at_level(logging.DEBUG, "pyspark_zkafka.records"):
            found = [offset for batch in reader.read(partition) for offset in batch.column("offset").to_pylist()]
    finally:
        logger.removeHandler(seen)
    assert found == list(range(COUNT))
    assert "The direct transport is not used" not in caplog.text
    if transport == "direct" and zone == "a":
        assert seen.brokers == []  # the leader serves, and names no preferred replica
    else:
        assert seen.brokers[-1] == RACKS[zone]


def test_variable_that_is_not_set(planned: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task without the variable fails with an error that names it, unless the reference has a default."""
    for transport in ("direct", "librdkafka"):
        reader, partition = planned(transport, "${env:ZONE}")
        with pytest.raises(OptionError, match=r"environment variable ZONE, which is not set on the executor.*executorEnv"):
            list(reader.read(partition))
        reader, partition = planned(transport, "${env:ZONE:-c}")
        assert sum(batch.num_rows for batch in reader.read(partition)) == COUNT


@pytest.mark.long
def test_executors_of_spark(breakable_cluster: LocalCluster, replicated: str, tmp_path: Path) -> None:
    """Spark's executors resolve the variable even if the driver lacks it, and their errors reach the driver."""
    without = {name: value for name, value in os.environ.items() if name != "ZONE"}
    with spark_standalone(workers=1, environ={"ZONE": "b"}) as cluster:
        for rack, expected in (("${env:ZONE}", {"rows": COUNT}), ("${env:NO_SUCH_ZONE}", "variable NO_SUCH_ZONE")):
            command = [sys.executable, "-c", DRIVER, cluster.master, breakable_cluster.bootstrap_servers, replicated, rack]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path, env=without
            )
            assert done.returncode == 0, done.stderr
            answer = json.loads(done.stdout.splitlines()[-1])
            assert answer == expected if isinstance(expected, dict) else expected in answer["error"]
