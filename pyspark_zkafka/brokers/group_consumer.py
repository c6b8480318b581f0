"""librdkafka's consumer as a member of a group that Kafka coordinates. It is assigned partitions, and fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.clients import make_consumer
from pyspark_zkafka.brokers.dialects import with_dialect
from pyspark_zkafka.brokers.errors import REFUSED_FOR_S
from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports, from_kafka, kafka_errors
from pyspark_zkafka.brokers.properties import lookup_properties
from pyspark_zkafka.conditions import (
    GROUP_FULL,
    GROUP_PROTOCOL_UNSUPPORTED,
    INCONSISTENT_GROUP_PROTOCOL,
    INSTANCE_ID_TAKEN,
    INVALID_OPTION,
)
from pyspark_zkafka.errors import GroupError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.client_properties import load_librdkafka
from pyspark_zkafka.options.values import ConnectionOptions, KafkaGroupOptions
from pyspark_zkafka.threads import start_thread

CommitStatus = Literal["done", "again", "fenced"]

_REBALANCING_CODES = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH}
)
# After a fatal error, librdkafka refuses all commits. Only `poll` reports the error itself.
_FENCED_CODES = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH, KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}
)
_INSTANCE_CODES = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID})
_UNSUPPORTED_CODES = frozenset({KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE})
# With KIP-848, brokers answer GROUP_ID_NOT_FOUND for a group with members of another protocol that they do not convert.
_INCONSISTENT_CODES = frozenset(
    {KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.UNSUPPORTED_ASSIGNOR, KafkaError.GROUP_ID_NOT_FOUND}
)
_FATAL_CODES = {KafkaError(code).str(): code for code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.GROUP_MAX_SIZE_REACHED)}
"""Codes that appear only in the text of a fatal error, by their text."""
_PASSING_CODES = frozenset(
    {
        *_REBALANCING_CODES,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._PARTITION_EOF,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
_MOST_EVENTS = 100
_METADATA_S = 1.0
_HEARTBEAT_MS = 3000


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """The coordinator has assigned more partitions."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The coordinator revokes partitions, and waits for the callback to return."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Expelled:
    """The coordinator has expelled the member: other members may own its partitions already."""


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The coordinator has answered a commit of `offsets`.

    `status` is "again" if the member must first rejoin, or find its coordinator, and "fenced" if it is no longer a member.
    `error` is the reason, or the error of a partition whose offset was refused.
    """

    offsets: Mapping[TopicPartition, int]
    status: CommitStatus = "done"
    error: ZKafkaError | None = None


GroupEvent = PartitionsAssigned | Revoked | Expelled | CommitAnswer


class GroupConsumer:
    """A member of a group, between `open` and `close`. One thread calls all methods.

    `on_event` is called on that thread, from within `poll` or `commit`. librdkafka blocks calls of other threads while
    `poll` runs a callback. Assigned partitions are paused: no record is fetched.
    """

    def __init__(
        self,
        servers: str,
        connection: ConnectionOptions,
        group: str,
        options: KafkaGroupOptions,
        on_event: Callable[[GroupEvent], None],
    ) -> None:
        self._properties = group_properties(servers, connection, group, options)
        self._group = group
        self._options = options
        self._on_event = on_event
        self._reports = ErrorReports()
        self._consumer: Consumer | None = None
        self._has_polled_within = False
        self._is_member = False
        self._fatal: ZKafkaError | None = None

    def open(self) -> None:
        """Create the client, which connects in the background. Raises ZKafkaError if librdkafka refuses the properties."""
        self._consumer = make_consumer({**self._properties, "on_commit": self._on_commit}, self._reports)

    def close(self) -> None:
        """Leave the group without events, unless the member is static. Blocks for long without a coordinator."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        # librdkafka's close does not make a cooperative member without partitions leave (2.16.1): the other members would
        # wait for its session to expire.
        try:
            if self._options.is_incremental and self._options.instance_id is None:
                with suppress(KafkaException):  # a fatal error has ended the membership
                    if not consumer.assignment():
                        consumer.unsubscribe()
        finally:
            consumer.close()

    def discard(self) -> None:
        """Close in the background."""
        start_thread(self.close, f"zkafka-closing-{self._group}")

    def subscribe(self, topics: Collection[str]) -> None:
        """Have the next calls of `poll` join the group, rejoin it with other topics, or leave it if there are none."""
        try:
            if not topics:
                self._client.unsubscribe()
                return
            self._client.subscribe(
                sorted(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException as error:
            raise membership_error(error.args[0], self._group, self._options) from error

    def poll(self) -> ZKafkaError | None:
        """Report events, and return the last error of the membership, if any. Does not wait.

        librdkafka reports a fatal error once, perhaps to `poll_within`. This method returns it from then on.
        """
        found: ZKafkaError | None = None
        for _ in range(_MOST_EVENTS):
            try:
                message = self._client.poll(0)
            except KafkaException as error:
                return membership_error(error.args[0], self._group, self._options)
            if message is None:
                break
            problem = message.error()
            # Some passing errors concern paused partitions and do not matter. librdkafka handles the rest by rejoining.
            if problem is not None and (problem.fatal() or problem.code() not in _PASSING_CODES):
                found = membership_error(problem, self._group, self._options)
                self._fatal = self._fatal or (found if _is_fatal(problem) else None)
        if found is None and not self._is_member:
            found = self._reports.refusal(f"joining group {self._group}", REFUSED_FOR_S)
        return self._fatal or found

    def poll_within(self) -> None:
        """Poll within a callback of `poll`, for the answers to commits.

        confluent-kafka's outer call loses track of its thread, and would abort the process with its next callback. The
        callback therefore makes the outer call return: see `_yield`.
        """
        if load_librdkafka() is not None:
            self._has_polled_within = True
            self.poll()

    def _yield(self) -> None:
        """Make the outer call of `poll` return if the callback has polled. Called at the end of the callback."""
        library = load_librdkafka()
        if self._has_polled_within and library is not None:
            library.rd_kafka_yield(None)
        self._has_polled_within = False

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send a commit with the member's generation or epoch. A `CommitAnswer` follows."""
        positions = [KafkaTopicPartition(*tp, offset) for tp, offset in offsets.items()]
        try:
            self._client.commit(offsets=positions, asynchronous=True)
        except KafkaException as error:
            self._on_event(CommitAnswer(offsets, *commit_status(error.args[0], self._group, self._options)))

    def topic_names(self) -> list[str]:
        """The names of all topics. Blocks for a request, for at most a second. Raises ZKafkaError without an answer."""
        with kafka_errors("listing topics"):
            return list(self._client.list_topics(timeout=_METADATA_S).topics)

    @property
    def member_id(self) -> str:
        """The member's id, chosen by the coordinator, or by the client in the consumer protocol. Empty until then."""
        return self._client.memberid() or ""

    @property
    def _client(self) -> Consumer:
        if self._consumer is None:
            raise RuntimeError("GroupConsumer is used before open, or after close")
        return self._consumer

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        # Given offsets, librdkafka does not fetch the group's offsets. The partitions are paused, so any offset will do.
        positions = [KafkaTopicPartition(p.topic, p.partition, 0) for p in partitions]
        (consumer.incremental_assign if self._options.is_incremental else consumer.assign)(positions)
        consumer.pause(positions)
        if self._consumer is not None:
            self._is_member = True
            self._on_event(PartitionsAssigned([TopicPartition(p.topic, p.partition) for p in partitions]))

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        try:
            if self._consumer is not None:
                self._on_event(Revoked([TopicPartition(p.topic, p.partition) for p in partitions]))
            self._unassign(consumer, partitions)
        finally:  # confluent-kafka assigns nothing after an exception, and its outer call raises the exception
            self._yield()

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        if self._consumer is not None:
            self._is_member = False
            self._on_event(Expelled())
        self._unassign(consumer, partitions)

    def _unassign(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        if self._options.is_incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _on_commit(self, error: KafkaError | None, partitions: list[KafkaTopicPartition]) -> None:
        if self._consumer is None:
            return
        offsets = {TopicPartition(p.topic, p.partition): p.offset for p in partitions}
        failed = error or next((p.error for p in partitions if p.error is not None), None)
        outcome = () if failed is None else commit_status(failed, self._group, self._options)
        self._on_event(CommitAnswer(offsets, *outcome))


def commit_status(error: KafkaError, group: str, options: KafkaGroupOptions) -> tuple[CommitStatus, ZKafkaError]:
    """The status of a failed commit, and our error."""
    code = error.code()
    if code in _FENCED_CODES:
        return "fenced", membership_error(error, group, options)
    ours = from_kafka(error, f"committing the offsets of group {group}")
    return ("again" if code in _REBALANCING_CODES or ours.retriable else "done"), ours


def membership_error(error: KafkaError, group: str, options: KafkaGroupOptions) -> ZKafkaError:
    """Translate an error of a membership. A fatal error may carry only the generic code `_FATAL`: read its text."""
    is_fatal = _is_fatal(error)
    text = f"joining group {group}: {error.name()} ({error.str()})"
    code = next((code for name, code in _FATAL_CODES.items() if is_fatal and name in error.str()), error.code())
    if code in _INCONSISTENT_CODES:
        return INCONSISTENT_GROUP_PROTOCOL(
            f"{text}; the other members of the group have another partition.assignment.strategy, or another kind of "
            "protocol. Set partition.assignment.strategy and group.protocol to theirs",
        )
    if code == KafkaError.GROUP_MAX_SIZE_REACHED:
        limit = "group.consumer.max.size" if options.protocol == "consumer" else "group.max.size"
        return GROUP_FULL(f"{text}; stop another member, or raise {limit} of the brokers")
    if code == KafkaError.INVALID_SESSION_TIMEOUT:
        return INVALID_OPTION(
            f"{text}; session.timeout.ms is {options.session_timeout_ms}. Set session.timeout.ms between the brokers' "
            "group.min.session.timeout.ms and group.max.session.timeout.ms (6000 and 1800000 by default)",
        )
    if code in _INSTANCE_CODES or (is_fatal and "instance" in error.str()):
        return INSTANCE_ID_TAKEN(
            f"{text}; another member of the group has the group.instance.id {options.instance_id}. Give each "
            "member its own, or wait until a dead member's session has expired",
        )
    if code in _UNSUPPORTED_CODES or (is_fatal and options.protocol == "consumer"):
        return unsupported_protocol(group, text)
    return from_kafka(error, f"joining group {group}")


def _is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal() or error.code() == KafkaError._FATAL)


def unsupported_protocol(group: str, found: str) -> GroupError:
    """The error for brokers without KIP-848, or with KIP-848 switched off."""
    return GROUP_PROTOCOL_UNSUPPORTED(
        f"{found}; group.protocol=consumer needs brokers from 4.0 on, with the feature group.version at 1 or more "
        f"(kafka-features upgrade). Set group.protocol=classic for group {group}",
    )


def group_properties(
    servers: str, connection: ConnectionOptions, group: str, options: KafkaGroupOptions
) -> dict[str, str | int | float | bool]:
    """librdkafka's properties of a member that reads nothing."""
    properties = with_dialect(lookup_properties(connection.kafka) | {"bootstrap.servers": servers}) | {
        "group.id": group,
        "group.protocol": options.protocol,
        "max.poll.interval.ms": options.max_poll_interval_ms,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        # A fetch may be under way before a partition is paused.
        "fetch.message.max.bytes": 1,
    }
    # The classic protocol finds new partitions after this time.
    properties.setdefault("topic.metadata.refresh.interval.ms", 5000)
    if connection.client_rack is not None:
        properties["client.rack"] = connection.client_rack
    if options.instance_id is not None:
        properties["group.instance.id"] = options.instance_id
    if options.protocol == "classic":
        properties["partition.assignment.strategy"] = options.strategy
        properties["session.timeout.ms"] = options.session_timeout_ms
        properties["heartbeat.interval.ms"] = min(_HEARTBEAT_MS, max(1, options.session_timeout_ms // 3))
    return properties
