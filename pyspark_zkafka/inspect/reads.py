"""Reads of a cluster and of many groups at once, as reports: from ZooKeeper, from the brokers, or from both."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from pyspark_zkafka.brokers.groups import DEAD, GroupAdmin, GroupState
from pyspark_zkafka.cluster import ClusterSource, completed, describe_migration
from pyspark_zkafka.conditions import UNKNOWN_GROUP
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, CodecError, GroupError, ZKafkaError, listing
from pyspark_zkafka.group.membership import old_brokers
from pyspark_zkafka.inspect.groups import (
    GroupReport,
    GroupReports,
    LogBounds,
    LogsReport,
    OffsetsStorage,
    StoredOffsets,
    decode_groups,
    stored_in,
)
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.cluster import (
    BROKER_IDS,
    TOPIC_CONFIGS,
    AdminState,
    BrokerRegistration,
    ControllerInfo,
    topic_config_path,
)
from pyspark_zkafka.zookeeper.connection import Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient, group_children, read_group_znodes

Part = Literal["brokers", "topics", "configs", "controller", "admin"]
"""A part of a report. Only ZooKeeper has ``configs`` and ``admin``."""

Choice = Callable[[Iterable[str]], Collection[str]]
"""Selects from the names of topics."""

T = TypeVar("T")

_SHOWN = 5
_TIMEOUT_S = 10.0
_LEAST_S = 5.0


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
    of a named topic, of the controller or of the cluster id is malformed. The report lists other malformed znodes.
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


def read_groups(
    zookeeper: ZooKeeperClient | None,
    brokers: Callable[[], GroupAdmin] | None = None,
    names: Iterable[str] | None = None,
    *,
    storage: OffsetsStorage = "zookeeper",
    brokers_with_short_timeout: Callable[[], GroupAdmin] | None = None,
    matching: re.Pattern[str] | None = None,
) -> GroupReports:
    """Read groups, by default all in ZooKeeper. Blocks for three or four rounds of requests to it, and for the brokers.

    Without ZooKeeper, the groups are those that Kafka coordinates, and `brokers` must be given: see `read_kafka_groups`.

    `brokers` opens the client for the bounds of logs, and, unless `storage` is ``zookeeper``, for the offsets in Kafka. It
    is called only if needed. Without it, the reports have neither. `brokers_with_short_timeout` opens the client for the
    members in Kafka. If the brokers refuse or do not answer, or cannot describe a group, the result's `kafka_problem` says
    why, without an error. Only groups with a match of `matching` in their name are read.

    Raises GroupError (``UNKNOWN_GROUP``) if ZooKeeper does not have one of the `names`.
    """
    if zookeeper is None:
        if brokers is None:
            raise ValueError("groups are read from ZooKeeper or from brokers")
        return read_kafka_groups(brokers(), names, matching=matching)
    listed = zookeeper.groups() if names is None else dict.fromkeys(names)
    requested = [name for name in listed if matching is None or matching.search(name)]
    children = group_children(zookeeper, requested)
    existing = [name for name in requested if group_znodes.group_path(name) in children]
    if names is not None and len(existing) < len(requested):
        raise unknown_groups((name for name in requested if name not in existing), zookeeper.config.chroot)
    groups = decode_groups(existing, children, read_group_znodes(zookeeper, children))
    states, problem = dict[str, GroupState](), None
    if brokers_with_short_timeout is not None:
        try:
            states = {} if not groups or old_brokers(zookeeper) else brokers_with_short_timeout().group_states(groups)
        except ClusterStateError as error:
            problem = error.message
        else:
            groups = {name: replace(group, in_kafka=states.get(name, GroupState(DEAD))) for name, group in groups.items()}
    logs, failed = LogsReport(), dict[str, ZKafkaError]()
    if brokers is not None:
        in_kafka = dict[str, dict[TopicPartition, int]]()
        if storage != "zookeeper":
            in_kafka, failed = brokers().committed_each(groups)
        groups = {
            name: replace(group, kafka_offsets=in_kafka.get(name, {}), has_unread_offsets=name in failed)
            for name, group in groups.items()
        }
        existing_topics = zookeeper.topic_names() if any(group.has_filters for group in groups.values()) else []
        topics = {topic for group in groups.values() for topic in group.all_topics(existing_topics)}
        logs = read_logs(brokers, zookeeper.survey(topics))
    return GroupReports(groups, storage, logs, problem or unreadable_groups(states, failed))


def read_kafka_groups(
    brokers: GroupAdmin, names: Iterable[str] | None = None, *, matching: re.Pattern[str] | None = None, logs: bool = True
) -> GroupReports:
    """Read groups that Kafka coordinates, with the `logs` of their topics, by default all but ledgers.

    Blocks for some requests.

    A group that cannot be read does not hide the others: the result's `kafka_problem` says why. Raises GroupError
    (``UNKNOWN_GROUP``) if a named group does not exist.
    """
    listed, unlisted = consumer_group_names(brokers) if names is None else (list(dict.fromkeys(names)), [])
    requested = [name for name in listed if matching is None or matching.search(name)]
    states = brokers.group_states(requested)
    offsets, failed = brokers.committed_each(requested)
    missing = [name for name in requested if states[name].name == DEAD and not offsets.get(name) and name not in failed]
    if names is not None and missing:
        raise unknown_groups_in_kafka(missing)
    groups = {
        name: GroupReport(
            name, kafka_offsets=offsets.get(name, {}), in_kafka=states[name], has_unread_offsets=name in failed
        )
        for name in requested
        if name not in missing
    }
    found = LogsReport()
    if logs:
        topics = {tp.topic for group in groups.values() for tp in (*group.kafka_offsets, *group.kafka_owners)}
        found = read_logs(lambda: brokers, brokers.snapshot(sorted(topics))) if topics else found
    return GroupReports(groups, "kafka", found, unreadable_groups(states, failed, unlisted))


def consumer_group_names(brokers: GroupAdmin) -> tuple[list[str], list[ZKafkaError]]:
    """Return the names of the groups in Kafka, and the errors of brokers that do not list theirs.

    Without groups that hold a ledger, whose offsets are no positions.
    """
    names, failed = brokers.known_group_names()
    return [name for name in names if LedgerGroup.parse(name) is None], failed


def unreadable_groups(
    states: Mapping[str, GroupState], failed: Mapping[str, ZKafkaError], unlisted: Iterable[ZKafkaError] = ()
) -> str | None:
    """Return why some groups in Kafka cannot be read; None if all can.

    `failed` has errors of reading their offsets, and `unlisted` of listing them.
    """
    problems = [state.problem for state in states.values() if state.problem is not None]
    return "; ".join(dict.fromkeys(error.message for error in (*unlisted, *problems, *failed.values()))) or None


def read_part(
    zookeeper: ZooKeeperConnection,
    names: Iterable[str],
    part: Callable[[str], str],
    choose: Callable[[Iterable[str]], Iterable[str]] = list,
) -> dict[str, GroupReport]:
    """Read one part of the groups' znodes. Blocks for two rounds of requests, or three for owners and offsets.

    `part` is `ids_path`, `owners_path` or `offsets_path`, and `choose` selects from the topics under ``owners`` or
    ``offsets``. A group that does not exist has an empty report.
    """
    found = list(dict.fromkeys(names))
    children = zookeeper.children_many(map(part, found))
    return decode_groups(found, children, read_group_znodes(zookeeper, children, choose))


def stored_offsets(client: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, StoredOffsets]:
    """Read the stored offsets of groups. Blocks for three rounds of requests, whatever the number of groups."""
    return {name: stored_in(report) for name, report in read_part(client, groups, group_znodes.offsets_path).items()}


def unknown_groups(names: Iterable[str], chroot: str) -> GroupError:
    """Return the error for groups without a znode under ``/consumers``.

    >>> unknown_groups(["a", "b"], "/kafka").message
    'Groups a, b do not exist under /kafka/consumers; list the groups with `zkafka groups list`. ...'
    """
    missing = list(names)
    clause = f"Group {missing[0]} does not exist" if len(missing) == 1 else f"Groups {listing(missing)} do not exist"
    return UNKNOWN_GROUP(
        f"{clause} under {chroot}{group_znodes.CONSUMERS}; list the groups with `zkafka groups list`. "
        "For groups that only Kafka has, use --bootstrap-server instead of --zookeeper",
        groups=missing,
    )


def unknown_groups_in_kafka(names: Iterable[str]) -> GroupError:
    """Return the error for groups that no broker coordinates.

    >>> unknown_groups_in_kafka(["a"]).message
    'Group a does not exist in Kafka; list the groups with `zkafka groups list`, or give --zookeeper for a group there'
    """
    missing = list(names)
    clause = f"Group {missing[0]} does not exist" if len(missing) == 1 else f"Groups {listing(missing)} do not exist"
    text = f"{clause} in Kafka; list the groups with `zkafka groups list`"
    return UNKNOWN_GROUP(f"{text}, or give --zookeeper for a group there", groups=missing)


def read_logs(brokers: Callable[[], GroupAdmin], snapshot: ClusterSnapshot) -> LogsReport:
    """Read the bounds of all logs in a snapshot; None for a partition whose leader does not answer.

    Blocks for two requests to each leader, or some 15 s if one does not answer. That leader gets no second request.
    `brokers` is called if there is a leader, or if brokers have left ZooKeeper for KRaft.
    """
    notes: tuple[str, ...] = ()
    if snapshot.is_outdated:
        try:
            known = brokers().snapshot(snapshot.topics)
        except ClusterStateError as error:
            notes = (error.message,)
        else:
            snapshot, notes = completed(snapshot, known), (describe_migration(snapshot),)
    partitions = snapshot.all_partitions()
    offline = snapshot.without_leader(partitions)
    led = sorted(set(partitions).difference(offline))
    deadline = time.monotonic() + _TIMEOUT_S
    starts, unstarted = brokers().list_offsets_each(dict.fromkeys(led, EARLIEST), _TIMEOUT_S) if led else ({}, {})
    left_s = max(deadline - time.monotonic(), _LEAST_S)
    ends, unended = brokers().list_offsets_each(dict.fromkeys(starts, LATEST), left_s) if starts else ({}, {})
    states = snapshot.states
    bounds = {tp: LogBounds(starts.get(tp), ends.get(tp), states[tp].czxid if tp in states else None) for tp in partitions}
    without_leader = [f"No broker leads {listing(offline, _SHOWN)}"] if offline and not snapshot.is_outdated else []
    malformed = [error.message for error in snapshot.unreadable.values()]
    return LogsReport(bounds, (*notes, *malformed, *without_leader, *_reasons({**unstarted, **unended})))


def _reasons(failed: Mapping[TopicPartition, ZKafkaError]) -> list[str]:
    """Return one line for each kind of error, with its partitions."""
    found: dict[str, list[TopicPartition]] = {}
    for tp, error in sorted(failed.items()):
        found.setdefault(error.condition, []).append(tp)
    lines = []
    for some in found.values():
        error = failed[some[0]]
        reason = error.message
        if isinstance(error, BrokersUnavailable):
            reason = "no answer from the leaders; check that these brokers run and are reachable from here"
        lines.append(f"No offsets of {listing(some, _SHOWN)}: {reason}")
    return lines
