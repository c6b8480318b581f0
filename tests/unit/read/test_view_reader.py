"""Spark's reader of a view, as far as it needs no cluster."""

from __future__ import annotations

import pickle

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.view_reader import ViewPartition, ViewReader

SCHEMA = pa.schema([("topic", pa.string())])


def reader() -> ViewReader:
    """A reader of topics' configurations."""
    return ViewReader("configs", parse_read({"zookeeper.connect": "zk:2181", "view": "configs"}), SCHEMA)


def test_partition_carries_its_rows() -> None:
    """Reader and partition survive pickling, and the task reads the very batch that was planned."""
    batch = pa.RecordBatch.from_pylist([{"topic": "a"}], SCHEMA)
    partition = pickle.loads(pickle.dumps(ViewPartition(batch)))
    (found,) = pickle.loads(pickle.dumps(reader())).read(partition)
    assert found.equals(batch)


def test_partition_that_spark_makes_up() -> None:
    """A partition that was not planned has no rows."""
    assert list(reader().read(InputPartition(None))) == []
