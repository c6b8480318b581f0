"""Groups that Kafka coordinates: names, states, members, and all offsets of a group."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.errors import broker_error, connection_error
from pyspark_zkafka.brokers.group_offsets import (
    ACTIVE_CODES,
    Committed,
    commit_call,
    commit_requests,
    fetch_offsets,
    group_active,
)
from pyspark_zkafka.brokers.requests import BrokerRoute, Call, CoordinatorRoute
from pyspark_zkafka.conditions import UNREADABLE_GROUP
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.group_messages import (
    CONSUMER,
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_DELETE,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    consumer_group_describe_request,
    delete_groups_request,
    describe_groups_request,
    list_groups_request,
    offset_delete_request,
    read_consumer_group_describe,
    read_delete_groups,
    read_describe_groups,
    read_list_groups,
    read_offset_delete,
)
from pyspark_zkafka.wire.protocol import Api, Reader, Request, UnknownVersion, answer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


_OFFSETS_TOPIC = "__consumer_offsets"
_WITHOUT_GROUPS = "brokers coordinate groups from Kafka 0.9 on"
_WITHOUT_KIP_848 = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of ConsumerGroupDescribe for a group of the classic protocol, and with KIP-848 switched off."""
_OTHER_TYPES = frozenset({"share", "streams"})
_OF_ANOTHER_TYPE = "is not a classic group"
"""The text with which DescribeGroups refuses to describe share groups and groups of Kafka Streams."""
DEAD, EMPTY, STABLE = "Dead", "Empty", "Stable"
"""Kafka's names of states. `DEAD` includes groups that do not exist. Members of a `STABLE` group have all partitions."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """Kafka's name of a group's state, and the group's members by id. An unknown group is `DEAD`.

    The name is ``Unreadable`` if the group cannot be read. `problem` then says why.
    """

    name: str
    members: Mapping[str, DescribedMember] = field(default_factory=dict)
    problem: ZKafkaError | None = None

    @classmethod
    def unreadable(cls, problem: ZKafkaError) -> GroupState:
        """Return the state of a group that cannot be read."""
        return cls("Unreadable", problem=problem)

    @property
    def member_count(self) -> int | None:
        """The number of members; None if the group cannot be read."""
        return len(self.members) if self.problem is None else None

    @property
    def is_active(self) -> bool:
        """True if the group has or may have members. While it has members, only they may commit."""
        return bool(self.members) or self.name not in (EMPTY, DEAD)


class _Listed(NamedTuple):
    error: int
    groups: Sequence[ListedGroup]


class _Changed(NamedTuple):
    error: int


class GroupAdmin(KafkaAdmin):
    """A `KafkaAdmin` that also reads and changes groups. Each group succeeds or fails by itself.

    Asks no coordinator before ``__consumer_offsets`` exists: a cluster without this topic has no groups, and the request
    would create the topic. Commits create it anyway. An ACL hides the topic from most users; it then counts as existing.
    """

    _has_offsets_topic = False

    def __enter__(self) -> Self:
        super().__enter__()
        self._coordinators = CoordinatorRoute(self._requests)
        return self

    def group_names(self, timeout_s: float = math.inf) -> list[str]:
        """The names of all groups of consumers, sorted. Raises ZKafkaError if a broker does not answer."""
        names, failed = self.known_group_names(timeout_s)
        for error in failed:
            raise error
        return names

    def known_group_names(self, timeout_s: float = math.inf) -> tuple[list[str], list[ZKafkaError]]:
        """The sorted names of the groups of consumers that brokers list, and the errors of brokers that did not answer.

        Blocks for a request to each broker, all at the same time. `timeout_s` can shorten the time-out of a request. Raises
        ZKafkaError if no broker answers.
        """
        deadline = self._requests.deadline(timeout_s)
        brokers = self._requests.metadata(deadline=deadline).brokers

        def make(connection: Connection, brokers: Sequence[int]) -> Request:
            return list_groups_request(_version(connection, LIST_GROUPS))

        def read(response: Reader, brokers: Sequence[int]) -> dict[int, _Listed]:
            return dict.fromkeys(brokers, _Listed(*read_list_groups(response)))

        call = Call(lambda broker: f"listing the groups of broker {broker}", make, read)
        found, failed = self._requests.each(brokers, BrokerRoute(self._requests), call, deadline)
        if not found:
            raise next(iter(failed.values()))
        listed = (group for answer in found.values() for group in answer.groups)
        names = {group.name for group in listed if group.protocol in (CONSUMER, "") and group.type not in _OTHER_TYPES}
        return sorted(names), list(failed.values())

    def group_state(self, group: str) -> GroupState:
        """The state of a group. Raises ZKafkaError if it cannot be read. Blocks for a request to its coordinator."""
        found = self.group_states([group])[group]
        if found.problem is not None:
            raise found.problem
        return found

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """The state of each group. Blocks for two requests to each coordinator, or before Kafka 4 for one request.

        A group that cannot be read does not hide the other groups. Raises ZKafkaError for brokers before Kafka 0.9.
        """
        names = list(dict.fromkeys(groups))
        has_coordinators = bool(names) and self.has_coordinators(names[0])
        if self._requests.dialect.release.startswith("0.8"):
            raise connection_error(UnknownVersion(_WITHOUT_GROUPS), "describing groups")
        if not has_coordinators:
            return dict.fromkeys(names, GroupState(DEAD))

        def make_new(connection: Connection, groups: Sequence[str]) -> Request:
            return consumer_group_describe_request(connection.version(CONSUMER_GROUP_DESCRIBE), groups)

        def make(connection: Connection, groups: Sequence[str]) -> Request:
            return describe_groups_request(_version(connection, DESCRIBE_GROUPS), groups)

        new = Call(_describing, make_new, lambda response, groups: read_consumer_group_describe(response), _WITHOUT_KIP_848)
        old = Call(
            _describing,
            make,
            lambda response, groups: read_describe_groups(response),
            frozenset({ErrorCode.GROUP_ID_NOT_FOUND}),
        )
        described, failed = self._requests.each(names, self._coordinators, new)
        found = {group: answer for group, answer in described.items() if answer.error == NONE}
        left = [g for g in names if g not in found and (g in described or isinstance(failed[g].__cause__, UnknownVersion))]
        classic, failed_too = self._requests.each(left, self._coordinators, old)
        problems = {group: error for group, error in failed.items() if group not in left} | failed_too
        states = {group: _state(group, answer) for group, answer in (found | classic).items()}
        return {group: states.get(group) or GroupState.unreadable(problems[group]) for group in names}

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All committed offsets of a group. Blocks for a request to its coordinator."""
        return self.committed_many([group])[group]

    def committed_many(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """All committed offsets of several groups. Raises the error of a group that cannot be read."""
        found, failed = self.committed_each(groups)
        for error in failed.values():
            raise error
        return found

    def committed_each(self, groups: Iterable[str]) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, ZKafkaError]]:
        """All committed offsets of each group, and the error of each group that cannot be read.

        Before Kafka 0.10.2, offsets of deleted topics are absent.
        """
        names = list(dict.fromkeys(groups))
        if not names or not self.has_coordinators(names[0]):
            return {name: {} for name in names}, {}
        found, failed = fetch_offsets(self._requests, self._coordinators, dict.fromkeys(names))
        old = [group for group, error in failed.items() if isinstance(error.__cause__, UnknownVersion)]
        if old:  # before Kafka 0.10.2, a request names its partitions
            partitions = [tp for tp in self.snapshot().all_partitions() if tp.topic != _OFFSETS_TOPIC]
            found_by_name, failed_by_name = fetch_offsets(
                self._requests, self._coordinators, dict.fromkeys(old, partitions)
            )
            found |= found_by_name
            failed = {group: error for group, error in failed.items() if group not in old} | failed_by_name
        return {group: {tp: answer.offset for tp, answer in of_group.items()} for group, of_group in found.items()}, failed

    def committed_metadata(
        self,
        asked: Mapping[str, Collection[TopicPartition] | None],
        timeout_s: float = math.inf,
        *,
        stable: bool = False,
    ) -> dict[str, dict[TopicPartition, str]]:
        """The metadata of each group's committed offsets, for its partitions in `asked`, or with None for all partitions.

        An offset without metadata has an empty string. Ignores offsets in open transactions; with `stable`, waits for the
        ends of these transactions. Creates ``__consumer_offsets``. Raises the error of a group that cannot be read.
        `timeout_s` can shorten the time-out of a request.
        """
        found, failed = fetch_offsets(self._requests, self._coordinators, asked, timeout_s, stable=stable)
        for error in failed.values():
            raise error
        # confluent-kafka commits metadata with a final zero byte.
        return {group: {tp: a.metadata.rstrip("\0") for tp, a in of_group.items()} for group, of_group in found.items()}

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ZKafkaError]:
        """Set a group's offsets, whatever is stored. Returns the errors of partitions that the brokers refuse.

        Blocks for one request per 1,000 partitions. If a request fails, the commits of earlier requests remain. Raises
        GroupError if the group has members in Kafka, and ClusterStateError if brokers refuse or do not answer.
        """
        doing, refused = f"committing offsets of group {group}", dict[TopicPartition, ZKafkaError]()
        for some in commit_requests(dict(sorted(offsets.items()))):
            found, failed = self._requests.each([group], self._coordinators, commit_call(doing, some))
            for error in failed.values():
                raise error
            if found[group].error in ACTIVE_CODES:
                raise group_active(group, doing)
            codes = found[group].partitions
            refused |= {tp: broker_error(code, f"{doing} in {tp}") for tp, code in codes.items() if code != NONE}
        return refused

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups and their offsets. Ignores groups that do not exist.

        Blocks for a request to each coordinator. If a group cannot be deleted, still deletes the other groups. Raises like
        `alter_offsets`.
        """
        names = list(dict.fromkeys(groups))
        if not names or not self.has_coordinators(names[0]):
            return

        def make(connection: Connection, groups: Sequence[str]) -> Request:
            return delete_groups_request(connection.version(DELETE_GROUPS), groups)

        def read(response: Reader, groups: Sequence[str]) -> dict[str, _Changed]:
            return {group: _Changed(error) for group, error in read_delete_groups(response).items()}

        expected = {ErrorCode.GROUP_ID_NOT_FOUND, *ACTIVE_CODES}
        call = Call(lambda group: f"deleting group {group}", make, read, expected)
        found, failed = self._requests.each(names, self._coordinators, call)
        for group, answer in found.items():
            if answer.error in ACTIVE_CODES:
                raise group_active(group, f"deleting group {group}")
        for error in failed.values():
            raise error

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        """Delete a group's offsets of some partitions. Returns the errors of partitions. Needs Kafka 2.4 or later.

        Blocks for a request. Raises GroupError if members of the group subscribe to the topic, and ClusterStateError if
        brokers refuse or do not answer.
        """
        doing = f"deleting offsets of group {group}"

        def make(connection: Connection, groups: Sequence[str]) -> Request:
            return offset_delete_request(connection.version(OFFSET_DELETE), group, partitions)

        def read(response: Reader, groups: Sequence[str]) -> dict[str, Committed]:
            error, answers = read_offset_delete(response)
            codes = {tp: answer_of(answers, tp) for tp in partitions} if error == NONE else answers
            is_active = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in codes.values()
            return {group: Committed(ErrorCode.NON_EMPTY_GROUP if is_active else error, codes)}

        call = Call(lambda group: doing, make, read, ACTIVE_CODES, most=1)
        found, failed = self._requests.each([group], self._coordinators, call)
        for error in failed.values():
            raise error
        if found[group].error in ACTIVE_CODES:
            raise group_active(group, doing)
        codes = found[group].partitions
        return {tp: broker_error(code, f"{doing} in {tp}") for tp, code in codes.items() if code != NONE}

    def has_coordinators(self, group: str) -> bool:
        """False if ``__consumer_offsets`` does not exist. True if an ACL hides it."""
        if not self._has_offsets_topic:
            found = self._requests.metadata([_OFFSETS_TOPIC]).topics.get(_OFFSETS_TOPIC)
            is_missing = found is None or found.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._has_offsets_topic = not is_missing
        return self._has_offsets_topic


def _version(connection: Connection, api: Api) -> int:
    if connection.newest(api.key) < 0:
        raise UnknownVersion(_WITHOUT_GROUPS)
    return connection.version(api)


def _describing(group: str) -> str:
    return f"describing group {group}"


def _state(group: str, found: DescribedGroup) -> GroupState:
    is_missing = found.error == ErrorCode.GROUP_ID_NOT_FOUND
    if is_missing and _OF_ANOTHER_TYPE not in (found.message or ""):
        return GroupState(DEAD)
    is_of_consumers = found.protocol in (CONSUMER, "") and all(member.assigned is not None for member in found.members)
    if is_missing or not is_of_consumers:
        return GroupState.unreadable(
            UNREADABLE_GROUP(
                f"Group {group} cannot be described: its members are not consumers, or their assignments have another "
                "form than a consumer's; leave the group to the program that uses it, or stop that program",
                group=group,
            )
        )
    return GroupState(found.state, {member.id: member for member in found.members})
