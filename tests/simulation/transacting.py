"""Random schedules of producers with one transactional id against an in-memory coordinator and logs.

The coordinator follows Kafka's ``TransactionCoordinator`` with and without KIP-890: epochs, fencing, markers that are
written after the answer, timeouts. Requests and answers are lost, and a lost request may be processed later. While one
producer waits, another one with the same id may begin and make the first one a zombie.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import OVERDUE, ProducerId
from pyspark_zkafka.records.direct.producer_messages import (
    SECOND_PROTOCOL,
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffset,
    EndTransaction,
    InitProducerId,
    Message,
)
from pyspark_zkafka.records.direct.transactions import DirectTransactions, StepFailed
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.group_messages import GROUP, Coordinator

TIMED_OUT, NOT_COORDINATOR = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR
INVALID_EPOCH, INVALID_STATE = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE
CONCURRENT, FENCED = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
OFFSETS = TopicPartition("__consumer_offsets", 0)
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
MOST_EPOCH = 10**9
MOST_CALLS = 200


@dataclass
class Log:
    """A partition: rows and markers in order, and the newest epoch."""

    entries: list[tuple[str, int]] = field(default_factory=list)  # ("row", producer), or ("commit" or "abort", -1)
    epoch: int = -1

    def append(self, producer: int, epoch: int) -> int:
        if epoch < self.epoch:
            return INVALID_EPOCH
        self.epoch = epoch
        self.entries.append(("row", producer))
        return NONE

    def visible(self, *, last: bool = False) -> list[int]:
        """Return the producers of committed rows; with `last`, of each transaction's last row, as for offsets."""
        found, open_rows = [], list[int]()
        for kind, producer in self.entries:
            if kind == "row":
                open_rows = [producer] if last else [*open_rows, producer]
                continue
            found += open_rows if kind == "commit" else []
            open_rows = []
        return found

    def is_open(self) -> bool:
        return bool(self.entries) and self.entries[-1][0] == "row"


