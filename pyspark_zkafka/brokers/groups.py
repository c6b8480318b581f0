"""Groups that Kafka coordinates: offsets in ``__consumer_offsets``, states and members."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.clients import (
    client_config,
    librdkafka_logger,
    lookup_properties,
    make_consumer,
    offset_metadata,
    shared_properties,
)
from pyspark_zkafka.brokers.librdkafka_errors import REFUSED_FOR_S, ErrorReports, from_kafka
from pyspark_zkafka.brokers.log_lookups import batches
from pyspark_zkafka.conditions import GROUP_ACTIVE
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition

T = TypeVar("T")

_ACTIVE_CODES = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NON_EMPTY_GROUP,
    }
)
"""Errors for requests of non-members while the group is active."""

MOST_PER_COMMIT = 1_000  # the coordinator writes a commit as one batch, which max.message.bytes limits
_RETRY_BACKOFF_MS = 10
_SOCKET_MS = 10_000  # brokers answer these requests at once: a later answer is lost
_TIMEOUT_S = 30.0
# Time-outs of the first two requests. librdkafka reports errors only between requests: the first one records a refusal,
# which is old enough after the second. Later requests get all the time left: an answer after a time-out is lost.
_LOOK_AFTER_S = (1.0, 3.0)
_UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)
_REPLACED = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
_LOOK_S = 0.1
_ATTEMPT_S = 5.0
_REQUEST_S = 600.0  # longer than any caller waits
_PAUSE_S = 0.2
_OFFSETS_TOPIC = "__consumer_offsets"
_IN_FLIGHT = 50
_ADMIN_PAUSE_S = 0.3
_UNKNOWN_GROUP_CODES = frozenset({KafkaError.GROUP_ID_NOT_FOUND})

_Positions = list[KafkaTopicPartition]
_Due = Callable[[Collection[TopicPartition]], Collection[TopicPartition]]


def commit_requests(offsets: Mapping[TopicPartition, int]) -> Iterator[dict[TopicPartition, int]]:
    """Divide a commit into requests, in order.

    >>> [len(some) for some in commit_requests({TopicPartition("t", n): 0 for n in range(2_001)})]
    [1000, 1000, 1]
    """
    return map(dict, batches(list(offsets.items()), MOST_PER_COMMIT))


class KafkaGroupOffsets:
    """A group's offsets in Kafka. Not pickle-safe, and only for the process that created it.

    Commits have no member and no generation, like those of the JVM's old consumer with ``offsets.storage=kafka``. Brokers
    accept them while the group has no members. Only the connection's `properties` of librdkafka are used. `timeout_s`
    limits each call. Without `waits`, `committed` ignores offsets in open transactions.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        group: str,
        timeout_s: float = _TIMEOUT_S,
        *,
        waits: bool = True,
    ) -> None:
        self._group = group
        self._timeout_s = timeout_s
        self._reports = ErrorReports()
        self._consumer: Consumer | None = None
        servers = {"bootstrap.servers": bootstrap_servers}
        # An offset of a transaction that has just been committed is readable some milliseconds later.
        prompt = {"retry.backoff.ms": _RETRY_BACKOFF_MS, "socket.timeout.ms": _SOCKET_MS, "enable.auto.commit": False}
        self._config = {**prompt, **lookup_properties(properties), **servers, "group.id": group}
        self._config["isolation.level"] = "read_committed" if waits else "read_uncommitted"
        self._admin_config = {**shared_properties(properties), **servers}
        self._admin: AdminClient | None = None
        self._has_coordinator = False

    def follow(self, bootstrap_servers: str) -> None:
        """Use other bootstrap servers from now on, wherever a client has to be made again."""
        self._admin_config["bootstrap.servers"] = bootstrap_servers

    def __enter__(self) -> KafkaGroupOffsets:
        self._consumer = make_consumer(self._config, self._reports)
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_admin()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offsets to read. Partitions without one are absent. Blocks for a request, for at most `timeout_s`."""
        return {tp: offset for tp, (offset, _) in self.committed_with_metadata(partitions).items()}

    def committed_with_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Like `committed`, each offset with its metadata: see `offset_metadata`.

        With `waits`, brokers since 2.5 wait for the end of an open transaction with an offset.
        """
        if not partitions:
            return {}
        asked = [KafkaTopicPartition(*tp) for tp in partitions]
        found = self._call("reading", lambda consumer: self._ask(consumer, asked, self._timeout_s))
        self._require_success("reading", found)
        return {_partition(tp): (tp.offset, offset_metadata(tp)) for tp in found if tp.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int], due: _Due | None = None) -> None:
        """Set the next offsets to read, whatever is stored. Before each attempt, `due` selects the partitions to commit.

        Blocks for a request for every 1,000 partitions, and for one more the first time: at most `timeout_s` for each, or
        some seconds if the brokers refuse the connection. Waits for a coordinator that is being replaced.

        Raises GroupError if the group has members, ClusterStateError if brokers refuse for another reason, such as an ACL,
        and BrokersUnavailable without an answer. The offsets may be committed then.
        """
        for some in commit_requests(offsets):
            self._commit(some, due)

    def _commit(self, offsets: Mapping[TopicPartition, int], due: _Due | None) -> None:
        deadline: float | None = None
        while True:
            if due is not None:  # another client may have committed meanwhile
                offsets = {tp: offsets[tp] for tp in due(offsets)}
            if not offsets:
                return
            deadline = deadline or time.monotonic() + self._timeout_s  # without the first check
            positions = [KafkaTopicPartition(*tp, offset) for tp, offset in offsets.items()]
            try:
                self._attempt(positions, min(_ATTEMPT_S, max(_LOOK_S, deadline - time.monotonic())))
                return
            except BrokersUnavailable:
                if time.monotonic() + _PAUSE_S > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _attempt(self, positions: _Positions, timeout_s: float) -> None:
        """Commit by an admin client. After a failure it is replaced: it would keep asking the old coordinator.

        A consumer's commit has no time-out. librdkafka repeats it for minutes without an answer, and closing the consumer
        waits for it.
        """
        if not self._has_coordinator:
            # Creates __consumer_offsets: without it, the request of an admin client may abort the process.
            self._call("committing", lambda consumer: self._ask(consumer, positions[:1], timeout_s))
            self._has_coordinator = True
        with ExitStack() as failed:
            failed.callback(self._close_admin)
            answers = self._call("committing", lambda _: self._alter(positions, timeout_s))
            self._require_success("committing", answers)
            failed.pop_all()

    def _alter(self, positions: _Positions, timeout_s: float) -> _Positions:
        """Request a commit, and return its answers. Raises before the time-out if brokers refuse the connection."""
        deadline = time.monotonic() + timeout_s
        if self._admin is None:
            self._admin = AdminClient(client_config(self._admin_config, self._reports), logger=librdkafka_logger())
        request = [ConsumerGroupTopicPartitions(self._group, positions)]
        (future,) = self._admin.alter_consumer_group_offsets(request, request_timeout=_REQUEST_S).values()
        while True:
            try:
                return list(future.result(_LOOK_S).topic_partitions)
            except FutureTimeoutError:
                self._poll()
                doing = f"committing the offsets of group {self._group}"
                if (refusal := self._reports.refusal(doing, REFUSED_FOR_S)) is not None:
                    raise refusal from None
                if time.monotonic() >= deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

    def _close_admin(self) -> None:
        """Close the admin client on this thread. If it is collected on its own thread, the process aborts."""
        if self._admin is not None:
            self._admin.__exit__(None, None, None)
            self._admin = None

    def _ask(self, consumer: Consumer, asked: _Positions, left_s: float) -> _Positions:
        """Request committed offsets. Repeats the request after some seconds, unless brokers have refused the connection.

        While the coordinator is being replaced, it refuses at once: this method then waits for its successor.
        """
        deadline = time.monotonic() + left_s
        looks = iter((*_LOOK_AFTER_S, math.inf))
        look_s = next(looks)
        while True:
            try:
                return list(consumer.committed(asked, timeout=max(_LOOK_S, min(look_s, deadline - time.monotonic()))))
            except KafkaException as error:
                _raise_denial(consumer)
                code, is_late = error.args[0].code(), time.monotonic() + _PAUSE_S > deadline
                is_passing = code in (*_UNANSWERED, *_REPLACED)
                if is_late or not is_passing or self._reports.refusal("", REFUSED_FOR_S) is not None:
                    raise
                if code in _REPLACED:
                    time.sleep(_PAUSE_S)
                else:
                    look_s = next(looks, math.inf)

    def _call(self, doing: str, call: Callable[[Consumer], T]) -> T:
        if self._consumer is None:
            raise RuntimeError("KafkaGroupOffsets is used outside of its with block")
        self._poll()
        self._reports.begin()
        try:
            answer = call(self._consumer)
        except KafkaException as error:
            self._poll()
            raise self._reports.error(error, f"{doing} the offsets of group {self._group}") from error
        self._reports.answered()
        return answer

    def _poll(self) -> None:
        for client in (self._consumer, self._admin):
            if client is not None:
                client.poll(0)

    def _require_success(self, doing: str, answers: _Positions) -> None:
        for answer in answers:
            if answer.error is not None:
                asked = f"{doing} the offset of group {self._group} in {_partition(answer)}"
                raise _error_of(answer.error, self._group, asked)


