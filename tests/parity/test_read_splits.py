"""Spark partitions of Spark's JVM connector and of ours: the same splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from pyspark_zkafka.testing import LocalCluster
from tests.support.fill import fill
from tests.support.parity import by_partition, filled
from tests.support.tiers import seldom
from tests.support.topics import create_afresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NewTopic = Callable[..., str]
Peers = Any
"""`Peers` of conftest.py, which tests cannot import."""


@pytest.fixture(scope="module")
def uneven(zkafka_cluster: LocalCluster) -> str:
    """A topic with 40, 12, 3 and 1 records in its partitions."""
    create_afresh(zkafka_cluster, "parity-uneven", partitions=4)
    for partition, records in enumerate((40, 12, 3, 1)):
        fill(zkafka_cluster, "parity-uneven", records, partition)
    return "parity-uneven"


class TestSplits:
    """Spark partitions of Kafka partitions."""

    @staticmethod
    def ranges(frame: DataFrame) -> list[tuple[str, int, int, int]]:
        """Return (topic, partition, first offset, last offset) of each Spark partition with rows, sorted."""
        found = defaultdict(list)
        for task, topic, partition, offset in frame.select(
            F.spark_partition_id(), "topic", "partition", "offset"
        ).collect():
            found[task, topic, partition].append(offset)
        assert len({task for task, *_ in found}) == len(found)  # one Kafka partition in each Spark partition
        return sorted((topic, partition, min(o), max(o)) for (_, topic, partition), o in found.items())

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"minPartitions": "9", "maxRecordsPerPartition": "8"},
            {"minPartitions": "7", "startingOffsets": (20, 1, 2, 0)},
            *seldom(*({"minPartitions": n} for n in ("1", "4", "5", "6", "9", "23"))),
            *seldom(*({"maxRecordsPerPartition": n} for n in ("3", "7", "12", "39", "1000"))),
            *seldom({"minPartitions": "12", "maxRecordsPerPartition": "12"}),
            *seldom({"minPartitions": "5", "maxRecordsPerPartition": "1000"}),
        ],
    )
    def test_same(self, peers: Peers, uneven: str, options: dict[str, Any]) -> None:
        """minPartitions, maxRecordsPerPartition and both together give the same splits."""
        bounds = {"startingOffsets": (0, 0, 0, 0), "endingOffsets": (40, 12, 3, 1)}
        given = {"subscribe": uneven, **filled({**bounds, **options}, uneven)}
        ours, theirs = peers.ours(given), peers.theirs(given)
        assert self.ranges(ours) == self.ranges(theirs)
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()

    @pytest.mark.parametrize(
        "options", [{"minPartitions": "6"}, *seldom({}, {"minPartitions": "9", "maxRecordsPerPartition": "8"})]
    )
    def test_earliest_to_latest(self, peers: Peers, uneven: str, options: dict[str, str]) -> None:
        """Splits are also the same if the ends of the range must be looked up."""
        given = {"subscribe": uneven, **options}
        assert self.ranges(peers.ours(given)) == self.ranges(peers.theirs(given))

    def test_limit_of_an_open_end(self, peers: Peers, uneven: str) -> None:
        """If the end is latest, Spark's connector ignores maxRecordsPerPartition; ours applies it."""
        given = {"subscribe": uneven, "maxRecordsPerPartition": "12"}
        assert len(self.ranges(peers.theirs(given))) == 4
        assert len(self.ranges(peers.ours(given))) == 7
        assert all(last - first < 12 for *_, first, last in self.ranges(peers.ours(given)))

    @pytest.mark.parametrize("options", [{"minPartitions": "9"}, *seldom({}, {"maxRecordsPerPartition": "4"})])
    def test_empty_partitions(
        self, peers: Peers, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: dict[str, str]
    ) -> None:
        """Empty partitions do not change how others are split; ours starts no tasks for them."""
        topic = new_topic(partitions=5)
        zkafka_cluster.produce(topic, [{"value": b"v", "partition": p} for p in (1, 1, 1, 1, 1, 1, 4, 4)])
        given = {"subscribe": topic, **options, "endingOffsets": by_partition(topic, 0, 6, 0, 0, 2)}
        given["startingOffsets"] = by_partition(topic, 0, 0, 0, 0, 0)
        ours, theirs = peers.ours(given), peers.theirs(given)
        assert self.ranges(ours) == self.ranges(theirs)
        assert ours.rdd.getNumPartitions() == len(self.ranges(ours)) <= theirs.rdd.getNumPartitions()
