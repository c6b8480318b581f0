"""Rows of the views that show the cluster: from decoded znodes, or from a snapshot, to values by column."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.protocol.view_tables import Row, timestamp_us
from pyspark_zkafka.protocol.znodes.admin import AdminState
from pyspark_zkafka.protocol.znodes.brokers import BrokerRegistration
from pyspark_zkafka.protocol.znodes.topics import ControllerInfo

__all__ = [
    "admin_rows",
    "broker_rows",
    "config_rows",
    "controller_rows",
    "partition_rows",
    "plan_rows",
    "registered_broker_rows",
    "topic_rows",
]


def broker_rows(brokers: Iterable[Broker]) -> list[Row]:
    """One row for each broker, by id: host and port are those of its first endpoint, null if it has none."""
    return [_broker_row(broker) for broker in sorted(brokers, key=lambda broker: broker.id)]


def registered_broker_rows(registrations: Iterable[BrokerRegistration]) -> list[Row]:
    """Rows of brokers from ZooKeeper: host and port as registered, or, without a PLAINTEXT listener, as `broker_rows`."""
    return [_registered_row(found) for found in sorted(registrations, key=lambda found: found.broker.id)]


def _registered_row(found: BrokerRegistration) -> Row:
    row = {**_broker_row(found.broker), "version": found.version, "timestamp": timestamp_us(found.timestamp)}
    return row if found.host is None else {**row, "host": found.host, "port": found.port}


def _broker_row(broker: Broker) -> Row:
    first = broker.endpoints[0] if broker.endpoints else None
    return {
        "id": broker.id,
        "host": None if first is None else first.host,
        "port": None if first is None else first.port,
        "rack": broker.rack,
        "endpoints": [f"{endpoint.listener}://{endpoint}" for endpoint in broker.endpoints],
    }


def topic_rows(snapshot: ClusterSnapshot, configs: Mapping[str, Mapping[str, str]] | None) -> list[Row]:
    """One row for each topic, by name; `configs` has the topics' own settings, None if they are unknown.

    As in Kafka's tool, the replication is that of the first partition.
    """
    return [_topic_row(topic, configs) for _, topic in sorted(snapshot.topics.items())]


def _topic_row(topic: Topic, configs: Mapping[str, Mapping[str, str]] | None) -> Row:
    counts = [len(replicas) for _, replicas in sorted(topic.partitions.items())]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partitions": len(counts),
        "replication": counts[0] if counts else 0,
        **({} if configs is None else {"config": sorted(configs.get(topic.name, {}).items())}),
    }


def partition_rows(snapshot: ClusterSnapshot) -> list[Row]:
    """One row for each partition, by topic and number.

    `offline` is a partition without a live leader, `under_replicated` one whose ISR lacks a replica. A partition that is
    being created has neither leader nor ISR yet: they are null.
    """
    return [_partition_row(tp, snapshot) for topic in sorted(snapshot.topics) for tp in snapshot.partitions(topic)]


def _partition_row(tp: TopicPartition, snapshot: ClusterSnapshot) -> Row:
    state, replicas = snapshot.states.get(tp), snapshot.topics[tp.topic].partitions[tp.partition]
    return {
        **tp._asdict(),
        **({} if state is None else _state_fields(state)),
        "replicas": list(replicas),
        "offline": snapshot.leader(tp) is None,
        "under_replicated": state is None or len(state.isr) < len(replicas),
    }


def _state_fields(state: PartitionState) -> Row:
    # The brokers' metadata does not contain the epoch: it is -1 then.
    epoch = None if state.leader_epoch < 0 else state.leader_epoch
    return {"leader": state.leader, "leader_epoch": epoch, "isr": list(state.isr)}


def controller_rows(controller: ControllerInfo | None, epoch: int | None, cluster_id: str | None) -> list[Row]:
    """The one row of the controller; `broker` is null while there is none."""
    row: Row = {"epoch": epoch, "cluster_id": cluster_id}
    if controller is None:
        return [row]
    return [{**row, "broker": controller.broker, "timestamp": timestamp_us(controller.timestamp)}]


def admin_rows(state: AdminState, topics: Collection[str] | None = None) -> list[Row]:
    """One row for each partition to move, partition to elect for and topic to delete, in this order; of `topics` if set."""
    moves: list[Row] = [
        {"operation": "reassign_partitions", **tp._asdict(), "replicas": list(replicas)}
        for tp, replicas in sorted(state.reassignments.items())
    ]
    elections = [{"operation": "preferred_replica_election", **tp._asdict()} for tp in sorted(state.preferred_elections)]
    deletions = [{"operation": "delete_topics", "topic": topic} for topic in state.deletions]
    return [row for row in (*moves, *elections, *deletions) if topics is None or row["topic"] in topics]


def config_rows(configs: Mapping[str, Mapping[str, str]]) -> list[Row]:
    """One row for each setting of a topic's own, by topic and name."""
    return [
        {"topic": topic, "name": name, "value": value}
        for topic, config in sorted(configs.items())
        for name, value in sorted(config.items())
    ]


def plan_rows(tasks: Iterable[Collection[Split]], snapshot: ClusterSnapshot) -> list[Row]:
    """One row for each range of a batch read, by topic, partition and start; `tasks` has the splits of each Spark task."""
    rows = [_split_row(split, number, snapshot) for number, splits in enumerate(tasks) for split in splits]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["start"]))


def _split_row(split: Split, task: int, snapshot: ClusterSnapshot) -> Row:
    leader = snapshot.brokers.get(split.leader)
    return {
        **split.partition._asdict(),
        "leader": split.leader,
        "isr": list(split.isr),
        "rack": None if leader is None else leader.rack,
        "start": split.start,
        "until": split.until,
        "records": split.size,
        "spark_partition": task,
    }
