"""Sizes of a streaming read's micro-batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.fill import fill
from tests.support.stream_offsets import positions
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
NewDriver = Callable[..., StreamDriver]
NewStream = Callable[..., Any]
"""Makes a `Stream`, see conftest.py."""


class TestLimits:
    """Limits on records, bytes and Spark partitions."""

    def sizes(self, found: Any, partition: int) -> list[int]:
        return [sum(r.partition == partition for r in batch) for batch in found.batches]

    @pytest.mark.spark(4, 2)
    def test_records(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """maxOffsetsPerTrigger is divided in proportion to the backlogs, and a small backlog is not starved.

        The query's progress has the end of a micro-batch, and the ends of the logs.
        """
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 60, 0)
        fill(zkafka_cluster, topic, 2, 1)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"})
        query = found.run()
        assert self.sizes(found, 0) == [19, 19, 20, 2]  # 20 * 60 // 62, 20 * 41 // 42, 20, the rest
        assert self.sizes(found, 1) == [1, 1, 0, 0]
        assert found.offsets(0) == list(range(60))
        assert found.offsets(1) == [0, 1]
        progress = query.recentProgress[0]["sources"][0]
        assert json.loads(progress["latestOffset"]) == {topic: {"0": 60, "1": 2}}
        assert positions(json.loads(progress["endOffset"]), topic) == {"0": 19, "1": 1}
        assert progress["numInputRows"] == 20

    @pytest.mark.spark(4, 2)
    def test_bytes(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """maxBytesPerTrigger is converted into records with the measured record size of each partition."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 100, 0, size_bytes=1000)
        fill(zkafka_cluster, topic, 10, 1, size_bytes=10_000)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "120000"})
        found.run()
        assert self.sizes(found, 0) == [60, 40]
        assert self.sizes(found, 1) == [6, 4]

    @pytest.mark.spark(4, 2)
    @pytest.mark.long
    def test_minimum(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With minOffsetsPerTrigger, a backlog at the start is read at once, later records if enough or after the delay."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 1)
        limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        came: list[float] = []
        found.in_batch = lambda frame, number: came.append(time.monotonic())
        found.start()
        query = found.wait_for(1)
        fill(zkafka_cluster, topic, 10)
        found.wait_for(11)
        fill(zkafka_cluster, topic, 2)
        query.processAllAvailable()
        assert [len(batch) for batch in found.batches] == [1, 10]
        query.stop()
        found.options["maxTriggerDelay"] = "8s"
        begin = time.monotonic()
        found.start()
        found.wait_for(13)
        fill(zkafka_cluster, topic, 1)
        found.wait_for(14)
        assert came[3] - begin > 8

    @pytest.mark.spark(4, 2)
    def test_minimum_of_more_partitions(
        self, new_driver: NewDriver, zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """The minimum counts all partitions together; the delay starts at the first planning and at each micro-batch."""
        topic, now = new_topic(partitions=2), [100.0]
        limits = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "12", "maxTriggerDelay": "60s"}
        one = new_driver({"subscribe": topic, **limits}, clock=lambda: now[0])
        start = one.initial()
        assert one.latest(start, limited=True) == start
        fill(zkafka_cluster, topic, 1, 1)
        assert one.latest(start, limited=True) == start
        now[0] += 60
        first = one.latest(start, limited=True)
        assert positions(first, topic) == {"0": 0, "1": 1}
        fill(zkafka_cluster, topic, 9, 0)
        now[0] += 59.5
        assert one.latest(first, limited=True) == first
        assert positions(one.latest(first, limited=False), topic) == {"0": 9, "1": 1}
        fill(zkafka_cluster, topic, 1, 1)
        second = one.latest(first, limited=True)
        assert positions(second, topic) == {"0": 9, "1": 2}
        fill(zkafka_cluster, topic, 1, 1)
        now[0] += 60
        assert positions(one.latest(second, limited=True), topic) == {"0": 9, "1": 3}

    @pytest.mark.spark(4, 2)
    def test_once(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Trigger.Once reads all available records in one micro-batch, whatever the limits."""
        topic = new_topic()
        limits = {"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "5"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        fill(zkafka_cluster, topic, 20)
        found.run(once=True)
        assert [len(batch) for batch in found.batches] == [20]

    def test_splits(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """minPartitions splits a micro-batch into more Spark partitions, and all records are read once."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "minPartitions": "4"})
        parts: list[int] = []
        found.in_batch = lambda frame, number: parts.append(frame.rdd.getNumPartitions())
        found.run()
        assert parts == [4]
        assert found.offsets() == list(range(100))

    @pytest.mark.long
    def test_joined_splits(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """minRecordsPerPartition joins a micro-batch into fewer Spark partitions, and all records are read once."""
        topic = new_topic(partitions=4)
        for partition in range(4):
            fill(zkafka_cluster, topic, 30, partition)
        found = stream({"subscribe": topic, "startingOffsets": "earliest", "minRecordsPerPartition": "60"})
        parts: list[int] = []
        found.in_batch = lambda frame, number: parts.append(frame.rdd.getNumPartitions())
        found.run()
        assert parts == [2]
        assert [found.offsets(partition) for partition in range(4)] == [list(range(30))] * 4


class TestAvailableNow:
    """Queries with Trigger.AvailableNow."""

    @pytest.mark.spark(4, 2)
    @pytest.mark.parametrize("connection", ["zookeeper", *seldom("bootstrap")], indirect=True)
    def test_bounds(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """A run reads up to the logs' ends at its start in several micro-batches, and the next run reads later records."""
        topic = new_topic(partitions=2)
        fill(zkafka_cluster, topic, 8, 0)
        fill(zkafka_cluster, topic, 4, 1)
        options = {"subscribePattern": f"{topic}(-.*)?", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
        found = stream(options, connection)

        def more(frame: object, number: int) -> None:
            if number == 0:
                fill(zkafka_cluster, topic, 5, 0)
                zkafka_cluster.add_partitions(topic, 3)
                zkafka_cluster.create_topic(f"{topic}-more")
                fill(zkafka_cluster, topic, 1, 2)
                fill(zkafka_cluster, f"{topic}-more", 1)

        found.in_batch = more
        found.run()
        assert [len(batch) for batch in found.batches] == [6, 6]
        found.run()
        assert found.offsets(0, topic) == list(range(13))
        assert found.offsets(1) == [0, 1, 2, 3]
        assert found.offsets(2) == [0]
        assert found.offsets(0, f"{topic}-more") == [0]

    def test_nothing_new(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A run without new records ends at once, after the empty micro-batch with which Spark starts a new query."""
        topic = new_topic()
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run()
        assert found.batches == [[]]
        fill(zkafka_cluster, topic, 1)
        found.run()
        found.run()
        assert [len(batch) for batch in found.batches] == [0, 1]

    @pytest.mark.spark(4, 2)
    def test_minimum(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A run does not wait for minOffsetsPerTrigger."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "4"}
        found = stream({"subscribe": topic, "startingOffsets": "earliest", **limits})
        found.run()
        assert [len(batch) for batch in found.batches] == [4, 1]
