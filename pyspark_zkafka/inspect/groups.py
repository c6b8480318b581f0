"""Reports of consumer groups, from their znodes, the offsets in Kafka and the logs. Pure: values in, values out.

References
----------
kafka.admin.ConsumerGroupCommand.ZkConsumerGroupService (Kafka 1.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from pyspark_zkafka.errors import CodecError, listing
from pyspark_zkafka.model.assignors import topics_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.view_tables import Row, timestamp_us
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, LegacyPartition, Partition

if TYPE_CHECKING:
    from pyspark_zkafka.brokers.groups import GroupState
    from pyspark_zkafka.wire.group_messages import DescribedMember
    from pyspark_zkafka.zookeeper.connection import Znode

OffsetsStorage = Literal["zookeeper", "kafka", "both"]
"""The stores from which a group's offsets are read."""

_GENERATED = re.compile(r"(?P<host>.+)-[0-9]{1,19}-[0-9a-f]{1,8}")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Member:
    """A registered consumer, and the session of its registration."""

    registration: ConsumerRegistration
    session: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """The thread that a claim names, and the session of the claim; 0 if the znode is not ephemeral."""

    thread: str
    session: int = 0

    @property
    def consumer(self) -> str:
        """The consumer of the thread."""
        return group_znodes.consumer_of_thread(self.thread)


