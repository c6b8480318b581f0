"""Sender of rows without librdkafka: encodes them into record batches, and sends these to the leaders."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pyspark_zkafka.brokers.errors import (
    REFUSED_FOR_S,
    UNKNOWN_TOPIC_CODES,
    ConnectionReports,
    connection_error,
    explained,
)
from pyspark_zkafka.model.error_codes import NONE, ErrorCode, name_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import OVERDUE, RETRIABLE, Batch, ProducerId, Producing
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct.leaders import REFUSED_PAUSE_S, LeaderConnections
from pyspark_zkafka.records.direct.producer_messages import (
    INIT_PRODUCER_ID,
    InitProducerId,
    read_answer,
)
from pyspark_zkafka.records.direct.settings import producer_settings_of
from pyspark_zkafka.records.direct.transactions import CoordinatorConnections, DirectTransactions
from pyspark_zkafka.records.native.record_encoder import HEADER_BYTES, Compression, RecordEncoder
from pyspark_zkafka.records.producer import Failure, QueueLimits, Sender, asking_for_partitions
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.client import Client
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.group_messages import TRANSACTION, Coordinator
from pyspark_zkafka.wire.metadata_messages import Metadata, TopicMetadata
from pyspark_zkafka.wire.protocol import (
    ConnectionLost,
    LoginRefused,
    Request,
    TlsRefused,
    Unsupported,
)

_log = logging.getLogger(__name__)

_SETUP_S = 3.0
_METADATA_PAUSE_S = 0.1
_ANSWERS_S = 0.3
_STEP_BYTES = 1024 * 1024
_RETRIABLE_INIT = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which InitProducerId is requested again."""


_NO_TRANSACTIONS = InitProducerId(None, 0)


