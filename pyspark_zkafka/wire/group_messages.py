"""Requests and responses about groups: coordinators, offsets, members.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 4.1.0: ``FindCoordinator`` (KIP-699), ``OffsetFetch``
(KIP-447, KIP-709), ``OffsetCommit``, ``OffsetDelete``, ``ListGroups``, ``DescribeGroups``, ``ConsumerGroupDescribe``
(KIP-848), ``DeleteGroups``, ``ConsumerProtocolAssignment``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.protocol import (
    NO_TAGS,
    Address,
    Api,
    MalformedResponse,
    Reader,
    Request,
    array,
    by_topic,
    int8,
    int32,
    int64,
    no_tags,
    null_array,
    read_by_topic,
    string,
)

FIND_COORDINATOR = Api("FindCoordinator", 10, 0, 4, 3)
OFFSET_COMMIT = Api("OffsetCommit", 8, 1, 7, 8)
OFFSET_FETCH = Api("OffsetFetch", 9, 1, 8, 6)
OFFSET_DELETE = Api("OffsetDelete", 47, 0, 0, 1)
LIST_GROUPS = Api("ListGroups", 16, 0, 5, 3)
DESCRIBE_GROUPS = Api("DescribeGroups", 15, 0, 6, 5)
CONSUMER_GROUP_DESCRIBE = Api("ConsumerGroupDescribe", 69, 0, 1, 0)
DELETE_GROUPS = Api("DeleteGroups", 42, 0, 2, 2)

FIRST_OF_MANY_COORDINATORS = 4
"""The first version of FindCoordinator for several keys."""
FIRST_OF_MANY_GROUPS = 8
"""The first version of OffsetFetch for several groups."""
FIRST_OF_ALL_OFFSETS = 2
"""The first version of OffsetFetch that returns all offsets of a group."""
FIRST_STABLE = 7
"""The first version of OffsetFetch that can wait for open transactions."""

GROUP, TRANSACTION = 0, 1  # kinds of a `Coordinator`
CONSUMER = "consumer"
"""The type of protocol of consumers. Groups of other programs have other types."""


class Coordinator(NamedTuple):
    """A coordinator to find: of a group (`kind` 0) or of a transactional id (`kind` 1)."""

    key: str
    kind: int


class FoundCoordinator(NamedTuple):
    """The answer for one key: an error, or a broker and its address."""

    error: int
    broker: int
    address: Address


def find_coordinators_request(version: int, kind: int, keys: Collection[str]) -> Request:
    """Encode versions 0 to 4. Versions before 4 take one key, and version 0 only a group."""
    if version < FIRST_OF_MANY_COORDINATORS:
        (key,) = keys
        flexible = version >= FIND_COORDINATOR.flexible
        of_kind = int8(kind) if version >= 1 else b""
        return Request(FIND_COORDINATOR, version, string(key, flexible) + of_kind + no_tags(flexible))
    encoded = array([string(key, flexible=True) for key in keys], flexible=True)
    return Request(FIND_COORDINATOR, version, int8(kind) + encoded + NO_TAGS)


def read_coordinators(response: Reader, keys: Collection[str]) -> dict[str, FoundCoordinator]:
    """Read versions 0 to 4: the coordinator of each key in the response."""

    def coordinator() -> tuple[str, FoundCoordinator]:
        key, broker = response.required_string(), response.int32()
        address = response.required_string(), response.int32()
        error = response.int16()
        response.string()  # error in words
        response.tags()
        return key, FoundCoordinator(error, broker, address)

    if response.version >= 1:
        response.int32()  # throttle time
    if response.version >= FIRST_OF_MANY_COORDINATORS:
        return dict(response.array(coordinator))
    error = response.int16()
    if response.version >= 1:
        response.string()  # error in words
    (key,) = keys
    return {key: FoundCoordinator(error, response.int32(), (response.required_string(), response.int32()))}


class CommittedOffset(NamedTuple):
    """The answer for one partition: an error, or the offset and its metadata. The offset is -1 if none is committed."""

    error: int
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The answer for one group: an error, or the answers by partition."""

    error: int
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)


