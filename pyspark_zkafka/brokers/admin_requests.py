"""Requests of an AdminClient: results, errors, refusals, and metadata that librdkafka does not update by itself."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.clients import client_config, librdkafka_logger, shared_properties
from pyspark_zkafka.brokers.librdkafka_errors import REFUSED_FOR_S, ErrorReports, kafka_errors
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import host_port

if TYPE_CHECKING:
    from typing_extensions import Self


T = TypeVar("T")
_log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time after which a request is repeated: librdkafka may be waiting for a broker that is gone."""
_LOOK_S = 0.1
_FIRST_ATTEMPT_S = 0.5
_FORGOTTEN_AFTER_S = 2.0
_PASSING_CODES = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._PARTIAL})
_NO_BROKERS = KafkaError(KafkaError._PARTIAL, "The broker has just started, and knows no other brokers yet")


def joined_servers(*servers: str) -> str:
    """Join lists of bootstrap servers, each address once.

    >>> joined_servers("b1:9092,b2:9092", "b2:9092", "b3:9092")
    'b1:9092,b2:9092,b3:9092'
    """
    return ",".join(dict.fromkeys(address for some in servers for address in some.split(",") if address))


def are_known(servers: str, known: str) -> bool:
    """True if all bootstrap servers are among the `known` ones.

    >>> are_known("b2:9092", "b1:9092,b2:9092"), are_known("b2:9092,b3:9092", "b1:9092,b2:9092")
    (True, False)
    """
    return set(known.split(",")).issuperset(servers.split(","))


