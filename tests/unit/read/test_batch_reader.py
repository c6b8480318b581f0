"""Batch reader: how a task reads one split after another; and the reader of views."""

from __future__ import annotations

import pickle
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_reader import ViewPartition, ViewReader, one_ahead

SCHEMA = pa.schema([("topic", pa.string())])


class Log:
    """Writes down what is begun and ended."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, item: int, opened: ExitStack) -> str:
        self.lines.append(f"begin {item}")
        opened.callback(self.lines.append, f"end {item}")
        if item == 9:
            raise KeyError(item)
        return f"number {item}"


def test_the_next_one_is_begun_before_one_is_read() -> None:
    """While one is read, the next one has been begun, and no other is open."""
    log = Log()
    for item, made in one_ahead([1, 2, 3], log.begin):
        log.lines.append(f"read {item}: {made}")
    assert log.lines == [
        "begin 1",
        "begin 2",
        "read 1: number 1",
        "end 1",
        "begin 3",
        "read 2: number 2",
        "end 2",
        "read 3: number 3",
        "end 3",
    ]


def test_none_and_one() -> None:
    """Nothing is begun for nothing; a single one is read at once."""
    log = Log()
    assert list(one_ahead([], log.begin)) == []
    assert list(one_ahead([1], log.begin)) == [(1, "number 1")]
    assert log.lines == ["begin 1", "end 1"]


def test_all_is_closed_when_reading_ends_early() -> None:
    """Who stops reading closes what is read and what has been begun."""
    log = Log()
    with closing(one_ahead([1, 2, 3], log.begin)) as readers:
        assert next(readers) == (1, "number 1")
    assert sorted(log.lines) == ["begin 1", "begin 2", "end 1", "end 2"]


def test_all_is_closed_when_one_cannot_be_begun() -> None:
    """What fails to begin closes itself and the one before it."""
    log = Log()
    with pytest.raises(KeyError):
        list(one_ahead([1, 9, 3], log.begin))
    assert sorted(log.lines) == ["begin 1", "begin 9", "end 1", "end 9"]


def view_reader() -> ViewReader:
    """A reader of topics' configurations."""
    return ViewReader("configs", parse_read({"zookeeper.connect": "zk:2181", "view": "configs"}), SCHEMA)


def test_partition_carries_its_rows() -> None:
    """Reader and partition survive pickling, and the task reads the very batch that was planned."""
    batch = pa.RecordBatch.from_pylist([{"topic": "a"}], SCHEMA)
    partition = pickle.loads(pickle.dumps(ViewPartition(batch)))
    (found,) = pickle.loads(pickle.dumps(view_reader())).read(partition)
    assert found.equals(batch)


def test_partition_that_spark_makes_up() -> None:
    """A partition that was not planned has no rows."""
    assert list(view_reader().read(InputPartition(None))) == []
