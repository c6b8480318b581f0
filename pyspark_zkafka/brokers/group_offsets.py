"""A group's offsets in Kafka's own topic, ``__consumer_offsets``, as a consumer without a subscription commits them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.clients import librdkafka_logger, make_consumer
from pyspark_zkafka.brokers.consumer_properties import lookup_properties, shared_properties
from pyspark_zkafka.brokers.librdkafka_errors import REFUSED_FOR_S, ErrorReports, from_kafka
from pyspark_zkafka.conditions import GROUP_ACTIVE
from pyspark_zkafka.errors import BrokersUnavailable, GroupError
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
"""Errors of requests that only the members of an active group may make."""

_MOST_PER_COMMIT = 1_000  # the coordinator writes a commit as one batch, which max.message.bytes limits
_TIMEOUT_S = 30.0
# Errors are only reported between requests: a refusal is recorded after the first, and old enough after the second. There
# are no more requests than these, as the answer to one that has timed out is lost.
_LOOK_AFTER_S = (1.0, 3.0)
_UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)
_REPLACED = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
_LOOK_S = 0.1
_ATTEMPT_S = 5.0
_PAUSE_S = 0.2

_Places = list[KafkaTopicPartition]


def commit_requests(offsets: Mapping[TopicPartition, int]) -> Iterator[dict[TopicPartition, int]]:
    """Divide a commit into requests, in order.

    >>> [len(some) for some in commit_requests({TopicPartition("t", n): 0 for n in range(2_001)})]
    [1000, 1000, 1]
    """
    rest = iter(offsets.items())
    while some := dict(islice(rest, _MOST_PER_COMMIT)):
        yield some


def group_active(group: str, doing: str) -> GroupError:
    """The error for a commit that brokers refuse, as members of the group commit themselves."""
    return GROUP_ACTIVE(
        f"{doing[0].upper()}{doing[1:]} failed, since consumers that Kafka coordinates are active in the group; stop these "
        "consumers, and run this again",
        group=group,
    )


def offset_metadata(found: KafkaTopicPartition) -> str:
    """The metadata of a committed offset, perhaps with other bytes behind it; empty without one.

    librdkafka copies metadata without the zero byte that confluent-kafka then looks for, and reads on to the next one in
    memory. A reader must know where its text ends.
    """
    try:
        return found.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


class KafkaGroupOffsets:
    """The offsets that a group has committed to Kafka; not pickle-safe, and only for the process that created it.

    A commit is a simple one, without member and generation, as by the JVM's old consumer with ``offsets.storage=kafka``:
    brokers accept it while no consumer of the new kind is in the group. Of librdkafka's `properties` only those of the
    connection are used; `timeout_s` limits each call. Without `waits`, an offset that a transaction is about to replace is
    returned as it is.
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
        self._config = {**lookup_properties(properties), **servers, "group.id": group, "enable.auto.commit": False}
        self._config["isolation.level"] = "read_committed" if waits else "read_uncommitted"
        self._admin_config = {**shared_properties(properties), **servers}
        self._admin: AdminClient | None = None
        self._has_coordinator = False

    def __enter__(self) -> KafkaGroupOffsets:
        self._consumer = make_consumer(self._config, self._reports)
        return self

    def __exit__(self, *exc: object) -> None:
        self._close_admin()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offsets to read; partitions without one are absent.

        Blocks for a request: for at most `timeout_s`, some seconds if the brokers refuse the connection.
        """
        return {tp: offset for tp, (offset, _) in self.committed_with_metadata(partitions).items()}

    def committed_with_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The next offsets to read, each with its metadata (see `offset_metadata`); otherwise as `committed`.

        An offset of a transaction that is not complete is waited for, by brokers from 2.5 on, unless `waits` is False.
        """
        if not partitions:
            return {}
        asked = [KafkaTopicPartition(*tp) for tp in partitions]
        found = self._call("reading", lambda consumer: self._ask(consumer, asked, self._timeout_s))
        self._require_success("reading", found)
        return {TopicPartition(tp.topic, tp.partition): (tp.offset, offset_metadata(tp)) for tp in found if tp.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the next offsets to read, whatever is stored.

        Blocks for a request for every 1,000 partitions, the first time for one more: at most `timeout_s` for each, some
        seconds if the brokers refuse the connection. Waits meanwhile for a coordinator that is being replaced.

        Raises GroupError if consumers that Kafka coordinates are in the group, ClusterStateError if brokers refuse for
        another reason, such as an ACL, and BrokersUnavailable without an answer: whether the offsets were committed is
        unknown.
        """
        for some in commit_requests(offsets):
            self._commit([KafkaTopicPartition(*tp, offset) for tp, offset in some.items()])

    def _commit(self, positions: _Places) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._attempt(positions, min(_ATTEMPT_S, max(_LOOK_S, deadline - time.monotonic())))
                return
            except BrokersUnavailable:
                if time.monotonic() + _PAUSE_S > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _attempt(self, positions: _Places, timeout_s: float) -> None:
        """Commit by an admin client; a failed one is replaced, since it would keep asking the old coordinator.

        A consumer's own commit has no timeout: librdkafka repeats it for minutes while the coordinator does not answer, and
        closing the consumer waits for that, too.
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

    def _alter(self, positions: _Places, timeout_s: float) -> _Places:
        """The brokers' answers for each partition; raises before the timeout if the brokers refuse the connection."""
        if self._admin is None:
            self._admin = AdminClient({**self._admin_config, "error_cb": self._reports}, logger=librdkafka_logger())
        request = [ConsumerGroupTopicPartitions(self._group, positions)]
        (future,) = self._admin.alter_consumer_group_offsets(request, request_timeout=timeout_s).values()
        while True:
            try:
                return list(future.result(_LOOK_S).topic_partitions)
            except FutureTimeoutError:
                self._poll()
                refusal = self._reports.refusal(f"committing the offsets of group {self._group}", REFUSED_FOR_S)
                if refusal is not None:
                    raise refusal from None

    def _close_admin(self) -> None:
        """Close the admin client, on this thread: the garbage collector, on the client's own, would abort the process."""
        if self._admin is not None:
            self._admin.__exit__(None, None, None)
            self._admin = None

    def _ask(self, consumer: Consumer, asked: _Places, left_s: float) -> _Places:
        """The committed offsets; requested again after some seconds, unless the brokers have refused the connection.

        A coordinator that is being replaced answers at once that it is none: its successor is waited for.
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
        """Have the clients call back with their reports."""
        for client in (self._consumer, self._admin):
            if client is not None:
                client.poll(0)

    def _require_success(self, doing: str, answers: _Places) -> None:
        for answer in answers:
            if answer.error is not None:
                if answer.error.code() in ACTIVE_CODES:
                    raise group_active(self._group, f"{doing} offsets of group {self._group}")
                place = f"{answer.topic}-{answer.partition}"
                raise from_kafka(answer.error, f"{doing} the offset of group {self._group} in {place}")


def _raise_denial(consumer: Consumer) -> None:
    """Handle reports; raise the coordinator's refusal of the group, which librdkafka reports like a record, and asks on."""
    while (reported := consumer.poll(0)) is not None:
        error = reported.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)
