"""Decide what an idempotent producer sends next: sequences, retries and their order. Pure: events in, requests out.

`Producing` holds the batches of a task from their closing to their acknowledgement. Its driver owns sockets and time: it
sends the requests that `requests` returns, in order, on one connection per broker, and reports their outcome.

Rules, which `tests/simulation/test_producing.py` checks against a broker of values:

- A batch that was sent keeps its bytes, sequence and position until the brokers' answer is definite.
- A batch that is too large for the topic is split. The parts share its sequences and its position, and are sent one at a
  time, so that later batches keep their sequences. If the batch was written after all, brokers refuse the parts as out of
  order.
- Batches of a partition never overtake each other: after a failure, the next batch is sent only when no other batch is in
  flight.
- A batch may have been written unless it was never sent, or each attempt was refused before the append.

References
----------
``org.apache.kafka.clients.producer.internals``: ``Sender``, ``RecordAccumulator``, ``TransactionManager`` (kafka-clients
3.9.1); DESIGN.md of franz-go.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition

SEQUENCES = 2**31
MOST_IN_FLIGHT = 5
"""Batches of a partition, and requests to a broker, in flight: a broker remembers the last five batches of a producer."""

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER, DUPLICATE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""A batch above the topic's max.message.bytes, and above its segment.bytes."""
LEADER_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        NOT_LEADER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which the leader is looked up again."""
RETRIABLE = LEADER_ERRORS | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_REFUSED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        OUT_OF_ORDER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
OVERDUE = -1000
"""The code of a batch for which `delivery_timeout_s` has passed."""


class ProducerId(NamedTuple):
    """A producer's id and its epoch."""

    number: int
    epoch: int


@dataclass(eq=False, slots=True)
class Batch:
    """A closed batch of records of one partition.

    - `waits_since`: the start of the delivery timeout, see `Producing.due_at`.
    - `data`: for the driver only.
    - `sequence`, `position`: the first sequence, and the batch's number among the batches of its partition. Both are None
      until the batch is sent.
    - `answer`: the error of the last attempt, `NONE` without an answer.
    - `is_unanswered`: an attempt had no answer, and a broker may still write the batch later.
    - `is_too_large`: a broker has refused the batch because of its size.
    """

    partition: TopicPartition
    records: int
    size_bytes: int
    waits_since: float
    data: Any = None
    sequence: int | None = None
    position: int | None = None
    answer: int = NONE
    may_be_written: bool = False
    is_unanswered: bool = False
    is_too_large: bool = False


class Produce(NamedTuple):
    """A request to a broker, with at most one batch of each partition."""

    number: int
    broker: int
    producer: ProducerId
    batches: tuple[Batch, ...]


class Failed(NamedTuple):
    """The first batch that could not be delivered. `code` is Kafka's, or `OVERDUE`."""

    batch: Batch
    code: int


@dataclass(eq=False, slots=True)
class _Partition:
    """The batches of a partition, `in_flight` or `waiting`, both in the order of their sequences."""

    waiting: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    next_sequence: int = 0
    next_position: int = 0
    blocked_until: float = -math.inf
    is_known: bool = False
    has_acknowledged: bool = False
    must_renew: bool = False

    @property
    def is_ambiguous(self) -> bool:
        """True if a batch that is not in flight may have been written."""
        return any(batch.may_be_written for batch in self.waiting)

    @property
    def is_retrying(self) -> bool:
        """True if a batch that was sent before is to be sent again."""
        return bool(self.waiting) and self.waiting[0].sequence is not None

    @property
    def oldest(self) -> int:
        """The position of the first sent batch without an acknowledgement, or else of the next batch."""
        sent = [b.position for b in (*self.in_flight, *self.waiting) if b.position is not None]
        return min(sent, default=self.next_position)

    def put_back(self, batch: Batch) -> None:
        """Queue a batch that was in flight, in the order of positions."""
        self.in_flight.remove(batch)
        self.waiting.insert(sum(1 for other in self.waiting if _is_before(other, batch)), batch)


def _is_before(first: Batch, second: Batch) -> bool:
    return first.position is not None and second.position is not None and first.position < second.position


