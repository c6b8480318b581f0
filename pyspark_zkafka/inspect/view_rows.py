"""Rows of the views, as values by column, from reports of the cluster and its groups.

A malformed znode of a group becomes a row with the reason in the column `error`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pyspark_zkafka.inspect.groups import PARTITION_COLUMNS, GroupReport, GroupReports, UnreadableZnode
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.view_tables import VIEWS, Row, timestamp_us
from pyspark_zkafka.model.znodes.cluster import AdminState
from pyspark_zkafka.model.znodes.groups import LegacyPartition, consumer_of_thread


def broker_rows(cluster: ClusterReport) -> list[Row]:
    """Return one row for each broker, by id. Without a registered host, the first endpoint gives host and port."""
    if cluster.registrations is None:
        return [_broker_row(broker) for _, broker in sorted(cluster.snapshot.brokers.items())]
    rows: list[Row] = []
    for found in cluster.registrations:
        row = {**_broker_row(found.broker), "version": found.version, "timestamp": timestamp_us(found.timestamp)}
        rows.append(row if found.host is None else {**row, "host": found.host, "port": found.port})
    return rows


def _broker_row(broker: Broker) -> Row:
    first = broker.endpoints[0] if broker.endpoints else None
    return {
        "id": broker.id,
        "host": None if first is None else first.host,
        "port": None if first is None else first.port,
        "rack": broker.rack,
        "endpoints": [f"{endpoint.listener}://{endpoint}" for endpoint in broker.endpoints],
    }


def topic_rows(cluster: ClusterReport) -> list[Row]:
    """Return one row for each topic, by name. They lack `config` if the topics' own settings are unknown.

    As in Kafka's tool, `replication` is the number of the first partition's replicas.
    """
    rows: list[Row] = []
    for name, topic in sorted(cluster.snapshot.topics.items()):
        counts = [len(replicas) for _, replicas in sorted(topic.partitions.items())]
        row = {
            "topic": name,
            "topic_id": topic.topic_id,
            "partitions": len(counts),
            "replication": counts[0] if counts else 0,
        }
        config = {} if cluster.configs is None else {"config": sorted(cluster.configs.get(name, {}).items())}
        rows.append({**row, **config})
    return rows


def partition_rows(cluster: ClusterReport) -> list[Row]:
    """Return one row for each partition, by topic and number.

    `offline` is true without a live leader, `under_replicated` if the ISR lacks a replica. While the partition is being
    created, leader and ISR are null.
    """
    snapshot = cluster.snapshot
    rows: list[Row] = []
    for tp in (tp for topic in sorted(snapshot.topics) for tp in snapshot.partitions(topic)):
        state, replicas = snapshot.states.get(tp), snapshot.topics[tp.topic].partitions[tp.partition]
        row: Row = tp._asdict()
        if state is not None:
            # The brokers' metadata has -1 as the epoch.
            epoch = None if state.leader_epoch < 0 else state.leader_epoch
            row = {**row, "leader": state.leader, "leader_epoch": epoch, "isr": list(state.isr)}
        rows.append(
            {
                **row,
                "replicas": list(replicas),
                "offline": snapshot.leader(tp) is None,
                "under_replicated": state is None or len(state.isr) < len(replicas),
            }
        )
    return rows


def controller_rows(cluster: ClusterReport) -> list[Row]:
    """Return one row. `broker` is null without a controller."""
    row: Row = {"epoch": cluster.controller_epoch, "cluster_id": cluster.cluster_id}
    if cluster.controller is None:
        return [row]
    return [{**row, "broker": cluster.controller.broker, "timestamp": timestamp_us(cluster.controller.timestamp)}]


def admin_rows(state: AdminState) -> list[Row]:
    """Return one row for each reassignment, preferred replica election and deletion, in this order."""
    moves: list[Row] = [
        {"operation": "reassign_partitions", **tp._asdict(), "replicas": list(replicas)}
        for tp, replicas in sorted(state.reassignments.items())
    ]
    elections = [{"operation": "preferred_replica_election", **tp._asdict()} for tp in sorted(state.preferred_elections)]
    return [*moves, *elections, *({"operation": "delete_topics", "topic": topic} for topic in state.deletions)]


def config_rows(configs: Mapping[str, Mapping[str, str]]) -> list[Row]:
    """Return one row for each topic-level setting, by topic and name."""
    return [
        {"topic": topic, "name": name, "value": value}
        for topic, config in sorted(configs.items())
        for name, value in sorted(config.items())
    ]


def plan_rows(tasks: Iterable[Collection[Split]], snapshot: ClusterSnapshot) -> list[Row]:
    """Return one row for each split, by topic, partition and start. `tasks` has the splits of each Spark task."""
    rows: list[Row] = []
    for task, splits in enumerate(tasks):
        for split in splits:
            leader = snapshot.brokers.get(split.leader)
            rows.append(
                {
                    **split.partition._asdict(),
                    "leader": split.leader,
                    "isr": list(split.isr),
                    "rack": None if leader is None else leader.rack,
                    "start": split.start,
                    "until": split.until,
                    "records": split.size,
                    "spark_partition": task,
                }
            )
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["start"]))


def group_row(group: GroupReport, consumers: Collection[str]) -> Row:
    """Return the row of a group: the number of its members, and the topics that it owns or has offsets of."""
    return {"group": group.name, "members": len(consumers), "topics": sorted(group.topics)}


def member_rows(group: GroupReport) -> list[Row]:
    """Return one row for each consumer, by id."""
    rows: list[Row] = [
        {
            "group": group.name,
            "consumer": consumer,
            "pattern": member.registration.pattern,
            "subscription": list(member.registration.subscription.items()),
            "timestamp": timestamp_us(member.registration.timestamp),
            "readable": True,
        }
        for consumer, member in group.members.items()
    ]
    for consumer, znode in group.unreadable_members.items():
        rows.append({"group": group.name, "consumer": consumer, "readable": False, "error": znode.error.message})
    return sorted(rows, key=lambda row: str(row["consumer"]))


def owner_rows(group: GroupReport) -> list[Row]:
    """Return one row for each claim, by topic and partition."""
    rows: list[Row] = [
        {"group": group.name, **tp._asdict(), "thread": owner.thread, "consumer": owner.consumer}
        for tp, owner in group.owners.items()
    ]
    for znode in group.unreadable_owners:
        found = {"thread": znode.value, "consumer": consumer_of_thread(str(znode.value))}
        rows.append(_unreadable_row(group, znode, found))
    return sorted(rows, key=_order)


def offset_rows(reports: GroupReports) -> list[Row]:
    """Return one row for each committed offset, by group, topic and partition.

    The lag is negative for an offset beyond the end of the log. It is null for a negative offset, which means no offset.
    """
    shared = [name for name in VIEWS["offsets"].columns if name in PARTITION_COLUMNS]
    rows: list[Row] = []
    for report in reports.partitions:
        tp = report.topic_partition
        stored = None if tp is None else reports.groups[report.group].offsets.get(tp)
        if stored is not None or report.offset is not None:
            row = {name: getattr(report, name) for name in shared}
            offset = report.offset if stored is None else stored.offset
            rows.append({**row, "offset": offset, "timestamp": report.commit_us})
    for group in reports.groups.values():
        for znode in group.unreadable_offsets:
            found = _unreadable_row(group, znode, {"offset": znode.value})
            rows.append({**found, "timestamp": timestamp_us(znode.modified_ms)})
    return sorted(rows, key=lambda row: (row["group"], *_order(row)))


def kafka_group_row(group: GroupReport) -> Row:
    """Return the row of a group in Kafka, whose number of members is null if it cannot be read."""
    topics = {tp.topic for tp in (*group.kafka_offsets, *group.kafka_owners)}
    return {"group": group.name, "members": group.kafka_members, "topics": sorted(topics)}


def kafka_member_rows(group: GroupReport) -> list[Row]:
    """Return one row for each member of a group in Kafka, by id. Its subscription is unknown."""
    members = {} if group.in_kafka is None else group.in_kafka.members
    return [{"group": group.name, "consumer": consumer, "readable": True} for consumer in sorted(members)]


def kafka_owner_rows(group: GroupReport) -> list[Row]:
    """Return one row for each partition that a member of a group in Kafka owns, by topic and partition."""
    return [{"group": group.name, **tp._asdict(), "consumer": m.id} for tp, m in sorted(group.kafka_owners.items())]


def _unreadable_row(group: GroupReport, znode: UnreadableZnode, found: Row) -> Row:
    """Return the row of a claim or offset: with `found` if it is from Kafka 0.7, or else with the error."""
    row: Row = {"group": group.name, "topic": znode.path.split("/")[-2]}
    if znode.partition is not None:
        row = {**row, "partition": znode.partition.partition}
    if isinstance(znode.partition, LegacyPartition):
        row = {**row, "broker": znode.partition.broker}
    return {**row, **found} if znode.value is not None else {**row, "error": znode.error.message}


def _order(row: Row) -> tuple[str, int, int]:
    return row["topic"], row.get("broker", -1), row.get("partition", -1)
