"""Metrics of a cluster and its groups, for Prometheus: pure functions over reports.

Metrics with the prefix ``kafka_`` have the names and labels of danielqsj/kafka_exporter, so its dashboards and alerts work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark_zkafka.brokers.groups import STABLE
from pyspark_zkafka.inspect.groups import GroupReport, LogBounds, PartitionReport, consumer_host
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.model.nouns import WITHOUT_LEADER, ClusterSnapshot, TopicPartition

_PARTITION = ("topic", "partition")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")
_US_PER_S = 1_000_000
_Values = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric: name, help text, names of labels, and values by label values."""

    name: str
    text: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]


def cluster_metrics(cluster: ClusterReport, *, has_controller: bool = True) -> Iterator[Gauge]:
    """Yield metrics of brokers, the controller and partitions. See `log_metrics` for the logs.

    Without ZooKeeper, `has_controller` is false: in KRaft mode, the metadata names any broker as the controller.
    """
    snapshot = cluster.snapshot
    brokers = snapshot.brokers.values()
    addresses: _Values = {(str(broker.id), str(endpoint)): 1.0 for broker in brokers for endpoint in broker.endpoints[:1]}
    yield Gauge("kafka_brokers", "Number of Brokers in the Kafka Cluster.", (), {(): len(snapshot.brokers)})
    yield Gauge("kafka_broker_info", "Information about the Kafka Broker.", ("id", "address"), addresses)
    if has_controller:
        yield _single("zkafka_active_controllers", "1 if a broker is the controller.", int(snapshot.controller is not None))
        yield _single("zkafka_controller_id", "Broker id of the controller.", snapshot.controller)
    has_left = int(not snapshot.brokers and snapshot.kraft_epoch >= 0)
    yield _single("zkafka_migrated_to_kraft", "1 if all brokers have left ZooKeeper, whose state is out of date.", has_left)
    yield _single("zkafka_controller_epoch", "Number of controller elections so far.", cluster.controller_epoch)
    counts: _Values = {(name,): float(len(topic.partitions)) for name, topic in snapshot.topics.items()}
    yield Gauge("kafka_topic_partitions", "Number of partitions for this Topic", ("topic",), counts)
    yield from _partition_state_metrics(snapshot)


def _partition_state_metrics(snapshot: ClusterSnapshot) -> Iterator[Gauge]:
    leaders, preferred, replicas, in_sync, under_replicated, offline = (_Values() for _ in range(6))
    for tp in snapshot.all_partitions():
        labels, leader = _labels(tp), _leader_id(snapshot, tp)
        assigned = snapshot.topics[tp.topic].partitions[tp.partition]
        if leader is not None:
            leaders[labels] = leader
        preferred[labels] = int(leader in assigned[:1])
        replicas[labels] = len(assigned)
        in_sync[labels] = len(snapshot.states[tp].isr) if tp in snapshot.states else 0
        under_replicated[labels] = int(in_sync[labels] < len(assigned))
        offline[labels] = int(leader is None)
    for name, text, values in (
        ("kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition", leaders),
        ("kafka_topic_partition_leader_is_preferred", "1 if Topic/Partition is using the Preferred Broker", preferred),
        ("kafka_topic_partition_replicas", "Number of Replicas for this Topic/Partition", replicas),
        ("kafka_topic_partition_in_sync_replica", "Number of In-Sync Replicas for this Topic/Partition", in_sync),
        ("kafka_topic_partition_under_replicated_partition", "1 if Topic/Partition is under Replicated", under_replicated),
        ("zkafka_topic_partition_offline", "1 if no live broker leads the partition.", offline),
    ):
        yield Gauge(name, text, _PARTITION, values)


def _leader_id(snapshot: ClusterSnapshot, tp: TopicPartition) -> int | None:
    """Return the leader, if it is alive. Brokers that have left ZooKeeper for KRaft count as alive."""
    state = snapshot.states.get(tp)
    if state is None or state.leader == WITHOUT_LEADER:
        return None
    return state.leader if state.leader in snapshot.brokers or snapshot.is_outdated else None


def _single(name: str, text: str, value: float | None) -> Gauge:
    return Gauge(name, text, (), _known([((), value)]))


def _known(values: Iterable[tuple[tuple[str, ...], float | None]]) -> _Values:
    return {labels: value for labels, value in values if value is not None}


def _labels(tp: TopicPartition) -> tuple[str, ...]:
    return tp.topic, str(tp.partition)


def log_metrics(bounds: Mapping[TopicPartition, LogBounds]) -> Iterator[Gauge]:
    """Yield metrics of the partitions' logs."""
    ends = _known((_labels(tp), log.end) for tp, log in bounds.items())
    starts = _known((_labels(tp), log.start) for tp, log in bounds.items())
    yield Gauge("kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition", _PARTITION, ends)
    yield Gauge("kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition", _PARTITION, starts)


def kafka_member_metrics(groups: Iterable[GroupReport]) -> Iterator[Gauge]:
    """Yield the numbers of members in Kafka, where known."""
    counts = _known(((group.name,), group.kafka_members) for group in groups)
    text = "Members of a group that Kafka coordinates."
    yield Gauge("zkafka_consumergroup_kafka_members", text, _GROUP_PARTITION[:1], counts)


