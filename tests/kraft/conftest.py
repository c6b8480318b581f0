"""Clusters in KRaft mode, and fixtures for reads, writes and commands through their brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.tools import app as zkafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typer.testing import Result

_NUMBERS = count()


@pytest.fixture(scope="session", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.long)])
def kraft_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A cluster in KRaft mode: combined brokers and controllers (4.3.1), or a separate controller (3.9.1)."""
    if request.param == "4.3.1":
        yield request.getfixturevalue("kafka4")
        return
    with LocalCluster(kafka_version=request.param, brokers=1, controllers=1) as cluster:
        yield cluster


@pytest.fixture
def brokers(kraft_cluster: LocalCluster) -> dict[str, str]:
    """The options that connect to the cluster."""
    return {"kafka.bootstrap.servers": kraft_cluster.bootstrap_servers}


@pytest.fixture
def topic(kraft_cluster: LocalCluster) -> str:
    """A topic with two partitions of 10 records each, written at the times 1000, 2000, ... 10000 ms."""
    name = f"kraft-{next(_NUMBERS)}"
    kraft_cluster.create_topic(name, partitions=2, config={"retention.ms": "-1"})
    records = [{"value": str(n), "partition": p, "timestamp": (n + 1) * 1000} for n in range(10) for p in range(2)]
    kraft_cluster.produce(name, records, {"enable.idempotence": True})
    return name


@pytest.fixture
def read_kraft(spark: SparkSession, brokers: dict[str, str]) -> Callable[..., DataFrame]:
    """Function that reads through the brokers: ``read_kraft({"subscribe": topic})``."""
    return lambda options: spark.read.format("zkafka").options(**brokers, **options).load()


@pytest.fixture
def run_kraft(kraft_cluster: LocalCluster) -> Callable[..., Result]:
    """Function that runs ``zkafka`` on the cluster: ``run_kraft("topics", "list", status=0)``."""

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(zkafka, [*arguments, "--bootstrap-server", kraft_cluster.bootstrap_servers])
        assert result.exit_code == status, result.output
        return result

    return run


@pytest.fixture
def rows_of(run_kraft: Callable[..., Result]) -> Callable[..., list[dict[str, Any]]]:
    """Function that returns a command's JSON rows: ``rows_of("topics", "list")``."""
    return lambda *arguments: json.loads(run_kraft(*arguments, "--json").stdout)
