"""Streaming reads on real brokers: columns, topics and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.all_columns import COLUMNS, expected_rows, produce_all_columns, shown
from tests.support.fill import fill
from tests.support.stream_offsets import initial
from tests.support.tiers import seldom
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
NewDriver = Callable[..., StreamDriver]
NewStream = Callable[..., Any]
"""Makes a `Stream`, see conftest.py."""


class TestColumns:
    """Columns of a row."""

    def test_all(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """All columns of a record are read as they were produced, through ZooKeeper and through brokers only."""
        topic = new_topic(partitions=2, replication=2, config=KEPT)
        produce_all_columns(zkafka_cluster, topic)
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
        found = stream(options, connection)
        found.run()
        assert list(found.rows[0].asDict()) == COLUMNS
        assert [shown(row) for row in found.rows] == expected_rows(topic)

    def test_projection(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A user's schema selects columns, in any order, with key and value as strings if declared so."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"key": "clé".encode(), "value": b"v"}])
        found = stream({"subscribe": topic, "startingOffsets": "earliest"})
        found.run(schema="offset bigint, value string, key string")
        assert [tuple(row) for row in found.rows] == [(0, "v", "clé")]


class TestDiscovery:
    """Topics and partitions that appear after the query's start."""

    @pytest.mark.parametrize("connection", ["zookeeper", *seldom("bootstrap")], indirect=True)
    def test_topics_and_partitions(
        self, stream: NewStream, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """New matching topics and new partitions are read from their beginning, although the query starts at latest."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        found = stream({"subscribePattern": f"{topic}(-.*)?"}, connection)
        query = found.begin()
        query.processAllAvailable()
        fill(zkafka_cluster, topic, 1)
        found.wait_for(1)
        zkafka_cluster.create_topic(f"{topic}-more", partitions=2)
        zkafka_cluster.add_partitions(topic, 3)
        for name, partition in ((f"{topic}-more", 0), (f"{topic}-more", 1), (topic, 2)):
            fill(zkafka_cluster, name, 3, partition)
        found.wait_for(10)
        query.processAllAvailable()
        assert found.offsets(0, topic) == [5]
        assert found.offsets(2, topic) == [0, 1, 2]
        assert [found.offsets(p, f"{topic}-more") for p in (0, 1)] == [[0, 1, 2]] * 2
        assert len(found.rows) == 10

    @pytest.mark.long
    def test_while_stopped(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Topics and partitions created while no query runs are read from their beginning by the next run."""
        topic = new_topic()
        found = stream({"subscribePattern": f"{topic}(-.*)?"})
        found.run()
        zkafka_cluster.create_topic(f"{topic}-more")
        zkafka_cluster.add_partitions(topic, 2)
        fill(zkafka_cluster, f"{topic}-more", 3)
        fill(zkafka_cluster, topic, 3, 1)
        found.run()
        assert found.offsets(0, f"{topic}-more") == [0, 1, 2]
        assert found.offsets(1, topic) == [0, 1, 2]

    @pytest.mark.long
    def test_except(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With subscribeExceptPattern, all topics except those that match are read."""
        mine, other = new_topic(), new_topic()
        for topic in (mine, other):
            fill(zkafka_cluster, topic, 2)
        found = stream({"subscribeExceptPattern": f"(?!{mine}$).*", "startingOffsets": "earliest"})
        found.run()
        assert {(r.topic, r.offset) for r in found.rows} == {(mine, 0), (mine, 1)}

    @pytest.mark.long
    def test_assign(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With assign, only the named partitions are read."""
        topic = new_topic(partitions=3)
        for partition in range(3):
            fill(zkafka_cluster, topic, 2, partition)
        found = stream({"assign": f'{{"{topic}": [0, 2]}}', "startingOffsets": "earliest"})
        found.run()
        assert sorted((r.partition, r.offset) for r in found.rows) == [(0, 0), (0, 1), (2, 0), (2, 1)]

    def test_unknown_topic(self, stream: NewStream) -> None:
        """A new query fails if its topic does not exist, and the error names it."""
        with pytest.raises(StreamingQueryException, match=r"\[UNKNOWN_TOPIC\] There is no topic .*no-such-topic"):
            stream({"subscribe": "no-such-topic"}).run()

    def test_unknown_partition(self, new_driver: NewDriver, new_topic: NewTopic) -> None:
        """With assign, a new query fails if partitions or topics do not exist, and the error names them."""
        topic = new_topic()
        with pytest.raises(ClusterStateError, match=rf"\[UNKNOWN_TOPIC\] .*no-such-topic, {topic}-7;"):
            initial(new_driver({"assign": f'{{"{topic}": [0, 7], "no-such-topic": [0]}}'}))
