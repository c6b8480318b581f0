"""A group's offsets in Kafka, read and committed without a member: by a consumer, and by an admin client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from typing import Any, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.clients import (
    are_known,
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
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition

T = TypeVar("T")

ACTIVE_CODES = frozenset(
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
REQUEST_S = 600.0  # longer than any caller waits
_PAUSE_S = 0.2

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
        """Use the present bootstrap servers, with new clients if one of them has a new address.

        An idle client requests metadata every few minutes: all brokers that it knows may be gone before. Raises ZKafkaError
        if no client can be made; the present ones then stay.
        """
        if are_known(bootstrap_servers, self._config["bootstrap.servers"]):
            return
        servers = {"bootstrap.servers": bootstrap_servers}
        if self._consumer is not None:
            consumer = make_consumer({**self._config, **servers}, self._reports)
            self.__exit__()
            self._reports.renew()
            self._consumer = consumer
        self._config |= servers
        self._admin_config |= servers

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
        return {partition_of(tp): (tp.offset, offset_metadata(tp)) for tp in found if tp.offset >= 0}

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
        (future,) = self._admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_S).values()
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
                asked = f"{doing} the offset of group {self._group} in {partition_of(answer)}"
                raise group_error(answer.error, self._group, asked)


def _raise_denial(consumer: Consumer) -> None:
    """Raise the coordinator's refusal of the group. librdkafka reports it like a record, and keeps asking."""
    while (reported := consumer.poll(0)) is not None:
        error = reported.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)


def group_error(error: KafkaError, group: str, doing: str) -> ZKafkaError:
    """Our error for one of librdkafka's. `doing` describes the request."""
    return group_active(group, doing) if error.code() in ACTIVE_CODES else from_kafka(error, doing)


def group_active(group: str, doing: str) -> ZKafkaError:
    """The error for a request of a non-member to an active group."""
    return GROUP_ACTIVE(
        f"{doing[0].upper()}{doing[1:]} failed, since consumers that Kafka coordinates are active in the group; stop these "
        "consumers, and run this again",
        group=group,
    )


def partition_of(committed: KafkaTopicPartition) -> TopicPartition:
    return TopicPartition(committed.topic, committed.partition)
