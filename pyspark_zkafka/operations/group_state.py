"""State of ZooKeeper's consumer groups, and the description of their partitions: pure functions over znodes and offsets.

References
----------
kafka.admin.ConsumerGroupCommand.ZkConsumerGroupService (Kafka 1.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark_zkafka.errors import CodecError, GroupError, listing
from pyspark_zkafka.protocol.assignors import topics_of
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.connection import Znode

__all__ = [
    "Committed",
    "GroupState",
    "LogBounds",
    "Member",
    "Owner",
    "PartitionDescription",
    "consumer_host",
    "describe_groups",
    "group_states",
    "logs_by_topic",
    "unknown_groups",
]

T = TypeVar("T")

_GENERATED = re.compile(r"(?P<host>.+)-[0-9]{1,19}-[0-9a-f]{1,8}")
_US_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """A registered consumer, and the session that its registration belongs to."""

    registration: ConsumerRegistration
    session: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """The thread that a claim names, and the session that the claim belongs to, 0 if it is not ephemeral."""

    thread: str
    session: int = 0

    @property
    def consumer(self) -> str:
        """The consumer that the thread belongs to."""
        return group_znodes.consumer_of_thread(self.thread)


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset in ZooKeeper, negative for none, with the time and the transaction of its last write."""

    offset: int
    modified_ms: int | None = None
    mzxid: int | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's znodes, decoded.

    Parameters
    ----------
    topics : frozenset of str
        The names under ``owners`` and ``offsets``, also those without any partition.
    unreadable : mapping
        The error of each znode that cannot be decoded, by path.
    """

    name: str
    members: Mapping[str, Member] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, Committed] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state in the words of Kafka's tools: ``Stable`` with members, ``Empty`` without, ``Dead`` without traces."""
        if self.registrations or self._unreadable_ids:
            return "Stable"
        return "Empty" if self.topics else "Dead"

    @property
    def member_count(self) -> int:
        """The number of registered members, those with unreadable registrations included."""
        return len(self.members) + self._unreadable_ids

    @property
    def registrations(self) -> dict[str, ConsumerRegistration]:
        """The readable registrations by consumer."""
        return {consumer: member.registration for consumer, member in self.members.items()}

    @property
    def has_filters(self) -> bool:
        """True if a member subscribes by a regex, so that its topics depend on those that exist."""
        return any(member.registration.pattern != "static" for member in self.members.values())

    def all_topics(self, names: Iterable[str]) -> set[str]:
        """The topics that are subscribed to, owned or committed; `names` are the existing ones, for filters alone."""
        known = list(names)
        subscribed = {topic for found in self.registrations.values() for topic in topics_of(found, known)}
        return {*self.topics, *subscribed}

    @property
    def unreadable_offsets(self) -> int:
        """The number of znodes under ``offsets`` that cannot be decoded."""
        return self._unreadable_below(group_znodes.offsets_path(self.name))

    @property
    def _unreadable_ids(self) -> int:
        return self._unreadable_below(group_znodes.ids_path(self.name))

    def _unreadable_below(self, parent: str) -> int:
        return sum(path.startswith(f"{parent}/") for path in self.unreadable)


def group_states(
    groups: Iterable[str], children: Mapping[str, list[str]], nodes: Mapping[str, Znode]
) -> dict[str, GroupState]:
    """The state of each group that exists.

    Parameters
    ----------
    children : mapping
        The names below each group, and below its owners and offsets; paths that do not exist are absent.
    nodes : mapping
        The znodes of consumers, owners and offsets by path.
    """
    below: dict[str, dict[str, Znode]] = {}
    for path, node in nodes.items():
        below.setdefault(path.split("/", 3)[2], {})[path] = node
    return {
        group: _group_state(group, children, below.get(group, {}))
        for group in groups
        if group_znodes.group_path(group) in children
    }


def _group_state(group: str, children: Mapping[str, list[str]], nodes: Mapping[str, Znode]) -> GroupState:
    unreadable: dict[str, CodecError] = {}
    owners, offsets = group_znodes.owners_path(group), group_znodes.offsets_path(group)

    def decoded(parent: str, decode: Callable[[str, Znode], T]) -> dict[str, T]:
        found = {}
        for path in sorted(path for path in nodes if path.startswith(parent + "/")):
            try:
                found[path] = decode(path, nodes[path])
            except CodecError as error:
                unreadable[path] = error
        return found

    return GroupState(
        group,
        {path.rpartition("/")[2]: member for path, member in decoded(group_znodes.ids_path(group), _member).items()},
        dict(decoded(owners, lambda path, node: (_partition(path), _owner(path, node))).values()),
        dict(decoded(offsets, lambda path, node: (_partition(path), _committed(path, node))).values()),
        frozenset([*children.get(owners, ()), *children.get(offsets, ())]),
        unreadable,
    )


def _partition(path: str) -> TopicPartition:
    topic, key = path.split("/")[-2:]
    found = group_znodes.parse_key(path, topic, key)
    if not isinstance(found, TopicPartition):
        raise CodecError(path, key.encode(), "a partition's number as the znode's name (broker-partition is of Kafka 0.7)")
    return found


