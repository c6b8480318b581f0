"""Possible bugs of an exactly-once writer, planted one by one: the simulation finds each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model import exactly_once
from pyspark_zkafka.model.exactly_once import Attempt, AwaitTasks, CountRows, Result, RowSet
from pyspark_zkafka.model.ledger import Entry, LedgerKey, QueryName, decode, encode, key_of
from tests.simulation import jobs, tasks
from tests.simulation.tasks import WIDTH, Executor, Requests, Task
from tests.simulation.transactions import Broker, Row
from tests.simulation.writes import simulate
from tests.support.tiers import seldom

FIRST_SCHEDULE, MOST_SCHEDULES = 6_000, 4_000

Plant = Callable[[pytest.MonkeyPatch], None]


# --- in the steps on the broker ----------------------------------------------------------------------------------------


def look_before_fencing(patch: pytest.MonkeyPatch) -> None:
    """The slot's entry is read before earlier attempts are fenced."""

    def begin(self: Task) -> Requests:
        found = yield from self._own_entry()
        yield from self._fence()
        return found

    patch.setattr(Task, "_begin", begin)


def fence_nobody(patch: pytest.MonkeyPatch) -> None:
    """Each attempt has its own transactional.id."""
    numbers = count()
    patch.setattr(QueryName, "transactional_id", lambda self, slot: f"{self}-{slot}-{next(numbers)}")


def remember_across_fencing(patch: pytest.MonkeyPatch) -> None:
    """A process assumes that its last committed entry is still the slot's last entry."""
    commit = Task._commit

    def remembered(self: Task) -> dict[str, Entry]:
        return vars(self.executor).setdefault("remembered", {})  # type: ignore[no-any-return]

    def begin(self: Task) -> Requests:
        yield from self._fence()
        return remembered(self).get(self._transactional_id) or (yield from self._own_entry())

    def commit_and_remember(self: Task, entry: Entry) -> Requests:
        yield from commit(self, entry)
        remembered(self)[self._transactional_id] = entry

    patch.setattr(Task, "_begin", begin)
    patch.setattr(Task, "_commit", commit_and_remember)


def commit_without_the_entry(patch: pytest.MonkeyPatch) -> None:
    """The rows are committed without an entry."""

    def commit(self: Task, entry: Entry) -> Requests:
        yield
        self._open()
        self._current.commit()

    patch.setattr(Task, "_commit", commit)


def commit_the_entry_afterwards(patch: pytest.MonkeyPatch) -> None:
    """The rows are committed first, and the entry in a second transaction."""
    commit = Task._commit

    def apart(self: Task, entry: Entry) -> Requests:
        if self._is_open:
            self._current.commit()
            self._is_open = False
        yield from commit(self, entry)

    patch.setattr(Task, "_commit", apart)


def commit_the_entry_before(patch: pytest.MonkeyPatch) -> None:
    """The entry is committed first, and the rows in a second transaction."""

    def apart(self: Task, entry: Entry) -> Requests:
        self._current.begin()
        self._current.commit_offset(key_of(self._name, self.slot, WIDTH), encode(entry))
        self._current.commit()
        yield
        self._current.begin()
        for row in self.rows:
            self._current.send(row)
        self._current.commit()

    patch.setattr(Task, "_commit", apart)


def read_past_pending_entries(patch: pytest.MonkeyPatch) -> None:
    """A read of the ledger does not wait for transactions in progress."""
    patch.setattr(Broker, "is_pending", lambda self, keys: False)


def take_an_unreadable_entry_for_none(patch: pytest.MonkeyPatch) -> None:
    """Metadata that cannot be decoded are skipped."""

    def entries(self: Broker, keys: Collection[LedgerKey]) -> list[Entry]:
        found = []
        for metadata in (self.offsets[key] for key in keys if key in self.offsets):
            try:
                found.append(decode(metadata))
            except LedgerError:
                continue
        return found

    patch.setattr(Broker, "entries", entries)


def share_a_key(patch: pytest.MonkeyPatch) -> None:
    """Slots whose numbers differ by the ledger's width share a key."""
    patch.setattr(tasks, "key_of", lambda name, slot, width: key_of(name, slot % width, width))


def compare_counts_alone(patch: pytest.MonkeyPatch) -> None:
    """Slots with equal row counts are treated as equal."""
    patch.setattr(tasks, "row_set", lambda rows: RowSet(len(rows), ""))


def hash_rows_in_order(patch: pytest.MonkeyPatch) -> None:
    """The digest depends on the order of the rows."""

    def in_order(rows: Sequence[Row]) -> RowSet:
        return RowSet(len(rows), "+".join(row.value for row in rows))

    patch.setattr(tasks, "row_set", in_order)


# --- in the decisions ----------------------------------------------------------------------------------------------------


def verify_nothing_first(patch: pytest.MonkeyPatch) -> None:
    """A slot that is not recorded is written at once."""
    patch.setattr(exactly_once, "unverified", lambda attempt, entries: ())


