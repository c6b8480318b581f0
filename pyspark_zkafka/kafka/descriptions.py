"""A snapshot of the cluster from confluent-kafka's descriptions of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition

__all__ = ["described_snapshot", "topic_id"]

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def described_snapshot(cluster: Any, topics: Mapping[str, Any], security_protocol: str) -> ClusterSnapshot:
    """The snapshot of a ``DescribeClusterResult`` and of ``TopicDescription`` by name.

    It has no leader epochs (-1), and one endpoint for each broker, of the listener that answered.
    """
    return ClusterSnapshot(
        brokers={n.id: _broker(n, security_protocol) for n in sorted(cluster.nodes, key=lambda n: n.id)},
        topics={name: _topic(found) for name, found in topics.items()},
        states={TopicPartition(name, p.id): _state(p) for name, found in topics.items() for p in found.partitions},
        controller=cluster.controller.id if cluster.controller is not None else None,
        cluster_id=cluster.cluster_id,
    )


def topic_id(topic: Any) -> str | None:
    """The id in a ``TopicDescription`` as Kafka writes it; None from brokers older than topic ids (2.8)."""
    # confluent-kafka writes base64 with padding and the plain alphabet; Kafka writes it URL-safe without padding.
    text = str(topic.topic_id).rstrip("=").replace("+", "-").replace("/", "_")
    return None if text == _NO_TOPIC_ID else text


def _broker(node: Any, security_protocol: str) -> Broker:
    endpoint = Endpoint(security_protocol, security_protocol, node.host, node.port)
    return Broker(node.id, (endpoint,), node.rack)


def _topic(found: Any) -> Topic:
    partitions = {p.id: tuple(n.id for n in p.replicas) for p in sorted(found.partitions, key=lambda p: p.id)}
    return Topic(found.name, partitions, topic_id(found), None)


def _state(partition: Any) -> PartitionState:
    leader = -1 if partition.leader is None else partition.leader.id
    return PartitionState(leader, -1, tuple(n.id for n in partition.isr))
