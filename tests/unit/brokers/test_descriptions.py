"""Snapshots from descriptions by confluent-kafka."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import Node, TopicPartitionInfo, Uuid

from pyspark_zkafka.brokers.descriptions import covering_topics, described_snapshot, topic_id, unknown_topics
from pyspark_zkafka.model.nouns import Broker, Endpoint, PartitionState, Topic, TopicPartition

NODES = [Node(2, "b2", 9092, "r2"), Node(1, "b1", 9092, None)]
TOPIC = SimpleNamespace(
    name="t",
    topic_id=Uuid(1, 2),
    partitions=[TopicPartitionInfo(1, None, NODES, []), TopicPartitionInfo(0, NODES[0], NODES, NODES[:1])],
)


def cluster(controller: int = 2, brokers: Sequence[int] = (2, 1), **topics: Sequence[Sequence[int]]) -> SimpleNamespace:
    """A cluster's metadata: its brokers, and its topics with the replicas of each partition."""
    return SimpleNamespace(
        brokers={number: SimpleNamespace(id=number, host=f"b{number}", port=9092) for number in brokers},
        controller_id=controller,
        cluster_id="c",
        topics={
            name: SimpleNamespace(
                error=None, partitions={n: SimpleNamespace(replicas=list(ids)) for n, ids in enumerate(replicas)}
            )
            for name, replicas in topics.items()
        },
    )


def test_snapshot() -> None:
    """Brokers and partitions are in order, and a partition without a leader has -1."""
    found = described_snapshot(cluster(), {"t": TOPIC}, "SSL", ["t"])
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


def test_racks_alone() -> None:
    """Topics that were described for their brokers' racks are not in the snapshot."""
    found = described_snapshot(cluster(brokers=(1, 2, 3)), {"t": TOPIC}, "SSL", [])
    assert {number: broker.rack for number, broker in found.brokers.items()} == {1: None, 2: "r2", 3: None}
    assert not found.topics
    assert not found.states


def test_no_controller() -> None:
    """A cluster may have no controller for a moment."""
    assert described_snapshot(cluster(-1), {}, "SSL", []).controller is None


def test_covering_topics() -> None:
    """Each topic is on a broker that those before it are not on."""
    topics = {"a": [[1], [2]], "b": [[2, 1]], "c": [[2], [3]], "d": [], "e": [[4]]}
    assert covering_topics(cluster(**topics)) == ["a", "c", "e"]
    assert covering_topics(cluster()) == []


def test_unknown_topics() -> None:
    """A topic with an error in the metadata is not expected in the descriptions."""
    metadata = cluster(a=[[1]], b=[[1]], c=[[2]])
    metadata.topics["c"].error = "LEADER_NOT_AVAILABLE"
    assert unknown_topics(metadata, {"a": TOPIC}, ["a", "b", "c", "d"]) == ["b"]
    assert unknown_topics(metadata, {}, covering_topics(metadata)) == ["a"]


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
