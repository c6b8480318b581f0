"""Batch reads that start at a group's offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.fill import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


def offsets(frame: DataFrame, partition: int = 0) -> list[int]:
    """The offsets that a frame holds of one partition, in order."""
    return sorted(row.offset for row in frame.where(f"partition = {partition}").collect())


class TestCommitted:
    """startingOffsets=committed."""

    @pytest.fixture
    def topic(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 10, range(2))
        return topic

    def commit(self, cluster: LocalCluster, topic: str, offset: bytes) -> dict[str, str]:
        """Commit an offset of partition 0 as another consumer; the options of a read that starts there."""
        with cluster.zookeeper() as client:
            client.create(f"/consumers/g-{topic}/offsets/{topic}/0", offset, makepath=True)
        return {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}

    @pytest.mark.parametrize(("reset", "expected"), [("smallest", 10), ("earliest", 10), ("largest", 0), (None, 0)])
    def test_reset(self, read: Read, zkafka_cluster: LocalCluster, topic: str, reset: str | None, expected: int) -> None:
        """A partition starts at the group's offset, one without an offset where auto.offset.reset says (latest)."""
        options = self.commit(zkafka_cluster, topic, b"7")
        frame = read(options | ({"auto.offset.reset": reset} if reset else {}))
        assert offsets(frame, 0) == [7, 8, 9]
        assert len(offsets(frame, 1)) == expected

    def test_unknown_group(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """A group without an offset is an error that suggests the nearest group, in ZooKeeper and in Kafka."""
        options = self.commit(zkafka_cluster, topic, b"7") | {"group.id": f"g{topic}"}
        says = rf"NO_GROUP_OFFSETS.*g{topic} has no offset in {topic}.*did you mean g-{topic}\?"
        with pytest.raises(Exception, match=says):
            read(options).collect()
        with pytest.raises(Exception, match="NO_GROUP_OFFSETS"):
            read({**options, "offsets.storage": "kafka"}).collect()

    def test_reset_error(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """auto.offset.reset=error names the partition that has no offset."""
        options = self.commit(zkafka_cluster, topic, b"7")
        with pytest.raises(Exception, match=rf"NO_COMMITTED_OFFSET.*{topic}-1"):
            read({**options, "auto.offset.reset": "error"}).collect()

    def test_outside_the_log(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """An offset beyond the log follows failOnDataLoss: an error, or a warning and what is there."""
        options = self.commit(zkafka_cluster, topic, b"99")
        with pytest.raises(Exception, match=rf"OFFSET_OUT_OF_RANGE.*{topic}-0.*99.*\[0, 10\)"):
            read(options).collect()
        assert read({**options, "failOnDataLoss": "false"}).collect() == []

    def test_malformed(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """An offset that another tool wrote in bad form is an error that quotes the znode's path."""
        options = self.commit(zkafka_cluster, topic, b"7 ")
        with pytest.raises(Exception, match=rf"MALFORMED_ZNODE.*/consumers/g-{topic}/offsets/{topic}/0"):
            read(options).collect()
