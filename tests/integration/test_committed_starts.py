"""Batch reads that start at a group's offsets."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.fill import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


def offsets(frame: DataFrame, partition: int = 0) -> list[int]:
    """Return a frame's offsets of one partition, in order."""
    return sorted(row.offset for row in frame.where(f"partition = {partition}").collect())


class TestCommitted:
    """Batch reads with startingOffsets=committed."""

    @pytest.fixture
    def topic(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 10, range(2))
        return topic

    def commit(self, cluster: LocalCluster, topic: str, offset: bytes) -> dict[str, str]:
        """Commit an offset of partition 0, and return options of a read that starts there."""
        with cluster.zookeeper() as client:
            client.create(f"/consumers/g-{topic}/offsets/{topic}/0", offset, makepath=True)
        return {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}

    @pytest.mark.parametrize(("reset", "expected"), [("smallest", 10), ("earliest", 10), ("largest", 0), (None, 0)])
    def test_reset(self, read: Read, zkafka_cluster: LocalCluster, topic: str, reset: str | None, expected: int) -> None:
        """A read starts at the group's offset, or, without one, where auto.offset.reset says (default: latest)."""
        options = self.commit(zkafka_cluster, topic, b"7")
        frame = read(options | ({"auto.offset.reset": reset} if reset else {}))
        assert offsets(frame, 0) == [7, 8, 9]
        assert len(offsets(frame, 1)) == expected

    def test_without_zookeeper(self, spark: SparkSession, zkafka_cluster: LocalCluster, topic: str) -> None:
        """With brokers alone, a stream, a read and a write use the same offsets in Kafka, which no option names."""
        group = {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers, "group.id": f"g-{topic}"}
        read = {**group, "subscribe": topic}
        driver = StreamDriver(parse_stream({**read, "groupMembership": "none", "startingOffsets": "earliest"}))
        with closing(driver):
            start = driver.initial()
            driver.latest(driver.latest(start, limited=False), limited=False)
        reader = spark.read.format("zkafka").options(**read, startingOffsets="committed")
        assert reader.load().count() == 0
        committed = {**group, "commitOffsets": json.dumps({topic: {"0": 10, "1": 9}})}
        rows = spark.createDataFrame([(b"v",)] * 4, "value binary").coalesce(1)
        rows.write.format("zkafka").options(**{**committed, "topic": topic}).mode("append").save()
        assert reader.load().count() == 4

    def test_unknown_group(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """A group without offsets raises an error that suggests the most similar group."""
        options = self.commit(zkafka_cluster, topic, b"7") | {"group.id": f"g{topic}"}
        says = rf"NO_GROUP_OFFSETS.*g{topic} has no offset in {topic}.*did you mean g-{topic}\?"
        with pytest.raises(Exception, match=says):
            read(options).collect()
        with pytest.raises(Exception, match="NO_GROUP_OFFSETS"):
            read({**options, "offsets.storage": "kafka"}).collect()

    def test_reset_error(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """With auto.offset.reset=error, an error names the partition that has no offset."""
        options = self.commit(zkafka_cluster, topic, b"7")
        with pytest.raises(Exception, match=rf"NO_COMMITTED_OFFSET.*{topic}-1"):
            read({**options, "auto.offset.reset": "error"}).collect()

    @pytest.mark.long
    def test_outside_the_log(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """An offset beyond the log raises an error, or with failOnDataLoss=false a read without records."""
        options = self.commit(zkafka_cluster, topic, b"99")
        with pytest.raises(Exception, match=rf"OFFSET_OUT_OF_RANGE.*{topic}-0.*99.*\[0, 10\)"):
            read(options).collect()
        assert read({**options, "failOnDataLoss": "false"}).collect() == []

    def test_malformed(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """A malformed offset raises an error with the znode's path."""
        options = self.commit(zkafka_cluster, topic, b"7 ")
        with pytest.raises(Exception, match=rf"MALFORMED_ZNODE.*/consumers/g-{topic}/offsets/{topic}/0"):
            read(options).collect()
        with zkafka_cluster.zookeeper() as client:  # commands with --all-groups would report it
            client.delete(f"/consumers/g-{topic}", recursive=True)