def group_metrics(groups: Iterable[GroupReport], topics: Collection[str], *, in_kafka: bool = False) -> Iterator[Gauge]:
    """Yield metrics of groups and their members, in ZooKeeper or `in_kafka`. `topics` are the existing topics."""
    reports = list(groups)
    counted = ((group.name, group.kafka_members if in_kafka else group.member_count) for group in reports)
    members = _known(((name,), count) for name, count in counted)
    unreadable: _Values = {(group.name,): float(len(group.unreadable)) for group in reports}
    owned: _Values = {}
    left: _Values = {}
    for group in reports:
        if group.members and not group.unreadable_members:
            unsubscribed = group.topics.intersection(topics) - group.subscribed_topics(topics)
            left.update(((group.name, topic), 1.0) for topic in sorted(unsubscribed))
        counts = Counter(owner.consumer for owner in group.owners.values())
        for consumer in sorted({*group.members, *counts}):
            owned[group.name, consumer, consumer_host(group.name, consumer) or ""] = float(counts[consumer])
        if in_kafka and group.in_kafka is not None:
            for member in group.in_kafka.members.values():
                owned[group.name, member.id, member.host] = float(len(member.assigned or ()))
            if group.in_kafka.name == STABLE:  # members own all partitions of the topics to which they subscribe
                unowned = {tp.topic for tp in group.kafka_offsets} - {tp.topic for tp in group.kafka_owners}
                left.update(((group.name, topic), 1.0) for topic in sorted(unowned.intersection(topics)))
    labels = ("consumergroup", "consumer_id", "host")
    yield Gauge("kafka_consumergroup_members", "Amount of members in a consumer group", labels[:1], members)
    yield Gauge("zkafka_consumergroup_member_partitions", "Number of partitions that a member has claimed.", labels, owned)
    text = "1 for a topic of a group to which none of its members subscribes."
    yield Gauge("zkafka_consumergroup_unsubscribed_topic", text, ("consumergroup", "topic"), left)
    yield Gauge(
        "zkafka_consumergroup_unreadable_znodes",
        "Number of znodes of a group that are malformed, or of Kafka 0.7.",
        labels[:1],
        unreadable,
    )


def partition_metrics(partitions: Iterable[PartitionReport]) -> Iterator[Gauge]:
    """Yield metrics of groups' partitions. Unknown values are left out."""
    rows = [row for row in partitions if row.topic is not None]

    def gauge(name: str, text: str, value: Callable[[PartitionReport], float | None]) -> Gauge:
        return Gauge(name, text, _GROUP_PARTITION, _known((_row_labels(row), value(row)) for row in rows))

    def total(name: str, text: str, value: Callable[[PartitionReport], float | None]) -> Gauge:
        parts: dict[tuple[str, ...], list[float | None]] = {}
        for row in rows:
            if row.offset is not None:
                parts.setdefault(_row_labels(row)[:2], []).append(value(row))
        # A topic with an unknown value has no sum: it would be too low.
        sums = {labels: sum(filter(None, found)) for labels, found in parts.items() if None not in found}
        return Gauge(name, f"{text} of a ConsumerGroup at Topic for all partitions", _GROUP_PARTITION[:2], sums)

    at = "of a ConsumerGroup at Topic/Partition"
    yield gauge("kafka_consumergroup_current_offset", f"Current Offset {at}", lambda row: row.offset)
    yield gauge("kafka_consumergroup_lag", f"Current Approximate Lag {at}", lambda row: row.lag)
    zookeeper_lag = "kafka_consumergroupzookeeper_lag_zookeeper"
    yield gauge(zookeeper_lag, f"Current Approximate Lag(zookeeper) {at}", _in_zookeeper)
    owned = "zkafka_consumergroup_partition_owned"
    yield gauge(owned, "1 if a member of the group owns the partition.", lambda row: int(row.consumer is not None))
    yield gauge(
        "zkafka_consumergroup_last_commit_timestamp_seconds",
        "Time of the last commit to ZooKeeper, in seconds since the epoch.",
        lambda row: None if row.commit_us is None else row.commit_us / _US_PER_S,
    )
    yield total("kafka_consumergroup_current_offset_sum", "Current Offset", lambda row: row.offset)
    # A negative lag counts as 0: an offset beyond the end of one log must not hide the lag of another.
    lag_sum = "kafka_consumergroup_lag_sum"
    yield total(lag_sum, "Current Approximate Lag", lambda row: None if row.lag is None else max(0, row.lag))
    owners = {(*_row_labels(row), row.consumer, row.host or ""): 1.0 for row in rows if row.consumer is not None}
    labels = (*_GROUP_PARTITION, "consumer_id", "host")
    yield Gauge("zkafka_consumergroup_owner_info", "The member that owns a partition.", labels, owners)


def _in_zookeeper(row: PartitionReport) -> float | None:
    return None if row.zookeeper_offset is None or row.latest is None else row.latest - row.zookeeper_offset


def _row_labels(row: PartitionReport) -> tuple[str, ...]:
    return row.group, str(row.topic), str(row.partition)
