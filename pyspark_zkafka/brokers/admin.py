"""Requests to the brokers: metadata, offsets of logs, ids of topics, configurations."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo, NewPartitions, NewTopic

from pyspark_zkafka.brokers.admin_requests import PATIENCE_S, AdminRequests
from pyspark_zkafka.brokers.clients import INTRODUCTION_S, MessageClient, client_key, shared_properties
from pyspark_zkafka.brokers.librdkafka_errors import REFUSED_FOR_S, UNKNOWN_TOPIC_CODES, from_kafka
from pyspark_zkafka.brokers.log_lookups import (
    DEFAULT_SIZES,
    LookupSizes,
    find_watermarks,
    lookup_client,
    offset_requests,
)
from pyspark_zkafka.client_pool import ClientPool
from pyspark_zkafka.conditions import (
    BROKERS_UNAVAILABLE,
    DELETION_DISABLED,
    INVALID_TOPIC_CONFIG,
    KAFKA_ERROR,
    TOPIC_REFUSED,
)
from pyspark_zkafka.errors import NoLeader, OptionError, UnknownTopic, ZKafkaError
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, HIGH_WATERMARK, LATEST, AtTimestamp, Position
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.retries import may_succeed_later

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger(__name__)

_PAUSE_S = 0.1
_INVALID_CONFIG_CODES = frozenset({KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION})
_REFUSED_TOPIC_CODES = frozenset(
    {
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.REASSIGNMENT_IN_PROGRESS,
    }
)
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_idle: ClientPool[KafkaAdmin] = ClientPool()


class KafkaAdmin(AdminRequests):
    """An AdminClient with typed results. Not pickle-safe, and only for the process that created it.

    `properties` are as for `AdminRequests`. With `read_committed` the latest offset is the last stable one.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        *,
        read_committed: bool = False,
        sizes: LookupSizes = DEFAULT_SIZES,
    ) -> None:
        super().__init__(bootstrap_servers, properties)
        self._read_committed = read_committed
        self._sizes = sizes
        self._lookup: MessageClient | None = None
        self._all_answered = True

    @classmethod
    def of(cls, connection: ConnectionOptions, bootstrap_servers: str | None = None) -> Self:
        """The client for a connection. `bootstrap_servers` take precedence over the connection's."""
        servers = bootstrap_servers or connection.bootstrap_servers or ""
        return cls(servers, connection.kafka, read_committed=connection.read_committed)

    def __exit__(self, *exc: object) -> None:
        self._close_lookup()
        super().__exit__(*exc)

    def _close_lookup(self) -> None:
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            lookup.__exit__()

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted. Blocks for a request."""
        self._begin_request()
        return sorted(filter(is_topic_name, self._metadata().topics))

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Make a snapshot from the brokers' metadata, with the existing topics of `topics`.

        Metadata has no leader epoch (-1), and one endpoint per broker, of the listener that answered. It has the racks of
        brokers with a replica of `topics`, or of any topic if `topics` is empty.
        """
        self._begin_request()
        patient_until = time.monotonic() + PATIENCE_S
        requested = None if topics is None else sorted(topics)
        while True:
            # librdkafka cannot request a name of more than 512 characters.
            cluster = self._metadata(*list(filter(is_topic_name, requested or ()))[:1])
            if requested is None:
                asked = sorted(filter(is_topic_name, cluster.topics))
            else:
                asked = requested or covering_topics(cluster)
            described = self._describe(asked)
            if not unknown_topics(cluster, described, asked) or time.monotonic() > patient_until:
                protocol = str(self._config.get("security.protocol", "PLAINTEXT")).upper()
                return described_snapshot(cluster, described, protocol, asked if requested is None else requested)
            self._replace_client()  # the controller has just started: librdkafka has forgotten all brokers
            self._admin().poll(_PAUSE_S)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids of the topics that exist. None before Kafka 2.8, which introduced topic ids."""
        self._begin_request()
        return {name: topic_id(found) for name, found in self._describe(sorted(topics)).items()}

    def check_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Have a broker (Kafka 0.11 or later) validate a topic's configuration, without changing it.

        Raises OptionError if a name or a value is wrong, and ZKafkaError if no broker answers, or it does not know the
        request.
        """
        self._begin_request()
        doing, resource = f"validating the configuration of {topic}", ConfigResource("topic", topic, dict(config))
        with warnings.catch_warnings():
            # Brokers before 2.3 do not know the request that replaced this one.
            warnings.simplefilter("ignore", DeprecationWarning)
            futures = self._admin().alter_configs([resource], validate_only=True, request_timeout=self._timeout_s)
        try:
            self._result(doing, futures[resource])
        except KafkaException as error:
            raise invalid_config(topic, error.args[0]) or self._error(error, doing) from error

    def create_topic(
        self, topic: str, partitions: int, replication: int, config: Mapping[str, str], *, validate_only: bool
    ) -> None:
        """Create a topic, or only have the controller check it. Needs Kafka 0.10.2 or later.

        -1 partitions or replicas are the brokers' defaults, since Kafka 2.4. Raises OptionError if a setting is wrong, and
        ZKafkaError if the controller refuses, or does not answer.
        """
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=dict(config))
        self._change_topic(
            topic,
            f"creating topic {topic}",
            lambda client: client.create_topics([new], request_timeout=self._timeout_s, validate_only=validate_only),
        )

    def add_partitions(self, topic: str, total: int, *, validate_only: bool) -> None:
        """Raise the number of a topic's partitions, or only have the controller check it. Needs Kafka 1.0 or later.

        Raises ZKafkaError if the controller refuses, or does not answer.
        """
        new = NewPartitions(topic, total)
        self._change_topic(
            topic,
            f"adding partitions to topic {topic}",
            lambda client: client.create_partitions([new], request_timeout=self._timeout_s, validate_only=validate_only),
        )

    def delete_topic(self, topic: str) -> None:
        """Request the deletion of a topic, which the brokers carry out later. Needs Kafka 0.10.1 or later.

        Raises ZKafkaError if the controller refuses, or does not answer.
        """
        self._change_topic(
            topic,
            f"deleting topic {topic}",
            lambda client: client.delete_topics([topic], request_timeout=self._timeout_s),
        )

    def _change_topic(self, topic: str, doing: str, ask: Callable[[AdminClient], Mapping[str, Future[Any]]]) -> None:
        self._begin_request()
        try:
            self._result(doing, ask(self._admin())[topic])
        except KafkaException as error:
            found = error.args[0]
            if found.code() == KafkaError.TOPIC_DELETION_DISABLED:
                raise DELETION_DISABLED(
                    f"The controller refuses {doing}, because delete.topic.enable is false; set it to true on all brokers, "
                    "and restart them"
                ) from error
            if found.code() in _REFUSED_TOPIC_CODES:
                text = f"The controller refuses {doing}: {found.str().rstrip('.')} ({found.name()})"
                raise TOPIC_REFUSED(f"{text}; nothing was changed, correct the request") from error
            raise invalid_config(topic, found) or self._error(error, doing) from error

    def broker_config(self, broker: int, name: str) -> str | None:
        """The value of a broker's setting, or None if it does not exist. Needs Kafka 0.11 or later."""
        self._begin_request()
        resource = ConfigResource("broker", str(broker))
        future = self._admin().describe_configs([resource], request_timeout=self._timeout_s)[resource]
        found = self._answer(f"describing the configuration of broker {broker}", future).get(name)
        return None if found is None else found.value

    def list_offsets(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """The offset at each position. -1 if there is no record at or after a timestamp.

        -1 as well if the topic's format, of before Kafka 0.10, has no timestamps. Java's consumer does the same.

        Sends one request to each leader, or one per 1,000 partitions, all at the same time. `timeout_s` can shorten the
        time-out of a request.
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
        """The ends of logs, including open transactions. Empty, without a request, unless this client reads committed."""
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

        Partitions are requested again if librdkafka may not know their leader: see `refresh_metadata`. `timeout_s` can
        shorten the time-out of a request. `epochs` receives the leader epochs of logs, since Kafka 2.1.
        """
        self._begin_request()
        timeout_s = min(timeout_s, self._timeout_s)
        epochs = {} if epochs is None else epochs
        at_once = self._find_many(positions, timeout_s, epochs)
        found, failed = (at_once, {}) if at_once is not None else self._find_each(positions, timeout_s, epochs)
        self._all_answered = not failed
        return found, failed

    def _find_many(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float, epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int] | None:
        """The ends of thousands of logs, in a third of the time. None if a leader does not answer, or did not last time."""
        if (
            not self._all_answered
            or len(positions) < self._sizes.bulk
            or not {EARLIEST, LATEST}.issuperset(positions.values())
        ):
            return None
        try:
            if self._lookup is None:
                lookup = lookup_client(self._config, read_committed=self._read_committed)
                self._lookup = lookup.__enter__()
            found = find_watermarks(self._lookup, positions, timeout_s, epochs, self._sizes.request)
        except ZKafkaError as error:
            _log.info("Offsets are requested by the admin client alone: %s", error)
            return None
        if found is None:
            self._close_lookup()  # it may have forgotten all brokers, see `_metadata`
        return found

    def _find_each(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float, epochs: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        began, first_s = time.monotonic(), min(PATIENCE_S, timeout_s)
        found, failed = self._ask_leaders(positions, min(INTRODUCTION_S, first_s), first_s, epochs)
        unasked = {tp for tp in failed if tp.topic not in self._learned}
        passing = {tp for tp, error in failed.items() if may_succeed_later(error)}
        self.refresh_metadata({tp.topic for tp in passing})
        left_s = timeout_s - (time.monotonic() - began)
        again = {tp for tp in passing if left_s > 0 or isinstance(failed[tp], (NoLeader, UnknownTopic))}
        again |= {tp for tp in unasked if tp.topic in self._learned}
        again_s = max(left_s, first_s)
        # If a broker has refused the login, another one may accept it.
        warm_up_s = min(REFUSED_FOR_S, again_s) if unasked - passing else again_s
        again |= unasked - passing
        found_now, failed_now = self._ask_leaders({tp: positions[tp] for tp in again}, warm_up_s, again_s, epochs)
        failed = {tp: error for tp, error in failed.items() if tp not in again} | failed_now
        return found | found_now, self._name_refusal(failed)

    def _name_refusal(self, failed: dict[TopicPartition, ZKafkaError]) -> dict[TopicPartition, ZKafkaError]:
        """Replace the errors of a topic that an ACL hides. librdkafka only reports that it has no leader."""
        topic = min((tp.topic for tp, error in failed.items() if isinstance(error, NoLeader)), default=None)
        try:
            refusal = None if topic is None else self._authorization_error(topic)
        except ZKafkaError as error:
            _log.info("Whether an ACL hides topic %s is unknown: %s", topic, error)
            return failed
        if refusal is None:
            return failed
        named = from_kafka(refusal, f"listing the offsets of topic {topic} at {self._servers}")
        return {tp: named if tp.topic == topic else error for tp, error in failed.items()}

    def _warm_up(self, topics: Collection[str], timeout_s: float) -> ZKafkaError | None:
        """Request the metadata of topics, which the client caches, before it lists their offsets.

        Otherwise it looks up the leaders. This may stall for up to three seconds with a new client. It may also crash the
        process if other metadata arrive at that moment: librdkafka's thread then frees the lookup that this thread has not
        finished. Returns the error of a request without an answer. See `pyspark_zkafka.brokers.clients`.
        """
        unknown = sorted(set(topics).difference(self._learned))
        if not unknown:
            return None
        if (error := self._learn(unknown[0], timeout_s=timeout_s)) is not None:
            return error
        unknown = sorted(set(topics).difference(self._learned))  # also topics known before, if the client was replaced
        try:
            self._described(self._admin(), unknown, INTRODUCTION_S)
        except (KafkaException, ZKafkaError) as no_controller:
            _log.info("The metadata of all topics are requested, without the controller: %s", no_controller)
            if (error := self._learn()) is not None:
                return error
            for topic in sorted(set(unknown).difference(self._learned)):  # unknown, or hidden by an ACL
                if (error := self._learn(topic)) is not None:
                    return error
        self._learned.update(unknown)
        return None

    def _ask_leaders(
        self,
        positions: Mapping[TopicPartition, Position],
        warm_up_s: float,
        timeout_s: float,
        epochs: dict[TopicPartition, int],
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        began = time.monotonic()
        unanswered = self._warm_up({tp.topic for tp in positions}, warm_up_s)
        timeout_s = max(timeout_s - (time.monotonic() - began), min(PATIENCE_S, timeout_s))
        known = {tp: p for tp, p in positions.items() if unanswered is None or tp.topic in self._learned}
        found: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ZKafkaError] = {}
        if unanswered is not None:
            failed = dict.fromkeys(positions.keys() - known, unanswered)
        for tp, future in self._list_offsets(known, timeout_s).items():
            try:
                info = self._info(tp, positions[tp], future, timeout_s)
            except ZKafkaError as error:
                failed[tp] = error
                continue
            found[tp] = int(info.offset)
            if info.leader_epoch is not None:
                epochs[tp] = info.leader_epoch
            self._reports.answered()
        return found, failed

    def _list_offsets(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float
    ) -> dict[TopicPartition, Future[Any]]:
        """Request all offsets at the same time."""
        asked: dict[TopicPartition, Future[Any]] = {}
        for level, specs in offset_requests(positions, self._sizes.request, read_committed=self._read_committed):
            request = {KafkaTopicPartition(*tp): spec for tp, spec in specs.items()}
            futures = self._admin().list_offsets(request, isolation_level=level, request_timeout=timeout_s)
            asked.update((TopicPartition(key.topic, key.partition), future) for key, future in futures.items())
        return asked

    def _info(self, partition: TopicPartition, position: Position, future: Future[Any], timeout_s: float) -> Any:
        doing = f"listing the offsets of {partition}"
        try:
            info = future.result() if future.done() else self._result(doing, future)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                return ListOffsetsResultInfo(-1, -1, -1)
            raise self._error(error, doing) from error
        # librdkafka returns no error, but an offset of -1001, for a leader that did not answer while others did.
        if info.offset < -1:
            self._admin().poll(0)
            raise self._reports.refusal(f"{doing} at {self._servers}") or BROKERS_UNAVAILABLE(
                f"{doing} at {self._servers}: no answer within {timeout_s:g} s; check that the partition's leader runs and "
                "is reachable from here, or raise kafka.request.timeout.ms",
            )
        # Without a record's time, the offset is the start of a segment that was last modified before the requested time.
        if isinstance(position, AtTimestamp) and info.offset >= 0 and info.timestamp < 0:
            text = f"The leader of {partition} does not find records by their time, as Kafka does from 0.10.1 on"
            raise KAFKA_ERROR(f"{text}. Use offsets, earliest or latest instead of times")
        return info

    def _describe(self, names: Collection[str]) -> dict[str, Any]:
        doing = f"describing topic {next(iter(names), '')}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        found = self._ask_controller(doing, lambda client, timeout_s: self._described(client, names, timeout_s))
        self._learned.update(found)
        return found

    def _described(self, client: AdminClient, names: Collection[str], timeout_s: float) -> dict[str, Any]:
        if not names:
            return {}
        futures = client.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)
        found: dict[str, Any] = {}
        for name, future in futures.items():
            try:
                found[name] = self._result(f"describing topic {name}", future)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._TIMED_OUT:
                    raise
                if error.args[0].code() not in UNKNOWN_TOPIC_CODES:
                    raise self._error(error, f"describing topic {name}") from error
        return found


def lease_admin(bootstrap_servers: str, properties: Mapping[str, Any]) -> AbstractContextManager[KafkaAdmin]:
    """Lease an open `KafkaAdmin`: a new one, or one that was used some seconds ago. See `ClientPool`."""
    key = client_key({**shared_properties(properties), "bootstrap.servers": bootstrap_servers})
    return _idle.lease(key, lambda: KafkaAdmin(bootstrap_servers, properties))


def described_snapshot(
    cluster: Any, topics: Mapping[str, Any], security_protocol: str, names: Collection[str]
) -> ClusterSnapshot:
    """Make `KafkaAdmin.snapshot` from a ``ClusterMetadata`` and the ``TopicDescription`` of each of `names`.

    It has the racks in all descriptions, also of other topics.
    """
    nodes = [node for found in topics.values() for p in found.partitions for node in p.replicas]
    racks = {node.id: node.rack for node in nodes}
    requested = frozenset(names)
    shown = {name: found for name, found in topics.items() if name in requested}
    return ClusterSnapshot(
        brokers={id_: _broker(found, security_protocol, racks.get(id_)) for id_, found in sorted(cluster.brokers.items())},
        topics={name: _topic(found) for name, found in shown.items()},
        states={TopicPartition(name, p.id): _state(p) for name, found in shown.items() for p in found.partitions},
        controller=None if cluster.controller_id < 0 else cluster.controller_id,
        cluster_id=cluster.cluster_id,
    )


def covering_topics(cluster: Any) -> list[str]:
    """Select topics in a ``ClusterMetadata`` whose replicas are on all brokers that have any."""
    found: list[str] = []
    covered: set[int] = set()
    for name, topic in sorted(cluster.topics.items()):
        brokers = {replica for partition in topic.partitions.values() for replica in partition.replicas}
        if is_topic_name(name) and not brokers <= covered:
            found.append(name)
            covered |= brokers
    return found


def unknown_topics(cluster: Any, topics: Mapping[str, Any], asked: Collection[str]) -> list[str]:
    """The requested topics in a ``ClusterMetadata`` that the broker did not describe, as it has just started."""
    listed = {name for name, topic in cluster.topics.items() if topic.error is None}
    return sorted(listed.intersection(asked).difference(topics))


def topic_id(topic: Any) -> str | None:
    """The id in a ``TopicDescription``, as Kafka writes it. None before Kafka 2.8."""
    # confluent-kafka writes base64 with padding and the plain alphabet; Kafka writes it URL-safe without padding.
    text = str(topic.topic_id).rstrip("=").replace("+", "-").replace("/", "_")
    return None if text == _NO_TOPIC_ID else text


def _broker(found: Any, security_protocol: str, rack: str | None) -> Broker:
    endpoint = Endpoint(security_protocol, security_protocol, found.host, found.port)
    return Broker(found.id, (endpoint,), rack)


def _topic(found: Any) -> Topic:
    partitions = {p.id: tuple(n.id for n in p.replicas) for p in sorted(found.partitions, key=lambda p: p.id)}
    return Topic(found.name, partitions, topic_id(found), None)


def _state(partition: Any) -> PartitionState:
    leader = -1 if partition.leader is None else partition.leader.id
    return PartitionState(leader, -1, tuple(n.id for n in partition.isr))


def invalid_config(topic: str, error: KafkaError) -> OptionError | None:
    """The error for a configuration that a broker refuses. None for other errors."""
    if error.code() not in _INVALID_CONFIG_CODES:
        return None
    text = f"The configuration of {topic} is not valid: {error.str()}"
    return INVALID_TOPIC_CONFIG(f"{text}; correct the name or the value")