def offset_fetch_request(version: int, asked: Mapping[str, Collection[TopicPartition] | None], *, stable: bool) -> Request:
    """Encode versions 1 to 8. None requests all offsets of a group, from version 2 on.

    Versions before 8 take one group. With `stable`, from version 7 on, an offset in an open transaction is an error.
    """
    flexible = version >= OFFSET_FETCH.flexible

    def encoded(group: str, partitions: Collection[TopicPartition] | None) -> bytes:
        if partitions is None:
            return string(group, flexible) + null_array(flexible)
        return string(group, flexible) + by_topic(((tp, int32(tp.partition)) for tp in partitions), flexible)

    is_stable = int8(stable) if version >= FIRST_STABLE else b""
    if version >= FIRST_OF_MANY_GROUPS:
        groups = array([encoded(*found) + NO_TAGS for found in asked.items()], flexible)
        return Request(OFFSET_FETCH, version, groups + is_stable + NO_TAGS)
    ((group, partitions),) = asked.items()
    return Request(OFFSET_FETCH, version, encoded(group, partitions) + is_stable + no_tags(flexible))


def read_offset_fetch(response: Reader, groups: Collection[str]) -> dict[str, CommittedOffsets]:
    """Read versions 1 to 8, by group."""
    version = response.version

    def partition() -> tuple[int, CommittedOffset]:
        number, offset = response.int32(), response.int64()
        if version >= 5:
            response.int32()  # leader epoch
        metadata = response.string() or ""
        error = response.int16()
        response.tags()
        return number, CommittedOffset(error, offset, metadata)

    def group() -> tuple[str, CommittedOffsets]:
        name = response.required_string()
        found = dict(read_by_topic(response, partition))
        error = response.int16()
        response.tags()
        return name, CommittedOffsets(error, found)

    if version >= 3:
        response.int32()  # throttle time
    if version >= FIRST_OF_MANY_GROUPS:
        return dict(response.array(group))
    (name,) = groups
    found = dict(read_by_topic(response, partition))
    return {name: CommittedOffsets(response.int16() if version >= 2 else NONE, found)}


def offset_commit_request(version: int, group: str, offsets: Mapping[TopicPartition, int]) -> Request:
    """Encode versions 1 to 7, without a member. Brokers accept the request while the group has no members."""

    def row(partition: int, offset: int) -> bytes:
        timestamp = int64(-1) if version == 1 else b""
        epoch = int32(-1) if version >= 6 else b""
        return int32(partition) + int64(offset) + epoch + timestamp + string("")

    member = int32(-1) + string("") + (string(None) if version >= 7 else b"")
    retention = int64(-1) if 2 <= version <= 4 else b""
    rows = by_topic((tp, row(tp.partition, offset)) for tp, offset in offsets.items())
    return Request(OFFSET_COMMIT, version, string(group) + member + retention + rows)


def read_offset_commit(response: Reader) -> dict[TopicPartition, int]:
    """Read versions 1 to 7: the errors by partition."""
    if response.version >= 3:
        response.int32()  # throttle time
    return dict(read_by_topic(response, lambda: (response.int32(), response.int16())))


def offset_delete_request(version: int, group: str, partitions: Collection[TopicPartition]) -> Request:
    """Encode version 0."""
    return Request(OFFSET_DELETE, version, string(group) + by_topic((tp, int32(tp.partition)) for tp in partitions))


def read_offset_delete(response: Reader) -> tuple[int, dict[TopicPartition, int]]:
    """Read version 0: the error of the group, and the errors by partition."""
    error = response.int16()
    response.int32()  # throttle time
    return error, dict(read_by_topic(response, lambda: (response.int32(), response.int16())))


class ListedGroup(NamedTuple):
    """A group in a list. `protocol` is the type of its members, such as `CONSUMER`, or empty without members.

    `state` is empty before Kafka 2.6. `type` is ``classic`` or ``share``, for example, and empty before 3.8.
    """

    name: str
    protocol: str
    state: str = ""
    type: str = ""


def list_groups_request(version: int) -> Request:
    """Encode versions 0 to 5: all groups."""
    flexible = version >= LIST_GROUPS.flexible
    filters = array([], flexible) * ((version >= 4) + (version >= 5))
    return Request(LIST_GROUPS, version, filters + no_tags(flexible))


def read_list_groups(response: Reader) -> tuple[int, list[ListedGroup]]:
    """Read versions 0 to 5: the error, and the groups that the broker coordinates."""
    version = response.version

    def group() -> ListedGroup:
        name, protocol = response.required_string(), response.required_string()
        state = response.required_string() if version >= 4 else ""
        kind = response.required_string() if version >= 5 else ""
        response.tags()
        return ListedGroup(name, protocol, state, kind)

    if version >= 1:
        response.int32()  # throttle time
    return response.int16(), response.array(group)


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member. `assigned` is None if it cannot be read: programs other than consumers have their own forms.

    With the protocol of KIP-848, `target` has the partitions that the coordinator wants the member to own.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assigned: frozenset[TopicPartition] | None = frozenset()
    target: frozenset[TopicPartition] = frozenset()

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The present and future partitions."""
        return (self.assigned or frozenset()) | self.target


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group: its error, state, type of protocol, assignor and members."""

    error: int
    state: str = ""
    protocol: str = ""
    assignor: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None