@dataclass(frozen=True, slots=True)
class UnreadableZnode:
    """A registration, claim or offset that consumers since Kafka 0.8 cannot read: it is malformed, or from Kafka 0.7.

    `partition` comes from the name of the znode. It is None for a registration, and for a name that is not a partition.
    `value` is the thread or offset of a znode from Kafka 0.7, and None for a malformed znode.
    """

    path: str
    error: CodecError
    partition: Partition | None = None
    value: str | int | None = None
    modified_ms: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A consumer group: its decoded znodes, and its offsets and members in Kafka.

    `topics` has the names under ``owners`` and ``offsets``, also without any partition. Unreadable registrations, claims
    and offsets are in `unreadable_members` (by consumer), `unreadable_owners` and `unreadable_offsets` instead. If the
    state in Kafka was not requested, `kafka_offsets` is empty, and `in_kafka` is None. With `has_unread_offsets`, the
    offsets in Kafka were requested, and the brokers did not return them.
    """

    name: str
    members: Mapping[str, Member] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    unreadable_members: Mapping[str, UnreadableZnode] = field(default_factory=dict)
    unreadable_owners: tuple[UnreadableZnode, ...] = ()
    unreadable_offsets: tuple[UnreadableZnode, ...] = ()
    kafka_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    in_kafka: GroupState | None = None
    has_unread_offsets: bool = False

    @property
    def state(self) -> str:
        """The state, as Kafka's tools name it: ``Stable`` with members in ZooKeeper; or the state in Kafka, if requested.

        Without either, it is ``Empty``, or ``Dead`` without topics in ZooKeeper.
        """
        if self.member_count:
            return "Stable"
        if self.in_kafka is not None and (self.in_kafka.is_active or not self.topics):
            return self.in_kafka.name
        return "Empty" if self.topics else "Dead"

    @property
    def is_of_kafka_alone(self) -> bool:
        """True if ZooKeeper has nothing of the group, or was not read."""
        return not self.topics and not self.member_count

    @property
    def kafka_members(self) -> int | None:
        """The number of members in Kafka; None if it is unknown, or was not requested."""
        return None if self.in_kafka is None else self.in_kafka.member_count

    @property
    def kafka_owners(self) -> dict[TopicPartition, DescribedMember]:
        """The members in Kafka that own partitions."""
        members = () if self.in_kafka is None else self.in_kafka.members.values()
        return {tp: member for member in members for tp in member.assigned or ()}

    @property
    def idle_kafka_members(self) -> list[DescribedMember]:
        """The members in Kafka that own no partition, by id."""
        members = {} if self.in_kafka is None else self.in_kafka.members
        return [member for _, member in sorted(members.items()) if not member.assigned]

    @property
    def member_count(self) -> int:
        """The number of members registered in ZooKeeper, including members with unreadable registrations."""
        return len(self.members) + len(self.unreadable_members)

    @property
    def registrations(self) -> dict[str, ConsumerRegistration]:
        """The readable registrations by consumer."""
        return {consumer: member.registration for consumer, member in self.members.items()}

    @property
    def has_filters(self) -> bool:
        """True if a member subscribes by a regex, which is matched with the existing topics."""
        return any(member.registration.pattern != "static" for member in self.members.values())

    @property
    def unreadable(self) -> list[UnreadableZnode]:
        """The unreadable registrations, claims and offsets, in this order."""
        return [*self.unreadable_members.values(), *self.unreadable_owners, *self.unreadable_offsets]

    def subscribed_topics(self, names: Iterable[str]) -> set[str]:
        """Return the topics of readable registrations. `names` has the existing topics, needed for filters only."""
        known = list(names)
        return {topic for found in self.registrations.values() for topic in topics_of(found, known)}

    def all_topics(self, names: Iterable[str]) -> set[str]:
        """Return the subscribed, owned and committed topics. `names` has the existing topics, needed for filters only."""
        return {*self.topics, *self.subscribed_topics(names), *(tp.topic for tp in self.kafka_offsets)}


def decode_groups(
    groups: Iterable[str], children: Mapping[str, list[str]], nodes: Mapping[str, Znode]
) -> dict[str, GroupReport]:
    """Decode the znodes of groups, by name. A malformed znode does not hide the others.

    `children` has the names below each group's owners and offsets, which are its topics, and `nodes` the znodes of
    consumers, claims and offsets. Both are by path.
    """
    by_group: dict[str, dict[str, Znode]] = {}
    for path in sorted(nodes):
        by_group.setdefault(path.split("/", 3)[2], {})[path] = nodes[path]
    return {group: _decode_group(group, children, by_group.get(group, {})) for group in groups}


def _decode_group(group: str, children: Mapping[str, list[str]], nodes: Mapping[str, Znode]) -> GroupReport:
    members: dict[str, Member] = {}
    claims: dict[TopicPartition, Owner] = {}
    commits: dict[TopicPartition, StoredOffset] = {}
    unreadable: dict[str, list[UnreadableZnode]] = {"ids": [], "owners": [], "offsets": []}
    for path, node in nodes.items():
        stat = node.stat
        kind, *_, key = path.split("/")[3:]
        partition: Partition | None = None
        value: str | int | None = None
        try:
            if kind == "ids":
                members[key] = Member(group_znodes.decode_registration(path, node.data), stat.ephemeral_owner)
                continue
            partition = group_znodes.parse_key(path, path.split("/")[-2], key)
            decode = group_znodes.decode_owner if kind == "owners" else group_znodes.decode_offset
            value = decode(path, node.data)
            if isinstance(partition, LegacyPartition):
                expected = "a partition's number as the znode's name (broker-partition is of Kafka 0.7)"
                raise CodecError(path, key.encode(), expected)
        except CodecError as error:
            unreadable[kind].append(UnreadableZnode(path, error, partition, value, stat.modified_ms, stat.version))
            continue
        if isinstance(value, str):
            claims[partition] = Owner(value, stat.ephemeral_owner)
        else:
            commits[partition] = StoredOffset(value, stat.mzxid, stat.modified_ms, stat.version)
    parents = group_znodes.owners_path(group), group_znodes.offsets_path(group)
    topics = frozenset(name for parent in parents for name in children.get(parent, ()))
    unreadable_members = {znode.path.rpartition("/")[2]: znode for znode in unreadable["ids"]}
    owners, offsets = tuple(unreadable["owners"]), tuple(unreadable["offsets"])
    return GroupReport(group, members, claims, commits, topics, unreadable_members, owners, offsets)


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The znodes under a group's offsets.

    `offsets` are 0 or more, each with the transaction that wrote it. `unset` has partitions with a negative number, which
    all consumers treat as no offset. `unreadable` has the errors of znodes that are not a number. `legacy` has positions
    from Kafka 0.7, in bytes. `misnamed` has the errors of znodes without a valid partition or topic in the path, by path.
    `versions` has the znodes' versions.
    """

    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    unset: set[TopicPartition] = field(default_factory=set)
    unreadable: dict[TopicPartition, CodecError] = field(default_factory=dict)
    legacy: dict[LegacyPartition, int] = field(default_factory=dict)
    misnamed: dict[str, CodecError] = field(default_factory=dict)
    versions: dict[Partition, int] = field(default_factory=dict)

    @property
    def values(self) -> dict[TopicPartition, int]:
        """The offsets of 0 or more."""
        return {tp: stored.offset for tp, stored in self.offsets.items()}

    @property
    def positions(self) -> dict[Partition, int]:
        """The offsets of 0 or more, and the positions of Kafka 0.7."""
        return self.values | self.legacy

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that have a znode, whatever it contains."""
        return {*self.offsets, *self.unset, *self.unreadable}

    @property
    def problems(self) -> list[str]:
        """The errors of unreadable znodes."""
        return [error.message for error in (*self.unreadable.values(), *self.misnamed.values())]


def stored_in(group: GroupReport) -> StoredOffsets:
    """Return the stored offsets in a group's report."""
    found = StoredOffsets()
    for tp, committed in group.offsets.items():
        if not is_topic_name(tp.topic):
            path = group_znodes.offset_path(group.name, tp)
            found.misnamed[path] = _no_topic(path, tp.topic)
            continue
        found.versions[tp] = committed.version
        if committed.offset < 0:
            found.unset.add(tp)
        else:
            found.offsets[tp] = committed
    for znode in group.unreadable_offsets:
        topic = znode.path.split("/")[-2]
        if not is_topic_name(topic):
            found.misnamed[znode.path] = _no_topic(znode.path, topic)
            continue
        if znode.partition is not None:
            found.versions[znode.partition] = znode.version
        if isinstance(znode.partition, LegacyPartition) and isinstance(znode.value, int):
            found.legacy[znode.partition] = znode.value
        elif isinstance(znode.partition, TopicPartition):
            found.unreadable[znode.partition] = znode.error
        else:
            found.misnamed[znode.path] = znode.error
    return found


