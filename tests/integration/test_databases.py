"""The examples of docs/databases.md, whose last micro-batch is repeated."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.documentation import ROOT, blocks
from tests.support.repeated_batches import ended_batches, forget_last_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TABLES = ("latest", "records", "totals")
"""Tables, which are also the names of their files and of the checkpoints of their queries."""


@pytest.fixture
def run(
    spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path
) -> Callable[..., dict[str, list[Any]]]:
    """Appends records of key and amount to a topic, runs the page as a new program would, and returns its tables."""
    topic = new_topic(partitions=2)
    (tmp_path / "data").mkdir()

    def real(text: str) -> str:
        text = text.replace("broker1:9092", zkafka_cluster.bootstrap_servers).replace('"orders"', f'"{topic}"')
        return text.replace('"/data/', f'"{tmp_path}/data/').replace('"/checkpoints/', f'"{tmp_path}/checkpoints/')

    def run_page(*records: tuple[str | None, int | None]) -> dict[str, list[Any]]:
        zkafka_cluster.produce(
            topic,
            [
                {"key": key, "value": None if amount is None else json.dumps({"amount": amount}), "partition": key == "b"}
                for key, amount in records
            ],
        )
        names: dict[str, Any] = {"spark": spark}
        for block in blocks(ROOT / "docs" / "databases.md"):
            if block.language == "python" and block.reason is None:
                exec(compile(real(block.text), str(block), "exec"), names)
                if query := names.pop("query", None):
                    query.processAllAvailable()
                    query.stop()
        return {table: rows(tmp_path / "data" / f"{table}.db", table) for table in TABLES}

    return run_page


def rows(file: Path, table: str) -> list[Any]:
    """Return the rows of a table, in order."""
    with closing(sqlite3.connect(file)) as database:
        return sorted(database.execute(f"SELECT * FROM {table}"), key=str)


def test_repetition(run: Callable[..., dict[str, list[Any]]], tmp_path: Path) -> None:
    """A micro-batch that is repeated after the database has committed it changes no table; later ones are written."""
    first = run(("a", 1), ("b", 10), ("a", 2), ("c", 5), ("c", None))
    assert first["latest"] == [("a", '{"amount": 2}'), ("b", '{"amount": 10}')]
    assert len(first["records"]) == 5
    assert first["totals"] == [("a", 3), ("b", 10), ("c", 5)]

    checkpoints = [tmp_path / "checkpoints" / table for table in TABLES]
    forgotten = [forget_last_end(checkpoint) for checkpoint in checkpoints]
    assert run() == first
    assert [ended_batches(checkpoint)[-1] for checkpoint in checkpoints] == forgotten

    later = run(("b", 1))
    assert later["latest"] == [("a", '{"amount": 2}'), ("b", '{"amount": 1}')]
    assert len(later["records"]) == 6
    assert later["totals"] == [("a", 3), ("b", 11), ("c", 5)]
