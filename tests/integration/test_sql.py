"""SQL: views, INSERT INTO, tables and Spark pipelines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyspark_zkafka.testing import LocalCluster
from tests.support.documentation import ROOT

PIPELINES = Path(sys.executable).with_name("spark-pipelines")
TEN = [(b"k%d" % (n % 3), b"%d" % n) for n in range(10)]


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> str:
    """A topic with ten records."""
    name = new_topic(partitions=2)
    zkafka_cluster.produce(name, [{"key": key, "value": value, "partition": 0} for key, value in TEN])
    return name


@pytest.fixture
def view(spark: SparkSession, zkafka_cluster: LocalCluster) -> Iterator[Callable[..., str]]:
    """Creates a view for a test, and returns its name."""
    names: list[str] = []

    def create(columns: str = "", **options: str) -> str:
        names.append(name := f"v_{uuid.uuid4().hex}")
        given = {"zookeeper.connect": zkafka_cluster.zookeeper_connect, **options}
        listed = ", ".join(f"{option} '{value}'" for option, value in given.items())
        spark.sql(f"CREATE TEMPORARY VIEW {name} {columns} USING zkafka OPTIONS ({listed})")
        return name

    yield create
    for name in names:
        spark.catalog.dropTempView(name)


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(
        tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row) for row in spark.sql(query).collect()
    )


def test_views(spark: SparkSession, topic: str, new_topic: Callable[..., str], view: Callable[..., str]) -> None:
    """A view reads a topic, with or without a schema, and INSERT INTO a view writes to a topic."""
    source, copied = view(subscribe=topic), new_topic(partitions=2)
    assert rows(spark, f"SELECT key, value FROM {source}") == sorted(TEN)
    assert rows(spark, f"SELECT * FROM {view('(value string, offset bigint)', subscribe=topic)} WHERE offset > 7") == [
        ("8", 8),
        ("9", 9),
    ]
    sink = view("(key binary, value binary)", topic=copied)
    spark.sql(f"INSERT INTO {sink} SELECT key, value FROM {source}")
    left_out = "(value) VALUES (" if spark.version >= "4.1" else "VALUES (NULL, "
    spark.sql(f"INSERT INTO {sink} {left_out}cast('alone' AS binary))")
    found = spark.sql(f"SELECT key, value FROM {view(subscribe=copied)}").collect()
    assert sorted(bytes(row.value) for row in found) == sorted([b"alone", *(value for _, value in TEN)])
    assert [row.key for row in found if bytes(row.value) == b"alone"] == [None]
    with pytest.raises(AnalysisException, match="SAVE_MODE"):
        spark.sql(f"INSERT OVERWRITE {sink} SELECT key, value FROM {source}")


def test_tables(spark: SparkSession, zkafka_cluster: LocalCluster, topic: str, new_topic: Callable[..., str]) -> None:
    """CREATE TABLE with options is refused, as Spark does not pass them; queries on a table name them instead."""
    connect, copied, table = zkafka_cluster.zookeeper_connect, new_topic(partitions=1), f"t_{uuid.uuid4().hex}"
    with pytest.raises(AnalysisException, match=r"TABLE_WITHOUT_OPTIONS.*Use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE {table} USING zkafka OPTIONS (zookeeper.connect '{connect}', subscribe '{topic}')")
    spark.sql(f"CREATE TABLE {table} (key binary, value binary) USING zkafka")
    try:
        with pytest.raises(AnalysisException, match=r"INVALID_OPTIONS.*by WITH \(name = 'value'"):
            spark.sql(f"SELECT * FROM {table}").collect()
        reading = f"{table} WITH (`zookeeper.connect` = '{connect}', `subscribe` = '{{}}')"
        writing = f"{table} WITH (`zookeeper.connect` = '{connect}', `topic` = '{copied}')"
        spark.sql(f"INSERT INTO {writing} SELECT * FROM {reading.format(topic)}")
        assert rows(spark, f"SELECT * FROM {reading.format(copied)}") == sorted(TEN)
    finally:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.long
@pytest.mark.spark(4, 1)
@pytest.mark.timeout(600)
def test_pipeline(
    spark: SparkSession, zkafka_cluster: LocalCluster, topic: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The pipeline of docs/sql.md reads a topic into a table, and copies the table to another topic."""
    copied = new_topic(partitions=1)
    (program,) = re.findall(
        r"```python\n(from pyspark import pipelines.*?)```", (ROOT / "docs/sql.md").read_text(), re.DOTALL
    )
    program = program.replace("broker1:9092", zkafka_cluster.bootstrap_servers)
    program = program.replace('"subscribe", "orders"', f'"subscribe", "{topic}"')
    program = program.replace('"topic": "invoices"', f'"topic": "{copied}"')
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(program)
    libraries = "libraries:\n  - glob:\n      include: transformations/**\n"
    storage = (tmp_path / "storage").as_uri()
    (tmp_path / "spark-pipeline.yml").write_text(f"name: orders\nstorage: {storage}\n{libraries}")

    done = subprocess.run(
        [str(PIPELINES), "run", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=512m"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    options = {"zookeeper.connect": zkafka_cluster.zookeeper_connect, "subscribe": copied}
    found = spark.read.format("zkafka").options(**options).load().collect()
    assert sorted((bytes(row.key), bytes(row.value)) for row in found) == sorted(TEN)
