"""Takeovers between queries of Spark's Kafka source and of ours, in both directions, by `zkafka checkpoint show`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fill import fill
from tests.support.stream import start_until
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

Rows = list[tuple[int, int]]
Run = Callable[..., None]


@pytest.fixture
def run(spark: SparkSession, zkafka_cluster: LocalCluster, tmp_path: Path) -> Run:
    """Function that runs a query to its end: ``run(format, topic, rows, starts)`` adds (partition, offset) to the rows."""

    def run(source: str, topic: str, rows: Rows, starts: str, *, fail: bool = False) -> None:
        def note(frame: DataFrame, number: int) -> None:
            if fail and number > 0:
                raise RuntimeError("stopped")
            rows.extend((row.partition, row.offset) for row in frame.collect())

        options = {
            "kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": starts,
        }
        frame = spark.readStream.format(source).options(**options).load()
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / source))
        query = start_until(writer.trigger(availableNow=True).start, lambda query: not query.isActive, 90)
        error = query.exception()
        assert (error is not None) == fail, error

    return run


def show(folder: Path, *options: str) -> Any:
    """Return the output of ``zkafka checkpoint show``."""
    command = [sys.executable, "-m", "pyspark_zkafka.tools", "checkpoint", "show", folder.as_uri(), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(("first", "second"), [*seldom(("zkafka", "kafka")), ("kafka", "zkafka")])
@pytest.mark.parametrize("unfinished", [pytest.param(False, marks=pytest.mark.long), True])
def test_takeover(
    run: Run,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    first: str,
    second: str,
    unfinished: bool,
) -> None:
    """A takeover loses and repeats no record, even if the old query failed in its last micro-batch before writing."""
    topic, rows = new_topic(partitions=3), Rows()
    fill(zkafka_cluster, topic, 10, partition=[0, 1])
    run(first, topic, rows, "earliest")
    fill(zkafka_cluster, topic, 5, partition=[1, 2])
    if unfinished:
        run(first, topic, rows, "earliest", fail=True)
    shown = json.loads(show(tmp_path / first, "--json"))
    assert [(row["format"], row["partition"], row["committed_offset"]) for row in shown] == [
        (first, 0, 10),
        (first, 1, 10),
        (first, 2, 0),
    ]
    assert [row["planned_offset"] for row in shown] == ([10, 15, 5] if unfinished else [10, 10, 0])
    starts = show(tmp_path / first, "--as", "starting-offsets")
    fill(zkafka_cluster, topic, 3, partition=[0, 2])
    run(second, topic, rows, starts)
    expected = {(p, o): 1 for p, count in {0: 13, 1: 15, 2: 8}.items() for o in range(count)}
    assert Counter(rows) == expected
