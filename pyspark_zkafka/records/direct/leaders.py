"""Connections to the leaders of partitions, and the produce requests in flight on them."""

from __future__ import annotations

import math
import select
import sys
from collections import deque
from collections.abc import Callable, Mapping

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import NOT_LEADER, Produce, Producing
from pyspark_zkafka.records.direct.producer_messages import (
    FIRST_PRODUCE,
    PRODUCE,
    SECOND_PROTOCOL,
    Produced,
    produce_request,
    read_produce,
)
from pyspark_zkafka.records.direct.settings import ProduceSettings
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.client import Client
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.protocol import ConnectionLost, LoginRefused, TlsRefused, Unsupported

_LATE_RESPONSE_S = 3.0
REFUSED_PAUSE_S = 3.0
"""The pause after a refused login."""
_VERSION_OF_FIVE = 5  # Kafka 0.11 remembers only the last batch of a producer
_ZSTD_VERSION = 7
_THROTTLING_VERSION = 6  # in earlier versions, brokers delay their responses instead (KIP-219)


class _Leader:
    """A connection, with the requests in flight on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.buffer = Buffer()
        self.in_flight: deque[tuple[Produce, float]] = deque()  # with the starts of their time-outs
        self.muted_until = 0.0
        self.is_wanted = False  # whether a request needed it since the last wait


class LeaderConnections:
    """Sends the requests of `Producing` to leaders, and reports their outcomes to it.

    Only two methods block: `wait`, and `is_ready` while a host is resolved or a token requested.

    `clock` is the clock of `producing`. `protocol` returns the protocol of the open transaction. `report` is called with
    lost connections and refused logins.

    `transactional_id` is None without transactions. `unsupported` is the reason if a broker cannot take the batches.
    `are_throttled` is True if a quota has made a broker delay requests.
    """

    def __init__(
        self,
        client: Client,
        settings: ProduceSettings,
        producing: Producing,
        clock: Callable[[], float],
        protocol: Callable[[], int],
        report: Callable[[Exception], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._producing = producing
        self._clock = clock
        self._protocol = protocol
        self._report = report
        self._leaders: dict[int, _Leader] = {}
        self._failures: dict[int, int] = {}
        self._connect_at: dict[int, float] = {}
        self._ends: dict[TopicPartition, int] = {}  # offsets after the last acknowledged batch
        self.transactional_id: str | None = None
        self.unsupported: Unsupported | None = None
        self.are_throttled = False

    def close(self) -> None:
        for leader in self._leaders.values():
            leader.connection.close()
        self._leaders.clear()

    @property
    def has_requests(self) -> bool:
        """True if a response is due."""
        return any(leader.in_flight for leader in self._leaders.values())

    def wait(self, timeout_s: float) -> bool:
        """Wait for an event of a connection. Returns False at once if there is nothing to wait for."""
        waiting = select.poll()
        # Once its partitions have moved, nobody continues to open a connection, and poll would return at once.
        active = []
        for leader in self._leaders.values():
            if leader.in_flight or (leader.is_wanted and leader.connection.is_opening):
                active.append(leader.connection)
            leader.is_wanted = False
        for connection in active:
            waiting.register(connection.fileno(), connection.awaited_events)
        if active:
            waiting.poll(timeout_s * 1000)
        return bool(active)

    def take_in(self) -> None:
        """Send the rest of the posted requests, and take in responses that have arrived."""
        for broker, leader in list(self._leaders.items()):
            if leader.in_flight:
                self._take_in(broker, leader)

    def is_ready(self, broker: int) -> bool:
        """Return True if requests may be sent to a broker. Otherwise, take the next step to connect to it."""
        now = self._clock()
        found = self._leaders.get(broker)
        if found is not None and not found.connection.is_opening:
            if found.connection.is_open:
                if found.connection.is_expiring:
                    return False  # log in again when all responses are there
                return self._client.clock() >= found.muted_until and not found.connection.has_unsent
            if found.in_flight:
                return False
            found.connection.close()
            del self._leaders[broker]
            found = None
        address = self._client.brokers.get(broker)
        if address is None:
            self._producing.lose(broker, now)  # looks the leader up again
            return False
        if now < self._connect_at.get(broker, 0.0):
            return False
        if found is None:
            found = self._leaders[broker] = _Leader(self._client.new_connection(address))
            found.connection.begin_opening(self._client.setup_deadline(self._failures.get(broker, 0)))
        found.is_wanted = True
        try:
            done = found.connection.continue_opening(self._client.deadline(0))
            if done:
                self.require_supported(found.connection)
                self._failures.pop(broker, None)
            return done
        except (ConnectionLost, LoginRefused, TlsRefused) as error:
            self._lose(broker, error)
        except Unsupported as why:
            self.unsupported = why
        return False

    def send(self, request: Produce) -> None:
        """Send a request of `Producing` to a leader that is ready."""
        leader = self._leaders.get(request.broker)
        if leader is None:
            return  # an earlier request has found the connection lost, and its batches are queued again
        batches = [(batch.partition, batch.data.sealed(request.producer, batch.sequence)) for batch in request.batches]
        timeout_ms = int(self._settings.request_timeout_s * 1000)
        try:
            version = self._version(leader.connection)
            leader.in_flight.append((request, self._clock()))
            leader.connection.post(produce_request(version, timeout_ms, batches, self.transactional_id))
        except (ConnectionLost, Unsupported) as error:
            self._lose(request.broker, error)

    def require_supported(self, connection: Connection) -> None:
        """Raise Unsupported for a broker that cannot take the batches: brokers from 2.1 on know zstd (KIP-110)."""
        version = self._version(connection)
        if self._settings.codec == "zstd" and version < _ZSTD_VERSION:
            raise Unsupported("a broker without zstd in produce requests")
        if version < _VERSION_OF_FIVE:
            self._producing.most_in_flight = 1

    def _version(self, connection: Connection) -> int:
        """The version of Produce to use with a broker. The newest versions need the second protocol of transactions."""
        return connection.version(PRODUCE, None if self._protocol() >= SECOND_PROTOCOL else FIRST_PRODUCE)

    def _take_in(self, broker: int, leader: _Leader) -> None:
        try:
            leader.connection.push()
            while leader.in_flight:
                request, sent_at = leader.in_flight[0]
                now = self._clock()
                response = leader.connection.receive(leader.buffer, Deadline(now, self._clock))
                if response is None:
                    due_at = min(map(self._producing.due_at, request.batches), default=math.inf)
                    if now - sent_at > self._settings.request_timeout_s + _LATE_RESPONSE_S or now > due_at:
                        raise ConnectionLost(f"{leader.connection}: no response to a Produce request")
                    return
                leader.in_flight.popleft()
                found, throttle_ms = read_produce(response)
                self._answer(request, found, now)
                self.are_throttled |= throttle_ms > 0
                throttle_s = throttle_ms / 1000 if response.version >= _THROTTLING_VERSION else 0.0
                if throttle_s > 0:
                    leader.muted_until = self._client.clock() + throttle_s
                # Restart the time-outs of later requests: on a slow link, they have waited for this response. A
                # throttling broker delays them further.
                leader.in_flight = deque((later, max(at, now + throttle_s)) for later, at in leader.in_flight)
        except (ConnectionLost, Unsupported) as error:
            self._lose(broker, error)

    def _answer(self, request: Produce, answers: Mapping[TopicPartition, Produced], now: float) -> None:
        found = {batch.partition: answers[batch.partition] for batch in request.batches if batch.partition in answers}
        removed = [
            tp
            for tp, answer in found.items()
            if answer.error == ErrorCode.UNKNOWN_PRODUCER_ID and answer.log_start >= self._ends.get(tp, sys.maxsize)
        ]
        codes = {tp: answer.error for tp, answer in found.items()}
        # An answer without the log's start means that the partition has moved, as in Java's ``TransactionManager``.
        unknown = [tp for tp, code in codes.items() if code == ErrorCode.UNKNOWN_PRODUCER_ID]
        codes |= {tp: NOT_LEADER for tp in unknown if found[tp].log_start < 0}
        self._producing.answer(request.number, request.broker, codes, now, removed)
        for batch in request.batches:
            answer = found.get(batch.partition)
            if answer is not None and answer.error == NONE:
                self._ends[batch.partition] = answer.offset + batch.records

    def _lose(self, broker: int, error: Exception) -> None:
        """Close the connection to a broker. The broker may have written batches in flight."""
        now = self._clock()
        self._leaders.pop(broker).connection.close()
        self._producing.lose(broker, now)
        self._failures[broker] = self._failures.get(broker, 0) + 1
        pause_s = self._client.settings.reconnect_backoff.wait_s(self._failures[broker])
        # Each attempt to log in counts towards a lock-out of the user.
        self._connect_at[broker] = now + (max(pause_s, REFUSED_PAUSE_S) if isinstance(error, LoginRefused) else pause_s)
        self._report(error)