def _raise_denial(consumer: Consumer) -> None:
    """Raise the coordinator's refusal of the group. librdkafka reports it like a record, and keeps asking."""
    while (reported := consumer.poll(0)) is not None:
        error = reported.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's state by its coordinator, and the present and future partitions of each member, by the member's id.

    An unknown group is ``DEAD``. Groups of the consumer protocol are ``UNKNOWN`` while they rebalance: librdkafka has no
    names for these states.
    """

    name: str
    members: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)

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

    The time-out of a request to a coordinator, `_REQUEST_S`, is longer than its caller waits: librdkafka aborts the process
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

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """The state of each group, requested 50 at a time. Blocks for a request to each coordinator."""
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        self._begin_request()
        if not self.has_coordinators(names[0]):
            return dict.fromkeys(names, GroupState("DEAD"))
        found: dict[str, GroupState] = {}

        def describe() -> None:
            some = names[len(found) :][:_IN_FLIGHT]
            futures = self._admin().describe_consumer_groups(some, request_timeout=_REQUEST_S)
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
        return {name: {_partition(c): c.offset for c in commits} for name, commits in found.items()}

    def committed_metadata(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, str]]:
        """The metadata of all committed offsets of the groups, empty without metadata; see `committed_many`.

        Offsets in open transactions do not count.
        """
        found = self._committed(groups)
        return {name: {_partition(c): offset_metadata(c) for c in commits} for name, commits in found.items()}

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
            (future,) = self._admin().delete_consumer_groups([group], request_timeout=_REQUEST_S).values()
            self._of_group(group, f"deleting group {group}", future, lambda: None)

        for name in names:
            self._patiently(partial(delete, name))

    def _alter(self, group: str, offsets: list[KafkaTopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        doing = f"committing offsets of group {group}"
        request = [ConsumerGroupTopicPartitions(group, offsets)]
        (future,) = self._admin().alter_consumer_group_offsets(request, request_timeout=_REQUEST_S).values()
        failed: dict[TopicPartition, ZKafkaError] = {}
        for answer in self._of_group(group, doing, future).topic_partitions:
            if answer.error is None:
                continue
            self._is_outdated |= answer.error.code() == KafkaError.NOT_COORDINATOR
            partition = _partition(answer)
            failed[partition] = _error_of(answer.error, group, f"{doing} in {partition}")
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
            time.sleep(_ADMIN_PAUSE_S)

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
        (future,) = self._admin().list_consumer_group_offsets(request, request_timeout=_REQUEST_S).values()
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
                raise _error_of(answer.error, group, f"{doing} in {_partition(answer)}")
        return [answer for answer in answers if answer.offset >= 0]

    def _state(self, group: str, future: Future[Any]) -> GroupState:
        found = self._of_group(group, f"describing group {group}", future, lambda: None)
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
            if error.args[0].code() in _ACTIVE_CODES:
                raise _error_of(error.args[0], group, doing) from error
            self._is_outdated |= error.args[0].code() == KafkaError.NOT_COORDINATOR
            self._reports.has_lost |= error.args[0].code() == KafkaError._TIMED_OUT  # the request stays in flight
            raise self._error(error, doing) from error


def _error_of(error: KafkaError, group: str, doing: str) -> ZKafkaError:
    """Our error for one of librdkafka's. `doing` describes the request."""
    if error.code() not in _ACTIVE_CODES:
        return from_kafka(error, doing)
    return GROUP_ACTIVE(
        f"{doing[0].upper()}{doing[1:]} failed, since consumers that Kafka coordinates are active in the group; stop these "
        "consumers, and run this again",
        group=group,
    )


def _assigned(member: Any) -> frozenset[TopicPartition]:
    found = (member.assignment, getattr(member, "target_assignment", None))
    return frozenset(_partition(place) for assigned in found if assigned is not None for place in assigned.topic_partitions)


def _partition(committed: KafkaTopicPartition) -> TopicPartition:
    return TopicPartition(committed.topic, committed.partition)
