"""Direct reads from followers, chosen by rack, and direct reads while leaders move."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.testing import LocalCluster

COLUMNS = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
COUNT = 5000
SMALL = {"kafka.max.partition.fetch.bytes": "20000", "kafkaConsumer.pollTimeoutMs": "60000", "transport": "direct"}


def begin(cluster: LocalCluster, topic: str, **more: str) -> Iterator[pa.RecordBatch]:
    """Return the batches of a topic's only partition."""
    options = parse_read({"zookeeper.connect": cluster.zookeeper_connect, "subscribe": topic, **SMALL, **more})
    plan = plan_batch(options)
    return iter(ZKafkaReader(options, COLUMNS).read(SplitPartition(plan.splits, plan.bootstrap_servers)))


def offsets(batches: Any) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def topic(breakable_cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic with two replicas, led by broker 0."""
    name = request.node.name.replace("[", "-").rstrip("]")
    breakable_cluster.create_topic(name, assignment={0: [0, 1]})
    breakable_cluster.produce(name, [{"value": b"%d" % n * 20} for n in range(COUNT)], {"batch.size": 10_000})
    breakable_cluster.wait_in_sync(name)
    return name


def test_nearest_replica(breakable_cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client with a rack reads from the replica in that rack."""
    with caplog.at_level(logging.DEBUG, "pyspark_zkafka.records"):
        assert offsets(begin(breakable_cluster, topic, **{"kafka.client.rack": "b"})) == list(range(COUNT))
    assert f"{topic}-0: fetches go to the preferred replica 1" in caplog.text
    assert "librdkafka continues" not in caplog.text


def test_leader_in_the_rack(breakable_cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client in the leader's rack, or in a rack without brokers, reads from the leader."""
    with caplog.at_level(logging.DEBUG, "pyspark_zkafka.records"):
        for rack in ("a", "elsewhere"):
            assert offsets(begin(breakable_cluster, topic, **{"kafka.client.rack": rack})) == list(range(COUNT))
    assert "preferred replica" not in caplog.text


def test_racks_in_metadata(breakable_cluster: LocalCluster, topic: str) -> None:
    """Brokers report the racks of a topic's replicas, and of all brokers with replicas."""
    with KafkaAdmin(breakable_cluster.bootstrap_servers, {}) as admin:
        for topics in ([topic], []):
            racks = {number: found.rack for number, found in admin.snapshot(topics).brokers.items()}
            assert racks[0] == "a"
            assert racks[1] == "b"


# The leader, and the follower that the read uses. Stopping the other broker would change nothing.
@pytest.mark.parametrize(("rack", "stopped"), [pytest.param("", 0, marks=pytest.mark.long), ("b", 1)])
def test_broker_that_stops(
    breakable_cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture, rack: str, stopped: int
) -> None:
    """A read continues from the other replica when the broker it reads from, leader or follower, stops."""
    batches = begin(breakable_cluster, topic, **({"kafka.client.rack": rack} if rack else {}))
    first = next(batches)
    try:
        breakable_cluster.stop(stopped)
        assert offsets([first, *batches]) == list(range(COUNT))
    finally:
        breakable_cluster.restart(stopped)
        breakable_cluster.wait_in_sync(topic)
        breakable_cluster.elect_preferred_leaders(topic)
    assert "librdkafka continues" not in caplog.text


@pytest.mark.long
def test_leader_that_moves(breakable_cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A read continues at the new leader when leadership moves, while the old leader stays up."""
    breakable_cluster.stop(0)
    breakable_cluster.restart(0)
    breakable_cluster.wait_in_sync(topic)
    batches = begin(breakable_cluster, topic)
    first = next(batches)
    breakable_cluster.elect_preferred_leaders(topic)
    assert offsets([first, *batches]) == list(range(COUNT))
    assert "librdkafka continues" not in caplog.text