class DirectSender(Sender):
    """The `Sender` over the connections of the direct transport: idempotent, with acks=all.

    Also sends the rows of `DirectTransactions`. Encodes each row once. `Producing` decides which batches to send, and how
    to handle failures. The constructor raises Unsupported for properties that need librdkafka. ``with`` connects to a
    broker, and raises Unsupported if the broker or the login needs librdkafka.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        limits: QueueLimits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        settings, self._settings = producer_settings_of(properties)
        self._client = Client(settings, clock)
        self._limits = limits
        self._reports = ConnectionReports(clock)
        self._real_clock = clock
        self._sleep = sleep
        self._away_s = 0.0
        self._left_at: float | None = clock()
        self._encoder = RecordEncoder(
            self._settings.batch_bytes,
            min(self._settings.batch_records, limits.records),
            Compression(self._settings.codec, self._settings.level),
            transactional=self._settings.transactional_id is not None,
            clock=clock,
        )
        self._producing = Producing(
            delivery_timeout_s=self._settings.delivery_timeout_s,
            retry_backoff_s=settings.retry_backoff.first_s,
            most_request_bytes=self._settings.most_request_bytes,
            halves=self._encoder.halves,
            transactional=self._settings.transactional_id is not None,
        )
        self._coordinators = CoordinatorConnections(self._client, self._report, self._settings.request_timeout_s)
        self._transactions: DirectTransactions | None = None
        if self._settings.transactional_id is not None:
            timeout_ms = self._settings.transaction_timeout_ms
            self._transactions = DirectTransactions(timeout_ms, self._coordinators, self, clock)
        self._connections = LeaderConnections(
            self._client, self._settings, self._producing, self._clock, self._protocol, self._report
        )
        self._ask_at = 0.0
        self._unknown_since: dict[TopicPartition, float] = {}
        self._closed: Iterator[Batch] = iter(())  # batches that fill up while rows are added
        self._unsent_bytes = 0  # queued since the last step
        self._handed_over = self._dropped = 0
        self._too_large: Batch | None = None
        self._is_uncertain = False  # brokers may still write batches that were dropped

    def __enter__(self) -> DirectSender:
        self._client.__enter__()
        deadline = self._client.deadline(_SETUP_S)
        try:
            if (transactional_id := self._settings.transactional_id) is None:
                self._request_producer(deadline)
            else:
                coordinator = Coordinator(transactional_id, TRANSACTION)
                self._coordinators.find(coordinator, deadline, self._connections.require_supported)
        except ConnectionLost as error:
            self._report(error)  # tried again when there are rows
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._connections.close()
        self._coordinators.close()
        self._client.__exit__(*exc)

    def begin(self) -> None:
        self._handed_over = self._dropped = 0
        self._producing.begin()
        self._encoder.begin()
        self._connections.are_throttled = False
        self._unknown_since.clear()

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> None:
        with self._running():
            for batch in self._closed:
                self._enqueue(batch)
        self._handed_over += len(partitions)
        self._closed = self._encoder.add(rows, partitions)

    def advance(self, timeout_s: float) -> bool:
        with self._running():
            while not self._is_full() and (batch := next(self._closed, None)) is not None:
                self._enqueue(batch)
                if self._encoder.open_bytes > self._limits.size_bytes // 2:
                    self._close_open()
                if self._unsent_bytes >= _STEP_BYTES:
                    self._step(0)
                if self.failure is not None:
                    return False
            if self._is_full():
                self._close_open()
                self._step(timeout_s)
                return False
            self._close_open(self._real_clock() - self._settings.linger_s)
            self._step(0)
            return True

    def poll(self, timeout_s: float) -> None:
        with self._running():
            self._step(timeout_s)

    def flush(self, timeout_s: float) -> None:
        with self._running():
            for batch in self._closed:
                self._enqueue(batch)
            self._close_open()
            deadline = Deadline.after(timeout_s, self._real_clock)
            self._step(timeout_s if self.queued else 0)
            while self.is_moving and not deadline.has_passed:
                self._step(deadline.left_s)

    def purge(self, *, in_flight: bool) -> None:
        self._closed = iter(())
        for _ in self._encoder.close_all():
            pass
        dropped = self._producing.drop(in_flight=in_flight)
        self._is_uncertain |= (self.is_moving and in_flight) or any(batch.is_unanswered for batch in dropped)
        left = sum(batch.records for batch in self._producing.open_batches())
        self._dropped = self._handed_over - self.acknowledged - left

    @property
    def queued(self) -> int:
        return self._handed_over - self._dropped - self.acknowledged

    @property
    def is_moving(self) -> bool:
        return self._connections.has_requests

    @property
    def acknowledged(self) -> int:
        return self._producing.delivered.total()

    @property
    def failure(self) -> Failure | None:
        if self._too_large is not None:
            return Failure.of(*self._too_large.partition, ErrorCode.MESSAGE_TOO_LARGE)
        if self._connections.unsupported is not None:
            remedy = ". Set transport to librdkafka" if self._transactions is None else ""
            return Failure("the direct transport", f"{self._connections.unsupported}{remedy}")
        failed = self._producing.failed
        if failed is None:
            return self._failure_of_transaction()
        answer = failed.batch.answer if failed.code == OVERDUE else NONE
        throttled = self._connections.are_throttled
        found = Failure.of(*failed.batch.partition, failed.code, answer, is_throttled=throttled)
        if not failed.batch.may_be_written:
            return found
        return Failure(found.partition, f"{found.cause}; the broker may have written the records", found.overdue_topic)

    @property
    def reports(self) -> ConnectionReports:
        return self._reports

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, dict[int, int]]:
        doing, deadline = asking_for_partitions(topic), self._client.deadline(timeout_s)
        failed: Exception = ConnectionLost("no response in time")
        while True:
            try:
                found = self._client.metadata([topic], deadline, deadline, create=self._settings.creates_topics)
            except (ConnectionLost, Unsupported) as error:
                failed = error
                self._report(error)
                if (refusal := self._reports.refusal(doing, REFUSED_FOR_S)) is not None:
                    raise refusal from error
                # Each attempt to log in counts towards a lock-out of the user.
                pause_s = REFUSED_PAUSE_S if isinstance(error, LoginRefused) else _METADATA_PAUSE_S
                self._sleep(min(pause_s, deadline.left_s))
                found = None
            if found is not None:
                self._take_over(topic, found)
                described = found.topics[topic]
                leaders = {n: state.leader for n, state in described.partitions.items()}
                return described.error, leaders
            if deadline.has_passed:
                raise connection_error(failed, doing, answered=self._reports.is_answered) from failed

    @property
    def transactions(self) -> DirectTransactions:
        """The transactions of a sender whose properties have a ``transactional.id``."""
        if self._transactions is None:
            raise RuntimeError("the producer has no transactional.id")
        return self._transactions

    def start(self, transactional_id: str, producer: ProducerId) -> None:
        """Send the next batches with these ids and this epoch, from sequence 0."""
        self._connections.transactional_id = transactional_id
        self._producing.start(producer)

    def register(self, partitions: Collection[TopicPartition]) -> None:
        """Allow the batches of these partitions to be sent until the transaction ends."""
        self._producing.register(partitions)

    def end_transaction(self) -> None:
        """Forget the registered partitions."""
        self._producing.end_transaction()

    def drain(self, timeout_s: float) -> bool:
        """Drop unsent rows, and wait for the sent rows. Returns False if brokers may still write some of these."""
        self.purge(in_flight=False)
        self.flush(timeout_s)
        self.purge(in_flight=True)
        return not self._is_uncertain

    @property
    def refusal(self) -> int:
        """The error code of the first failed batch. 0 if no batch has failed."""
        failed = self._producing.failed
        return NONE if failed is None else failed.code

    def _protocol(self) -> int:
        return 0 if self._transactions is None else self._transactions.protocol

    def _clock(self) -> float:
        """The time spent in calls: a batch must not time out because the caller takes long between two calls."""
        return (self._real_clock() if self._left_at is None else self._left_at) - self._away_s

    @contextmanager
    def _running(self) -> Iterator[None]:
        if self._left_at is not None:
            self._away_s += self._real_clock() - self._left_at
        self._left_at = None
        try:
            yield
        finally:
            self._left_at = self._real_clock()

    def _is_full(self) -> bool:
        return self._producing.queued_bytes + self._encoder.open_bytes >= self._limits.size_bytes

    def _close_open(self, opened_before: float = math.inf) -> None:
        for batch in self._encoder.close_all(opened_before):
            self._enqueue(batch)

    def _enqueue(self, batch: Batch) -> None:
        if batch.records == 1 and batch.size_bytes > self._settings.most_request_bytes + HEADER_BYTES:
            self._too_large = self._too_large or batch
        batch.waits_since = self._clock()
        self._producing.add(batch)
        self._unsent_bytes += batch.size_bytes

    def _failure_of_transaction(self) -> Failure | None:
        """The failure of the transaction, for the first partition that could not be added to it. None otherwise."""
        error = None if self._transactions is None else self._transactions.failure
        missing = self._producing.unregistered()
        return None if error is None or not missing else Failure.of(*missing[0], error.code)

    def _step(self, timeout_s: float) -> None:
        """Send all requests that may be sent, wait for an event, and take in responses."""
        self._unsent_bytes = 0
        producing = self._producing
        self._connections.take_in()
        now = self._clock()
        producing.expire(now)
        if self._too_large is None and self._connections.unsupported is None and producing.failed is None:
            self._look_up(now)
            if self._transactions is not None and (missing := producing.unregistered(self._encoder.partitions)):
                # One request adds the partitions of all rows, open batches included.
                self._transactions.add_partitions(missing, _METADATA_PAUSE_S)
            for request in producing.requests(now, self._connections.is_ready):
                self._connections.send(request)
        most_s = 0.01 if self._must_ask() else max(producing.wakes_at(now) - now, 0.0)
        if not self._connections.wait(min(timeout_s, most_s)) and (wait_s := min(timeout_s, most_s, _METADATA_PAUSE_S)) > 0:
            self._sleep(wait_s)
        self._connections.take_in()

    def _must_ask(self) -> bool:
        return self._producing.needs_producer or bool(self._producing.without_leader())

    def _look_up(self, now: float) -> None:
        """Request the producer id if it is missing, and the missing leaders of partitions."""
        if now < self._ask_at or not self._must_ask():
            return
        self._ask_at = now + _METADATA_PAUSE_S
        try:
            if self._producing.needs_producer:
                self._request_producer(self._client.deadline(_METADATA_PAUSE_S))
            for topic in sorted({partition.topic for partition in self._producing.without_leader()}):
                found = self._client.metadata([topic], self._client.deadline(_METADATA_PAUSE_S))
                if found is not None:
                    self._take_over(topic, found)
                    self._refuse(topic, found.topics[topic], now)
        except LoginRefused as error:
            self._ask_at = now + REFUSED_PAUSE_S
            self._report(error)
        except (ConnectionLost, TlsRefused) as error:
            self._report(error)
        except Unsupported as why:
            self._connections.unsupported = why

    def _take_over(self, topic: str, found: Metadata) -> None:
        """Pass the leaders that a broker reports to `Producing`."""
        leaders = {
            TopicPartition(topic, number): state.leader if state.leader in found.brokers else None
            for number, state in found.topics[topic].partitions.items()
        }
        self._producing.lead(leaders)
        for partition, leader in leaders.items():
            if leader is not None:
                self._unknown_since.pop(partition, None)

    def _refuse(self, topic: str, found: TopicMetadata, now: float) -> None:
        """Fail batches for an unknown topic or partition, after a while: a broker that is starting knows no topics."""
        for partition in self._producing.without_leader():
            if partition.topic != topic:
                continue
            if found.error == NONE:
                code: int = NONE if partition.partition in found.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                patience_s = _ANSWERS_S
            else:
                code = found.error
                patience_s = self._settings.propagation_s if code in UNKNOWN_TOPIC_CODES else 0.0
            if code == NONE or code in RETRIABLE - UNKNOWN_TOPIC_CODES:
                self._unknown_since.pop(partition, None)
            elif now - self._unknown_since.setdefault(partition, now) >= patience_s:
                self._producing.fail(partition, code)

    def _request_producer(self, deadline: Deadline) -> None:
        def message(connection: Connection) -> Request:
            self._connections.require_supported(connection)
            return _NO_TRANSACTIONS.request(connection.version(INIT_PRODUCER_ID))

        response = self._client.ask_any(message, deadline)
        if response is None:
            return
        error, producer = read_answer(_NO_TRANSACTIONS, response)
        if error == NONE and producer is not None:
            self._producing.start(producer)
        elif error not in _RETRIABLE_INIT:
            self._reports.note(explained(error))
            raise Unsupported(f"a producer id was refused: {name_of(error)}")

    def _report(self, error: Exception) -> None:
        _log.debug("A broker cannot be reached: %s", error)
        refused = isinstance(error, (LoginRefused, TlsRefused))
        self._reports.note(str(error), partial(connection_error, error) if refused else None)
