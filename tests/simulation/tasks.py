"""A Spark task that writes a slot exactly once: the real steps, one request at a time, on an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_zkafka.model.exactly_once import (
    Abort,
    Attempt,
    AwaitTasks,
    Begin,
    Commit,
    CountRows,
    OtherEntries,
    ReadLedger,
    ReadOthers,
    Result,
    RowSet,
    Send,
    Step,
    write_slot,
)
from pyspark_zkafka.model.ledger import Entry, LedgerGroup, LedgerKey, QueryName, encode, key_of, newest
from tests.simulation.transactions import Broker, Producer, Row

WIDTH = 2
QUERY = "8f1c2d3e-0000-4000-8000-000000000001"
MAX_WAIT_MS = 200_000
RESULT_STEPS = 3
"""How long the result of a task is on its way to the driver, in steps of the task."""

Requests = Generator[None, None, Any]


Seen = dict[QueryName, tuple[str, int]]
"""The run that a worker saw last under a name, and the earliest micro-batch of that run that it has seen."""


@dataclass
class Executor:
    """A process with a number of cores, whose workers remember what they have `seen`."""

    cores: int
    seen: Seen = field(default_factory=dict)


def row_set(rows: Sequence[Row]) -> RowSet:
    """Return the count of rows, and a digest that is unique to their values."""
    return RowSet(len(rows), "+".join(sorted(row.value for row in rows)))


class Task:
    """An attempt of a slot; `step` advances it to its next request, between which others may take theirs.

    Attributes
    ----------
    executor : Executor
        The executor on which it runs.
    slot : int
        The slot that it writes.
    rows : sequence of Row
        The rows of the slot, as this attempt has computed them.
    attempt : Attempt
        What it knows of itself and of earlier attempts.
    at : Step
        Its current step.
    is_open : bool
        True if it leaves a comparison to the driver.
    """

    def __init__(self, broker: Broker, executor: Executor, name: QueryName, attempt: Attempt, rows: Sequence[Row]) -> None:
        run, since = executor.seen.get(name, ("", 0))
        since = min(since, attempt.batch) if run == attempt.run else attempt.batch
        executor.seen[name] = attempt.run, since
        attempt = replace(attempt, since=since)
        self.executor = executor
        self.slot = attempt.slot
        self.rows = rows
        self.attempt = attempt
        self._broker = broker
        self._name = name
        self._transactional_id = name.transactional_id(attempt.slot)
        self._producer: Producer | None = None
        self._is_open = False
        self._began_ms = 0
        self.at: Step = Begin()
        self.is_open = False
        self._requests = self._run()

    def step(self) -> bool:
        """Return False once it has returned; raises its error."""
        return next(self._requests, StopIteration) is not StopIteration

    def _run(self) -> Requests:
        if self.rows or self.attempt.may_be_recorded:
            result = yield from self._write()
            self.is_open = result.is_open
        else:
            self.is_open = True
        for _ in range(RESULT_STEPS):
            yield

    def _write(self) -> Generator[None, None, Result]:
        steps = write_slot(self.attempt)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as finished:
                result: Result = finished.value
                return result
            answer = yield from self._take(step)

    def _take(self, step: Step) -> Requests:
        self.at = step
        if isinstance(step, Begin):
            return (yield from self._begin())
        if isinstance(step, ReadLedger):
            return (yield from self._read_ledger())
        if isinstance(step, ReadOthers):
            yield
            former = self._elsewhere(self._has_earlier_name) if step.with_earlier_name else {}
            return OtherEntries(self._elsewhere(lambda base: QueryName.belongs(base, QUERY)), former)
        if isinstance(step, CountRows):
            yield
            return row_set(self.rows)
        if isinstance(step, Send):
            return (yield from self._send())
        if isinstance(step, AwaitTasks):
            yield
            return self._broker.now_ms - self._began_ms < MAX_WAIT_MS
        if isinstance(step, Commit):
            return (yield from self._commit(step.entry))
        assert isinstance(step, Abort)
        return self._abort()

    def _begin(self) -> Requests:
        yield from self._fence()
        return (yield from self._own_entry())

    def _fence(self) -> Requests:
        yield
        self._producer = self._broker.init(self._transactional_id)

    def _own_entry(self) -> Requests:
        found = yield from self._read([key_of(self._name, self.slot, WIDTH)])
        return found[0] if found else None

    def _read_ledger(self) -> Requests:
        """Read one group after another, without a common snapshot."""
        yield
        found: list[Entry] = []
        for group in self._broker.groups(self._name):
            found += yield from self._read(self._broker.keys(group))
        return newest(found)

    def _has_earlier_name(self, base: str) -> bool:
        """Return True for a name that the write may have had before its batchId was set or omitted, as in `identify`."""
        prefix = self._name.prefix
        if self._name.writer:
            return base == str(QueryName.numbered(prefix, self._name.writer))
        writer = self._name.query.removeprefix("writer.")
        return self.attempt.is_job and QueryName.unnumbered(prefix, writer).fullmatch(base) is not None

    def _elsewhere(self, belongs: Callable[[str], bool]) -> dict[str, list[Entry]]:
        """Read the entries under other names in one answer, which does not wait for transactions."""
        found: dict[str, list[Entry]] = {}
        for key in self._broker.offsets:
            group = LedgerGroup.parse(key.group)
            assert group is not None
            if group.base != str(self._name) and belongs(group.base):
                found.setdefault(group.base, []).extend(self._broker.entries([key]))
        return found

    def _read(self, keys: Collection[LedgerKey]) -> Requests:
        yield
        while self._broker.is_pending(keys):
            yield
        return self._broker.entries(keys)

    def _send(self) -> Requests:
        for row in self.rows:
            yield
            self._open()
            self._current.send(row)
        yield
        return row_set(self.rows)

    def _commit(self, entry: Entry) -> Requests:
        yield
        self._open()
        self._current.commit_offset(key_of(self._name, self.slot, WIDTH), encode(entry))
        yield
        self._current.commit()
        yield

    def _abort(self) -> None:
        if self._is_open:
            self._current.abort()

    def _open(self) -> None:
        if not self._is_open:
            self._current.begin()
            self._is_open, self._began_ms = True, self._broker.now_ms

    @property
    def _current(self) -> Producer:
        assert self._producer is not None
        return self._producer
