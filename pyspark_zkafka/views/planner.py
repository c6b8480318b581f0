"""Planner of views, which reads their rows while Spark plans: a few rounds of requests to ZooKeeper or the brokers."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pyspark_zkafka.batch.planner import plan_batch
from pyspark_zkafka.cluster import ClusterSource, bootstrap_servers
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.kafka.config_admin import ConfigAdmin
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.planning import Subscribe, coalesce
from pyspark_zkafka.protocol.view_tables import Row, restrict
from pyspark_zkafka.protocol.znodes import brokers as broker_znodes
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.protocol.znodes.admin import TOPIC_CONFIGS
from pyspark_zkafka.protocol.znodes.groups import offsets_path, owners_path
from pyspark_zkafka.protocol.znodes.topics import ControllerInfo
from pyspark_zkafka.views import cluster_rows, group_rows
from pyspark_zkafka.zookeeper import groups as group_znode_reads
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import Znode

__all__ = ["plan_view"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


def plan_view(view: str, options: ReadOptions) -> list[Row]:
    """The rows of a view, sorted. Blocks for a few round trips; `offsets` and `plan` also request offsets of the brokers.

    Raises ZKafkaError if the cluster cannot be reached, or one of its znodes is malformed; those of groups become rows.
    """
    if view == "plan":
        return _plan(options)
    connection = options.connection
    if connection.zookeeper is not None:
        with ZooKeeperClient(connection.zookeeper) as zookeeper:
            return _FROM_ZOOKEEPER[view](options, zookeeper)
    if view not in _FROM_BROKERS:
        raise OptionError("INVALID_OPTION", f"view={view} reads ZooKeeper and needs zookeeper.connect")
    with KafkaAdmin.of(connection) as admin:
        return _FROM_BROKERS[view](options, admin)


# --- the cluster -------------------------------------------------------------------------------------------------------


def _brokers(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    ids = zookeeper.children_many([broker_znodes.BROKER_IDS]).get(broker_znodes.BROKER_IDS, [])
    data = _data(zookeeper.get_many(f"{broker_znodes.BROKER_IDS}/{name}" for name in ids))
    return cluster_rows.registered_broker_rows(itertools.starmap(broker_znodes.decode_broker, data.items()))


def _topics(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    snapshot = _snapshot(options, zookeeper)
    return cluster_rows.topic_rows(snapshot, zookeeper.topic_configs(snapshot.topics))


def _partitions(options: ReadOptions, cluster: ClusterSource) -> list[Row]:
    return cluster_rows.partition_rows(_snapshot(options, cluster))


def _snapshot(options: ReadOptions, cluster: ClusterSource) -> ClusterSnapshot:
    subscription, wanted = options.subscription, None
    if subscription is not None:
        names = subscription.topics if isinstance(subscription, Subscribe) else cluster.topic_names()
        wanted = restrict(subscription, names)
    snapshot = cluster.snapshot(wanted)
    if snapshot.is_outdated:
        _log.warning("brokers have left ZooKeeper for KRaft, and this view shows what ZooKeeper has: use the brokers alone")
    return snapshot


def _controller(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    data = _data(zookeeper.get_many([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID]))
    return cluster_rows.controller_rows(
        _decoded(data, znodes.CONTROLLER, znodes.decode_controller),
        _decoded(data, znodes.CONTROLLER_EPOCH, znodes.decode_controller_epoch),
        _decoded(data, znodes.CLUSTER_ID, znodes.decode_cluster_id),
    )


def _admin(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    state = zookeeper.admin_state()
    named = {*state.deletions, *(tp.topic for tp in (*state.reassignments, *state.preferred_elections))}
    return cluster_rows.admin_rows(state, restrict(options.subscription, named))


def _configs(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    names = zookeeper.children_many([TOPIC_CONFIGS]).get(TOPIC_CONFIGS, [])
    return cluster_rows.config_rows(zookeeper.topic_configs(restrict(options.subscription, names)))


def _brokers_of_metadata(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    return cluster_rows.broker_rows(admin.snapshot([]).brokers.values())


def _topics_of_metadata(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    return cluster_rows.topic_rows(_snapshot(options, admin), None)


def _controller_of_metadata(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    snapshot = admin.snapshot([])
    named = snapshot.controller
    controller = None if named is None or not _is_controller(named, options) else ControllerInfo(named)
    return cluster_rows.controller_rows(controller, None, snapshot.cluster_id)


def _is_controller(broker: int, options: ReadOptions) -> bool:
    """False for a broker of a cluster in KRaft mode, whose metadata names any broker instead of the controller."""
    try:
        with ConfigAdmin.of(options.connection) as admin:
            if not admin.broker_config(broker, "process.roles"):
                return True
        _log.warning(
            "view=controller has no broker: the metadata of a cluster in KRaft mode does not name the controller; "
            "kafka-metadata-quorum --bootstrap-server ... describe --status does"
        )
    except ZKafkaError as error:
        _log.warning("view=controller has no broker: whether the cluster is in KRaft mode is unknown: %s", error)
    return False


def _plan(options: ReadOptions) -> list[Row]:
    plan = plan_batch(options)
    return cluster_rows.plan_rows(coalesce(plan.splits, options.min_records, options.max_records), plan.snapshot)


# --- groups ------------------------------------------------------------------------------------------------------------


def _groups(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    names = _group_names(options, zookeeper)
    children = group_znode_reads.group_children(zookeeper, names)
    if options.subscription is None:
        return group_rows.group_rows(names, children)
    topics = restrict(options.subscription, itertools.chain.from_iterable(children.values()))
    return group_rows.group_rows(names, children, set(topics))


def _members(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    return group_rows.member_rows(_data(group_znode_reads.member_znodes(zookeeper, _group_names(options, zookeeper))))


def _owners(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    return group_rows.owner_rows(_data(_partition_znodes(options, zookeeper, owners_path)))


def _offsets(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    found = _partition_znodes(options, zookeeper, offsets_path)
    rows = group_rows.offset_rows(_data(found), {path: node.stat.modified_ms for path, node in found.items()})
    return group_rows.with_lag(rows, _latest(options, zookeeper, group_rows.committed_partitions(rows)))


def _partition_znodes(options: ReadOptions, zookeeper: ZooKeeperClient, parent: Callable[[str], str]) -> dict[str, Znode]:
    parents = map(parent, _group_names(options, zookeeper))
    return group_znode_reads.partition_znodes(zookeeper, parents, lambda names: restrict(options.subscription, names))


def _group_names(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[str]:
    return zookeeper.groups() if options.group is None else [options.group]


def _latest(
    options: ReadOptions, zookeeper: ZooKeeperClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The latest offsets of those partitions that have a leader; none, with a warning, if the brokers do not answer."""
    if not partitions:
        return {}
    connection, snapshot = options.connection, zookeeper.snapshot({tp.topic for tp in partitions})
    wanted = {tp: LATEST for tp in partitions if snapshot.leader(tp) is not None}
    offline = [str(tp) for tp in partitions if tp.topic in snapshot.topics and tp not in wanted]
    if offline:
        _log.warning("view=offsets has no lag for partitions where no broker leads: %s", ", ".join(offline))
    try:
        servers = bootstrap_servers(connection, snapshot)
        with KafkaAdmin.of(connection, servers) as admin:
            return admin.list_offsets(wanted)
    except ZKafkaError as error:
        _log.warning("view=offsets has neither latest offsets nor lag: %s", error)
        return {}


def _data(nodes: Mapping[str, Znode]) -> dict[str, bytes | None]:
    return {path: node.data for path, node in nodes.items()}


def _decoded(data: Mapping[str, bytes | None], path: str, decode: Callable[[str, bytes | None], T]) -> T | None:
    return decode(path, data[path]) if path in data else None


_FROM_ZOOKEEPER: dict[str, Callable[[ReadOptions, ZooKeeperClient], list[Row]]] = {
    "brokers": _brokers,
    "topics": _topics,
    "partitions": _partitions,
    "controller": _controller,
    "groups": _groups,
    "members": _members,
    "owners": _owners,
    "offsets": _offsets,
    "admin": _admin,
    "configs": _configs,
}
_FROM_BROKERS: dict[str, Callable[[ReadOptions, KafkaAdmin], list[Row]]] = {
    "brokers": _brokers_of_metadata,
    "topics": _topics_of_metadata,
    "partitions": _partitions,
    "controller": _controller_of_metadata,
}
