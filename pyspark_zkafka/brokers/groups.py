"""Groups that Kafka coordinates: names, states, members, and all offsets of a group, by an admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.clients import (
    offset_metadata,
)
from pyspark_zkafka.brokers.group_offsets import (
    ACTIVE_CODES,
    REQUEST_S,
    KafkaGroupOffsets,
    commit_requests,
    group_error,
    partition_of,
)
from pyspark_zkafka.brokers.log_lookups import batches
from pyspark_zkafka.conditions import UNREADABLE_GROUP
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition

T = TypeVar("T")

_OFFSETS_TOPIC = "__consumer_offsets"
_IN_FLIGHT = 50
_PAUSE_S = 0.3
_OF_OTHER_PROGRAMS = (KafkaError._DESTROY, KafkaError._INVALID_ARG)
"""librdkafka's codes for a description that it cannot parse, and for a group of another protocol, such as Connect's."""
_UNKNOWN_GROUP_CODES = frozenset({KafkaError.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's state by its coordinator, and the present and future partitions of each member, by the member's id.

    An unknown group is ``DEAD``. Groups of the consumer protocol are ``UNKNOWN`` while they rebalance: librdkafka has no
    names for these states. With a `problem`, which says why it cannot be read, a group is ``UNREADABLE``.
    """

    name: str
    members: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)
    problem: ZKafkaError | None = None

    @classmethod
    def unreadable(cls, problem: ZKafkaError) -> GroupState:
        """Return the state of a group that cannot be read."""
        return cls("UNREADABLE", problem=problem)

    @property
    def member_count(self) -> int | None:
        """The number of members; None if the group cannot be read."""
        return len(self.members) if self.problem is None else None

    @property
    def is_active(self) -> bool:
        """True if the group has members: only these may commit."""
        return bool(self.members) or self.name not in ("EMPTY", "DEAD")


