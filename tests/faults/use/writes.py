"""Random schedules of exactly-once writes on a real cluster, and the invariants of every schedule.

A query writes micro-batches, each in one or two writes of some slots. An attempt ends after some slots, as if killed, or
completes the micro-batch. Between attempts, a user changes one option or the place of the write: the stream's writer,
foreachBatch, or a thread of foreachBatch, where Spark does not name the micro-batch.

1.  Whatever changes, no row is in the topic twice.
2.  An attempt that repeats the first one is not refused; when it completes, its rows are in the topic once.
"""

from __future__ import annotations

import random
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import LedgerError, OptionError, ZKafkaError
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.exactly_once import write_rows_once
from pyspark_zkafka.write.plan import WritePlan, plan_write
from tests.faults.use.plants import PLANTS
from tests.faults.use.runs import PROCESSES
from tests.support.numbered_rows import numbers
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["KINDS", "Attempt", "Way", "find", "violation"]

KINDS = ("writes",)
_SLOTS = 3
_ROWS = 4
_TIMEOUT_S = 60
_LATER_S = 0.5
_ZONES = ("UTC", "UTC", "Europe/Berlin", "GMT+05:00", "Z")
_TWICE_US = 1_698_539_400_123_456  # 02:30 in Berlin, for the first time that night
_FORMS = ("stream", "foreachBatch", "thread")


class Way(NamedTuple):
    """How a micro-batch is written: from which place, and with which options.

    `timeout_s` is the transaction timeout. `zone` is the session's time zone, in which the rows' time may occur twice. With
    `is_unlimited`, the producer's queue has no record limit.
    """

    form: str = "stream"
    writer: str = ""
    prefix: str = "zkafka"
    ledger: str = ""
    is_numbered: bool = False
    timeout_s: int = 12
    zone: str = "UTC"
    is_unlimited: bool = False

    @property
    def identity(self) -> Way:
        """The options with which an interrupted micro-batch must be repeated."""
        return self._replace(zone="UTC", is_unlimited=False)


class Attempt(NamedTuple):
    """An attempt to write a micro-batch, which writes the first `slots` slots of `order`."""

    way: Way
    order: tuple[int, ...]
    slots: int


def attempts_of(seed: int, length: int = 6) -> list[Attempt]:
    """Return a schedule: a way of writing, and attempts in this way or with one change."""
    chance = random.Random(f"{seed} writes")
    form = chance.choice(_FORMS)
    base = Way(form, "w" if form == "thread" else chance.choice(("", "w")), is_numbered=form == "thread")
    base = base._replace(timeout_s=chance.choice((6, 12)))
    found = []
    for _ in range(length):
        way = base if chance.random() < 0.5 else _changed(base, chance)
        way = way._replace(zone=chance.choice(_ZONES), is_unlimited=chance.random() < 0.2)
        order = tuple(chance.sample(range(_SLOTS), _SLOTS))
        found.append(Attempt(way, order, chance.choice((1, 2, _SLOTS))))
    return found


def _changed(way: Way, chance: random.Random) -> Way:
    changes = [{"prefix": "team"}, {"ledger": "ledger"}]
    if way.form == "thread":  # a batch number under another name belongs to another write
        return way._replace(**chance.choice([{"is_numbered": False, "writer": ""}, {"ledger": "ledger"}]))
    changes += [{"writer": "other"}, {"form": "thread", "is_numbered": False}]
    return way._replace(**chance.choice(changes))


@dataclass(frozen=True)
class Context:
    """The part of Spark's TaskContext that an exactly-once write uses."""

    slot: int
    properties: tuple[tuple[str, str], ...]

    def partitionId(self) -> int:  # noqa: N802
        """Return the slot."""
        return self.slot

    def attemptNumber(self) -> int:  # noqa: N802
        """Return how often Spark has tried the task before."""
        return 0

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        """Return a property of the job."""
        return dict(self.properties).get(key)


