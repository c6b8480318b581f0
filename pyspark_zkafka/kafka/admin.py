"""Requests to the brokers: metadata, offsets of logs, ids of topics."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.errors import NoLeader, UnknownTopic, ZKafkaError
from pyspark_zkafka.kafka.batches import DEFAULT_SIZES, LookupSizes, offset_requests
from pyspark_zkafka.kafka.clients import INTRODUCTION_S, MessageClient, librdkafka_logger
from pyspark_zkafka.kafka.consumer_properties import shared_properties
from pyspark_zkafka.kafka.descriptions import described_snapshot, topic_id
from pyspark_zkafka.kafka.errors import (
    REFUSED_FOR_S,
    UNKNOWN_TOPIC_CODES,
    ErrorReports,
    from_exception,
    from_kafka,
    silent_leaders,
)
from pyspark_zkafka.kafka.pool import ClientPool, configuration
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, HIGH_WATERMARK, LATEST, Position
from pyspark_zkafka.protocol.topic_names import is_topic_name

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["KafkaAdmin", "lease_admin"]

T = TypeVar("T")
_log = logging.getLogger(__name__)

_SILENT = "BROKERS_UNAVAILABLE"
_LOOK_S = 0.1
_PATIENCE_S = 5.0


class KafkaAdmin:
    """An AdminClient with typed results; not pickle-safe, and only for the process that created it.

    Of librdkafka's `properties` only those that concern the connection are used; ``socket.timeout.ms`` (30 s if not given)
    is the timeout of one request. With `read_committed` the latest offset is the last stable one.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        *,
        read_committed: bool = False,
        sizes: LookupSizes = DEFAULT_SIZES,
    ) -> None:
        shared = {**shared_properties(properties), "allow.auto.create.topics": False}  # a lookup creates no topic
        self._config = {**shared, "bootstrap.servers": bootstrap_servers}
        self._servers = bootstrap_servers
        self._timeout_s = int(properties.get("socket.timeout.ms", 30_000)) / 1000
        self._read_committed = read_committed
        self._sizes = sizes
        self._opened = ExitStack()
        self._clients = ExitStack()
        self._client: AdminClient | None = None
        self._lookup: MessageClient | None = None
        self._is_warm = False
        self._all_answered = True
        self._reports = ErrorReports()

    @classmethod
    def of(cls, connection: Connection, bootstrap_servers: str | None = None) -> Self:
        """The client for a connection, and for the cluster's bootstrap servers if the connection has none."""
        servers = bootstrap_servers or connection.bootstrap_servers or ""
        return cls(servers, connection.kafka, read_committed=connection.read_committed)

    def __enter__(self) -> Self:
        self._use(self._new_client())
        return self

    def _use(self, client: AdminClient) -> None:
        self._client, self._is_warm = self._clients.enter_context(client), False

    def _new_client(self) -> AdminClient:
        try:
            return AdminClient({**self._config, "error_cb": self._reports}, logger=librdkafka_logger())
        except KafkaException as error:
            raise from_exception(error, "making an admin client") from error

    def __exit__(self, *exc: object) -> None:
        # Closed here, by this thread: an error's traceback may keep the client in a reference cycle, and if the collector
        # frees it on the client's own thread, the process aborts.
        self._client = self._lookup = None
        self._clients.close()
        self._opened.close()

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted; blocks for two requests."""
        self._begin_request()
        self._cluster()  # unlike the next request, it reports a refusal while it waits
        names = self._call("listing topics", lambda c: c.list_topics(timeout=self._timeout_s)).topics
        return sorted(filter(is_topic_name, names))

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """The same snapshot as from ZooKeeper, from the brokers' metadata; of `topics`, those that exist.

        Metadata has no leader epoch (-1), and one endpoint for each broker: that of the listener that answered.
        """
        self._begin_request()
        names = self.topic_names() if topics is None else sorted(topics)
        cluster = self._cluster()
        protocol = str(self._config.get("security.protocol", "PLAINTEXT")).upper()
        return described_snapshot(cluster, self._describe(names), protocol)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """The ids of those of the topics that exist; None where the brokers are older than topic ids (2.8)."""
        self._begin_request()
        return {name: topic_id(found) for name, found in self._describe(sorted(topics)).items()}

    def list_offsets(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """The offset at each position; -1 where no record is at or after a timestamp.

        One request to each leader, or one for every 1,000 partitions, all of them at the same time. `timeout_s` can shorten
        the timeout of a request.
        """
        found, failed = self.list_offsets_each(positions, timeout_s)
        silent = [tp for tp, error in failed.items() if error.condition == _SILENT]
        for error in failed.values():
            raise error if error.condition != _SILENT else silent_leaders(silent, min(timeout_s, self._timeout_s))
        return found

    def high_watermarks(
        self, partitions: Collection[TopicPartition], timeout_s: float = math.inf
    ) -> dict[TopicPartition, int]:
        """The ends of logs with their open transactions; empty, without a request, unless this client reads committed."""
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

        Partitions whose leader librdkafka may not know are requested twice (see `refresh_metadata`). `timeout_s` can
        shorten the timeout of a request. `epochs` receives the leader epochs of the logs, if brokers have them (from
        Kafka 2.1 on).
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
        """The ends of thousands of logs in a third of the time; None if a leader does not answer, or did not last time."""
        if (
            not self._all_answered
            or len(positions) < self._sizes.bulk
            or not {EARLIEST, LATEST}.issuperset(positions.values())
        ):
            return None
        from pyspark_zkafka.kafka.watermarks import find_watermarks, lookup_client

        if self._lookup is None:
            self._lookup = self._opened.enter_context(lookup_client(self._config, read_committed=self._read_committed))
        return find_watermarks(self._lookup, positions, timeout_s, epochs, self._sizes.request)

    def _find_each(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float, epochs: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        self._warm_up({tp.topic for tp in positions})
        found, failed = self._ask_leaders(positions, min(_PATIENCE_S, timeout_s), epochs)
        left_s = timeout_s - _PATIENCE_S
        passing = {tp for tp, error in failed.items() if error.retriable or isinstance(error, UnknownTopic)}
        self.refresh_metadata({tp.topic for tp in passing})
        again = {tp for tp in passing if left_s > 0 or isinstance(failed[tp], (NoLeader, UnknownTopic))}
        found_now, failed_now = self._ask_leaders(
            {tp: positions[tp] for tp in again}, max(left_s, min(_PATIENCE_S, timeout_s)), epochs
        )
        failed = {tp: error for tp, error in failed.items() if tp not in again} | failed_now
        return found | found_now, self._name_refusal(failed)

    def _name_refusal(self, failed: dict[TopicPartition, ZKafkaError]) -> dict[TopicPartition, ZKafkaError]:
        """The same errors, but for a topic that an ACL hides, of which librdkafka reports only that no leader was found."""
        topic = min((tp.topic for tp, error in failed.items() if isinstance(error, NoLeader)), default=None)
        try:
            refusal = None if topic is None else self._authorization_error(topic)
        except ZKafkaError as error:
            _log.info("%s", error)
            return failed
        if refusal is None:
            return failed
        named = from_kafka(refusal, f"listing the offsets of topic {topic} at {self._servers}")
        return {tp: named if tp.topic == topic else error for tp, error in failed.items()}

    def _authorization_error(self, topic: str) -> KafkaError | None:
        """The error for a topic that an ACL hides; blocks for a request, 5 s at the most."""
        timeout_s = min(_PATIENCE_S, self._timeout_s)
        found = self._call("requesting metadata", lambda c: c.list_topics(topic, timeout=timeout_s)).topics.get(topic)
        error = None if found is None else found.error
        return error if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else None

    def refresh_metadata(self, topics: Collection[str]) -> None:
        """Refresh librdkafka's metadata of topics' leaders; blocks for one request, 5 s at the most.

        Otherwise it uses old metadata for minutes: it sends requests to a leader that is down until they time out, and does
        not know added partitions. If the brokers do not answer, nothing has changed.
        """
        if topics:
            self._learn(*(topics if len(topics) == 1 else ()))

    def _warm_up(self, topics: Collection[str]) -> None:
        """Request a topic's metadata first with a new client: else its lookup of leaders may stall for up to three seconds.

        Blocks for a second at the most; see `pyspark_zkafka.kafka.clients`.
        """
        if topics and not self._is_warm:
            self._is_warm = True
            self._learn(min(topics), timeout_s=INTRODUCTION_S)

    def _learn(self, *topic: str, timeout_s: float = _PATIENCE_S) -> None:
        """Request the controller and the leaders, of one topic or of all, from any broker: librdkafka caches the answer."""
        try:
            self._call("requesting metadata", lambda c: c.list_topics(*topic, timeout=min(timeout_s, self._timeout_s)))
        except ZKafkaError as error:
            _log.info("%s", error)

    def _ask_leaders(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float, epochs: dict[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        found: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ZKafkaError] = {}
        for tp, future in self._list_offsets(positions, timeout_s).items():
            try:
                info = self._info(tp, future, timeout_s)
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
            places = {KafkaTopicPartition(*tp): tp for tp in specs}
            request = {place: specs[tp] for place, tp in places.items()}
            futures = self._admin().list_offsets(request, isolation_level=level, request_timeout=timeout_s)
            asked.update((places[place], future) for place, future in futures.items())
        return asked

    def _info(self, partition: TopicPartition, future: Future[Any], timeout_s: float) -> Any:
        doing = f"listing the offsets of {partition}"
        if future.done() and future.exception() is None:
            info = future.result()
        else:
            info = self._call(doing, lambda _: self._result(doing, future))
        # For a leader that did not answer while others did, librdkafka returns no error, but an offset of -1001.
        if info.offset < -1:
            self._admin().poll(0)
            raise self._reports.refusal(f"{doing} at {self._servers}") or silent_leaders([partition], timeout_s)
        return info

    def _admin(self) -> AdminClient:
        if self._client is None:
            raise RuntimeError("KafkaAdmin is used outside of its with block")
        return self._client

    def _begin_request(self) -> None:
        """Discard earlier reports, which may be days old."""
        self._admin().poll(0)
        self._reports.begin()

    def _call(self, doing: str, call: Callable[[AdminClient], T]) -> T:
        try:
            answer = call(self._admin())
        except KafkaException as error:
            raise self._error(error, doing) from error
        self._reports.answered()
        return answer

    def _error(self, error: KafkaException, doing: str) -> ZKafkaError:
        self._admin().poll(0)
        return self._reports.error(error, f"{doing} at {self._servers}")

    def _cluster(self) -> Any:
        doing = "describing the cluster"
        return self._ask_controller(doing, lambda c, s: self._result(doing, c.describe_cluster(request_timeout=s)))

    def _result(self, doing: str, future: Future[Any]) -> Any:
        """A request's result; raises before it times out if librdkafka reports a refusal, or that all brokers are down.

        A refusal ends it after two seconds, unreachable brokers after five: they may be about to start.
        """
        patient_until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = future.result(_LOOK_S)
            except FutureTimeoutError:
                self._admin().poll(0)
                doing_there = f"{doing} at {self._servers}"
                error = self._reports.refusal(doing_there, REFUSED_FOR_S)
                if error is None and time.monotonic() > patient_until:
                    error = self._reports.unreachable(doing_there)
                if error is not None:
                    raise error from None
            else:
                self._reports.answered()
                return answer

    def _ask_controller(self, doing: str, ask: Callable[[AdminClient, float], T]) -> T:
        """The result of a request that librdkafka sends to the controller; if that one is gone, to its successor.

        librdkafka waits for the controller that it knows, and does not look up another one by itself.
        """
        deadline, attempt_s = time.monotonic() + self._timeout_s, min(_PATIENCE_S, self._timeout_s)
        while True:
            try:
                return ask(self._admin(), attempt_s)
            except KafkaException as error:
                left_s = deadline - time.monotonic()
                if error.args[0].code() != KafkaError._TIMED_OUT or left_s < _LOOK_S:
                    raise self._error(error, doing) from error
                if (unreachable := self._reports.unreachable(f"{doing} at {self._servers}")) is not None:
                    raise unreachable from error
                is_gone = "waiting for controller" in error.args[0].str()
            if is_gone:
                self._learn()
            attempt_s = min(_PATIENCE_S, left_s) if is_gone else left_s

    def _describe(self, names: Collection[str]) -> dict[str, Any]:
        if not names:
            return {}
        doing = f"describing topic {next(iter(names))}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        return self._ask_controller(doing, lambda client, timeout_s: self._described(client, names, timeout_s))

    def _described(self, client: AdminClient, names: Collection[str], timeout_s: float) -> dict[str, Any]:
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


_idle: ClientPool[KafkaAdmin] = ClientPool()


def lease_admin(bootstrap_servers: str, properties: Mapping[str, Any]) -> AbstractContextManager[KafkaAdmin]:
    """An open `KafkaAdmin` for the time of a ``with`` block: one that was in use some seconds ago, or a new one.

    A reused one is connected already, but caches no results. See `ClientPool`.
    """
    key = configuration({**shared_properties(properties), "bootstrap.servers": bootstrap_servers})
    return _idle.lease(key, lambda: KafkaAdmin(bootstrap_servers, properties))
