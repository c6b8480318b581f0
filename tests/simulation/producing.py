"""Random schedules of an idempotent producer's requests against an in-memory cluster.

The brokers check sequences like Kafka's ``ProducerStateManager``, remember five batches of a producer, move leaders, and
answer with errors before and after an append. The topic limits the size of batches, and may lower the limit. Connections
lose requests and answers; a lost request may still be processed. The data of a batch are its records' numbers.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import (
    DUPLICATE,
    OUT_OF_ORDER,
    OVERDUE,
    SEQUENCES,
    Batch,
    ProducerId,
    Producing,
)

NOT_LEADER, TIMED_OUT = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT
AFTER_APPEND, TOO_LARGE = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.MESSAGE_TOO_LARGE
BROKERS = (1, 2, 3)


@dataclass
class Known:
    """A partition's memory of a producer: its last five batches, as first and last sequence."""

    batches: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))


@dataclass
class Log:
    """A partition: its leader, its batches, and its producers by id."""

    leader: int
    batches: list[tuple[int, ...]] = field(default_factory=list)
    producers: dict[ProducerId, Known] = field(default_factory=dict)


class Sent(NamedTuple):
    """A request as it was sent: batches with their sequences at that time."""

    number: int
    producer: ProducerId
    batches: tuple[tuple[Batch, int], ...]


@dataclass
class Connection:
    """Unprocessed requests and unreceived answers, both in order."""

    requests: deque[Sent] = field(default_factory=deque)
    answers: deque[tuple[int, dict[TopicPartition, int]]] = field(default_factory=deque)


def _size(records: int) -> int:
    """Return the size of a batch."""
    return 10 + 8 * records