class _Call:
    """A function that runs in a separate process."""

    def __init__(self, function: Any, *arguments: Any, plant: str | None) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_answer, args=(theirs, plant, function, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def result(self) -> Any:
        """Return or raise the outcome of the function."""
        try:
            assert self._pipe.poll(_TIMEOUT_S), "a task has not ended"
            answer = self._pipe.recv()
        finally:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        if isinstance(answer, ZKafkaError):
            raise answer
        assert not isinstance(answer, BaseException), f"{type(answer).__name__}: {answer}"
        return answer


def _answer(pipe: Connection, plant: str | None, function: Any, arguments: Sequence[Any]) -> None:
    if plant is not None:
        PLANTS[plant].apply(pytest.MonkeyPatch())
    try:
        pipe.send(function(*arguments))
    except Exception as error:  # noqa: BLE001
        pipe.send(error)


def _plan(options: dict[str, str], is_stream: bool) -> WritePlan:
    return plan_write(parse_write(options), is_stream=is_stream)


def _write(options: dict[str, str], plan: WritePlan, context: Context, values: list[bytes], zone: str) -> Any:
    times = pa.array([_TWICE_US] * len(values), pa.timestamp("us", tz=zone))
    batch = pa.record_batch([pa.array(values, pa.binary()), times], names=["value", "timestamp"])
    return write_rows_once(parse_write(options), plan, iter([batch]), context)  # type: ignore[arg-type]


class Schedule:
    """A topic, a query that writes to it, and the rows written."""

    def __init__(self, cluster: LocalCluster, attempts: Sequence[Attempt], plant: str | None = None) -> None:
        self.cluster = cluster
        self.attempts = attempts
        self.plant = plant
        self.prefix = f"use-{secrets.token_hex(4)}"
        self.query = str(uuid.uuid4())
        self.batch = 0
        self.first: Way | None = None  # the way that recorded slots of this micro-batch
        self.recorded: set[int] = set()
        self.rows: Counter[int] = Counter()
        self.log: list[str] = []

    def run(self) -> None:
        """Take all attempts, then complete the last micro-batch. Raises AssertionError."""
        self.cluster.create_topic(self.prefix, 2, config=KEPT)  # the rows' timestamps are old
        self.cluster.create_topic(f"{self.prefix}-ledger", 2)
        for attempt in self.attempts:
            self._take(attempt)
            found = numbers(self.cluster.bootstrap_servers, self.prefix)
            twice = sorted(number for number, times in found.items() if times > 1)
            assert not twice, f"rows {twice} are in the topic twice"
        if self.first is not None:
            self._take(Attempt(self.first, tuple(range(_SLOTS)), _SLOTS))
        found = numbers(self.cluster.bootstrap_servers, self.prefix)
        assert found == self.rows, f"the topic has {found}, and not {self.rows}"

    def _take(self, attempt: Attempt) -> None:
        way, slots = attempt.way, attempt.order[: attempt.slots]
        slots = tuple(dict.fromkeys((*slots, *sorted(self.recorded))))  # Spark waits for the recorded ones as well
        self.log.append(f"batch {self.batch}: {way}, slots {slots}")
        run = str(uuid.uuid4())
        options = self._options(way)
        try:
            plan = _Call(_plan, options, way.form == "stream", plant=self.plant).result()
            calls = {}
            for slot in slots:
                if calls and slot in self.recorded:
                    time.sleep(_LATER_S)  # slots that are not recorded have to wait for this one
                context = self._context(way, slot, run)
                calls[slot] = _Call(_write, options, plan, context, self._values(slot), way.zone, plant=self.plant)
        except ZKafkaError as error:
            self._check(way, error)
            return
        errors: list[ZKafkaError] = []
        for slot, call in calls.items():
            try:
                call.result()
                self.recorded.add(slot)
                self.first = self.first or way
            except ZKafkaError as error:
                errors.append(error)
        for error in errors:
            self._check(way, error)
        if not errors and len(self.recorded) == _SLOTS:
            self.rows += Counter({self._number(slot, n): 1 for slot in range(_SLOTS) for n in range(_ROWS)})
            self.batch, self.first, self.recorded = self.batch + 1, None, set()

    def _check(self, way: Way, error: ZKafkaError) -> None:
        self.log.append(f"  {str(error)[:160]}")
        is_nameless = way.form == "thread" and not way.is_numbered
        has_changed = self.first is not None and self.first.identity != way.identity
        is_refusal = isinstance(error, LedgerError) or (isinstance(error, OptionError) and is_nameless)
        has_reason = is_refusal and (is_nameless or has_changed)
        assert has_reason, f"refused without a reason: {error}"

    def _options(self, way: Way) -> dict[str, str]:
        given = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "topic": self.prefix,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": f"{self.prefix}-{way.prefix}",
            "kafka.transaction.timeout.ms": str(way.timeout_s * 1000),
        }
        if way.is_unlimited:
            given["kafka.queue.buffering.max.messages"] = "0"
        if way.writer:
            given["writerName"] = way.writer
        if way.ledger:
            given["ledgerTopic"] = f"{self.prefix}-ledger"
        if way.is_numbered:
            given["batchId"] = str(self.batch)
        return given

    def _context(self, way: Way, slot: int, run: str) -> Context:
        if way.form == "thread":
            return Context(slot, ())
        of_query = {"sql.streaming.queryId": self.query, "streaming.sql.batchId": str(self.batch)}
        return Context(slot, tuple({**of_query, "spark.jobGroup.id": run}.items()))

    def _number(self, slot: int, n: int) -> int:
        return (self.batch * _SLOTS + slot) * _ROWS + n

    def _values(self, slot: int) -> list[bytes]:
        return [b"%d:" % self._number(slot, n) for n in range(_ROWS)]


def violation(cluster: LocalCluster, attempts: Sequence[Attempt], plant: str | None = None) -> str | None:
    """Run a schedule. Returns its violation and its attempts, or None."""
    schedule = Schedule(cluster, attempts, plant)
    try:
        schedule.run()
    except AssertionError as error:
        return "\n  ".join([str(error), *schedule.log])
    return None


def find(cluster: LocalCluster, seed: int, kind: str = "writes", plant: str | None = None, length: int = 6) -> str | None:
    """Return the violation of a seed's schedule, or None."""
    found = violation(cluster, attempts_of(seed, length), plant)
    return None if found is None else f"seed {seed}, {kind}: {found}"
