"""Requests to the coordinators of Kafka's consumer groups: state, members, and offsets in ``__consumer_offsets``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.errors import BrokersUnavailable, GroupError, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.kafka.errors import from_kafka
from pyspark_zkafka.kafka.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["GroupAdmin", "GroupState"]

T = TypeVar("T")

_OFFSETS_TOPIC = "__consumer_offsets"
_IN_FLIGHT = 50
_PAUSE_S = 0.3
_MOST_PER_COMMIT = 1_000  # the coordinator writes a commit as one batch, which max.message.bytes limits
_UNKNOWN_GROUP_CODES = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
_ACTIVE_CODES = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NON_EMPTY_GROUP,
    }
)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's state as its coordinator names it, and the ids of its members; an unknown group is ``DEAD``."""

    name: str
    members: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """True if the group has members, so that only these may commit."""
        return bool(self.members) or self.name not in ("EMPTY", "DEAD")


class GroupAdmin(KafkaAdmin):
    """A `KafkaAdmin` that also reads and changes groups.

    Where ``__consumer_offsets`` does not exist yet, no coordinator is asked: librdkafka's admin client, unlike a consumer,
    does not wait until brokers have created it, and aborts the process some time after the request has timed out
    (librdkafka issue 4605). A cluster without it has no group; before the first commit, a consumer waits for it.
    """

    _has_offsets_topic = False

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
        """The state of each group; blocks for a request to its coordinator."""
        self._begin_request()
        names = list(dict.fromkeys(groups))
        if not self._have_coordinators():
            return dict.fromkeys(names, GroupState("DEAD"))
        if not names:
            return {}
        return self._patiently(lambda: self._describe_groups(names))

    def _describe_groups(self, names: list[str]) -> dict[str, GroupState]:
        futures = self._admin().describe_consumer_groups(names, request_timeout=self._timeout_s)
        return {name: self._state(name, future) for name, future in futures.items()}

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All offsets that a group has committed; blocks for a request to its coordinator."""
        return self.committed_many([group])[group]

    def committed_many(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """The same for several groups, requested 50 at a time."""
        self._begin_request()
        if not self._have_coordinators():
            return {name: {} for name in groups}
        names = iter(dict.fromkeys(groups))
        found: dict[str, dict[TopicPartition, int]] = {}
        while some := list(islice(names, _IN_FLIGHT)):
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
        if offsets and not self._have_coordinators():
            self._wait_for_coordinator(group, sorted(offsets)[:1])
        wanted = iter([KafkaTopicPartition(*tp, offset) for tp, offset in sorted(offsets.items())])
        failed: dict[TopicPartition, ZKafkaError] = {}
        while some := list(islice(wanted, _MOST_PER_COMMIT)):
            failed |= self._patiently(lambda some=some: self._alter(group, some))  # type: ignore[misc]
        return failed

    def _alter(self, group: str, offsets: list[KafkaTopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        doing = f"committing offsets of group {group}"
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        (future,) = self._admin().alter_consumer_group_offsets(request, request_timeout=self._timeout_s).values()
        failed: dict[TopicPartition, ZKafkaError] = {}
        for answer in self._of_group(group, doing, future).topic_partitions:
            if answer.error is None:
                continue
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
            time.sleep(_PAUSE_S)

    def _have_coordinators(self) -> bool:
        self._has_offsets_topic = self._has_offsets_topic or _OFFSETS_TOPIC in self.topic_names()
        return self._has_offsets_topic

    def _ask_offsets(self, group: str) -> Future[Any]:
        request = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin().list_consumer_group_offsets(request, request_timeout=self._timeout_s).values()
        return future  # type: ignore[no-any-return]

    def _offsets(self, group: str, first: Future[Any]) -> dict[TopicPartition, int]:
        asked = [first]
        return self._patiently(lambda: self._answered(group, asked.pop() if asked else self._ask_offsets(group)))

    def _answered(self, group: str, future: Future[Any]) -> dict[TopicPartition, int]:
        doing = f"reading the offsets of group {group}"
        answers = self._of_group(group, doing, future, lambda: ConsumerGroupTopicPartitions(group, [])).topic_partitions
        for answer in answers:
            if answer.error is not None:
                raise _error_of(answer.error, group, f"{doing} in {answer.topic}-{answer.partition}")
        return {TopicPartition(a.topic, a.partition): a.offset for a in answers if a.offset >= 0}

    def _state(self, group: str, future: Future[Any]) -> GroupState:
        found = self._of_group(group, f"describing group {group}", future, lambda: None)
        if found is None:
            return GroupState("DEAD")
        return GroupState(found.state.name, tuple(member.member_id for member in found.members))

    def _of_group(self, group: str, doing: str, future: Future[Any], unknown: Callable[[], Any] | None = None) -> Any:
        """A request's result; `unknown` makes that of a group that does not exist."""
        try:
            return self._result(doing, future)
        except KafkaException as error:
            if unknown is not None and error.args[0].code() in _UNKNOWN_GROUP_CODES:
                return unknown()
            if error.args[0].code() in _ACTIVE_CODES:
                raise _active(group) from error
            raise self._error(error, doing) from error


def _error_of(error: KafkaError, group: str, doing: str) -> ZKafkaError:
    return _active(group) if error.code() in _ACTIVE_CODES else from_kafka(error, doing)


def _active(group: str) -> GroupError:
    return GroupError(
        "GROUP_ACTIVE",
        f"The brokers refuse offsets for group {group}, since consumers that Kafka coordinates are active in it; stop "
        "these consumers, and run this again",
        group=group,
    )
