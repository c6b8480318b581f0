"""Lookups of a stream's records in another topic, next to Spark's own source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.testing import LocalCluster
from tests.support.parity import THEIR_STREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.long
@pytest.mark.parametrize("source", [*THEIR_STREAM, "zkafka"])
def test_lookups_of_micro_batches(
    spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path, source: str
) -> None:
    """Spark's source plans a frame for each micro-batch; `load` in `foreachBatch` has the same results, also if repeated.

    A repeated micro-batch finds records that arrived after its first attempt.
    """
    stream_topic, lookup_topic = new_topic(), new_topic()
    kafka = {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}
    seen: list[tuple[int, dict[str, str | None]]] = []
    fails = False

    def lookup() -> DataFrame:
        frame = spark.read.format(source).options(**kafka, subscribe=lookup_topic, startingOffsets="earliest").load()
        return frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS found")

    def take(frame: DataFrame, number: int) -> None:
        joined = frame if source == "kafka" else frame.join(lookup(), "key", "left")
        seen.append((number, {row.key: row.found for row in joined.collect()}))
        if fails:
            raise ValueError("the sink is full")

    def produce(topic: str, key: str) -> None:
        zkafka_cluster.produce(topic, [{"key": key.encode(), "value": key.upper().encode()}])

    stream = spark.readStream.format(source).options(**kafka, subscribe=stream_topic, startingOffsets="latest").load()
    keys = stream.selectExpr("CAST(key AS STRING) AS key")
    joined = keys.join(lookup(), "key", "left") if source == "kafka" else keys
    writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    query.processAllAvailable()
    for key in "ab":
        produce(lookup_topic, key)
        produce(stream_topic, key)
        query.processAllAvailable()
    fails = True
    produce(stream_topic, "c")
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination(60)
    fails = False
    produce(lookup_topic, "c")
    query = writer.start()
    query.processAllAvailable()
    query.stop()
    found = [(number, rows) for number, rows in seen if rows]
    begin = found[0][0]
    assert [(number - begin, rows) for number, rows in found] == [
        (0, {"a": "A"}),
        (1, {"b": "B"}),
        (2, {"c": None}),
        (2, {"c": "C"}),
    ]
