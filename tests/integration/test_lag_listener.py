"""The listener on real queries, compared with numbers of Spark, ZooKeeper and the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka import LagListener
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.query_lag import QueryLag
from tests.support.fill import fill
from tests.support.stream import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.server

QUERIES = ("limited", "alone")


@pytest.fixture
def lags(spark: SparkSession) -> Iterator[list[QueryLag]]:
    """The lags that a listener has reported so far for this file's queries; queries of earlier tests may report late."""
    found: list[QueryLag] = []
    listener = LagListener(lambda lag: found.append(lag) if lag.query in QUERIES else None)
    spark.streams.addListener(listener)
    yield found
    spark.streams.removeListener(listener)


@pytest.mark.spark(4, 2)
def test_a_limited_query_of_a_group(
    spark: SparkSession,
    zookeeper: dict[str, str],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    lags: list[QueryLag],
    tmp_path: Path,
    eventually: Callable[..., Any],
) -> None:
    """A query that reads 10 of 40 records at a time reports a smaller lag after each micro-batch, and its commits."""
    topic = new_topic(partitions=2)
    fill(zkafka_cluster, topic, [b"12345"] * 20, range(2))  # each micro-batch takes 5 records of each partition
    options = {"subscribe": topic, "group.id": topic, "auto.offset.reset": "earliest", "maxOffsetsPerTrigger": "10"}
    frame = LagListener.observe_bytes(spark.readStream.format("zkafka").options(**zookeeper, **options).load())
    writer = frame.writeStream.format("noop").queryName("limited").option("checkpointLocation", str(tmp_path))
    run_to_end(writer.trigger(availableNow=True).start)
    eventually(lambda: len(lags) >= 4)
    assert [lag.records for lag in lags] == [10, 10, 10, 10]
    assert [lag.bytes for lag in lags] == [50, 50, 50, 50]
    assert [lag.total_offsets_behind_latest for lag in lags] == [30, 20, 10, 0]
    assert [lag.estimated_total_bytes_behind_latest for lag in lags] == [150.0, 100.0, 50.0, 0.0]
    assert {(lag.query, lag.source, lag.owned_partitions, lag.uncommitted_offsets) for lag in lags} == {
        ("limited", 0, 2, 0)
    }
    assert lags[-1].offsets_behind_latest == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    commits = [lag.commits for lag in lags]
    assert commits == sorted(commits, key=lambda count: count or 0)
    assert commits[-1]


def test_bytes_of_decoded_columns(spark: SparkSession, zookeeper: dict[str, str]) -> None:
    """Bytes of a frame with a decoded column can be observed, which leaves its columns unchanged."""
    decoded = {"subscribe": "t", "value.format": "json", "value.schema": "id bigint"}
    frame = spark.readStream.format("zkafka").options(**zookeeper, **decoded).load()
    assert LagListener.observe_bytes(frame).schema == frame.schema


@pytest.mark.spark(4, 2)
@pytest.mark.long
def test_a_query_without_a_group(
    spark: SparkSession,
    zookeeper: dict[str, str],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    lags: list[QueryLag],
    tmp_path: Path,
    eventually: Callable[..., Any],
) -> None:
    """A query without a group reports a lag but no commits, and no bytes unless it observes them."""
    topic = new_topic(partitions=1)
    zkafka_cluster.produce(topic, [{"value": b"12345"}] * 4)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("zkafka").options(**zookeeper, **options).load()
    writer = frame.writeStream.format("noop").queryName("alone").option("checkpointLocation", str(tmp_path))
    run_to_end(writer.trigger(availableNow=True).start)
    eventually(lambda: lags)
    assert lags[0].metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "0",
        "avgOffsetsBehindLatest": "0.0",
    }
    assert lags[0].records == 4
    assert lags[0].bytes is None
    assert lags[0].commits is None
    assert lags[0].uncommitted_offsets is None
