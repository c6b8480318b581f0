"""A snapshot of the cluster from confluent-kafka's descriptions of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name

__all__ = ["described_snapshot", "topic_id"]

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def described_snapshot(
    cluster: Any, topics: Mapping[str, Any], security_protocol: str, names: Collection[str]
) -> ClusterSnapshot:
    """The snapshot of a ``ClusterMetadata`` and of those of the ``TopicDescription``, by name, that are among `names`.

    It has no leader epochs (-1), and one endpoint for each broker, of the listener that answered. The racks are those in
    all descriptions.
    """
    nodes = [node for found in topics.values() for p in found.partitions for node in p.replicas]
    racks = {node.id: node.rack for node in nodes}
    wanted = frozenset(names)
    shown = {name: found for name, found in topics.items() if name in wanted}
    return ClusterSnapshot(
        brokers={id_: _broker(found, security_protocol, racks.get(id_)) for id_, found in sorted(cluster.brokers.items())},
        topics={name: _topic(found) for name, found in shown.items()},
        states={TopicPartition(name, p.id): _state(p) for name, found in shown.items() for p in found.partitions},
        controller=None if cluster.controller_id < 0 else cluster.controller_id,
        cluster_id=cluster.cluster_id,
    )


def covering_topics(cluster: Any) -> list[str]:
    """Names of topics in a ``ClusterMetadata`` that have replicas on as many brokers as all topics have."""
    found: list[str] = []
    covered: set[int] = set()
    for name, topic in sorted(cluster.topics.items()):
        brokers = {replica for partition in topic.partitions.values() for replica in partition.replicas}
        if is_topic_name(name) and not brokers <= covered:
            found.append(name)
            covered |= brokers
    return found


def unknown_topics(cluster: Any, topics: Mapping[str, Any], asked: Collection[str]) -> list[str]:
    """Those topics of a ``ClusterMetadata`` that were asked for, but that the broker that described `topics` does not know.

    A broker that has just started knows none.
    """
    listed = {name for name, topic in cluster.topics.items() if topic.error is None}
    return sorted(listed.intersection(asked).difference(topics))


def topic_id(topic: Any) -> str | None:
    """The id in a ``TopicDescription`` as Kafka writes it; None from brokers older than topic ids (2.8)."""
    # confluent-kafka writes base64 with padding and the plain alphabet; Kafka writes it URL-safe without padding.
    text = str(topic.topic_id).rstrip("=").replace("+", "-").replace("/", "_")
    return None if text == _NO_TOPIC_ID else text


def _broker(found: Any, security_protocol: str, rack: str | None) -> Broker:
    endpoint = Endpoint(security_protocol, security_protocol, found.host, found.port)
    return Broker(found.id, (endpoint,), rack)


def _topic(found: Any) -> Topic:
    partitions = {p.id: tuple(n.id for n in p.replicas) for p in sorted(found.partitions, key=lambda p: p.id)}
    return Topic(found.name, partitions, topic_id(found), None)


def _state(partition: Any) -> PartitionState:
    leader = -1 if partition.leader is None else partition.leader.id
    return PartitionState(leader, -1, tuple(n.id for n in partition.isr))