def describe_groups_request(version: int, groups: Collection[str]) -> Request:
    """Encode versions 0 to 6."""
    flexible = version >= DESCRIBE_GROUPS.flexible
    operations = int8(0) if version >= 3 else b""
    names = array([string(group, flexible) for group in groups], flexible)
    return Request(DESCRIBE_GROUPS, version, names + operations + no_tags(flexible))


def read_describe_groups(response: Reader) -> dict[str, DescribedGroup]:
    """Read versions 0 to 6, by group."""
    version = response.version

    def member(protocol: str) -> DescribedMember:
        id_ = response.required_string()
        instance_id = response.string() if version >= 4 else None
        client_id, host = response.required_string(), response.required_string()
        response.nullable_bytes()  # subscription
        assignment = response.nullable_bytes()
        response.tags()
        assigned = read_assignment(assignment) if protocol == CONSUMER else None
        return DescribedMember(id_, client_id, host, instance_id, assigned)

    def group() -> tuple[str, DescribedGroup]:
        error = response.int16()
        message = response.string() if version >= 6 else None
        name, state = response.required_string(), response.required_string()
        protocol, assignor = response.required_string(), response.required_string()
        members = tuple(response.array(lambda: member(protocol)))
        if version >= 3:
            response.int32()  # authorized operations
        response.tags()
        return name, DescribedGroup(error, state, protocol, assignor, members, message)

    if version >= 1:
        response.int32()  # throttle time
    return dict(response.array(group))


def read_assignment(data: bytes | memoryview) -> frozenset[TopicPartition] | None:
    """Read a consumer's partitions from any version of ``ConsumerProtocolAssignment``. None if this is not possible."""
    if not data:
        return frozenset()
    reader = Reader(data)
    try:
        reader.int16()  # version; later ones add fields at the end
        return frozenset(
            TopicPartition(topic, number)
            for topic, numbers in reader.array(lambda: (reader.required_string(), reader.int32s()))
            for number in numbers
        )
    except MalformedResponse:
        return None


def consumer_group_describe_request(version: int, groups: Collection[str]) -> Request:
    """Encode versions 0 and 1."""
    names = array([string(group, flexible=True) for group in groups], flexible=True)
    return Request(CONSUMER_GROUP_DESCRIBE, version, names + int8(0) + NO_TAGS)


def read_consumer_group_describe(response: Reader) -> dict[str, DescribedGroup]:
    """Read versions 0 and 1, by group."""
    version = response.version

    def topic() -> list[TopicPartition]:
        response.span(16)  # the topic's id
        name = response.required_string()
        found = [TopicPartition(name, number) for number in response.int32s()]
        response.tags()
        return found

    def assignment() -> frozenset[TopicPartition]:
        found = frozenset(tp for some in response.array(topic) for tp in some)
        response.tags()
        return found

    def member() -> DescribedMember:
        id_, instance_id = response.required_string(), response.string()
        response.string()  # rack
        response.int32()  # epoch
        client_id, host = response.required_string(), response.required_string()
        response.array(response.required_string)  # subscribed topics
        response.string()  # subscribed pattern
        assigned, target = assignment(), assignment()
        if version >= 1:
            response.int8()  # whether the member has the protocol of KIP-848
        response.tags()
        return DescribedMember(id_, client_id, host, instance_id, assigned, target)

    def group() -> tuple[str, DescribedGroup]:
        error, message = response.int16(), response.string()
        name, state = response.required_string(), response.required_string()
        response.int32()  # epoch
        response.int32()  # epoch of the assignment
        assignor = response.required_string()
        members = tuple(response.array(member))
        response.int32()  # authorized operations
        response.tags()
        return name, DescribedGroup(error, state, CONSUMER, assignor, members, message)

    response.int32()  # throttle time
    return dict(response.array(group))


def delete_groups_request(version: int, groups: Collection[str]) -> Request:
    """Encode versions 0 to 2."""
    flexible = version >= DELETE_GROUPS.flexible
    names = array([string(group, flexible) for group in groups], flexible)
    return Request(DELETE_GROUPS, version, names + no_tags(flexible))


def read_delete_groups(response: Reader) -> dict[str, int]:
    """Read versions 0 to 2: the errors by group."""

    def group() -> tuple[str, int]:
        found = response.required_string(), response.int16()
        response.tags()
        return found

    response.int32()  # throttle time
    return dict(response.array(group))
