"""Filters that narrow a batch read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.tiers import seldom
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


class TestPushdown:
    """Filters on topic, partition, offset and timestamp."""

    @pytest.fixture
    def topic(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        topic = new_topic(partitions=3, config=KEPT)
        records = [{"value": b"v", "partition": n % 3, "timestamp": 1_700_000_000_000 + n} for n in range(300)]
        zkafka_cluster.produce(topic, records)
        return topic

    CASES = (
        ("partition = 1", 1, 100),
        ("partition IN (0, 2)", 2, 200),
        ("partition = 1 AND offset >= 90", 1, 10),
        ("offset < 5", 3, 15),
        ("offset > 1000", 0, 0),
        ("topic = 'other'", 0, 0),
        ("timestamp >= timestamp_millis(1700000000297)", 3, 3),
        ("timestamp = timestamp_millis(1700000000000)", 3, 1),
        ("timestamp > timestamp_millis(1800000000000)", 0, 0),
        ("value = 'v'", 3, 300),
    )

    @pytest.mark.parametrize(("where", "partitions", "rows"), CASES)
    def test_narrowed(self, read: Read, topic: str, where: str, partitions: int, rows: int) -> None:
        """If Spark pushes filters, the plan has only partitions that can match, and the rows are the same."""
        options = {"subscribe": topic, "pushFilters": "true"}
        assert read(options).where(where).count() == rows
        assert read(options).where(where).rdd.getNumPartitions() == max(partitions, 1)

    def test_several_queries(self, read: Read, topic: str) -> None:
        """Several queries on one frame get their own rows: by default, filters do not narrow the plan."""
        frame = read({"subscribe": topic})
        assert frame.where("offset >= 90").count() == 30
        assert frame.count() == 300
        assert frame.where("partition = 0").union(frame.where("partition = 1")).count() == 200

    @pytest.mark.parametrize(("where", "partitions", "rows"), [CASES[0], *seldom(*CASES[1:])])
    def test_off(self, spark: SparkSession, read: Read, topic: str, where: str, partitions: int, rows: int) -> None:
        """If Spark does not push filters (its default), reads return the same rows from all partitions."""
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        try:
            frame = read({"subscribe": topic, "pushFilters": "true"}).where(where)
            assert frame.count() == rows
            assert frame.rdd.getNumPartitions() == 3
        finally:
            spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