class Schedule:
    """One random schedule of a task that writes; `run` raises AssertionError if a rule is broken."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        r = self._random
        self._partitions = [TopicPartition("t", n) for n in range(r.randint(1, 3))]
        self._logs = {tp: Log(r.choice(BROKERS)) for tp in self._partitions}
        self._connections = {broker: Connection() for broker in BROKERS}
        self._ghosts: list[tuple[int, deque[Sent]]] = []
        self._ids = (ProducerId(n, 0) for n in count(1))
        self._numbers = count()
        self._now = 0.0
        self._faults = r.random() * 0.4
        self._forgets = r.random() < 0.2
        self._loses_logs = r.random() < 0.1
        self._refuses = r.random() < 0.1
        self._limit = r.choice([_size(1), 40, 1_000, 1_000])
        self._lowers_limit = r.random() < 0.1
        self._expanding = r.choice(
            [None, None, self._partitions[-1]]
        )  # its batches are larger in the log than when they are sent
        self._has_refused = False  # a batch that it may have accepted before
        self._refuses_unknown = r.random() < 0.5
        self._first_sequence = r.choice([0, 0, SEQUENCES - r.randint(1, 40)])
        self._lost: set[int] = set()
        self._begun = dict.fromkeys(self._partitions, 0)  # numbers of records
        self._has_forgotten = False
        self._is_impatient = r.random() < 0.3
        self.producing = Producing(
            delivery_timeout_s=5.0 if self._is_impatient else 1e9,
            retry_backoff_s=0.1,
            most_request_bytes=r.choice([100, 1000]),
            halves=self.halves,
        )
        self._made: dict[TopicPartition, list[int]] = {tp: [] for tp in self._partitions}

    def run(self) -> Producing:
        """Add batches and let events happen until all batches are acknowledged or one has failed."""
        to_add = self._random.randint(1, 40)
        for step in range(4_000):
            self._now += self._random.random() * 0.2
            if to_add and self._random.random() < 0.3:
                self._add()
                to_add -= 1
            if step > 1_000:
                self._faults, self._forgets, self._loses_logs, self._refuses = 0.0, False, False, False
                self._lowers_limit = False
            self._happen()
            self._drive()
            if not self.producing.open_batches() and self._random.random() < 0.3:
                self._begin()
            if self.producing.failed is not None or (not to_add and not self.producing.open_batches()):
                break
        else:
            raise AssertionError("the producer makes no progress")
        self._settle()
        self._check()
        return self.producing

    def _begin(self) -> None:
        """Begin the next task."""
        self.producing.begin()
        self._begun = {tp: len(made) for tp, made in self._made.items()}

    def _add(self) -> None:
        partition = self._random.choice(self._partitions)
        batch = self._batch(partition, tuple(islice(self._numbers, self._random.randint(1, 9))))
        self._made[partition] += batch.data
        self.producing.add(batch)

    def _batch(self, partition: TopicPartition, records: tuple[int, ...]) -> Batch:
        return Batch(partition, len(records), _size(len(records)), self._now, data=records)

    def halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """Return two batches with the records of one."""
        cut = batch.records // 2
        return self._batch(batch.partition, batch.data[:cut]), self._batch(batch.partition, batch.data[cut:])

    def _drive(self) -> None:
        producing = self.producing
        producing.expire(self._now)
        if producing.needs_producer:
            producing.start(next(self._ids))
            if self._first_sequence:  # like a producer that has written a lot
                for partition in producing._partitions.values():
                    partition.next_sequence = self._first_sequence
        if producing.without_leader() and self._random.random() < 0.5:
            producing.lead({tp: log.leader for tp, log in self._logs.items()})
        for request in producing.requests(self._now, lambda broker: self._random.random() < 0.9):
            batches = tuple((batch, batch.sequence or 0) for batch in request.batches)
            self._connections[request.broker].requests.append(Sent(request.number, request.producer, batches))

    def _happen(self) -> None:
        r = self._random
        broker = r.choice(BROKERS)
        connection = self._connections[broker]
        if connection.requests and r.random() < 0.7:
            request = connection.requests.popleft()
            connection.answers.append((request.number, self._process(broker, request)))
        if connection.answers and r.random() < 0.7:
            number, codes = connection.answers.popleft()
            self.producing.answer(number, broker, codes, self._now)
        if self._ghosts and r.random() < 0.3:
            self._haunt(r.choice(self._ghosts))
        if r.random() < self._faults * 0.2:
            self._ghosts.append((broker, connection.requests))
            self._connections[broker] = Connection()
            self.producing.lose(broker, self._now)
        if r.random() < self._faults * 0.2:
            log = self._logs[r.choice(self._partitions)]
            log.leader = r.choice(BROKERS)
            if self._loses_logs and r.random() < 0.3 and log.batches:
                self._lost.update(log.batches.pop())
                for known in log.producers.values():
                    if known.batches:
                        known.batches.pop()
        if self._lowers_limit and r.random() < 0.02:
            self._limit, self._has_refused = _size(r.choice([0, 1])), True  # with 0, no record fits
        if self._forgets and r.random() < 0.05:
            self._forget(r.choice(self._partitions))

    def _forget(self, partition: TopicPartition) -> None:
        """Forget a partition's producers, as brokers do a day after their last batch or when retention removed it."""
        sent = [*(c.requests for c in self._connections.values()), *(requests for _, requests in self._ghosts)]
        on_their_way = any(batch.partition == partition for requests in sent for s in requests for batch, _ in s.batches)
        is_open = any(b.partition == partition and b.sequence is not None for b in self.producing.open_batches())
        if not on_their_way and not is_open:
            self._logs[partition].producers.clear()
            self._has_forgotten = True

    def _haunt(self, ghost: tuple[int, deque[Sent]]) -> None:
        """Process a request of a lost connection."""
        broker, requests = ghost
        if requests and self._random.random() < 0.8:
            self._process(broker, requests.popleft())
        else:
            self._ghosts.remove(ghost)

    def _process(self, broker: int, request: Sent) -> dict[TopicPartition, int]:
        return {batch.partition: self._append(broker, request.producer, batch, first) for batch, first in request.batches}

    def _append(self, broker: int, producer: ProducerId, batch: Batch, first: int) -> int:
        r, log = self._random, self._logs[batch.partition]
        if log.leader != broker:
            return NOT_LEADER
        if r.random() < self._faults * 0.1:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if self._refuses and r.random() < 0.05:
            self._has_refused = True
            return TOO_LARGE
        if _size(batch.records) > self._limit or (batch.partition == self._expanding and batch.records > 1):
            return TOO_LARGE
        last = (first + batch.records - 1) % SEQUENCES
        known = log.producers.get(producer)
        if known is None:
            if first != 0 and self._refuses_unknown and self._first_sequence == 0:
                return ErrorCode.UNKNOWN_PRODUCER_ID
            known = log.producers[producer] = Known()
        if (first, last) in known.batches:
            return r.choice([NONE, DUPLICATE])
        if known.batches and first != (known.batches[-1][1] + 1) % SEQUENCES:
            return OUT_OF_ORDER
        known.batches.append((first, last))
        log.batches.append(batch.data)
        if self._refuses and r.random() < 0.02:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return r.choice([TIMED_OUT, AFTER_APPEND]) if r.random() < self._faults * 0.1 else NONE

    def _settle(self) -> None:
        """Let brokers process the requests that are still in flight."""
        for broker, connection in self._connections.items():
            self._ghosts.append((broker, connection.requests))
        for broker, requests in self._ghosts:
            while requests and self._random.random() < 0.9:
                self._process(broker, requests.popleft())

    def _check(self) -> None:
        producing = self.producing
        open_batches = {number: batch for batch in producing.open_batches() for number in batch.data}
        flying = {number for p in producing._partitions.values() for batch in p.in_flight for number in batch.data}
        for partition, numbers in self._made.items():
            written = [number for records in self._logs[partition].batches for number in records]
            acknowledged = [n for n in numbers if n not in open_batches]
            assert len(set(written)) == len(written), f"{partition}: written twice: {written}"
            assert written == sorted(written), f"{partition}: out of order: {written}"
            kept = [n for n in acknowledged if n not in self._lost]
            assert set(kept) <= set(written), f"{partition}: acknowledged, not written: {set(kept) - set(written)}"
            surely_not = {n for n, b in open_batches.items() if b.partition == partition and not b.may_be_written} - flying
            assert not surely_not & set(written), f"{partition}: said not to be written: {surely_not & set(written)}"
            assert producing.delivered[partition] == len(set(numbers[self._begun[partition] :]) & set(acknowledged))
        if producing.failed is None:
            assert not open_batches
        else:
            assert self._may_fail(*producing.failed), f"failed without need: {producing.failed.code}"

    def _may_fail(self, batch: Batch, code: int) -> bool:
        """Return True if an event allows a batch to end with a code."""
        if code in (OUT_OF_ORDER, ErrorCode.UNKNOWN_PRODUCER_ID):
            return self._has_forgotten or bool(self._lost) or self._has_refused
        if code == TOO_LARGE:
            return batch.records == 1 and self._has_refused
        return code == ErrorCode.UNKNOWN_SERVER_ERROR or (code == OVERDUE and self._is_impatient)