class World:
    """The coordinator of one transactional id, its partitions, and the requests in flight."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.faults = chance.random() * 0.4
        self.protocol = chance.choice([0, SECOND_PROTOCOL])
        self.logs = {tp: Log() for tp in (*PARTITIONS, OFFSETS)}
        self.now = 0.0
        self._epoch = -1
        self._state = "empty"  # or ongoing, commit, abort (markers are pending), done-commit, done-abort
        self._added: set[TopicPartition] = set()
        self._late: list[Callable[[], object]] = []

    @property
    def producer(self) -> ProducerId:
        return ProducerId(7, self._epoch)

    def happen(self) -> None:
        """Let time pass: markers are written, late requests arrive, the transaction may time out."""
        r = self.random
        self.now += r.random() * 0.1
        if self._state in ("commit", "abort") and r.random() < 0.5:
            self._write_markers()
        if self._late and r.random() < 0.3:
            self._late.pop(r.randrange(len(self._late)))()
        if self._state == "ongoing" and r.random() < self.faults * 0.02:
            self._end("abort", self._epoch + 1)

    def settle(self) -> None:
        """Deliver all requests in flight, then let open transactions time out."""
        while self._late:
            self._late.pop(0)()
        if self._state == "ongoing":
            self._end("abort", self._epoch + 1)
        if self._state in ("commit", "abort"):
            self._write_markers()

    def deliver(self, process: Callable[[], int | Answer]) -> int | Answer | None:
        """Process a request, now or later, and return its answer; None if the request or its answer is lost."""
        r = self.random
        if r.random() >= self.faults * 0.3:
            return process()
        fate = r.choice(["lost", "late", "unanswered"])
        if fate == "late":
            self._late.append(process)
        elif fate == "unanswered":
            process()
        return None

    def process(self, message: Message) -> Answer:
        """Return the answer of the coordinator, which may have moved."""
        if self.random.random() < self.faults * 0.1:
            return Answer(self.random.choice([NOT_COORDINATOR, TIMED_OUT]))
        if isinstance(message, InitProducerId):
            return self._init()
        if isinstance(message, EndTransaction):
            return self._end_requested(message)
        if isinstance(message, AddPartitions):
            return Answer(self._add(message.partitions, message.producer.epoch))
        if isinstance(message, AddOffsets):
            return Answer(self._add([OFFSETS], message.producer.epoch))
        return Answer(self.produce(OFFSETS, message.offset.offset, message.producer.epoch))

    def produce(self, partition: TopicPartition, producer: int, epoch: int) -> int:
        """Append a row. With KIP-890, this adds the partition to the transaction."""
        if self.protocol >= SECOND_PROTOCOL and (error := self._add([partition], epoch)) != NONE:
            return error
        return self.logs[partition].append(producer, epoch)

    def _init(self) -> Answer:
        if self._state in ("commit", "abort"):
            return Answer(CONCURRENT)
        if self._state == "ongoing":
            self._end("abort", self._epoch + 1)
            return Answer(CONCURRENT)
        self._epoch += 1
        self._state = "empty"
        return Answer(NONE, self.producer)

    def _add(self, partitions: Collection[TopicPartition], epoch: int) -> int:
        if epoch != self._epoch:
            return FENCED if self.random.random() < 0.5 else INVALID_EPOCH
        if self._state in ("commit", "abort"):
            return CONCURRENT
        self._state = "ongoing"
        self._added.update(partitions)
        return NONE

    def _end_requested(self, message: EndTransaction) -> Answer:
        kind = "commit" if message.commit else "abort"
        is_second, epoch = self.protocol >= SECOND_PROTOCOL, message.producer.epoch
        is_repeated = is_second and epoch == self._epoch - 1 and self._state in (kind, f"done-{kind}")
        if epoch != self._epoch and not is_repeated:
            return Answer(FENCED)
        if self._state == "ongoing":
            self._end(kind, self._epoch + 1 if is_second else self._epoch)
            return Answer(NONE, self.producer if is_second else None)
        if self._state == kind:
            return Answer(CONCURRENT)
        if self._state == f"done-{kind}":
            return Answer(NONE, self.producer if is_second else None)
        return Answer(INVALID_STATE)

    def _end(self, kind: str, epoch: int) -> None:
        self._state, self._epoch = kind, epoch

    def _write_markers(self) -> None:
        for partition in self._added:
            log = self.logs[partition]
            log.entries.append((self._state, -1))
            log.epoch = max(log.epoch, self._epoch)
        self._added.clear()
        self._state = f"done-{self._state}"


@dataclass
class Transaction:
    """A producer's transaction and its outcome: open, committed, or failed before or in the commit."""

    number: int
    outcome: str = "open"
    rows: int = 0


