"""Metrics of a cluster and its ZooKeeper groups, for Prometheus: pure functions over what was read.

Names that start with ``kafka_``, and their labels, are those of danielqsj/kafka_exporter: its dashboards and alerts work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.operations.group_state import GroupState, LogBounds, PartitionDescription, consumer_host
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition

__all__ = [
    "Gauge",
    "cluster_metrics",
    "description_metrics",
    "group_metrics",
    "kafka_member_metrics",
    "log_metrics",
]

_PARTITION = ("topic", "partition")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")
_US_PER_S = 1_000_000
_Values = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric: its name, its help text, the names of its labels, and its values by label values."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    values: Mapping[tuple[str, ...], float] = field(default_factory=dict)


def cluster_metrics(snapshot: ClusterSnapshot, controller_epoch: int | None) -> Iterator[Gauge]:
    """Metrics of the brokers, the controller and the partitions, without those of the logs."""
    brokers = snapshot.brokers.values()
    addresses: _Values = {(str(broker.id), str(endpoint)): 1.0 for broker in brokers for endpoint in broker.endpoints[:1]}
    yield Gauge("kafka_brokers", "Number of Brokers in the Kafka Cluster.", (), {(): len(snapshot.brokers)})
    yield Gauge("kafka_broker_info", "Information about the Kafka Broker.", ("id", "address"), addresses)
    yield _single("zkafka_active_controllers", "1 if a broker is the controller.", int(snapshot.controller is not None))
    yield _single("zkafka_controller_id", "Broker id of the controller.", snapshot.controller)
    has_left = int(not snapshot.brokers and snapshot.kraft_epoch >= 0)
    yield _single("zkafka_migrated_to_kraft", "1 if all brokers have left ZooKeeper, whose state is of the past.", has_left)
    yield _single("zkafka_controller_epoch", "Number of controller elections so far.", controller_epoch)
    counts: _Values = {(name,): float(len(topic.partitions)) for name, topic in snapshot.topics.items()}
    yield Gauge("kafka_topic_partitions", "Number of partitions for this Topic", ("topic",), counts)
    partitions = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
    for name, text, value in _PARTITION_GAUGES:
        yield Gauge(name, text, _PARTITION, _known((_labels(tp), value(snapshot, tp)) for tp in partitions))


def _single(name: str, text: str, value: float | None) -> Gauge:
    return Gauge(name, text, (), _known([((), value)]))


def _known(values: Iterable[tuple[tuple[str, ...], float | None]]) -> _Values:
    return {labels: value for labels, value in values if value is not None}


def _labels(tp: TopicPartition) -> tuple[str, ...]:
    return tp.topic, str(tp.partition)


def _replicas(snapshot: ClusterSnapshot, tp: TopicPartition) -> tuple[int, ...]:
    return tuple(snapshot.topics[tp.topic].partitions[tp.partition])


def _leader(snapshot: ClusterSnapshot, tp: TopicPartition) -> int | None:
    leader = snapshot.leader(tp)
    return None if leader is None else leader.id


def _in_sync(snapshot: ClusterSnapshot, tp: TopicPartition) -> int:
    return len(snapshot.states[tp].isr) if tp in snapshot.states else 0


_PARTITION_GAUGES: tuple[tuple[str, str, Callable[[ClusterSnapshot, TopicPartition], float | None]], ...] = (
    ("kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition", _leader),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 if Topic/Partition is using the Preferred Broker",
        lambda snapshot, tp: int(_leader(snapshot, tp) in _replicas(snapshot, tp)[:1]),
    ),
    (
        "kafka_topic_partition_replicas",
        "Number of Replicas for this Topic/Partition",
        lambda snapshot, tp: len(_replicas(snapshot, tp)),
    ),
    ("kafka_topic_partition_in_sync_replica", "Number of In-Sync Replicas for this Topic/Partition", _in_sync),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1 if Topic/Partition is under Replicated",
        lambda snapshot, tp: int(_in_sync(snapshot, tp) < len(_replicas(snapshot, tp))),
    ),
    (
        "zkafka_topic_partition_offline",
        "1 if no live broker leads the partition.",
        lambda snapshot, tp: int(snapshot.leader(tp) is None),
    ),
)


def log_metrics(bounds: Mapping[TopicPartition, LogBounds]) -> Iterator[Gauge]:
    """Metrics of the partitions' logs."""
    ends = _known((_labels(tp), log.end) for tp, log in bounds.items())
    starts = _known((_labels(tp), log.start) for tp, log in bounds.items())
    yield Gauge("kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition", _PARTITION, ends)
    yield Gauge("kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition", _PARTITION, starts)