class AdminRequests:
    """An open AdminClient and its requests. Not pickle-safe, and only for the process that created it.

    Only the connection's `properties` of librdkafka are used. ``socket.timeout.ms`` (30 s by default) is the time-out of a
    request.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any]) -> None:
        shared = {**shared_properties(properties), "allow.auto.create.topics": False}  # a lookup creates no topic
        self._config = {**shared, "bootstrap.servers": bootstrap_servers}
        self._servers = bootstrap_servers
        self._timeout_s = int(properties.get("socket.timeout.ms", 30_000)) / 1000
        self._clients = ExitStack()
        self._client: AdminClient | None = None
        self._learned: set[str] = set()  # topics whose metadata this client has requested and received
        self._reports = ErrorReports()

    def __enter__(self) -> Self:
        self._use(self._new_client())
        return self

    @property
    def servers(self) -> str:
        """The bootstrap servers, with the brokers of the last metadata. Any thread may ask."""
        return str(self._config["bootstrap.servers"])

    def follow(self, servers: str) -> None:
        """Use the present bootstrap servers, with a new client if one of them has a new address.

        All brokers that the client knows may be gone before it requests metadata again. If no client can be made, the
        present one stays, and the next call tries again.
        """
        if are_known(servers, self.servers):
            return
        before = self._servers, self.servers
        self._servers = self._config["bootstrap.servers"] = servers
        try:
            self._replace_client()
        except ZKafkaError as error:
            _log.info("The client without the present brokers stays: %s", error)
            self._servers, self._config["bootstrap.servers"] = before

    def _use(self, client: AdminClient) -> None:
        self._client = self._clients.enter_context(client)
        self._learned.clear()
        self._reports.renew()

    def _replace_client(self) -> None:
        """Use a new client, which starts with the bootstrap servers. If it cannot be made, the present one stays."""
        client = self._new_client()
        self._clients.close()  # also with requests to coordinators in flight, see `GroupAdmin`
        self._use(client)

    def _new_client(self) -> AdminClient:
        with kafka_errors("making an admin client"):
            return AdminClient(client_config(self._config, self._reports), logger=librdkafka_logger())

    def __exit__(self, *exc: object) -> None:
        # Close on this thread: an error's traceback may keep the client in a reference cycle, and if the collector frees it
        # on the client's own thread, the process aborts.
        self._client = None
        self._clients.close()

    def refresh_metadata(self, topics: Collection[str]) -> None:
        """Refresh librdkafka's metadata of topics. Blocks for one request, for at most 5 s.

        Otherwise it uses old metadata for minutes, waits for leaders that are down, and does not know added partitions. An
        error is only logged.
        """
        if topics:
            self._learn(*(topics if len(topics) == 1 else ()))

    def _learn(self, *topic: str, timeout_s: float = PATIENCE_S) -> ZKafkaError | None:
        """Request the leaders of one topic or of all, and the controller. librdkafka caches them. Returns an error."""
        try:
            self._metadata(*topic, timeout_s=timeout_s)
        except ZKafkaError as error:
            _log.info("Metadata could not be requested in advance: %s", error)
            return error
        return None

    def _metadata(self, *topic: str, timeout_s: float = math.inf) -> Any:
        """Request metadata of one topic, or of all, from a broker that knows the other brokers.

        A broker that has just started knows none. It answers DescribeCluster without brokers and topics, and librdkafka
        2.16 then aborts the process: use this request instead. An answer with topics but without brokers makes librdkafka
        forget all brokers. Sometimes it never returns to the bootstrap servers, as a new client does. A client without
        brokers is therefore replaced, also after the last attempt: then the next request has a new client.

        librdkafka reports nothing during an attempt, so there are several, each longer than the last. A connected broker
        that does not answer the first one may be slow: the second one lasts until five seconds have passed, and the third
        one has the rest of the time and its own connection, because brokers answer the requests of a connection one after
        the other. A client is replaced seldom: the new one must connect and log in again, and run kinit for Kerberos.
        """
        # A short time-out is not divided: a slow broker would answer none of its attempts in time.
        began, attempt_s = time.monotonic(), timeout_s if timeout_s <= PATIENCE_S else _FIRST_ATTEMPT_S
        timeout_s = min(timeout_s, self._timeout_s)
        while True:
            attempt_s = min(attempt_s, max(timeout_s - (time.monotonic() - began), _LOOK_S))
            try:
                found = self._admin().list_topics(*topic, timeout=attempt_s)
            except KafkaException as failed:
                error = failed
                # A client that has lost its connections may need a second or two for new ones.
                is_patient = attempt_s > min(_FORGOTTEN_AFTER_S, self._timeout_s / 2)
                is_down = failed.args[0].code() == KafkaError._TRANSPORT
                has_forgotten = is_down and is_patient and self._reports.is_answered
            else:
                if found.brokers:
                    self._reports.answered()
                    self._learned.update(topic or found.topics)
                    # A new client must find the brokers, although all bootstrap servers may have been replaced.
                    present = [host_port(broker.host, broker.port) for _, broker in sorted(found.brokers.items())]
                    self._config["bootstrap.servers"] = joined_servers(self._servers, *present)
                    return found
                error, has_forgotten = KafkaException(_NO_BROKERS), True
            self._admin().poll(_LOOK_S)
            waited_s = time.monotonic() - began
            code = error.args[0].code()
            final = self._reported("requesting metadata", waited_s) if code in _PASSING_CODES else None
            if final is None and (code not in _PASSING_CODES or waited_s >= timeout_s):
                final = self._error(error, "requesting metadata")
            is_connected = code == KafkaError._TIMED_OUT
            if has_forgotten or (is_connected and waited_s >= PATIENCE_S):
                try:
                    self._replace_client()
                except ZKafkaError as no_client:
                    _log.info("The client without an answer stays: %s", no_client)
            if final is not None:
                raise final from error
            if is_connected:
                attempt_s = PATIENCE_S - waited_s if waited_s < PATIENCE_S else timeout_s
            else:
                attempt_s = max(_FIRST_ATTEMPT_S, waited_s / 2)

    def _reported(self, doing: str, waited_s: float) -> ZKafkaError | None:
        """The error that librdkafka reports during a wait: a refusal after two seconds, unreachable brokers after five.

        Brokers that cannot be reached may be starting.
        """
        doing_there = f"{doing} at {self._servers}"
        refusal = self._reports.refusal(doing_there, REFUSED_FOR_S)
        return refusal or (self._reports.unreachable(doing_there) if waited_s > PATIENCE_S else None)

    def _admin(self) -> AdminClient:
        if self._client is None:
            raise RuntimeError("KafkaAdmin is used outside of its with block")
        return self._client

    def _begin_request(self) -> None:
        """Discard earlier reports, which may be days old."""
        self._admin().poll(0)
        self._reports.begin()

    def _error(self, error: KafkaException, doing: str) -> ZKafkaError:
        self._admin().poll(0)
        return self._reports.error(error, f"{doing} at {self._servers}")

    def _result(self, doing: str, future: Future[Any], timeout_s: float = math.inf) -> Any:
        """Wait for a result. Raises an error that librdkafka reports before its time-out, or before `timeout_s`."""
        began = time.monotonic()
        while True:
            try:
                answer = future.result(_LOOK_S)
            except FutureTimeoutError:
                self._admin().poll(0)
                waited_s = time.monotonic() - began
                if (error := self._reported(doing, waited_s)) is not None:
                    raise error from None
                if waited_s >= timeout_s:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
            else:
                self._reports.answered()
                return answer

    def _answer(self, doing: str, future: Future[Any]) -> Any:
        try:
            return self._result(doing, future)
        except KafkaException as error:
            raise self._error(error, doing) from error

    def _ask_controller(self, doing: str, ask: Callable[[AdminClient, float], T]) -> T:
        """Send a request to the controller, or to its successor if it is gone.

        librdkafka waits for the controller that it knows, and does not look up another one by itself.
        """
        deadline, attempt_s = time.monotonic() + self._timeout_s, min(PATIENCE_S, self._timeout_s)
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
            attempt_s = min(PATIENCE_S, left_s) if is_gone else left_s

    def _authorization_error(self, topic: str) -> KafkaError | None:
        """The error for a topic that an ACL hides. Blocks for a request, for at most 5 s."""
        found = self._metadata(topic, timeout_s=PATIENCE_S).topics.get(topic)
        error = None if found is None else found.error
        return error if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else None
