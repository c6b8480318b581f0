"""Requests to the brokers: metadata, offsets of logs, ids of topics, configurations."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark_zkafka.brokers.errors import UNKNOWN_TOPIC_CODES, broker_error
from pyspark_zkafka.brokers.properties import client_key, shared_properties
from pyspark_zkafka.brokers.requests import BrokerRequests, BrokerRoute, Call, ControllerRoute, LeaderRoute
from pyspark_zkafka.conditions import (
    BROKERS_UNAVAILABLE,
    DELETION_DISABLED,
    INVALID_TOPIC_CONFIG,
    TOPIC_REFUSED,
)
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kept import ClientPool
from pyspark_zkafka.model.error_codes import NONE, ErrorCode, name_of
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, HIGH_WATERMARK, AtTimestamp, Position
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.wire import offset_messages
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.metadata_messages import Metadata, TopicMetadata
from pyspark_zkafka.wire.offset_messages import (
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    AskedEpoch,
    AskedOffset,
    EpochEndOffset,
    ListedOffset,
    epoch_ends_request,
    list_offsets_request,
    read_epoch_ends,
    read_list_offsets,
)
from pyspark_zkafka.wire.protocol import Api, ConnectionLost, Reader, Request, UnknownVersion, answer_of
from pyspark_zkafka.wire.topic_messages import (
    ALTER_CONFIGS,
    BROKER,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    TOPIC,
    Outcome,
    create_partitions_request,
    create_topic_request,
    delete_topics_request,
    describe_config_request,
    read_alter_config,
    read_describe_config,
    read_outcomes,
    validate_config_request,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from pyspark_zkafka.retries import Deadline

_INVALID_CONFIG_CODES = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION})
_REFUSED_TOPIC_CODES = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
    }
)
_CHANGED = _REFUSED_TOPIC_CODES | _INVALID_CONFIG_CODES | {ErrorCode.TOPIC_DELETION_DISABLED, ErrorCode.NOT_CONTROLLER}
_PAUSE_S = 0.1
_MOST_PARTITIONS = 10_000
_FIRST_WITH_TIMESTAMPS = 1
"""The first version of ListOffsets that finds records by their time (Kafka 0.10.1)."""
_WITHOUT_TIMESTAMPS = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
# Before Kafka 2.3, ACLs allow OffsetForLeaderEpoch to brokers only.
_NOT_ALLOWED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})

_idle: ClientPool[KafkaAdmin] = ClientPool()


class LogPosition(NamedTuple):
    """An offset in a log, and the leader epoch of the log when it contained all records before the offset."""

    offset: int
    leader_epoch: int


class _Config(NamedTuple):
    error: int
    values: Mapping[str, str | None]


class KafkaAdmin:
    """Requests to brokers, in a ``with`` block. Not pickle-safe, and only for the process that created it.

    Uses only the `properties` of the connection. ``socket.timeout.ms`` (30 s by default) limits each method. With
    `read_committed`, the latest offset is the last stable offset.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any], *, read_committed: bool = False) -> None:
        self._requests = BrokerRequests(bootstrap_servers, properties)
        self._leaders = LeaderRoute(self._requests)
        self._controller = ControllerRoute(self._requests)
        self._protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
        self._read_committed = read_committed

    @classmethod
    def of(cls, connection: ConnectionOptions, bootstrap_servers: str | None = None) -> Self:
        """The client for a connection. `bootstrap_servers` take precedence over the connection's."""
        servers = bootstrap_servers or connection.bootstrap_servers or ""
        return cls(servers, connection.kafka, read_committed=connection.read_committed)

    def __enter__(self) -> Self:
        self._requests.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._requests.__exit__(*exc)

    @property
    def servers(self) -> str:
        """The bootstrap servers and the brokers of the last metadata. Safe to call from any thread."""
        return self._requests.known_servers

    def follow(self, servers: str) -> None:
        """Replace the bootstrap servers if one has an unknown address: all brokers that the client knows may be gone."""
        self._requests.follow(servers)

    def forget_leaders(self, topics: Collection[str]) -> None:
        """Look up the leaders of topics again."""
        self._leaders.forget_topics(topics)

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted. Blocks for a request."""
        return sorted(filter(is_topic_name, self._requests.metadata(None).topics))

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Make a snapshot of the existing topics among `topics`, or of all topics. Blocks for a metadata request.

        The snapshot has no leader epochs (-1), and one endpoint per broker: the listener that answered.
        """
        found = self._described(topics)
        return cluster_snapshot(found, self._protocol)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids of the existing topics. Each id is None before Kafka 2.8, which introduced topic ids."""
        return {name: topic_id(topic) for name, topic in self._described(topics).topics.items()}

    def _described(self, topics: Collection[str] | None) -> Metadata:
        """Request metadata of the existing topics among `topics`, or of all topics. Raises the error of a named topic."""
        names = None if topics is None else sorted(filter(is_topic_name, topics))
        found = self._requests.metadata(names)
        self._leaders.learn(found.topics)
        for name, topic in found.topics.items():
            if names is not None and topic.error not in (NONE, *UNKNOWN_TOPIC_CODES):
                raise broker_error(topic.error, f"describing topic {name} at {self._requests.servers}")
        existing = {name: topic for name, topic in found.topics.items() if topic.error == NONE and is_topic_name(name)}
        return Metadata(found.brokers, existing, found.controller, found.cluster_id)

    def check_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Have a broker (Kafka 0.11 or later) validate a topic's configuration, without changing it.

        Raises OptionError if a name or a value is wrong, and ZKafkaError if no broker answers, or if the broker does not
        know the request.
        """
        doing = f"validating the configuration of {topic}"
        self._change(
            topic,
            doing,
            lambda c: validate_config_request(c.version(ALTER_CONFIGS), TOPIC, topic, config),
            read_alter_config,
        )

    def create_topic(
        self, topic: str, partitions: int, replication: int, config: Mapping[str, str], *, validate_only: bool
    ) -> None:
        """Create a topic, or only have the controller check it. Needs Kafka 0.10.2 or later.

        Since Kafka 2.4, -1 partitions or replicas select the brokers' default. Raises OptionError if a setting is wrong,
        and ZKafkaError if the controller refuses, or does not answer.
        """

        def make(connection: Connection) -> Request:
            version = connection.version(CREATE_TOPICS)
            return create_topic_request(
                version, topic, partitions, replication, config, self._timeout_ms, validate_only=validate_only
            )

        self._change(topic, f"creating topic {topic}", make, _outcome_of(topic, CREATE_TOPICS))

    def add_partitions(self, topic: str, total: int, *, validate_only: bool) -> None:
        """Raise the number of a topic's partitions, or only have the controller check it. Needs Kafka 1.0 or later.

        Raises ZKafkaError if the controller refuses, or does not answer.
        """

        def make(connection: Connection) -> Request:
            version = connection.version(CREATE_PARTITIONS)
            return create_partitions_request(version, topic, total, self._timeout_ms, validate_only=validate_only)

        self._change(topic, f"adding partitions to topic {topic}", make, _outcome_of(topic, CREATE_PARTITIONS))

    def delete_topic(self, topic: str) -> None:
        """Request the deletion of a topic, which the brokers carry out later. Needs Kafka 0.10.1 or later.

        Raises ZKafkaError if the controller refuses, or does not answer.
        """

        def make(connection: Connection) -> Request:
            return delete_topics_request(connection.version(DELETE_TOPICS), [topic], self._timeout_ms)

        self._change(topic, f"deleting topic {topic}", make, _outcome_of(topic, DELETE_TOPICS))

    @property
    def _timeout_ms(self) -> int:
        return int(self._requests.deadline().left_s * 1000)

    def _change(
        self, topic: str, doing: str, make: Callable[[Connection], Request], read: Callable[[Reader], Outcome]
    ) -> None:
        call: Call[str, Outcome] = Call(
            lambda topic: f"{doing} at {self._requests.servers}",
            lambda connection, topics: make(connection),
            lambda response, topics: {topic: read(response)},
            _CHANGED,
        )
        outcome = self._changed(topic, call, self._requests.deadline())
        if outcome.error == NONE:
            return
        if outcome.error == ErrorCode.TOPIC_DELETION_DISABLED:
            raise DELETION_DISABLED(
                f"The controller refuses {doing}, because delete.topic.enable is false; set it to true on all brokers, "
                "and restart them"
            )
        words = (outcome.message or "").rstrip(".")
        if outcome.error in _REFUSED_TOPIC_CODES and read is not read_alter_config:
            text = f"The controller refuses {doing}: {words} ({name_of(outcome.error)})"
            raise TOPIC_REFUSED(f"{text}; nothing was changed, correct the request")
        raise INVALID_TOPIC_CONFIG(f"The configuration of {topic} is not valid: {words}; correct the name or the value")

    def _changed(self, topic: str, call: Call[str, Outcome], deadline: Deadline) -> Outcome:
        """Request a change from the controller, again after a retriable error, such as a controller that has moved.

        Does not repeat a request without an answer: if it was carried out, the controller would refuse the repetition.
        """
        while True:
            found, failed = self._requests.each([topic], self._controller, call, deadline, repeats=False)
            error = failed.get(topic)
            if error is None and found[topic].error == ErrorCode.NOT_CONTROLLER:
                error = broker_error(ErrorCode.NOT_CONTROLLER, call.doing(topic))
            if error is None:
                return found[topic]
            if isinstance(error.__cause__, ConnectionLost):
                text = f"{error.message}; see whether it was carried out nevertheless, before you repeat it"
                raise BROKERS_UNAVAILABLE(text) from error
            if not error.retriable or deadline.left_s < _PAUSE_S:
                raise error
            self._controller.forget(topic)
            time.sleep(_PAUSE_S)

    def broker_config(self, broker: int, name: str) -> str | None:
        """The value of a broker's setting, or None if the broker has no such setting. Needs Kafka 0.11 or later."""

        def make(connection: Connection, brokers: Sequence[int]) -> Request:
            return describe_config_request(connection.version(DESCRIBE_CONFIGS), BROKER, str(brokers[0]), name)

        def read(response: Reader, brokers: Sequence[int]) -> dict[int, _Config]:
            outcome, values = read_describe_config(response)
            return {brokers[0]: _Config(outcome.error, values)}

        doing = f"describing the configuration of broker {broker} at {self._requests.servers}"
        call = Call(lambda broker: doing, make, read, most=1)
        found, failed = self._requests.each([broker], BrokerRoute(self._requests), call)
        for error in failed.values():
            raise error
        return found[broker].values.get(name)

    def list_offsets(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """The offset at each position. -1 if there is no record at or after a timestamp.

        Also -1 if the topic has a message format without timestamps, from before Kafka 0.10, as in Java's consumer.

        Asks all leaders at the same time. `timeout_s` can shorten the time-out of a request.
        """
        found, failed = self.list_offsets_each(positions, timeout_s)
        for error in failed.values():
            if error.condition != BROKERS_UNAVAILABLE.name:
                raise error
            unanswered = [str(tp) for tp in sorted(failed) if failed[tp].condition == error.condition]
            raise BROKERS_UNAVAILABLE(f"The leaders of {', '.join(unanswered)} did not answer: {error.message}") from error
        return found

    def high_watermarks(
        self, partitions: Collection[TopicPartition], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """The ends of logs, including open transactions. Empty, without a request, if this client reads uncommitted."""
        if not self._read_committed:
            return {}
        return self.list_offsets(dict.fromkeys(partitions, HIGH_WATERMARK), timeout_s)

    def list_offsets_each(
        self,
        positions: Mapping[TopicPartition, Position],
        timeout_s: float = math.inf,
        epochs: dict[TopicPartition, int] | None = None,
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        """The offset at each position, and the error for each partition whose leader did not answer.

        `timeout_s` can shorten the time-out of a request. `epochs` receives the leader epochs of logs, since Kafka 2.1.
        """
        deadline = self._requests.deadline(timeout_s)
        found: dict[TopicPartition, ListedOffset] = {}
        failed: dict[TopicPartition, ZKafkaError] = {}
        lookups = self._lookups(positions)
        for number, (call, partitions) in enumerate(lookups):
            share = self._requests.deadline(deadline.left_s / (len(lookups) - number))  # a silent leader uses up its share
            listed, unlisted = self._requests.each(partitions, self._leaders, call, share)
            found |= listed
            failed |= unlisted
        if epochs is not None:
            epochs |= {tp: answer.epoch for tp, answer in found.items() if answer.epoch >= 0}
        return {tp: -1 if found[tp].error else found[tp].offset for tp in positions if tp in found}, failed

    def find_truncated(
        self,
        positions: Mapping[TopicPartition, LogPosition],
        epochs: Mapping[TopicPartition, int],
        timeout_s: float = math.inf,
    ) -> tuple[dict[TopicPartition, EpochEndOffset], set[TopicPartition]]:
        """Find the logs that were truncated below their position, and the partitions without an answer.

        Each truncated log comes with the end of the position's epoch in the leader's log.

        `epochs` are the present epochs of the leaders. A log without epochs is not truncated: it has an old message format,
        or belongs to a new topic of the same name. Brokers before Kafka 2.3 may refuse to answer consumers.
        """
        asked = {tp: AskedEpoch(epochs[tp], position.leader_epoch) for tp, position in positions.items()}

        def make(connection: Connection, partitions: Sequence[TopicPartition]) -> Request:
            return epoch_ends_request(connection.version(OFFSET_FOR_LEADER_EPOCH), {tp: asked[tp] for tp in partitions})

        def read(response: Reader, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, EpochEndOffset]:
            return read_epoch_ends(response)

        call = Call(lambda tp: f"looking for truncation of {tp}", make, read, _NOT_ALLOWED, _MOST_PARTITIONS)
        found, failed = self._requests.each(positions, self._leaders, call, self._requests.deadline(timeout_s))
        ends = {tp: end for tp, end in found.items() if end.error == NONE and 0 <= end.offset < positions[tp].offset}
        return ends, set(failed)

    def _lookups(
        self, positions: Mapping[TopicPartition, Position]
    ) -> list[tuple[Call[TopicPartition, ListedOffset], list[TopicPartition]]]:
        """Divide positions into calls: under read_committed, under read_uncommitted, and for timestamps."""
        stable, ends, times = list[TopicPartition](), list[TopicPartition](), list[TopicPartition]()
        for tp, position in positions.items():
            kind = times if isinstance(position, AtTimestamp) else ends
            (stable if kind is ends and self._read_committed and position != HIGH_WATERMARK else kind).append(tp)
        timestamps = {position: AskedOffset(_timestamp(position)) for position in set(positions.values())}
        asked = {tp: timestamps[position] for tp, position in positions.items()}
        calls = (
            (_listing(asked, read_committed=True), stable),
            (_listing(asked, read_committed=False), ends),
            (_listing(asked, read_committed=self._read_committed, oldest=_FIRST_WITH_TIMESTAMPS), times),
        )
        return [(call, partitions) for call, partitions in calls if partitions]


def _timestamp(position: Position) -> int:
    if isinstance(position, AtTimestamp):
        return position.timestamp_ms
    return offset_messages.EARLIEST if position == EARLIEST else offset_messages.LATEST


def _listing(
    asked: Mapping[TopicPartition, AskedOffset], *, read_committed: bool, oldest: int = 0
) -> Call[TopicPartition, ListedOffset]:
    def make(connection: Connection, partitions: Sequence[TopicPartition]) -> Request:
        version = connection.version(LIST_OFFSETS)
        if version < oldest:
            raise UnknownVersion(
                "the leader does not find records by their time, as Kafka does from 0.10.1 on; use offsets, earliest or "
                "latest instead of times"
            )
        return list_offsets_request(version, {tp: asked[tp] for tp in partitions}, read_committed=read_committed)

    def read(response: Reader, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, ListedOffset]:
        return read_list_offsets(response)

    return Call(lambda tp: f"listing the offsets of {tp}", make, read, _WITHOUT_TIMESTAMPS, _MOST_PARTITIONS)


def _outcome_of(topic: str, api: Api) -> Callable[[Reader], Outcome]:
    def read(response: Reader) -> Outcome:
        return answer_of(read_outcomes(response, api), topic)

    return read


def lease_admin(bootstrap_servers: str, properties: Mapping[str, Any]) -> AbstractContextManager[KafkaAdmin]:
    """Lease an open `KafkaAdmin`: possibly a client that was used some seconds ago. See `ClientPool`."""
    key = client_key({**shared_properties(properties), "bootstrap.servers": bootstrap_servers})
    return _idle.lease(key, lambda: KafkaAdmin(bootstrap_servers, properties))


def cluster_snapshot(found: Metadata, security_protocol: str) -> ClusterSnapshot:
    """Make a snapshot from metadata of topics that exist."""
    return ClusterSnapshot(
        brokers={
            number: Broker(number, (Endpoint(security_protocol, security_protocol, node.host, node.port),), node.rack)
            for number, node in sorted(found.brokers.items())
        },
        topics={name: _topic(name, topic) for name, topic in sorted(found.topics.items())},
        states={
            TopicPartition(name, number): PartitionState(partition.leader, -1, partition.isr)
            for name, topic in sorted(found.topics.items())
            for number, partition in sorted(topic.partitions.items())
        },
        controller=found.controller,
        cluster_id=found.cluster_id,
    )


def _topic(name: str, found: TopicMetadata) -> Topic:
    partitions = {number: partition.replicas for number, partition in sorted(found.partitions.items())}
    return Topic(name, partitions, topic_id(found), None)


def topic_id(topic: TopicMetadata) -> str | None:
    """The id of a topic, as Kafka writes it: base64, URL-safe, without padding. None before Kafka 2.8."""
    return None if topic.id is None else base64.urlsafe_b64encode(topic.id.bytes).rstrip(b"=").decode()
