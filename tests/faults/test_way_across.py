"""A query that moves from a group in ZooKeeper, shared with an old JVM consumer, to Kafka, to KRaft and to Kafka 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.testing import OldConsumer
from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.migration import CONTROLLER, MigratingCluster
from tests.support.moving_query import MovingQuery

if TYPE_CHECKING:
    from tests.support.stream import Stream

KAFKA_4 = "4.3.1"
GROUP, TOPIC, PARTITIONS = "settlement", "t", range(4)
DUAL = {"offsets.storage": "kafka", "dual.commit.enabled": "true", "auto.commit.interval.ms": "300"}
BROKERS = {
    "offsets.topic.replication.factor": "2",
    "zookeeper.session.timeout.ms": "30000",  # brokers are slow on a busy machine
    "broker.session.timeout.ms": "30000",
}


@pytest.fixture
def cluster() -> Iterator[MigratingCluster]:
    """A cluster with ZooKeeper and a topic; partition 3 stays empty until the group is in Kafka."""
    with MigratingCluster(brokers=2, broker_config=BROKERS) as started:
        started.create_topic(TOPIC, partitions=len(PARTITIONS), replication=2)
        yield started


def beside_jvm(way: MovingQuery) -> None:
    """Commit to both stores while a JVM consumer is in the group, and continue alone after it has left."""
    jvm = OldConsumer(way.cluster.zookeeper_connect, GROUP, topics={TOPIC: 1}, properties=DUAL).start()
    try:
        running = way.start(way.options("zookeeper", offsets_storage="kafka"))
        way.write(5, range(3))
        eventually(lambda: {*way.read(), *places(jvm)} >= way.all(), 120, lambda: running.exception())
        jvm.stop()
        way.by_others = places(jvm)
    finally:
        jvm.kill()
    way.finish(running)


def places(jvm: OldConsumer) -> set[tuple[int, int]]:
    """Return the partition and offset of each record that a JVM consumer has read."""
    return {(record.partition, record.offset) for record in jvm.records}


def to_kraft(cluster: MigratingCluster) -> Iterator[object]:
    """Migrate the cluster to KRaft step by step, and stop ZooKeeper."""
    yield cluster.begin()
    for broker in cluster.broker_ids:
        yield cluster.move(broker)
    yield cluster.finalize()
    yield cluster.stop("zookeeper")


def to_kafka_4(cluster: MigratingCluster) -> Iterator[object]:
    """Upgrade the servers one by one, keeping their data, and finalize their features."""
    for server in (CONTROLLER, *cluster.broker_ids):
        yield cluster.upgrade(server, KAFKA_4)
    yield cluster.finalize_upgrade(KAFKA_4)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_way_across(cluster: MigratingCluster, stream: Callable[..., Stream]) -> None:
    """One query reads each record once on one checkpoint through all steps, except what the JVM consumer has read."""
    way = MovingQuery(cluster, TOPIC, GROUP, PARTITIONS, stream({}, connection={}))
    way.step(way.options("zookeeper"), partitions=range(3))
    beside_jvm(way)
    assert way.migrate("kafka").exit_code == 0
    way.step(way.options("zookeeper", "brokers", groupMembership="kafka"))
    in_kafka = way.options("brokers", groupMembership="kafka")
    way.step(in_kafka)
    running = way.start(in_kafka)
    for steps in (to_kraft, to_kafka_4):
        for _ in steps(cluster):
            way.write(5)
    way.finish(running)
    way.step({**in_kafka, "group.protocol": "consumer"})
    assert way.twice() == []
    assert set(way.read()) == way.all()
    assert went_back(commit_history(cluster, GROUP)) == {}
