"""Planner of views. Reads their rows from ZooKeeper or the brokers while Spark plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.cluster import ClusterSource, bootstrap_servers, describe_migration
from pyspark_zkafka.errors import CodecError, GroupError, ZKafkaError, ZooKeeperRefused, listing
from pyspark_zkafka.inspect import view_rows as rows
from pyspark_zkafka.inspect.groups import GroupReports, LogBounds, LogsReport, decode_groups
from pyspark_zkafka.inspect.reads import ClusterReport, Part, read_cluster, read_kafka_groups, read_part
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.planning import Subscribe, coalesce
from pyspark_zkafka.model.view_tables import VIEWS, Row, restrict
from pyspark_zkafka.model.znodes.cluster import ControllerInfo
from pyspark_zkafka.model.znodes.groups import group_path, ids_path, offsets_path, owners_path
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient, group_children

_log = logging.getLogger(__name__)

_OF_CLUSTER: dict[str, tuple[tuple[Part, ...], Callable[[ClusterReport], list[Row]]]] = {
    "brokers": (("brokers",), rows.broker_rows),
    "topics": (("topics", "configs"), rows.topic_rows),
    "partitions": (("topics",), rows.partition_rows),
    "controller": (("controller",), rows.controller_rows),
    "admin": (("admin",), lambda cluster: rows.admin_rows(cluster.admin)),
    "configs": (("configs",), lambda cluster: rows.config_rows(cluster.configs or {})),
}
"""The parts of a report that each view needs, and the function that makes the view's rows from the report."""

_OF_GROUPS: dict[str, Callable[[str], str]] = {"members": ids_path, "owners": owners_path, "offsets": offsets_path}
"""The part of the groups' znodes that each view needs."""


def plan_view(view: str, options: ReadOptions) -> list[Row]:
    """Return the sorted rows of a view. Blocks for a few round trips. `offsets` and `plan` also read offsets from brokers.

    Without ZooKeeper, views of groups show groups that Kafka coordinates.

    Raises ZKafkaError if the cluster cannot be reached. The views `topics`, `partitions`, `configs` and `plan` also raise
    it if the options name a topic with a malformed znode. Other malformed znodes of topics and brokers are logged as
    warnings. Malformed znodes of groups become rows.
    """
    if view == "plan":
        plan = plan_batch(options)
        return rows.plan_rows(coalesce(plan.splits, options.min_records, options.max_records), plan.snapshot)
    connection = options.connection
    if connection.zookeeper is not None:
        with ZooKeeperClient(connection.zookeeper) as zookeeper:
            with suppress(CodecError, ZooKeeperRefused):  # only the view controller needs the controller's znode
                _warn_if_outdated(view, zookeeper.survey([]))
            read = _of_groups if VIEWS[view].has_groups else _of_cluster
            return read(view, options, zookeeper)
    if VIEWS[view].has_groups:
        with GroupAdmin.of(connection) as brokers:
            return _of_kafka_groups(view, options, brokers)
    with KafkaAdmin.of(connection) as admin:
        return _of_cluster(view, options, admin)


def _of_cluster(view: str, options: ReadOptions, source: ClusterSource) -> list[Row]:
    subscription, (parts, make_rows) = options.subscription, _OF_CLUSTER[view]
    if subscription is None or view == "admin":
        cluster = read_cluster(source, parts)
    elif isinstance(subscription, Subscribe):
        cluster = read_cluster(source, parts, restrict(subscription, subscription.topics))
    else:
        cluster = read_cluster(source, parts, partial(restrict, subscription))
    if cluster.snapshot.brokers:  # without brokers, `plan_view` has warned
        _warn_if_outdated(view, cluster.snapshot)
    for error in cluster.unreadable.values():
        _log.warning("view=%s leaves out a malformed znode: %s", view, error)
    if isinstance(source, KafkaAdmin) and view == "controller" and not _is_of_zookeeper(cluster.controller, options):
        cluster = replace(cluster, controller=None)
    found = make_rows(cluster)
    if view != "admin":
        return found
    requested = restrict(subscription, {row["topic"] for row in found})
    return [row for row in found if row["topic"] in requested]


def _warn_if_outdated(view: str, snapshot: ClusterSnapshot) -> None:
    if snapshot.is_outdated:
        _log.warning("view=%s shows outdated data of ZooKeeper. %s", view, describe_migration(snapshot))