class Producing:
    """The batches of a task that are not acknowledged yet, and the state of their partitions.

    Times are of the driver's monotonic clock, in seconds. With `transactional`, batches of a partition wait until it is
    registered in the open transaction, and lost sequences fail the transaction instead of changing the producer id.
    `halves` splits a batch of several records in two, each with at least one record.

    - `producer`: None before `start`, and while a new producer id is needed; see `needs_producer`.
    - `failed`: the first batch that could not be delivered. Once set, nothing is sent any more.
    - `delivered`: the task's acknowledged records by partition.
    - `most_in_flight`: the batches of a partition that a broker remembers.
    """

    def __init__(
        self,
        *,
        delivery_timeout_s: float,
        retry_backoff_s: float,
        most_request_bytes: int,
        halves: Callable[[Batch], tuple[Batch, Batch]],
        transactional: bool = False,
    ) -> None:
        self._delivery_timeout_s = delivery_timeout_s
        self._retry_backoff_s = retry_backoff_s
        self._most_request_bytes = most_request_bytes
        self._halves = halves
        self.most_in_flight = MOST_IN_FLIGHT
        self._refused_bytes: dict[str, int] = {}  # by topic, the smallest size that was too large
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._active: dict[TopicPartition, _Partition] = {}  # partitions with batches
        self._leaders: dict[TopicPartition, int] = {}
        self._requests_in_flight: dict[int, dict[int, Produce]] = {}
        self._acknowledged_at: dict[int, float] = {}  # by broker
        self._last_number = 0
        self._transactional = transactional
        self._registered: set[TopicPartition] = set()
        self._is_dropped = False
        self.producer: ProducerId | None = None
        self.failed: Failed | None = None
        self.delivered: Counter[TopicPartition] = Counter()
        self.queued_bytes = 0

    def begin(self) -> None:
        """Start a task with the producer id of the previous task, whose batches are all acknowledged or dropped."""
        self._is_dropped = False
        self.delivered.clear()
        self._refused_bytes.clear()
        for partition in self._partitions.values():
            partition.has_acknowledged = False

    def add(self, batch: Batch) -> None:
        """Queue a closed batch."""
        partition = self._partitions.setdefault(batch.partition, _Partition())
        partition.waiting.append(batch)
        self._active[batch.partition] = partition
        self.queued_bytes += batch.size_bytes

    def start(self, producer: ProducerId) -> None:
        """Use a producer id that no batch was sent with; all sequences start at 0."""
        self.producer = producer
        for partition in self._partitions.values():
            partition.next_sequence = 0
            partition.is_known = partition.must_renew = False
            for batch in partition.waiting:
                batch.sequence = batch.position = None

    def register(self, partitions: Collection[TopicPartition]) -> None:
        """Note that partitions belong to the open transaction."""
        self._registered.update(partitions)

    def end_transaction(self) -> None:
        """Note that the transaction has ended. Its batches are acknowledged or dropped."""
        self._registered.clear()

    def lead(self, leaders: Mapping[TopicPartition, int | None]) -> None:
        """Note the leaders of partitions. None means that a partition has no leader."""
        for partition, leader in leaders.items():
            if leader != self._leaders.get(partition):
                self._depose(partition)
            if leader is not None:
                self._leaders[partition] = leader

    def answer(
        self,
        number: int,
        broker: int,
        codes: Mapping[TopicPartition, int],
        now: float,
        removed: Collection[TopicPartition] = (),
    ) -> None:
        """Note a broker's answer to a request. A partition that the answer leaves out has no answer.

        `removed` are the partitions from which the brokers have removed the acknowledged records, and forgotten the
        producer with them.
        """
        for partition in removed:
            self._partitions[partition].has_acknowledged = False
        if NONE in codes.values():
            self._acknowledged_at[broker] = now
        request = self._requests_in_flight.get(broker, {}).pop(number, None)
        for batch in () if request is None else request.batches:
            self._end(batch, codes.get(batch.partition), now)

    def lose(self, broker: int, now: float) -> None:
        """Note that the connection to a broker is lost: its requests may have been processed, or may still be."""
        for request in self._requests_in_flight.pop(broker, {}).values():
            for batch in request.batches:
                self._end(batch, None, now)
        for led in [tp for tp, leader in self._leaders.items() if leader == broker]:
            self._depose(led)

    def fail(self, partition: TopicPartition, code: int) -> None:
        """Fail the next batch of a partition that cannot be written to."""
        if partition in self._active and self._active[partition].waiting:
            self._fail(self._active[partition].waiting[0], code)

    def drop(self, *, in_flight: bool) -> list[Batch]:
        """Forget the batches that are not in flight, or with `in_flight` all batches, and return them.

        Without transactions, nothing is sent until `begin`.
        """
        self._is_dropped = True
        dropped: list[Batch] = []
        for partition in self._active.values():
            if in_flight:
                dropped += partition.in_flight
                partition.in_flight.clear()
            dropped += partition.waiting
            partition.waiting.clear()
        if in_flight:
            self._requests_in_flight.clear()
        self._active = {tp: partition for tp, partition in self._active.items() if partition.in_flight}
        self.queued_bytes = sum(batch.size_bytes for batch in self.open_batches())
        return dropped

    def expire(self, now: float) -> None:
        """Fail the first batch for which the delivery timeout has passed, unless it is in flight."""
        for partition in self._active.values():
            if partition.waiting and now >= self.due_at(partition.waiting[0]):
                self._fail(partition.waiting[0], OVERDUE)

    def due_at(self, batch: Batch) -> float:
        """Return the end of a batch's delivery timeout, which starts again whenever the leader acknowledges other batches.

        On a slow link, a full queue takes longer than one timeout. The timeout does not start again without a leader, or
        while the last answer to the batch is a refusal.
        """
        return self._waits_since(batch) + self._delivery_timeout_s

    @property
    def needs_producer(self) -> bool:
        """True if a producer id is to be requested, and passed to `start`."""
        return self.producer is None and bool(self._active)

    def without_leader(self) -> list[TopicPartition]:
        """The partitions that have batches to send, and no known leader."""
        return [tp for tp, partition in self._active.items() if partition.waiting and tp not in self._leaders]

    def unregistered(self, others: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """Return the partitions with batches, and of `others`, that are not registered in the open transaction yet."""
        if not self._transactional:
            return []
        return sorted({*self._active, *others} - self._registered)

    def requests(self, now: float, is_ready: Callable[[int], bool]) -> list[Produce]:
        """The requests to send now, in this order, to the brokers that are ready."""
        if self._is_dropped and not self._transactional:  # an aborted transaction only needs its batches answered
            return []
        active = self._active.values()
        renews = any(partition.must_renew for partition in active)
        if renews and not any(partition.in_flight or partition.is_ambiguous for partition in active):
            self.producer = None
        if self.failed is not None or self.producer is None:
            return []
        found = []
        by_broker: dict[int, list[_Partition]] = {}
        for tp, partition in self._active.items():
            is_held = self._transactional and tp not in self._registered
            if tp in self._leaders and not is_held and self._may_send(partition, now, renews=renews):
                by_broker.setdefault(self._leaders[tp], []).append(partition)
        for broker, partitions in by_broker.items():
            while len(self._requests_in_flight.get(broker, ())) < self.most_in_flight and is_ready(broker):
                batches = self._take([p for p in partitions if self._may_send(p, now, renews=renews)])
                if not batches:
                    break
                self._last_number += 1
                request = Produce(self._last_number, broker, self.producer, batches)
                self._requests_in_flight.setdefault(broker, {})[request.number] = request
                found.append(request)
        return found

    def wakes_at(self, now: float) -> float:
        """The next time at which `requests` or `expire` may have something to do without an event."""
        times = [math.inf]
        for partition in self._active.values():
            if partition.waiting:
                times.append(self.due_at(partition.waiting[0]))
                if partition.blocked_until > now:
                    times.append(partition.blocked_until)
        return min(times)

    def open_batches(self) -> list[Batch]:
        """The batches that are not acknowledged."""
        return [batch for partition in self._active.values() for batch in (*partition.in_flight, *partition.waiting)]

    def _may_send(self, partition: _Partition, now: float, *, renews: bool) -> bool:
        if not partition.waiting or now < partition.blocked_until:
            return False
        # Before the producer id changes, only batches that may have been written under it are sent again.
        if renews and (partition.must_renew or not partition.is_ambiguous):
            return False
        # A broker that does not know the producer accepts any sequence, and so would accept a later batch first.
        if partition.is_retrying or not partition.is_known:
            return not partition.in_flight
        # Brokers may have written all batches after a batch without an answer, and remember only the last five.
        return partition.next_position - partition.oldest < self.most_in_flight

    def _take(self, partitions: Collection[_Partition]) -> tuple[Batch, ...]:
        """Take the next batch of each partition, as far as the batches fit into one request."""
        taken: list[Batch] = []
        size = 0
        for partition in partitions:
            batch = self._next(partition)
            if taken and size + batch.size_bytes > self._most_request_bytes:
                continue
            partition.waiting.popleft()
            if batch.sequence is None:
                batch.sequence, batch.position = partition.next_sequence, partition.next_position
                partition.next_position += 1
                partition.next_sequence = (partition.next_sequence + batch.records) % SEQUENCES
            partition.in_flight.append(batch)
            size += batch.size_bytes
            taken.append(batch)
        return tuple(taken)

    def _next(self, partition: _Partition) -> Batch:
        """Return the next batch of a partition, after splitting it until it is small enough for the topic."""
        while self._must_split(batch := partition.waiting[0]):
            first, second = self._halves(batch)
            for part in (first, second):
                part.waits_since, part.position = batch.waits_since, batch.position
                part.may_be_written, part.is_unanswered = batch.may_be_written, batch.is_unanswered
            if batch.sequence is not None:
                first.sequence, second.sequence = batch.sequence, (batch.sequence + first.records) % SEQUENCES
            partition.waiting.popleft()
            partition.waiting.extendleft((second, first))
            self.queued_bytes += first.size_bytes + second.size_bytes - batch.size_bytes
        return batch

    def _must_split(self, batch: Batch) -> bool:
        """True if the batch, or another batch of its size or smaller, was refused as too large.

        A batch that may be in the log is not split because of another batch: brokers recognise the whole batch as written,
        but not its halves.
        """
        is_larger = batch.size_bytes >= self._refused_bytes.get(batch.partition.topic, sys.maxsize)
        return batch.records > 1 and (batch.is_too_large or (is_larger and not batch.may_be_written))

    def _end(self, batch: Batch, code: int | None, now: float) -> None:
        """End an attempt, with the broker's code, or None without an answer."""
        partition = self._partitions[batch.partition]
        if code in (NONE, DUPLICATE):
            partition.in_flight.remove(batch)
            partition.is_known = partition.has_acknowledged = True
            self.delivered[batch.partition] += batch.records
            self.queued_bytes -= batch.size_bytes
            if not partition.in_flight and not partition.waiting:
                del self._active[batch.partition]
            return
        if code is None or (code in RETRIABLE | {ErrorCode.UNKNOWN_SERVER_ERROR} and code not in _REFUSED_BEFORE_APPEND):
            batch.may_be_written = True
        batch.waits_since = self._waits_since(batch)
        batch.answer = NONE if code is None else code
        batch.is_unanswered |= code is None
        is_first = not any(_is_before(other, batch) for other in (*partition.in_flight, *partition.waiting))
        partition.put_back(batch)
        if partition.must_renew and batch.may_be_written:
            self._fail(batch, OUT_OF_ORDER)
        elif code == OUT_OF_ORDER and not is_first:
            pass  # the batch before it is to be sent again first
        elif code in _TOO_LARGE and batch.records > 1:
            batch.is_too_large = True
            topic = batch.partition.topic
            self._refused_bytes[topic] = min(batch.size_bytes, self._refused_bytes.get(topic, sys.maxsize))
        elif code in (OUT_OF_ORDER, ErrorCode.UNKNOWN_PRODUCER_ID):
            # The broker does not know the records that it has acknowledged. If they are this task's, they are lost. In a
            # transaction, only the coordinator changes the epoch.
            if partition.has_acknowledged or partition.is_ambiguous or self._transactional:
                self._fail(batch, code)
            partition.must_renew = True
        elif code is None or code in RETRIABLE:
            partition.blocked_until = now + self._retry_backoff_s
            if code is None or code in LEADER_ERRORS:
                self._depose(batch.partition)
        else:
            self._fail(batch, code)

    def _depose(self, tp: TopicPartition) -> None:
        if tp in self._active:
            for batch in (*self._active[tp].in_flight, *self._active[tp].waiting):
                batch.waits_since = self._waits_since(batch)
        self._leaders.pop(tp, None)

    def _waits_since(self, batch: Batch) -> float:
        leader = self._leaders.get(batch.partition) if batch.answer == NONE else None
        moved_at = -math.inf if leader is None else self._acknowledged_at.get(leader, -math.inf)
        return max(batch.waits_since, moved_at)

    def _fail(self, batch: Batch, code: int) -> None:
        if self.failed is None:
            self.failed = Failed(batch, code)
