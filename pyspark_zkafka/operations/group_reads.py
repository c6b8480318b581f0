"""Reads of groups' znodes, of their offsets in Kafka, and of the logs' bounds, for many groups at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pyspark_zkafka.cluster import completed, describe_migration
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, ZKafkaError, listing
from pyspark_zkafka.operations.group_state import (
    GroupState,
    LogBounds,
    PartitionDescription,
    describe_groups,
    group_states,
    unknown_groups,
)
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.zookeeper.groups import group_children

if TYPE_CHECKING:
    from pyspark_zkafka.kafka.group_admin import GroupAdmin
    from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

__all__ = ["Described", "Logs", "OffsetsStorage", "read_descriptions", "read_groups", "read_logs", "read_topics"]

OffsetsStorage = Literal["zookeeper", "kafka", "both"]

_SHOWN = 5
_TIMEOUT_S = 10.0
_LEAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Logs:
    """The bounds of existing partitions, and the errors of leaders that did not return theirs."""

    bounds: dict[TopicPartition, LogBounds] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Described:
    """Descriptions by group, the states that they were made of, and the problems with brokers and znodes, as messages."""

    groups: Mapping[str, tuple[PartitionDescription, ...]]
    states: Mapping[str, GroupState] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_groups(
    zookeeper: ZooKeeperClient, groups: Iterable[str] | None = None, matching: re.Pattern[str] | None = None
) -> dict[str, GroupState]:
    """The states of groups by name; blocks for three or four rounds of requests.

    By default they are all of ZooKeeper's; with `matching`, those in whose name it is found: nothing of others is read.

    Raises
    ------
    GroupError
        ``UNKNOWN_GROUP``: ZooKeeper has no group of a name.
    """
    found = zookeeper.groups() if groups is None else dict.fromkeys(groups)
    names = [name for name in found if matching is None or matching.search(name)]
    children = group_children(zookeeper, names)
    missing = [name for name in names if group_znodes.group_path(name) not in children]
    if missing and groups is not None:
        raise unknown_groups(missing, zookeeper.config.chroot)
    parts = [path(name) for name in names for path in (group_znodes.owners_path, group_znodes.offsets_path)]
    partitions = zookeeper.children_many(_below(children, parts))
    ids = _below(children, map(group_znodes.ids_path, names))
    return group_states(names, children, zookeeper.get_many([*ids, *_below(partitions, partitions)]))


def _below(children: Mapping[str, list[str]], parents: Iterable[str]) -> list[str]:
    return [f"{path}/{name}" for path in parents for name in children.get(path, ())]


def read_topics(zookeeper: ZooKeeperClient, groups: Iterable[GroupState]) -> ClusterSnapshot:
    """The brokers, and the existing topics of the groups; blocks for two or three rounds of requests."""
    found = list(groups)
    names = zookeeper.topic_names() if any(group.has_filters for group in found) else []
    return zookeeper.snapshot({topic for group in found for topic in group.all_topics(names)})


def read_logs(brokers: Callable[[], GroupAdmin], snapshot: ClusterSnapshot) -> Logs:
    """The bounds of all logs in a snapshot; those of a partition without a leader that answers are None.

    Blocks for two requests to each leader, or some 15 s if one does not answer: it is not asked a second time. `brokers` is
    called if there is a leader, or if brokers have left ZooKeeper for KRaft.
    """
    notes: tuple[str, ...] = ()
    if snapshot.is_outdated:
        snapshot, notes = _from_brokers(brokers, snapshot)
    partitions = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
    offline = snapshot.without_leader(partitions)
    led = set(partitions).difference(offline)
    deadline = time.monotonic() + _TIMEOUT_S
    starts, unstarted = brokers().list_offsets_each(dict.fromkeys(sorted(led), EARLIEST), _TIMEOUT_S) if led else ({}, {})
    left_s = max(deadline - time.monotonic(), _LEAST_S)
    ends, unended = brokers().list_offsets_each(dict.fromkeys(starts, LATEST), left_s) if starts else ({}, {})
    states = snapshot.states
    bounds = {tp: LogBounds(starts.get(tp), ends.get(tp), states[tp].czxid if tp in states else None) for tp in partitions}
    without_leader = [f"No broker leads {listing(offline, _SHOWN)}"] if offline and not snapshot.is_outdated else []
    return Logs(bounds, (*notes, *without_leader, *_reasons({**unstarted, **unended})))


def _from_brokers(brokers: Callable[[], GroupAdmin], outdated: ClusterSnapshot) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """The snapshot of a cluster that leaves ZooKeeper for KRaft, as far as brokers are known, and a note about it."""
    try:
        known = brokers().snapshot(outdated.topics)
    except ClusterStateError as error:
        return outdated, (error.message,)
    return completed(outdated, known), (describe_migration(outdated),)


def _reasons(failed: Mapping[TopicPartition, ZKafkaError]) -> list[str]:
    """A line for each kind of error, with its partitions."""
    found: dict[str, list[TopicPartition]] = {}
    for tp, error in sorted(failed.items()):
        found.setdefault(error.condition, []).append(tp)
    return [f"No offsets of {listing(some, _SHOWN)}: {_reason(failed[some[0]])}" for some in found.values()]


def _reason(error: ZKafkaError) -> str:
    if isinstance(error, BrokersUnavailable):
        return "no answer from the leaders; check that these brokers run and are reachable from here"
    return error.message


def read_descriptions(
    zookeeper: ZooKeeperClient,
    brokers: Callable[[], GroupAdmin],
    groups: Iterable[str] | None = None,
    storage: OffsetsStorage = "zookeeper",
) -> Described:
    """The descriptions of groups, all of ZooKeeper's by default; see `describe_groups`.

    Blocks for some rounds of requests to ZooKeeper, and two to each leader. `brokers` is called if they are needed.
    """
    states = list(read_groups(zookeeper, groups).values())
    in_kafka = {} if storage == "zookeeper" else brokers().committed_many(state.name for state in states)
    snapshot = read_topics(zookeeper, [_with_topics(state, in_kafka.get(state.name, {})) for state in states])
    logs = read_logs(brokers, snapshot)
    shown = [replace(state, offsets={}) for state in states] if storage == "kafka" else states
    unreadable = (error.message for state in shown for error in state.unreadable.values())
    described = describe_groups(shown, logs.bounds, in_kafka)
    return Described(described, {state.name: state for state in states}, (*logs.problems, *unreadable))


def _with_topics(state: GroupState, more: Iterable[TopicPartition]) -> GroupState:
    return replace(state, topics=state.topics.union(tp.topic for tp in more))