def _is_of_zookeeper(controller: ControllerInfo | None, options: ReadOptions) -> bool:
    """Return True if the controller is a broker that is not in KRaft mode. Return False if no broker answers.

    In KRaft mode, the metadata names any broker as the controller.
    """
    if controller is None:
        return False
    try:
        with KafkaAdmin.of(options.connection) as admin:
            if not admin.broker_config(controller.broker, "process.roles"):
                return True
        _log.warning(
            "view=controller has no broker, because brokers in KRaft mode do not name the controller. Use "
            "kafka-metadata-quorum --bootstrap-server ... describe --status"
        )
    except ZKafkaError as error:
        _log.warning("view=controller has no broker, and whether the cluster is in KRaft mode is unknown: %s", error)
    return False


def _of_kafka_groups(view: str, options: ReadOptions, brokers: GroupAdmin) -> list[Row]:
    """Return the rows of groups that Kafka coordinates. A group that cannot be read is logged."""
    names = None if options.group is None else [options.group]
    try:
        found = read_kafka_groups(brokers, names, logs=view == "offsets")
    except GroupError as error:
        _log.info("view=%s is empty: %s", view, error)
        return []
    for problem in (*found.logs.problems, *filter(None, [found.kafka_problem])):
        _log.warning("view=%s is incomplete: %s", view, problem)
    groups = [found.groups[name] for name in sorted(found.groups)]
    if view == "members":
        return [row for group in groups for row in rows.kafka_member_rows(group)]
    if view == "groups":
        requested = [(row, restrict(options.subscription, row["topics"])) for row in map(rows.kafka_group_row, groups)]
        return [{**row, "topics": topics} for row, topics in requested if topics or options.subscription is None]
    if view == "owners":
        made = [row for group in groups for row in rows.kafka_owner_rows(group)]
    else:
        made = rows.offset_rows(found)
    topics = set(restrict(options.subscription, {row["topic"] for row in made}))
    return [row for row in made if row["topic"] in topics]


def _of_groups(view: str, options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    names = sorted(zookeeper.groups()) if options.group is None else [options.group]
    if view == "groups":
        return _groups(options, zookeeper, names)
    groups = read_part(zookeeper, names, _OF_GROUPS[view], partial(restrict, options.subscription))
    if view == "offsets":
        latest = _latest(options, zookeeper, sorted({tp for group in groups.values() for tp in group.offsets}))
        logs = LogsReport({tp: LogBounds(end=end) for tp, end in latest.items()})
        return rows.offset_rows(GroupReports(groups, logs=logs))
    make_rows = rows.member_rows if view == "members" else rows.owner_rows
    return [row for group in groups.values() for row in make_rows(group)]


def _groups(options: ReadOptions, zookeeper: ZooKeeperClient, names: Collection[str]) -> list[Row]:
    children = group_children(zookeeper, names)
    existing = [name for name in names if group_path(name) in children]
    found = []
    for name, group in decode_groups(existing, children, {}).items():
        shown = replace(group, topics=frozenset(restrict(options.subscription, group.topics)))
        if options.subscription is None or shown.topics:
            found.append(rows.group_row(shown, children.get(ids_path(name), [])))
    return found


def _latest(
    options: ReadOptions, zookeeper: ZooKeeperClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the latest offsets of partitions with a leader. If the brokers do not answer, warn, and return no offset."""
    if not partitions:
        return {}
    connection, snapshot = options.connection, zookeeper.survey({tp.topic for tp in partitions})
    for error in snapshot.unreadable.values():
        _log.warning("view=offsets leaves out a malformed znode: %s", error)
    requested = {tp: LATEST for tp in partitions if snapshot.leader(tp) is not None}
    offline = [str(tp) for tp in partitions if tp.topic in snapshot.topics and tp not in requested]
    if offline:
        _log.warning("view=offsets has no lag for partitions without a leader: %s", listing(offline))
    try:
        servers = bootstrap_servers(connection, snapshot)
        with KafkaAdmin.of(connection, servers) as admin:
            found, failed = admin.list_offsets_each(requested)
    except ZKafkaError as error:
        _log.warning("view=offsets has neither latest offsets nor lag: %s", error)
        return {}
    if failed:
        _log.warning("view=offsets has no lag of %s: %s", listing(sorted(failed)), next(iter(failed.values())))
    return found