def _no_topic(path: str, topic: str) -> CodecError:
    return CodecError(path, topic.encode(), "a topic as the name of the parent znode")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset of a partition's log, and the offset after its last record; None if its leader did not answer.

    `czxid` is the transaction that created the partition, None if unknown.
    """

    start: int | None = None
    end: int | None = None
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class LogsReport:
    """The bounds of existing partitions, and why some are unknown."""

    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A partition of a group; or, without topic and partition, a member that owns no partition.

    The view ``offsets``, the command and the exporter show these fields, and `lag`. `offset` is the next offset to read.
    With two stores, it is the larger offset, where consumers with dual commits continue. `latest` and `earliest` are the
    ends of the log. `consumer`, `host` and `thread` own the partition. `commit_us` is the time of the last commit to
    ZooKeeper, by its clock, in microseconds since 1970. A member in Kafka has its id as `consumer`, and the name of its
    client as `client_id`.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    latest: int | None = None
    earliest: int | None = None
    consumer: str | None = None
    host: str | None = None
    client_id: str | None = None
    thread: str | None = None
    commit_us: int | None = None
    zookeeper_offset: int | None = None
    kafka_offset: int | None = None

    @property
    def lag(self) -> int | None:
        """Records after the offset; negative for an offset beyond the log's end."""
        if self.offset is None or self.latest is None:
            return None
        return self.latest - self.offset

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The topic and the number of the partition; None for a member that owns no partition."""
        return None if self.topic is None or self.partition is None else TopicPartition(self.topic, self.partition)

    def as_row(self) -> Row:
        """Return the values of `PARTITION_COLUMNS`."""
        return {name: getattr(self, name) for name in PARTITION_COLUMNS}


PARTITION_COLUMNS = (*(each.name for each in fields(PartitionReport)), "lag")
"""The fields of a partition's report, and the lag."""


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Group partitions by topic, in ascending order."""
    return {topic: list(found) for topic, found in groupby(sorted(partitions), lambda tp: tp.topic)}


def _partition_report(
    group: GroupReport, tp: TopicPartition, committed: StoredOffset | None, member: DescribedMember | None, log: LogBounds
) -> PartitionReport:
    """Return the report of a partition that is owned by a thread, by a `member` in Kafka, or by nobody."""
    in_zookeeper = None if committed is None or committed.offset < 0 else committed.offset
    in_kafka = group.kafka_offsets.get(tp)
    known = [] if group.has_unread_offsets else [in_zookeeper, in_kafka]  # the larger offset counts
    found = PartitionReport(
        group=group.name,
        topic=tp.topic,
        partition=tp.partition,
        offset=max((offset for offset in known if offset is not None), default=None),
        latest=log.end,
        earliest=log.start,
        commit_us=None if committed is None else timestamp_us(committed.modified_ms),
        zookeeper_offset=in_zookeeper,
        kafka_offset=in_kafka,
    )
    if (owner := group.owners.get(tp)) is not None:
        host = consumer_host(group.name, owner.consumer)
        return replace(found, consumer=owner.consumer, host=host, thread=owner.thread)
    if member is not None:
        return replace(found, consumer=member.id, host=member.host, client_id=member.client_id)
    return found


def consumer_host(group: str, consumer: str) -> str | None:
    """Return the host in a generated consumer id; None for a configured id.

    >>> consumer_host("billing", "billing_vm-1-1795228857340-a1264592")
    'vm-1'
    """
    match = _GENERATED.fullmatch(consumer.removeprefix(f"{group}_"))
    return match["host"] if match else None


@dataclass(frozen=True, slots=True)
class GroupReports:
    """Reports of groups by name, and the logs of their topics.

    `kafka_problem` says why the numbers of members in Kafka are unknown.
    """

    groups: Mapping[str, GroupReport] = field(default_factory=dict)
    storage: OffsetsStorage = "zookeeper"
    logs: LogsReport = field(default_factory=LogsReport)
    kafka_problem: str | None = None

    @property
    def partitions(self) -> list[PartitionReport]:
        """Reports of each group's partitions, by topic and number, and then of its members without partitions.

        A group's partitions are the existing partitions of its topics, and every partition with a claim or an offset, even
        if it does not exist. Its topics are the topics that it owns, has offsets of, or subscribes to. A group that only
        Kafka has gets a report for each partition with a member or an offset, as in kafka-consumer-groups.
        """
        logs = self.logs.bounds
        by_topic = partitions_by_topic(logs)
        reports: list[PartitionReport] = []
        for group in self.groups.values():
            offsets = {} if self.storage == "kafka" else group.offsets
            members = {} if self.storage == "zookeeper" else group.kafka_owners
            topics = group.all_topics(by_topic).union(tp.topic for tp in members)
            existing = [tp for topic in topics for tp in by_topic.get(topic, ()) if not group.is_of_kafka_alone]
            for tp in sorted({*existing, *group.owners, *members, *offsets, *group.kafka_offsets}):
                log = logs.get(tp, LogBounds())
                reports.append(_partition_report(group, tp, offsets.get(tp), members.get(tp), log))
            idle = sorted(set(group.members).difference(owner.consumer for owner in group.owners.values()))
            reports += [PartitionReport(group.name, consumer=c, host=consumer_host(group.name, c)) for c in idle]
            if self.storage != "zookeeper":
                reports += [
                    PartitionReport(group.name, consumer=member.id, host=member.host, client_id=member.client_id)
                    for member in group.idle_kafka_members
                ]
        return reports

    def has_lag(self, row: PartitionReport) -> bool:
        """Return True if a row counts in its group's lag: it has an offset, and its partition exists."""
        return row.offset is not None and row.topic_partition in self.logs.bounds

    @property
    def member_counts(self) -> dict[str, tuple[int, int]]:
        """The numbers of each group's members in ZooKeeper and in Kafka."""
        return {name: (group.member_count, group.kafka_members or 0) for name, group in self.groups.items()}

    @property
    def member_notes(self) -> list[str]:
        """Notes on members that the rows do not show; see `member_notes`."""
        return member_notes(self.member_counts, self.kafka_problem, shown=self.storage != "zookeeper")

    @property
    def problems(self) -> list[str]:
        """Messages about logs and znodes, and the notes on members."""
        unreadable = [znode.error.message for group in self.groups.values() for znode in group.unreadable]
        return [*self.logs.problems, *unreadable, *self.member_notes]