def kafka_member_metrics(counts: Mapping[str, int]) -> Iterator[Gauge]:
    """Metrics of the members that groups have in Kafka, where these were counted."""
    values: _Values = {(name,): float(count) for name, count in counts.items()}
    text = "Members of a group that Kafka coordinates."
    yield Gauge("zkafka_consumergroup_kafka_members", text, _GROUP_PARTITION[:1], values)


def group_metrics(groups: Iterable[GroupState]) -> Iterator[Gauge]:
    """Metrics of groups and their members, from ZooKeeper alone."""
    states = list(groups)
    members: _Values = {(state.name,): float(state.member_count) for state in states}
    unreadable: _Values = {(state.name,): float(len(state.unreadable)) for state in states}
    owned = {labels: count for state in states for labels, count in _owned(state).items()}
    labels = ("consumergroup", "consumer_id", "host")
    yield Gauge("kafka_consumergroup_members", "Amount of members in a consumer group", labels[:1], members)
    yield Gauge("zkafka_consumergroup_member_partitions", "Number of partitions that a member owns.", labels, owned)
    yield Gauge("zkafka_consumergroup_unreadable_znodes", "Number of malformed znodes of a group.", labels[:1], unreadable)


def _owned(state: GroupState) -> _Values:
    counts = Counter(owner.consumer for owner in state.owners.values())
    consumers = sorted({*state.members, *counts})
    return {(state.name, c, consumer_host(state.name, c) or ""): float(counts[c]) for c in consumers}


def description_metrics(descriptions: Iterable[PartitionDescription]) -> Iterator[Gauge]:
    """Metrics of groups' partitions; values that are unknown are left out, so that a lag is never a guess."""
    rows = [row for row in descriptions if row.topic is not None]
    for name, text, value in _GROUP_GAUGES:
        yield Gauge(name, text, _GROUP_PARTITION, _known((_row_labels(row), value(row)) for row in rows))
    for name, text, value in _GROUP_SUMS:
        yield Gauge(name, text, _GROUP_PARTITION[:2], _sums(rows, value))
    owners = {(*_row_labels(row), row.consumer_id, row.host or ""): 1.0 for row in rows if row.consumer_id is not None}
    labels = (*_GROUP_PARTITION, "consumer_id", "host")
    yield Gauge("zkafka_consumergroup_owner_info", "The member that owns a partition.", labels, owners)


def _row_labels(row: PartitionDescription) -> tuple[str, ...]:
    return row.group, str(row.topic), str(row.partition)


def _sums(rows: Iterable[PartitionDescription], value: Callable[[PartitionDescription], float | None]) -> _Values:
    """The sums over partitions with an offset; none of a topic where a part is unknown, since it would fall."""
    parts: dict[tuple[str, ...], list[float | None]] = {}
    for row in rows:
        if row.current_offset is not None:
            parts.setdefault(_row_labels(row)[:2], []).append(value(row))
    return {labels: sum(filter(None, found)) for labels, found in parts.items() if None not in found}


def _in_zookeeper(row: PartitionDescription) -> float | None:
    if row.zookeeper_offset is None or row.log_end_offset is None:
        return None
    return row.log_end_offset - row.zookeeper_offset


_Value = Callable[[PartitionDescription], float | None]
_GROUP_GAUGES: tuple[tuple[str, str, _Value], ...] = (
    (
        "kafka_consumergroup_current_offset",
        "Current Offset of a ConsumerGroup at Topic/Partition",
        lambda row: row.current_offset,
    ),
    ("kafka_consumergroup_lag", "Current Approximate Lag of a ConsumerGroup at Topic/Partition", lambda row: row.lag),
    (
        "kafka_consumergroupzookeeper_lag_zookeeper",
        "Current Approximate Lag(zookeeper) of a ConsumerGroup at Topic/Partition",
        _in_zookeeper,
    ),
    (
        "zkafka_consumergroup_partition_owned",
        "1 if a member of the group owns the partition.",
        lambda row: int(row.owner is not None),
    ),
    (
        "zkafka_consumergroup_last_commit_timestamp_seconds",
        "Time of the last commit to ZooKeeper, in seconds since the epoch.",
        lambda row: None if row.committed_us is None else row.committed_us / _US_PER_S,
    ),
)
_GROUP_SUMS: tuple[tuple[str, str, _Value], ...] = (
    (
        "kafka_consumergroup_current_offset_sum",
        "Current Offset of a ConsumerGroup at Topic for all partitions",
        lambda row: row.current_offset,
    ),
    (
        "kafka_consumergroup_lag_sum",
        "Current Approximate Lag of a ConsumerGroup at Topic for all partitions",
        lambda row: row.lag,
    ),
)
