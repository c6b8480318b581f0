"""Planner of views, which reads their rows while Spark plans: a few rounds of requests to ZooKeeper or the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pyspark_zkafka.batch.planner import plan_batch
from pyspark_zkafka.cluster import ClusterSource, bootstrap_servers
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
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

__all__ = ["plan_view"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


def plan_view(view: str, options: ReadOptions) -> list[Row]:
    """The rows of a view, sorted. Blocks for a few round trips; `offsets` and `plan` also request offsets of the brokers.

    Raises
    ------
    ZKafkaError
        The cluster cannot be reached, or one of its znodes is malformed; malformed znodes of groups become rows.
    """
    if view == "plan":
        return _plan(options)
    connection = options.connection
    if connection.zookeeper is not None:
        with ZooKeeperClient(connection.zookeeper) as zookeeper:
            return _FROM_ZOOKEEPER[view](options, zookeeper)
    if view not in _FROM_BROKERS:
        raise OptionError("INVALID_OPTION", f"view={view} reads ZooKeeper and needs zookeeper.connect")
    with KafkaAdmin(connection.bootstrap_servers or "", connection.kafka) as admin:
        return _FROM_BROKERS[view](options, admin)


# --- the cluster -------------------------------------------------------------------------------------------------------


def _brokers(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    ids = zookeeper.children_many([broker_znodes.BROKER_IDS]).get(broker_znodes.BROKER_IDS, [])
    nodes = zookeeper.get_many(f"{broker_znodes.BROKER_IDS}/{name}" for name in ids)
    return cluster_rows.registered_broker_rows(broker_znodes.decode_broker(path, n.data) for path, n in nodes.items())


def _topics(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    snapshot = _snapshot(options, zookeeper)
    return cluster_rows.topic_rows(snapshot, zookeeper.topic_configs(snapshot.topics))


def _partitions(options: ReadOptions, cluster: ClusterSource) -> list[Row]:
    return cluster_rows.partition_rows(_snapshot(options, cluster))


def _snapshot(options: ReadOptions, cluster: ClusterSource) -> ClusterSnapshot:
    subscription = options.subscription
    if subscription is None:
        return cluster.snapshot()
    names = subscription.topics if isinstance(subscription, Subscribe) else cluster.topic_names()
    return cluster.snapshot(restrict(subscription, names))


def _controller(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    found = zookeeper.get_many([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID])
    data = {path: node.data for path, node in found.items()}
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


def _brokers_told(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    return cluster_rows.broker_rows(admin.snapshot([]).brokers.values())


def _topics_told(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    return cluster_rows.topic_rows(_snapshot(options, admin), None)


def _controller_told(options: ReadOptions, admin: KafkaAdmin) -> list[Row]:
    snapshot = admin.snapshot([])
    controller = None if snapshot.controller is None else ControllerInfo(snapshot.controller)
    return cluster_rows.controller_rows(controller, None, snapshot.cluster_id)


def _plan(options: ReadOptions) -> list[Row]:
    plan = plan_batch(options)
    return cluster_rows.plan_rows(coalesce(plan.splits, options.min_records, options.max_records), plan.snapshot)


# --- groups ------------------------------------------------------------------------------------------------------------


def _groups(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    names = _group_names(options, zookeeper)
    children = group_znode_reads.group_children(zookeeper, names)
    if options.subscription is None:
        return group_rows.group_rows(names, children)
    wanted = restrict(options.subscription, {name for below in children.values() for name in below})
    return group_rows.group_rows(names, children, set(wanted))


def _members(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    found = group_znode_reads.member_znodes(zookeeper, _group_names(options, zookeeper))
    return group_rows.member_rows({path: node.data for path, node in found.items()})


def _owners(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    parents = map(owners_path, _group_names(options, zookeeper))
    found = group_znode_reads.partition_znodes(zookeeper, parents, lambda names: restrict(options.subscription, names))
    return group_rows.owner_rows({path: node.data for path, node in found.items()})


def _offsets(options: ReadOptions, zookeeper: ZooKeeperClient) -> list[Row]:
    parents = map(offsets_path, _group_names(options, zookeeper))
    found = group_znode_reads.partition_znodes(zookeeper, parents, lambda names: restrict(options.subscription, names))
    data = {path: node.data for path, node in found.items()}
    rows = group_rows.offset_rows(data, {path: node.stat.modified_ms for path, node in found.items()})
    return group_rows.with_lag(rows, _latest(options, zookeeper, group_rows.committed_partitions(rows)))


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
    _warn("no broker leads", [tp for tp in partitions if tp.topic in snapshot.topics and tp not in wanted])
    try:
        servers = bootstrap_servers(connection, snapshot)
        with KafkaAdmin(servers, connection.kafka, read_committed=connection.read_committed) as admin:
            told = admin.list_offsets(wanted)
    except ZKafkaError as error:
        _log.warning("view=offsets has neither latest offsets nor lag: %s", error)
        return {}
    # librdkafka returns -1001 for partitions of a broker that did not answer, if another did.
    _warn("the leader does not answer", [tp for tp, offset in told.items() if offset < 0])
    return {tp: offset for tp, offset in told.items() if offset >= 0}


def _warn(why: str, partitions: Collection[TopicPartition]) -> None:
    if partitions:
        _log.warning("view=offsets has no lag for partitions where %s: %s", why, ", ".join(map(str, partitions)))


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
    "brokers": _brokers_told,
    "topics": _topics_told,
    "partitions": _partitions,
    "controller": _controller_told,
}
