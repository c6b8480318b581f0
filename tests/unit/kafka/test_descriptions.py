"""Snapshots from descriptions by confluent-kafka."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid

from pyspark_zkafka.kafka.descriptions import described_snapshot, topic_id
from pyspark_zkafka.protocol.model import Broker, Endpoint, PartitionState, Topic, TopicPartition

NODES = [Node(2, "b2", 9092, "r2"), Node(1, "b1", 9092, None)]
TOPIC = SimpleNamespace(
    name="t",
    topic_id=Uuid(1, 2),
    partitions=[TopicPartitionInfo(1, None, NODES, []), TopicPartitionInfo(0, NODES[0], NODES, NODES[:1])],
)


def test_snapshot() -> None:
    """Brokers and partitions are in order, and a partition without a leader has -1."""
    cluster = SimpleNamespace(nodes=NODES, controller=NODES[0], cluster_id="c")
    found = described_snapshot(cluster, {"t": TOPIC}, "SSL")
    assert list(found.brokers.values()) == [
        Broker(1, (Endpoint("SSL", "SSL", "b1", 9092),)),
        Broker(2, (Endpoint("SSL", "SSL", "b2", 9092),), "r2"),
    ]
    assert found.topics == {"t": Topic("t", {0: (2, 1), 1: (2, 1)}, topic_id(TOPIC))}
    assert found.states == {
        TopicPartition("t", 0): PartitionState(2, -1, (2,)),
        TopicPartition("t", 1): PartitionState(-1, -1, ()),
    }
    assert (found.controller, found.cluster_id) == (2, "c")


def test_no_controller() -> None:
    """A cluster may have no controller for a moment."""
    cluster = SimpleNamespace(nodes=[], controller=None, cluster_id=None)
    assert described_snapshot(cluster, {}, "SSL").controller is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AAAAAAAAAAAAAAAAAAAAAA==", None),
        ("AAAAAAAAAAAAAAAAAAAAAA", None),
        ("a+b/cdefghijklmnopqrst==", "a-b_cdefghijklmnopqrst"),
    ],
)
def test_topic_ids(text: str, expected: str | None) -> None:
    """Ids are in the URL-safe alphabet without padding; that of zeros is none."""
    assert topic_id(SimpleNamespace(topic_id=text)) == expected