def _member(path: str, node: Znode) -> Member:
    return Member(group_znodes.decode_registration(path, node.data), node.stat.ephemeral_owner)


def _owner(path: str, node: Znode) -> Owner:
    return Owner(group_znodes.decode_owner(path, node.data), node.stat.ephemeral_owner)


def _committed(path: str, node: Znode) -> Committed:
    return Committed(group_znodes.decode_offset(path, node.data), node.stat.modified_ms, node.stat.mzxid)


# --- description -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset of a partition's log, and the one after its last record; None if its leader did not answer.

    `czxid` is the transaction that created the partition; None where unknown.
    """

    start: int | None = None
    end: int | None = None
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a group; or, without topic and partition, a member that owns none.

    Parameters
    ----------
    current_offset : int or None
        The next offset to read; of two stores, the larger one, where consumers with dual commits continue.
    owner : str or None
        The thread that owns the partition.
    committed_us : int or None
        The time of the last commit to ZooKeeper, by its clock.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    current_offset: int | None = None
    log_end_offset: int | None = None
    log_start_offset: int | None = None
    owner: str | None = None
    host: str | None = None
    committed_us: int | None = None
    zookeeper_offset: int | None = None
    kafka_offset: int | None = None
    consumer_id: str | None = None

    @property
    def lag(self) -> int | None:
        """Records after the current offset; negative for an offset beyond the log's end."""
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


def logs_by_topic(logs: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions of each topic, ascending."""
    found: dict[str, list[TopicPartition]] = {}
    for tp in sorted(logs):
        found.setdefault(tp.topic, []).append(tp)
    return found


def describe_groups(
    groups: Iterable[GroupState],
    logs: Mapping[TopicPartition, LogBounds],
    kafka_offsets: Mapping[str, Mapping[TopicPartition, int]] | None = None,
) -> dict[str, tuple[PartitionDescription, ...]]:
    """Descriptions by group: of its partitions, by topic and number, then of its members that own none.

    A group's partitions are those of topics that it owns, has offsets of, or names in a subscription, and all that have a
    claim or an offset, whether they exist or not.

    Parameters
    ----------
    logs : mapping
        The bounds of all existing partitions of these topics.
    kafka_offsets : mapping, optional
        Offsets that Kafka stores, by group.
    """
    by_topic, in_kafka = logs_by_topic(logs), kafka_offsets or {}
    return {group.name: _description(group, by_topic, logs, in_kafka.get(group.name, {})) for group in groups}


def _description(
    group: GroupState,
    by_topic: Mapping[str, list[TopicPartition]],
    logs: Mapping[TopicPartition, LogBounds],
    in_kafka: Mapping[TopicPartition, int],
) -> tuple[PartitionDescription, ...]:
    topics = {*group.all_topics(by_topic), *(tp.topic for tp in in_kafka)}
    existing = [tp for topic in topics for tp in by_topic.get(topic, ())]
    partitions = sorted({*existing, *group.owners, *group.offsets, *in_kafka})
    idle = sorted(set(group.members).difference(owner.consumer for owner in group.owners.values()))
    return (
        *(_partition_row(group, tp, logs.get(tp, LogBounds()), in_kafka.get(tp)) for tp in partitions),
        *(PartitionDescription(group.name, consumer_id=c, host=consumer_host(group.name, c)) for c in idle),
    )


def _partition_row(group: GroupState, tp: TopicPartition, log: LogBounds, in_kafka: int | None) -> PartitionDescription:
    committed, owner = group.offsets.get(tp), group.owners.get(tp)
    in_zookeeper = None if committed is None or committed.offset < 0 else committed.offset
    stored = [offset for offset in (in_zookeeper, in_kafka) if offset is not None]
    modified_ms = None if committed is None else committed.modified_ms
    consumer = None if owner is None else owner.consumer
    return PartitionDescription(
        group.name,
        tp.topic,
        tp.partition,
        max(stored, default=None),
        log.end,
        log.start,
        None if owner is None else owner.thread,
        None if consumer is None else consumer_host(group.name, consumer),
        None if modified_ms is None else modified_ms * _US_PER_MS,
        in_zookeeper,
        in_kafka,
        consumer,
    )


def consumer_host(group: str, consumer: str) -> str | None:
    """The host in a generated consumer id; None for an id that was configured, which has none.

    >>> consumer_host("billing", "billing_vm-1-1795228857340-a1264592")
    'vm-1'
    """
    match = _GENERATED.fullmatch(consumer.removeprefix(f"{group}_"))
    return match["host"] if match else None


def unknown_groups(names: Iterable[str], chroot: str) -> GroupError:
    """The error for groups that have no znode under ``/consumers``.

    >>> unknown_groups(["a", "b"], "/kafka").message
    'Groups a, b do not exist under /kafka/consumers; list the groups with `zkafka groups list`'
    """
    missing = list(names)
    clause = f"Group {missing[0]} does not exist" if len(missing) == 1 else f"Groups {listing(missing)} do not exist"
    return GroupError(
        "UNKNOWN_GROUP",
        f"{clause} under {chroot}{group_znodes.CONSUMERS}; list the groups with `zkafka groups list`",
        groups=missing,
    )
