"""Streams with the group's offsets in two stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka import ConsumerGroup
from tests.support.fill import fill
from tests.support.stream import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.server

DUAL = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}


@pytest.mark.long
@pytest.mark.parametrize("membership", ["zookeeper", "none"])
def test_idle_partitions(
    spark: SparkSession,
    zookeeper: dict[str, str],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
    membership: str,
) -> None:
    """A newly added store gets the offsets of all partitions, even of those without new records."""
    topic = new_topic(partitions=3)
    group = {"subscribe": topic, "group.id": topic, "groupMembership": membership, "auto.offset.reset": "earliest"}

    def run(**options: str) -> None:
        frame = spark.readStream.format("zkafka").options(**zookeeper, **group, **options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        run_to_end(writer.trigger(availableNow=True).start)

    fill(zkafka_cluster, topic, 5, (0, 1))
    run()
    assert _in_kafka(zkafka_cluster, topic) == {}
    fill(zkafka_cluster, topic, 2, 0)
    run(**DUAL)
    assert _in_kafka(zkafka_cluster, topic) == {0: 7, 1: 5, 2: 0}


def test_topic_created_again(
    spark: SparkSession, zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    """Offsets of a deleted topic, in both stores, are not used for its successor of the same name."""
    topic = new_topic()
    group = {"group.id": topic, **DUAL, **zookeeper}
    fill(zkafka_cluster, topic, 10)
    with ConsumerGroup(zookeeper["zookeeper.connect"], topic, subscribe=[topic], options=DUAL) as member:
        member.plan(spark).commit()
    assert _in_kafka(zkafka_cluster, topic, 1) == {0: 10}
    zkafka_cluster.delete_topic(topic)
    zkafka_cluster.create_topic(topic)
    fill(zkafka_cluster, topic, 15)
    read = spark.read.format("zkafka").options(**group, subscribe=topic, startingOffsets="committed")
    with pytest.raises(Exception, match=r"TOPIC_REPLACED.*-0 at 10 are older than the topic"):
        read.load().collect()
    assert read.option("failOnDataLoss", "false").load().count() == 15


def _in_kafka(cluster: LocalCluster, group: str, partitions: int = 3) -> dict[int, int]:
    """Return a group's offsets in Kafka for the topic with its name."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    found = consumer.committed([KafkaTopicPartition(group, partition) for partition in range(partitions)], timeout=20)
    consumer.close()
    return {tp.partition: tp.offset for tp in found if tp.offset >= 0}
