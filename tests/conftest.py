"""What all tests share: one Spark session on real settings, one cluster, and the promise that CI skips no server test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

ROOT = Path(__file__).resolve().parent.parent

# Spark's workers run "python3" from the PATH unless they are told otherwise.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_CONF_DIR"] = str(ROOT / "spark-conf")
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

KAFKA_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Spark's own connector, the peer of the parity tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in a folder of server tests, so that -m 'not server' leaves it out."""
    servers = {ROOT / "tests" / name for name in ("integration", "interop", "parity", "faults", "notebooks")}
    for item in items:
        if servers & set(item.path.parents):
            item.add_marker(pytest.mark.server)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--zkafka-require-servers", action="store_true", help="a skipped test is a failure (for CI)")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped something where nothing may be skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.config.getoption("--zkafka-require-servers"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores, the settings of spark-conf/, and Spark's own connector beside ours."""
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import fetch_jars

    jars = ",".join(map(str, fetch_jars(*KAFKA_CONNECTOR, transitive=False)))
    session = SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", jars).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _topic_numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def new_topic(zkafka_cluster: LocalCluster, _topic_numbers: Iterator[int]) -> Callable[..., str]:
    """Makes a topic of a name of its own: ``new_topic(partitions=4, replication=2, config={...})``."""

    def make(**arguments: object) -> str:
        name = f"topic-{next(_topic_numbers)}"
        zkafka_cluster.create_topic(name, **arguments)
        return name

    return make


@pytest.fixture(params=["zookeeper", "bootstrap"])
def connection(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster) -> dict[str, str]:
    """The options that reach the cluster: once through ZooKeeper, once through its brokers alone."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
    return {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}


@pytest.fixture
def zookeeper(zkafka_cluster: LocalCluster) -> dict[str, str]:
    """The options that reach the cluster through ZooKeeper."""
    return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}


@pytest.fixture
def read(spark: SparkSession, zookeeper: dict[str, str]) -> Callable[..., DataFrame]:
    """Reads through ZooKeeper: ``read({"subscribe": topic}, schema="value string")``."""

    def load(options: dict[str, str], schema: str | None = None) -> DataFrame:
        reader = spark.read.format("zkafka").options(**{**zookeeper, **options})
        return (reader if schema is None else reader.schema(schema)).load()

    return load
