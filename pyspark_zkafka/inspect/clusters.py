"""Report of a cluster: brokers, topics, controller and administration, from ZooKeeper or from the brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from pyspark_zkafka.cluster import ClusterSource
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import ClusterSnapshot
from pyspark_zkafka.model.znodes import topics as znodes
from pyspark_zkafka.model.znodes.admin import TOPIC_CONFIGS, AdminState, topic_config_path
from pyspark_zkafka.model.znodes.brokers import BROKER_IDS, BrokerRegistration
from pyspark_zkafka.model.znodes.topics import ControllerInfo
from pyspark_zkafka.zookeeper.connection import Znode
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

Part = Literal["brokers", "topics", "configs", "controller", "admin"]
"""A part of a report. Only ZooKeeper has ``configs`` and ``admin``."""

Choice = Callable[[Iterable[str]], Collection[str]]
"""Selects from the names of topics."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The parts of a cluster that were read. The other parts are empty.

    `snapshot` has the topics and the brokers; no topics if only ``brokers`` were read from the brokers' metadata.
    `registrations`, the brokers' znodes by id, and `configs`, the topics' own settings, are None without ZooKeeper.
    `unreadable` has the errors of malformed znodes by path. The other parts lack these znodes.
    """

    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}))
    registrations: tuple[BrokerRegistration, ...] | None = None
    configs: Mapping[str, Mapping[str, str]] | None = None
    controller: ControllerInfo | None = None
    controller_epoch: int | None = None
    cluster_id: str | None = None
    admin: AdminState = field(default_factory=AdminState)
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)


def read_cluster(
    source: ClusterSource, parts: Collection[Part], topics: Collection[str] | Choice | None = None
) -> ClusterReport:
    """Read some parts of a cluster from an open source. Blocks for one to three rounds of requests for each part.

    `topics` has names, or selects from the existing names; by default, all topics are read. Raises CodecError if the znode
    of a named topic is malformed. The report lists other malformed znodes.
    """
    if not isinstance(source, ZooKeeperClient):
        wanted = topics if "topics" in parts else []
        snapshot = source.snapshot(wanted(source.topic_names()) if callable(wanted) else wanted)
        controller = None if snapshot.controller is None else ControllerInfo(snapshot.controller)
        return ClusterReport(snapshot, controller=controller, cluster_id=snapshot.cluster_id)
    report, unreadable = ClusterReport(), dict[str, CodecError]()
    is_named = topics is not None and not callable(topics)
    read = source.snapshot if is_named else source.survey
    if "topics" in parts:
        snapshot = read(topics(source.topic_names()) if callable(topics) else topics)
        unreadable |= snapshot.unreadable
        report, topics = replace(report, snapshot=snapshot), snapshot.topics
    if "configs" in parts:
        if callable(topics):
            topics = topics(source.children_many([TOPIC_CONFIGS]).get(TOPIC_CONFIGS, []))
        configs = source.topic_configs(topics)
        for name, error in configs.unreadable.items():
            if is_named:
                raise error
            unreadable[topic_config_path(name)] = error
        report = replace(report, configs=configs.readable)
    if "brokers" in parts:
        registered = source.registrations()
        unreadable |= {f"{BROKER_IDS}/{name}": error for name, error in registered.unreadable.items()}
        in_order = sorted(registered.readable.values(), key=lambda found: found.broker.id)
        report = replace(report, registrations=tuple(in_order))
    if "controller" in parts:
        nodes = source.get_many([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID])
        report = replace(
            report,
            controller=_decoded(nodes, znodes.CONTROLLER, znodes.decode_controller),
            controller_epoch=_decoded(nodes, znodes.CONTROLLER_EPOCH, znodes.decode_controller_epoch),
            cluster_id=_decoded(nodes, znodes.CLUSTER_ID, znodes.decode_cluster_id),
        )
    if "admin" in parts:
        report = replace(report, admin=source.admin_state())
        unreadable |= report.admin.unreadable
    return replace(report, unreadable=unreadable)


def _decoded(nodes: Mapping[str, Znode], path: str, decode: Callable[[str, bytes | None], T]) -> T | None:
    return decode(path, nodes[path].data) if path in nodes else None