class Attempt:
    """A producer of the id that writes rows and an offset in one transaction or several.

    It also serves as the `DirectSender` and the `CoordinatorConnections` of its transactions.
    """

    def __init__(self, schedule: Schedule) -> None:
        world = schedule.world
        self.protocol = world.protocol
        self._schedule = schedule
        self._world = world
        self._registered: set[TopicPartition] = set()
        self._producer = ProducerId(-1, -1)
        self._refusal = NONE
        self._is_uncertain = False
        self.transactions = DirectTransactions(60_000, self, self, lambda: world.now, self._sleep)

    def run(self) -> None:
        """Write until a transaction fails or chance ends it."""
        while self._start() and self._write_once() and self._world.random.random() < 0.7:
            for _ in range(self._world.random.randint(0, 3)):
                self._wait()

    def _start(self) -> bool:
        try:
            self._call(lambda timeout_s: self.transactions.init("x", timeout_s))
            return True
        except StepFailed:
            return False

    def _write_once(self) -> bool:
        written = self._schedule.new_transaction()
        try:
            self.transactions.begin(self._world.random.choice(["", "g"]))
            for _ in range(self._world.random.randint(0, 4)):
                self._write(written, self._world.random.choice(PARTITIONS))
            if self._world.random.random() < 0.15:
                raise StepFailed(NONE, "the task fails")
            offset = GroupOffset("g", OFFSETS.topic, 0, written.number, "")
            self._call(lambda timeout_s: self.transactions.commit_offset(offset, timeout_s))
            written.outcome = "failed in the commit"
            self._call(self.transactions.commit)
            written.outcome = "committed"
            return True
        except StepFailed:
            if written.outcome == "open":
                written.outcome = "failed before the commit"
                self._abort()
            return False

    def ask(self, coordinator: Coordinator, message: Message, protocol: int, deadline: Deadline) -> Answer | None:
        self._wait()
        assert isinstance(message, CommitOffset) == (coordinator.kind == GROUP)
        found = self._world.deliver(lambda: self._world.process(message))
        assert not isinstance(found, int)
        return found

    def forget(self, coordinator: Coordinator) -> None:
        """Do nothing: no coordinator is cached."""

    def start(self, transactional_id: str, producer: ProducerId) -> None:
        self._producer = producer

    def register(self, partitions: Collection[TopicPartition]) -> None:
        self._registered.update(partitions)

    def end_transaction(self) -> None:
        self._registered.clear()

    def drain(self, timeout_s: float) -> bool:
        return not self._is_uncertain

    @property
    def refusal(self) -> int:
        return self._refusal

    def _write(self, written: Transaction, partition: TopicPartition) -> None:
        """Send a row until it is acknowledged, as a sender does; brokers detect repeated batches by their sequences."""
        for _ in range(MOST_CALLS):
            if partition in self._registered:
                break
            if not self.transactions.add_partitions([partition], 0.1) and (failure := self.transactions.failure):
                raise failure
        else:
            raise AssertionError("the coordinator never adds the partition")
        epoch, is_written = self._producer.epoch, False

        def append() -> int:
            nonlocal is_written
            if is_written:
                return NONE
            error = self._world.produce(partition, written.number, epoch)
            is_written = error == NONE
            return error

        while True:
            self._wait()
            found = self._world.deliver(append)
            assert not isinstance(found, Answer)
            if found == NONE:
                written.rows += 1
                self._is_uncertain = False
                return
            if found is None:
                self._is_uncertain = True
                if self._world.random.random() < 0.2:
                    raise StepFailed(OVERDUE)
            elif found != CONCURRENT:
                self._refusal = found
                assert self.transactions.failure is not None
                raise self.transactions.failure

    def _abort(self) -> None:
        try:
            self._call(self.transactions.abort)
        except StepFailed:
            return

    def _call(self, call: Callable[[float], None]) -> None:
        for _ in range(MOST_CALLS):
            try:
                return call(1.0)
            except StepFailed as error:
                if not error.is_retriable:
                    raise
        raise AssertionError("the coordinator never answers")

    def _sleep(self, seconds: float) -> None:
        self._world.now += seconds
        self._wait()

    def _wait(self) -> None:
        self._world.happen()
        self._schedule.meanwhile()


class Schedule:
    """One random schedule of attempts; `run` raises AssertionError if a rule is broken."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.world = World(chance)
        self.written: list[Transaction] = []
        self._left = chance.randint(1, 4)
        self._depth = 0

    def run(self) -> list[str]:
        """Run the attempts, and return the outcomes of their transactions."""
        while self._left:
            self._begin()
        self.world.settle()
        self._check()
        return [transaction.outcome for transaction in self.written]

    def new_transaction(self) -> Transaction:
        """Return the next transaction."""
        self.written.append(Transaction(len(self.written)))
        return self.written[-1]

    def meanwhile(self) -> None:
        """Begin another attempt by chance."""
        if self._left and self._depth < 3 and self.world.random.random() < 0.03:
            self._begin()

    def _begin(self) -> None:
        self._left -= 1
        self._depth += 1
        Attempt(self).run()
        self._depth -= 1

    def _check(self) -> None:
        for partition, log in self.world.logs.items():
            # The first protocol may commit an offset twice, the second time late. The next offset replaces it.
            if partition != OFFSETS or self.world.protocol >= SECOND_PROTOCOL:
                assert not log.is_open(), f"{partition}: rows without a marker: {log.entries}"
        offsets = self.world.logs[OFFSETS].visible(last=True)
        for written in self.written:
            rows = sum(self.world.logs[tp].visible().count(written.number) for tp in PARTITIONS)
            is_visible = written.number in offsets
            what = f"transaction {written.number} {written.outcome}: {rows} of {written.rows} rows, offset {is_visible}"
            if written.outcome == "committed":
                assert is_visible is True, what
                assert rows == written.rows, what
            elif written.outcome == "failed before the commit":
                assert is_visible is False, what
                assert rows == 0, what
            else:
                assert rows == (written.rows if is_visible else 0), what