def wait_for_lower_slots_alone(patch: pytest.MonkeyPatch) -> None:
    """A slot waits only for the recorded slots below it."""
    unverified = exactly_once.unverified
    patch.setattr(exactly_once, "unverified", lambda a, entries: tuple(s for s in unverified(a, entries) if s < a.slot))


def wait_by_batch_alone(patch: pytest.MonkeyPatch) -> None:
    """A slot waits as long as others are recorded for the micro-batch, whichever run recorded them."""

    def recorded(attempt: Attempt, entries: Mapping[int, Entry]) -> tuple[int, ...]:
        return tuple(entry.slot for entry in entries.values() if entry.batch == attempt.batch)

    patch.setattr(exactly_once, "unverified", recorded)


def take_another_try_for_this_one(patch: pytest.MonkeyPatch) -> None:
    """A slot that an earlier try of the same run recorded counts as verified."""
    patch.setattr(Attempt, "has_recorded", lambda self, entry: entry.run == self.run)


def look_only_at_first(patch: pytest.MonkeyPatch) -> None:
    """A slot that has been written before does not check the other slots."""
    look = exactly_once._look

    def once(attempt: Attempt, own: Entry | None) -> Generator[Any, Any, AwaitTasks]:
        return AwaitTasks() if own is not None else (yield from look(attempt, own))

    patch.setattr(exactly_once, "_look", once)


def forget_to_mark(patch: pytest.MonkeyPatch) -> None:
    """A slot with equal rows is not marked as verified."""

    def verify(attempt: Attempt, own: Entry) -> Generator[Any, Any, Result]:
        found: RowSet = yield CountRows()
        if found != (own.rows, own.digest):
            raise exactly_once._rows_differ(attempt, own, found)
        return Result(found.rows, was_written=True)

    patch.setattr(exactly_once, "_verify", verify)


def compare_nothing(patch: pytest.MonkeyPatch) -> None:
    """A recorded slot counts as repeated without a comparison."""

    def verify(attempt: Attempt, own: Entry) -> Generator[Any, Any, Result]:
        yield exactly_once.Commit(exactly_once.replace(own, run=attempt.run, write=attempt.write))
        return Result(own.rows, was_written=True)

    patch.setattr(exactly_once, "_verify", verify)


def ignore_other_names(patch: pytest.MonkeyPatch) -> None:
    """Entries that the query recorded under another name are ignored."""
    patch.setattr(exactly_once, "_awaited_elsewhere", lambda attempt, others: ())


def ignore_former_names(patch: pytest.MonkeyPatch) -> None:
    """Entries that the write recorded before its batchId was set or omitted are ignored."""
    patch.setattr(exactly_once, "_require_not_renamed", lambda attempt, former: None)


def ignore_a_later_micro_batch(patch: pytest.MonkeyPatch) -> None:
    """Entries of later micro-batches count for earlier ones."""
    patch.setattr(exactly_once, "_require_not_ahead", lambda attempt, entry: None)


def ignore_another_write(patch: pytest.MonkeyPatch) -> None:
    """The second write under a name counts as a retry of the first."""
    patch.setattr(exactly_once, "_require_same_write", lambda attempt, entries: None)


def trust_the_end_of_tasks(patch: pytest.MonkeyPatch) -> None:
    """The driver does not look for entries of slots whose tasks had no rows."""
    patch.setattr(jobs, "require_repeated", lambda empty, entries: None)


def trust_a_retry_without_rows(patch: pytest.MonkeyPatch) -> None:
    """A slot without rows is not recorded if its worker has seen an earlier micro-batch, and the driver agrees."""
    trust_the_end_of_tasks(patch)
    patch.setattr(Task, "__init__", _without_retries(Task.__init__))


def _without_retries(init: Callable[..., None]) -> Callable[..., None]:
    def made(self: Task, broker: Broker, on: Executor, name: QueryName, attempt: Attempt, rows: Sequence[Row]) -> None:
        init(self, broker, on, name, replace(attempt, is_retry=False), rows)

    return made


@pytest.mark.parametrize(
    "plant",
    [
        *seldom(look_before_fencing),
        fence_nobody,
        remember_across_fencing,
        commit_without_the_entry,
        commit_the_entry_afterwards,
        commit_the_entry_before,
        read_past_pending_entries,
        take_an_unreadable_entry_for_none,
        share_a_key,
        compare_counts_alone,
        hash_rows_in_order,
        verify_nothing_first,
        wait_for_lower_slots_alone,
        wait_by_batch_alone,
        take_another_try_for_this_one,
        look_only_at_first,
        forget_to_mark,
        compare_nothing,
        ignore_other_names,
        ignore_former_names,
        ignore_a_later_micro_batch,
        ignore_another_write,
        *seldom(trust_the_end_of_tasks),
        trust_a_retry_without_rows,
    ],
    ids=lambda plant: plant.__name__,
)
def test_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random schedule breaks an invariant with the planted bug."""
    plant(monkeypatch)
    assert any(simulate(seed) for seed in range(FIRST_SCHEDULE, FIRST_SCHEDULE + MOST_SCHEDULES))