def member_notes(counts: Mapping[str, tuple[int, int]], problem: str | None = None, *, shown: bool = False) -> list[str]:
    """Return one line about each kind of members that ZooKeeper does not show.

    `counts` has the numbers of members in ZooKeeper and in Kafka; `problem` says why the numbers in Kafka are unknown. With
    `shown`, other rows show members in Kafka.

    >>> member_notes({"a": (0, 1)})
    ['Members in Kafka, which ZooKeeper does not show: a (1); see `zkafka groups members --bootstrap-server`']
    """
    both = [f"{name} ({here} and {there})" for name, (here, there) in counts.items() if here and there]
    alone = [f"{name} ({there})" for name, (here, there) in counts.items() if there and not here]
    notes = []
    if both:
        notes.append(
            f"Members in ZooKeeper and in Kafka at the same time: {listing(both, _SHOWN)}. Neither kind sees the other, "
            "and both read all partitions; stop one kind"
        )
    if alone and not shown:
        tool = "`zkafka groups members --bootstrap-server`"
        notes.append(f"Members in Kafka, which ZooKeeper does not show: {listing(alone, _SHOWN)}; see {tool}")
    if problem is not None:
        notes.append(f"Members in Kafka are unknown: {problem}")
    return notes


def total_lag(lags: Collection[int | None]) -> int | None:
    """Return the sum of the lags, or None if a lag is unknown or there is no lag. A negative lag counts as 0.

    >>> total_lag([5, -2, 1]), total_lag([5, None]), total_lag([])
    (6, None, None)
    """
    known = [max(0, lag) for lag in lags if lag is not None]
    return sum(known) if known and len(known) == len(lags) else None
