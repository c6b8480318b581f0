"""Requests to the coordinators of Kafka's consumer groups: state, members, and offsets in ``__consumer_offsets``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.group_offsets import (
    ACTIVE_CODES,
    KafkaGroupOffsets,
    commit_requests,
    group_active,
    offset_metadata,
)
from pyspark_zkafka.brokers.librdkafka_errors import from_kafka
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition

__all__ = ["GroupAdmin", "GroupState"]

T = TypeVar("T")

_OFFSETS_TOPIC = "__consumer_offsets"
_IN_FLIGHT = 50
_PAUSE_S = 0.3
_UNKNOWN_GROUP_CODES = frozenset({KafkaError.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's state as its coordinator names it, and the ids of its members; an unknown group is ``DEAD``.

    `assigned` are the partitions of each member, those that it is still to get among them. Groups of the consumer protocol
    that are not ``STABLE`` are ``UNKNOWN``: librdkafka has no names for their other states.
    """

    name: str
    members: tuple[str, ...] = ()
    assigned: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """True if the group has members, so that only these may commit."""
        return bool(self.members) or self.name not in ("EMPTY", "DEAD")


class GroupAdmin(KafkaAdmin):
    """A `KafkaAdmin` that also reads and changes groups.

    Where ``__consumer_offsets`` does not exist yet, no coordinator is asked: librdkafka's admin client, unlike a consumer,
    does not wait until brokers have created it, and aborts the process some time after the request has timed out
    (librdkafka issue 4605). A cluster without it has no group; before the first commit, a consumer waits for it. So it does
    where an ACL hides the topic, as from most users, and nobody can tell whether it exists.

    librdkafka's admin client keeps asking the coordinator that it has looked up, also when that broker answers that it is
    none, and for a broker that was down in the meantime its requests may wait until they time out: a new client replaces
    it after such an answer, and before a request that follows a lost connection. A shorter timeout would not help, because
    librdkafka aborts the process when the coordinator is looked up after the request has timed out.
    """

    _has_offsets_topic = False
    _is_outdated = False

    def _begin_request(self) -> None:
        super()._begin_request()
        if self._reports.has_lost:
            self._replace_client()
            self._reports.has_lost = False

    def group_names(self) -> list[str]:
        """The names of all groups that the brokers know, sorted; blocks for a request to each broker."""
        self._begin_request()
        doing = "listing groups"
        future = self._admin().list_consumer_groups(request_timeout=self._timeout_s)
        found = self._call(doing, lambda _: self._result(doing, future))
        for error in found.errors:
            raise self._error(error if isinstance(error, KafkaException) else KafkaException(error), doing)
        return sorted(group.group_id for group in found.valid)

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """The state of each group, requested 50 at a time; blocks for a request to its coordinator."""
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        self._begin_request()
        if not self._have_coordinators(names[0]):
            return dict.fromkeys(names, GroupState("DEAD"))
        rest, found = iter(names), dict[str, GroupState]()
        while some := list(islice(rest, _IN_FLIGHT)):
            found |= self._patiently(lambda some=some: self._describe_groups(some))  # type: ignore[misc]
        return found

    def _describe_groups(self, names: list[str]) -> dict[str, GroupState]:
        futures = self._admin().describe_consumer_groups(names, request_timeout=self._timeout_s)
        return {name: self._state(name, future) for name, future in futures.items()}

    def has_coordinators(self, group: str) -> bool:
        """False if ``__consumer_offsets`` does not exist; where it is hidden, blocks until the group has a coordinator."""
        self._begin_request()
        return self._have_coordinators(group)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All offsets that a group has committed; blocks for a request to its coordinator."""
        return self.committed_many([group])[group]

    def committed_many(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """The same for several groups, requested 50 at a time."""
        found = self._committed(groups)
        return {name: {_place(c): c.offset for c in commits} for name, commits in found.items()}

    def committed_metadata(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, str]]:
        """The metadata of all offsets that the groups have committed, empty where there is none; see `committed_many`.

        Offsets of open transactions do not count.
        """
        found = self._committed(groups)
        return {name: {_place(c): offset_metadata(c) for c in commits} for name, commits in found.items()}

    def _committed(self, groups: Iterable[str]) -> dict[str, list[KafkaTopicPartition]]:
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        self._begin_request()
        if not self._have_coordinators(names[0]):
            return {name: [] for name in names}
        rest, found = iter(names), dict[str, list[KafkaTopicPartition]]()
        while some := list(islice(rest, _IN_FLIGHT)):
            asked = {name: self._ask_offsets(name) for name in some}
            found.update((name, self._offsets(name, future)) for name, future in asked.items())
        return found

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ZKafkaError]:
        """Set a group's offsets, whatever is stored; the errors of partitions that the brokers refuse.

        Blocks for a request for every 1,000 partitions. If one of them fails, the others before it stay committed.

        Raises
        ------
        GroupError
            Consumers of the new kind are in the group.
        ClusterStateError
            The brokers refuse it; they do not answer.
        """
        self._begin_request()
        if offsets and not self._have_coordinators(group):
            self._wait_for_coordinator(group, sorted(offsets)[:1])
        failed: dict[TopicPartition, ZKafkaError] = {}
        for request in commit_requests(dict(sorted(offsets.items()))):
            some = [KafkaTopicPartition(*tp, offset) for tp, offset in request.items()]
            failed |= self._patiently(lambda some=some: self._alter(group, some))  # type: ignore[misc]
        return failed

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups with all their offsets; passes over those that do not exist.

        Blocks for a request for each group. If one of them fails, those before it are deleted.

        Raises
        ------
        GroupError
            Consumers are in a group.
        ClusterStateError
            The brokers refuse it; they do not answer.
        """
        names = list(dict.fromkeys(groups))
        self._begin_request()
        if not names or not self._have_coordinators(names[0]):
            return
        for name in names:
            self._patiently(lambda name=name: self._delete(name))  # type: ignore[misc]

    def _delete(self, group: str) -> None:
        (future,) = self._admin().delete_consumer_groups([group], request_timeout=self._timeout_s).values()
        self._of_group(group, f"deleting group {group}", future, lambda: None)

    def _alter(self, group: str, offsets: list[KafkaTopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        doing = f"committing offsets of group {group}"
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        (future,) = self._admin().alter_consumer_group_offsets(request, request_timeout=self._timeout_s).values()
        failed: dict[TopicPartition, ZKafkaError] = {}
        for answer in self._of_group(group, doing, future).topic_partitions:
            if answer.error is None:
                continue
            self._note(answer.error)
            place = TopicPartition(answer.topic, answer.partition)
            failed[place] = _error_of(answer.error, group, f"{doing} in {place}")
            if isinstance(failed[place], (GroupError, BrokersUnavailable)):  # of the group, not of the partition
                raise failed[place]
        return failed

    def _wait_for_coordinator(self, group: str, partitions: Collection[TopicPartition]) -> None:
        with KafkaGroupOffsets(self._servers, self._config, group) as consumer:
            self._patiently(lambda: consumer.committed(partitions))

    def _patiently(self, call: Callable[[], T]) -> T:
        """The call's result; repeated while the group's coordinator changes, or loads the group."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return call()
            except BrokersUnavailable:
                if time.monotonic() > deadline:
                    raise
            self._renew()
            time.sleep(_PAUSE_S)

    def _have_coordinators(self, group: str) -> bool:
        if not self._has_offsets_topic:
            is_listed = _OFFSETS_TOPIC in self.topic_names()
            is_hidden = not is_listed and self._authorization_error(_OFFSETS_TOPIC) is not None
            if is_hidden:
                self._wait_for_coordinator_unseen(group)
            self._has_offsets_topic = is_listed or is_hidden
        return self._has_offsets_topic

    def _wait_for_coordinator_unseen(self, group: str) -> None:
        try:
            self._wait_for_coordinator(group, [TopicPartition(_OFFSETS_TOPIC, 0)])
        except ClusterStateError as error:
            if error.condition != "REFUSED_BY_BROKER":  # the coordinator has answered, or refuses the next request, too
                raise

    def _ask_offsets(self, group: str) -> Future[Any]:
        request = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin().list_consumer_group_offsets(request, request_timeout=self._timeout_s).values()
        return future  # type: ignore[no-any-return]

    def _offsets(self, group: str, first: Future[Any]) -> list[KafkaTopicPartition]:
        asked = [first]
        return self._patiently(lambda: self._answered(group, asked.pop() if asked else self._ask_offsets(group)))

    def _answered(self, group: str, future: Future[Any]) -> list[KafkaTopicPartition]:
        doing = f"reading the offsets of group {group}"
        answers = self._of_group(group, doing, future, lambda: ConsumerGroupTopicPartitions(group, [])).topic_partitions
        for answer in answers:
            if answer.error is not None:
                self._note(answer.error)
                raise _error_of(answer.error, group, f"{doing} in {answer.topic}-{answer.partition}")
        return [answer for answer in answers if answer.offset >= 0]

    def _state(self, group: str, future: Future[Any]) -> GroupState:
        found = self._of_group(group, f"describing group {group}", future, lambda: None)
        if found is None:
            return GroupState("DEAD")
        assigned = {member.member_id: _assigned(member) for member in found.members}
        return GroupState(found.state.name, tuple(assigned), assigned)

    def _of_group(self, group: str, doing: str, future: Future[Any], unknown: Callable[[], Any] | None = None) -> Any:
        """A request's result; `unknown` makes that of a group that does not exist."""
        try:
            return self._result(doing, future)
        except KafkaException as error:
            if unknown is not None and error.args[0].code() in _UNKNOWN_GROUP_CODES:
                return unknown()
            if error.args[0].code() in ACTIVE_CODES:
                raise group_active(group, doing) from error
            self._note(error.args[0])
            raise self._error(error, doing) from error

    def _note(self, error: KafkaError) -> None:
        """Note an answer of a broker that is no longer the coordinator."""
        self._is_outdated |= error.code() == KafkaError.NOT_COORDINATOR

    def _renew(self) -> None:
        """Use a new client if the present one asks the wrong coordinator; that one may have other requests in flight."""
        if self._is_outdated:
            self._use(self._new_client())
            self._is_outdated = False


def _error_of(error: KafkaError, group: str, doing: str) -> ZKafkaError:
    return group_active(group, doing) if error.code() in ACTIVE_CODES else from_kafka(error, doing)


def _assigned(member: Any) -> frozenset[TopicPartition]:
    found = (member.assignment, getattr(member, "target_assignment", None))
    return frozenset(_place(place) for assigned in found if assigned is not None for place in assigned.topic_partitions)


def _place(committed: KafkaTopicPartition) -> TopicPartition:
    return TopicPartition(committed.topic, committed.partition)