class GroupAdmin(KafkaAdmin):
    """A `KafkaAdmin` that also reads and changes groups.

    No coordinator is asked before ``__consumer_offsets`` exists: an admin client does not wait for this topic, and aborts
    the process some time after the time-out (librdkafka issue 4605). A cluster without the topic has no group. Before the
    first commit, a consumer has the topic created. An ACL hides it from most users.

    librdkafka's admin client keeps asking the coordinator that it has looked up, even if that broker refuses. A new client
    replaces it after a refusal, before a request that follows a lost connection or a time-out, and before offsets are read:
    the refusal of such a request ends the process (librdkafka issue 5040).

    The time-out of a request to a coordinator, `REQUEST_S`, is longer than its caller waits: librdkafka aborts the process
    if it finds the coordinator after the time-out, with the client still open. Closing a client with a request in flight is
    safe.
    """

    _has_offsets_topic = False
    _is_outdated = False
    _asked_by: AdminClient | None = None  # the client that knows coordinators

    def _begin_request(self) -> None:
        super()._begin_request()
        if self._reports.has_lost:
            self._replace_client()

    def group_names(self) -> list[str]:
        """The names of all groups, sorted. Blocks for a request to each broker."""
        self._begin_request()
        doing = "listing groups"
        future = self._admin().list_consumer_groups(request_timeout=self._timeout_s)
        found = self._answer(doing, future)
        for error in found.errors:
            raise self._error(error if isinstance(error, KafkaException) else KafkaException(error), doing)
        return sorted(group.group_id for group in found.valid)

    def group_state(self, group: str) -> GroupState:
        """The state of a group. Raises ZKafkaError if it cannot be read. Blocks for a request to its coordinator."""
        found = self.group_states([group])[group]
        if found.problem is not None:
            raise found.problem
        return found

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """The state of each group, requested 50 at a time. Blocks for a request to each coordinator.

        A group that cannot be read does not hide the others. Raises BrokersUnavailable without an answer.
        """
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        self._begin_request()
        if not self.has_coordinators(names[0]):
            return dict.fromkeys(names, GroupState("DEAD"))
        found: dict[str, GroupState] = {}

        def describe() -> None:
            some = names[len(found) :][:_IN_FLIGHT]
            futures = self._admin().describe_consumer_groups(some, request_timeout=REQUEST_S)
            found.update({name: self._state(name, future) for name, future in futures.items()})

        while len(found) < len(names):
            self._patiently(describe)
        return found

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All committed offsets of a group. Blocks for a request to its coordinator."""
        return self.committed_many([group])[group]

    def committed_many(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """All committed offsets of several groups, requested 50 at a time."""
        found = self._committed(groups)
        return {name: {partition_of(c): c.offset for c in commits} for name, commits in found.items()}

    def committed_metadata(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, str]]:
        """The metadata of all committed offsets of the groups, empty without metadata; see `committed_many`.

        Offsets in open transactions do not count.
        """
        found = self._committed(groups)
        return {name: {partition_of(c): offset_metadata(c) for c in commits} for name, commits in found.items()}

    def _committed(self, groups: Iterable[str]) -> dict[str, list[KafkaTopicPartition]]:
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        self._begin_request()
        if not self.has_coordinators(names[0]):
            return {name: [] for name in names}
        if self._asked_by is self._client:
            self._replace_client()
        found: dict[str, list[KafkaTopicPartition]] = {}
        for some in batches(names, _IN_FLIGHT):
            asked = {name: self._ask_offsets(name) for name in some}
            found.update((name, self._offsets(name, future)) for name, future in asked.items())
        return found

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ZKafkaError]:
        """Set a group's offsets, whatever is stored. Returns the errors of partitions that the brokers refuse.

        Blocks for a request for every 1,000 partitions. If one fails, the earlier ones stay committed. Raises GroupError if
        the group has members in Kafka, and ClusterStateError if brokers refuse or do not answer.
        """
        self._begin_request()
        if offsets and not self.has_coordinators(group):
            self._wait_for_coordinator(group, sorted(offsets)[:1])
        failed: dict[TopicPartition, ZKafkaError] = {}
        for request in commit_requests(dict(sorted(offsets.items()))):
            some = [KafkaTopicPartition(*tp, offset) for tp, offset in request.items()]
            failed |= self._patiently(lambda some=some: self._alter(group, some))  # type: ignore[misc]
        return failed

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups and their offsets. Ignores groups that do not exist.

        Blocks for a request for each group. If one fails, the earlier groups are deleted. Raises like `alter_offsets`.
        """
        names = list(dict.fromkeys(groups))
        self._begin_request()
        if not names or not self.has_coordinators(names[0]):
            return

        def delete(group: str) -> None:
            (future,) = self._admin().delete_consumer_groups([group], request_timeout=REQUEST_S).values()
            self._of_group(group, f"deleting group {group}", future, lambda: None)

        for name in names:
            self._patiently(partial(delete, name))

    def _alter(self, group: str, offsets: list[KafkaTopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        doing = f"committing offsets of group {group}"
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        (future,) = self._admin().alter_consumer_group_offsets(request, request_timeout=REQUEST_S).values()
        failed: dict[TopicPartition, ZKafkaError] = {}
        for answer in self._of_group(group, doing, future).topic_partitions:
            if answer.error is None:
                continue
            self._is_outdated |= answer.error.code() == KafkaError.NOT_COORDINATOR
            partition = partition_of(answer)
            failed[partition] = group_error(answer.error, group, f"{doing} in {partition}")
            if isinstance(failed[partition], (GroupError, BrokersUnavailable)):  # of the group, not of the partition
                raise failed[partition]
        return failed

    def _wait_for_coordinator(self, group: str, partitions: Collection[TopicPartition]) -> None:
        with KafkaGroupOffsets(self._servers, self._config, group, self._timeout_s) as consumer:
            self._patiently(lambda: consumer.committed(partitions))

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call, and again while the group's coordinator changes or loads the group."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return call()
            except BrokersUnavailable:
                if time.monotonic() > deadline:
                    raise
            if self._is_outdated:  # the client asks the wrong coordinator, and may have requests in flight
                self._use(self._new_client())
                self._is_outdated = False
            time.sleep(_PAUSE_S)

    def has_coordinators(self, group: str) -> bool:
        """False if ``__consumer_offsets`` does not exist. If an ACL hides it, waits for the group's coordinator."""
        if not self._has_offsets_topic:
            is_listed = _OFFSETS_TOPIC in self.topic_names()
            is_hidden = not is_listed and self._authorization_error(_OFFSETS_TOPIC) is not None
            if is_hidden:
                try:
                    self._wait_for_coordinator(group, [TopicPartition(_OFFSETS_TOPIC, 0)])
                except ClusterStateError as error:
                    if error.condition != "REFUSED_BY_BROKER":  # the coordinator answers, or also refuses the next request
                        raise
            self._has_offsets_topic = is_listed or is_hidden
        return self._has_offsets_topic

    def _ask_offsets(self, group: str) -> Future[Any]:
        request = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin().list_consumer_group_offsets(request, request_timeout=REQUEST_S).values()
        return future  # type: ignore[no-any-return]

    def _offsets(self, group: str, first: Future[Any]) -> list[KafkaTopicPartition]:
        asked = [first]
        return self._patiently(lambda: self._answered(group, asked.pop() if asked else self._ask_offsets(group)))

    def _answered(self, group: str, future: Future[Any]) -> list[KafkaTopicPartition]:
        doing = f"reading the offsets of group {group}"
        answers = self._of_group(group, doing, future, lambda: ConsumerGroupTopicPartitions(group, [])).topic_partitions
        for answer in answers:
            if answer.error is not None:
                self._is_outdated |= answer.error.code() == KafkaError.NOT_COORDINATOR
                raise group_error(answer.error, group, f"{doing} in {partition_of(answer)}")
        return [answer for answer in answers if answer.offset >= 0]

    def _state(self, group: str, future: Future[Any]) -> GroupState:
        try:
            found = self._of_group(group, f"describing group {group}", future, lambda: None)
        except ZKafkaError as error:
            if error.retriable:
                raise
            cause = error.__cause__
            if not isinstance(cause, KafkaException) or cause.args[0].code() not in _OF_OTHER_PROGRAMS:
                return GroupState.unreadable(error)
            return GroupState.unreadable(
                UNREADABLE_GROUP(
                    f"Group {group} cannot be described: its members are not consumers, or their assignments have another "
                    "form than a consumer's; leave the group to the program that uses it, or stop that program",
                    group=group,
                )
            )
        if found is None:
            return GroupState("DEAD")
        return GroupState(found.state.name, {member.member_id: _assigned(member) for member in found.members})

    def _of_group(self, group: str, doing: str, future: Future[Any], unknown: Callable[[], Any] | None = None) -> Any:
        """A request's result. `unknown` returns the result for a group that does not exist."""
        self._asked_by = self._client
        try:
            return self._result(doing, future, self._timeout_s)
        except KafkaException as error:
            if unknown is not None and error.args[0].code() in _UNKNOWN_GROUP_CODES:
                return unknown()
            if error.args[0].code() in ACTIVE_CODES:
                raise group_error(error.args[0], group, doing) from error
            self._is_outdated |= error.args[0].code() == KafkaError.NOT_COORDINATOR
            self._reports.has_lost |= error.args[0].code() == KafkaError._TIMED_OUT  # the request stays in flight
            raise self._error(error, doing) from error


def _assigned(member: Any) -> frozenset[TopicPartition]:
    found = (member.assignment, getattr(member, "target_assignment", None))
    return frozenset(
        partition_of(place) for assigned in found if assigned is not None for place in assigned.topic_partitions
    )
