"""The steps of a task that writes its rows exactly once, whatever was tried before: pure, without a client or a clock.

`write_slot` is a generator of steps. Its driver performs each step on a cluster (`pyspark_zkafka.write.exactly_once`), or
on values (the simulation), and sends back the result.

If the slot of a replayed micro-batch is recorded, its rows are in the log: the task compares them with the rows that it
would write, and records that this run has verified the slot. If it is not recorded, the task writes the rows, but only
after this run has verified every slot that an earlier run recorded for this micro-batch. If Spark distributes the rows in
another way than before, a comparison fails before any task writes a row a second time. The same applies to slots that were
recorded under another name or topic of the query: if its options have changed since, nobody verifies them.

Spark runs a query once at a time, but runs of a batch job may overlap. A job's task therefore looks again for slots that
another run has recorded, right before its commit.

A slot without rows has nothing to send, and mostly no entry to compare. Its task does nothing, unless the process knows
that an earlier attempt may have recorded the slot (`Attempt.may_be_recorded`). The process does not know of speculative
copies of the task, or of earlier attempts of the whole stage. The driver therefore looks for entries of these slots when
all tasks have succeeded (`require_repeated`).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from pyspark_zkafka.conditions import (
    CHECKPOINT_ROLLED_BACK,
    CHECKPOINT_SHARED,
    LAYOUT_CHANGED,
    LEDGER_MOVED,
    ROWS_DIFFER,
    UNFINISHED_JOB,
    WRITTEN_TWICE,
)
from pyspark_zkafka.errors import LedgerError, listing
from pyspark_zkafka.model.ledger import Entry

_REMEDY = (
    "restart the query, or run the job again, as it ran before: with the same number of shuffle partitions and cores, or "
    "with as many cores as slots if a task had failed; let the plan repeat itself: repartition(n) before the sink, "
    "spark.sql.adaptive.enabled=false, no uuid() or rand() after the source, and no current_timestamp() in a job or in "
    "foreachBatch"
)


class RowSet(NamedTuple):
    """The number of a slot's rows, and their hash regardless of their order (`Entry.digest`)."""

    rows: int
    digest: str


_NO_ROWS = RowSet(0, "0" * 32)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task's attempt to write a slot. `slot`, `batch`, `run`, `write` and `ends` are as in `Entry`.

    - `is_named`: the user gave the write a name of its own. Another call under this name is the same write, tried again.
    - `is_job`: a batch job, or a write of a ``foreachBatch`` whose micro-batch Spark does not name. Each call is a run of
      its own, and several may be alive.
    - `is_retry`: Spark has tried the slot before, in the same stage attempt.
    - `since`: the earliest micro-batch of the run that the process has seen; None if unknown.
    """

    slot: int
    batch: int
    run: str
    write: str = ""
    is_named: bool = False
    is_job: bool = False
    ends: str = ""
    is_retry: bool = False
    since: int | None = None

    @property
    def may_be_recorded(self) -> bool:
        """True if the slot may have an entry of this batch, as far as the process knows.

        False after the first micro-batch of a run: the run has completed all earlier micro-batches, so no earlier run has
        tried this micro-batch. Each call of a job is a run of its own.
        """
        return self.is_retry or self.since is None or self.since == self.batch

    def has_recorded(self, entry: Entry) -> bool:
        """True if the entry names this run, and, where a run may have several calls, also this call."""
        return (entry.run, entry.write) == (self.run, self.write)


class Begin(NamedTuple):
    """Fence earlier attempts of the slot, so that they cannot commit any more. Returns the slot's Entry, or None."""


class ReadLedger(NamedTuple):
    """Read the entries of all slots of the query, once the transactions that are being committed are complete."""


class ReadOthers(NamedTuple):
    """Read the query's entries under other names and other topics. Returns OtherEntries.

    With `with_earlier_name`, also read the entries that the write may have made before its batchId was set or left out.
    """

    with_earlier_name: bool = False


class OtherEntries(NamedTuple):
    """The answer to ReadOthers: both kinds of entries, by their ledger."""

    of_query: Mapping[str, Collection[Entry]]
    of_earlier_name: Mapping[str, Collection[Entry]]


class CountRows(NamedTuple):
    """Count and hash all rows, without sending any. Returns a RowSet."""


class Send(NamedTuple):
    """Begin a transaction, and send all rows. Returns a RowSet. Without rows, the transaction need not begin."""


class AwaitTasks(NamedTuple):
    """Wait a moment for other tasks to verify the `slots`, and the slots that other `ledgers` record.

    Returns False if the transaction cannot wait any longer.
    """

    slots: tuple[int, ...] = ()
    ledgers: tuple[str, ...] = ()


class Commit(NamedTuple):
    """Commit the entry and the sent rows in one transaction."""

    entry: Entry


class Abort(NamedTuple):
    """Abort the transaction."""


Step = Begin | ReadLedger | ReadOthers | CountRows | Send | AwaitTasks | Commit | Abort


class Result(NamedTuple):
    """The outcome for a slot's rows: written now, or found written already.

    `is_open` is True for a slot without rows, if this run has not verified all other recorded slots yet: see
    `require_repeated`.
    """

    rows: int
    was_written: bool
    is_open: bool = False


def write_slot(attempt: Attempt) -> Generator[Step, Any, Result]:
    """Write a slot's rows, unless they are in the log already.

    After an error, nothing of the attempt is committed.

    Raises
    ------
    LedgerError
        ROWS_DIFFER: the slot is recorded with other rows. LAYOUT_CHANGED: recorded slots were not verified in time.
        LEDGER_MOVED: slots under other names or topics were not verified in time, or batchId was set or left out since.
        CHECKPOINT_ROLLED_BACK: the ledger is ahead of the query. WRITTEN_TWICE: another write of the same ``foreachBatch``
        has recorded slots under the same name. UNFINISHED_JOB: another job of the group has the same number.
        CHECKPOINT_SHARED: another run has written a micro-batch that this run had begun before.
    """
    own: Entry | None = yield Begin()
    _require_not_ahead(attempt, own)
    _require_alone(attempt, [] if own is None else [own])
    if own is not None and own.batch == attempt.batch:
        _require_same_job(attempt, [own])
        _require_same_write(attempt, [own])
        return (yield from _verify(attempt, own))
    awaited = yield from _look(attempt, own)
    if awaited.ledgers and not attempt.write:  # only a foreachBatch has other writes that could verify the ledgers
        raise _moved(attempt, awaited.ledgers)
    sent: RowSet = yield Send()
    if sent.rows:
        yield from _await(attempt, own, awaited)
        entry = Entry(attempt.slot, attempt.batch, sent.rows, sent.digest, attempt.run, attempt.write, ends=attempt.ends)
        yield Commit(entry)
    return Result(sent.rows, was_written=False, is_open=not sent.rows and bool(awaited.slots))


def _await(attempt: Attempt, own: Entry | None, awaited: AwaitTasks) -> Generator[Step, Any, None]:
    """Keep the transaction open until all recorded slots are verified. Abort the transaction if they are not in time.

    A job searches again for slots of another run. Nothing is sent between this search and the commit.
    """
    try:
        if attempt.is_job and not any(awaited):
            awaited = AwaitTasks(_awaited(attempt, (yield ReadLedger())))
        while any(awaited):
            if not (yield awaited):
                raise _layout_changed(attempt, awaited.slots) if awaited.slots else _moved(attempt, awaited.ledgers)
            awaited = yield from _look(attempt, own)
    except LedgerError:
        yield Abort()
        raise


def _look(attempt: Attempt, own: Entry | None) -> Generator[Step, Any, AwaitTasks]:
    """Find the slots and ledgers that an unrecorded slot waits for.

    If this run has written the previous micro-batch, no other run has tried this micro-batch: all earlier micro-batches are
    complete, and all earlier runs have ended. But an earlier write of the same foreachBatch may have tried it.
    """
    is_first = own is None or own.run != attempt.run
    if not is_first and not attempt.write:
        return AwaitTasks()
    entries: Mapping[int, Entry] = yield ReadLedger()
    slots = _awaited(attempt, entries)
    if not is_first or attempt.ends:  # ledgers of a group number jobs independently, and the job's plan checks the others
        return AwaitTasks(slots)
    elsewhere: OtherEntries = yield ReadOthers(with_earlier_name=_may_be_renumbered(attempt, entries))
    _require_not_renamed(attempt, elsewhere.of_earlier_name)
    ledgers = _awaited_elsewhere(attempt, elsewhere.of_query)
    if attempt.write and _was_accepted(attempt, entries):
        ledgers = ()  # of other writes of the same foreachBatch, which may come after this write
    return AwaitTasks(slots, ledgers)


def _verify(attempt: Attempt, own: Entry) -> Generator[Step, Any, Result]:
    """Compare the rows of a recorded slot with its entry, and mark the entry as verified by this run.

    The other entries are checked here, too. A marked slot skips this check in the next micro-batch. But if the checkpoint
    was rolled back by one, an earlier run may have begun that micro-batch under any name of the query.
    """
    is_marked = attempt.has_recorded(own)
    if not is_marked:
        _awaited(attempt, (yield ReadLedger()))
        if not attempt.is_job:
            elsewhere: OtherEntries = yield ReadOthers()
            _awaited_elsewhere(attempt, elsewhere.of_query)
    found: RowSet = yield CountRows()
    if found != (own.rows, own.digest):
        raise _rows_differ(attempt, own, found)
    if not is_marked:
        yield Commit(replace(own, run=attempt.run, write=attempt.write))
    return Result(found.rows, was_written=True)


def require_repeated(empty: Iterable[Attempt], entries: Mapping[int, Entry]) -> None:
    """Raise LedgerError if rows are recorded for a batch that its tasks have not repeated.

    `empty` are attempts that succeeded without rows. Another attempt of such a slot may have written rows: a copy of the
    task, or a task of an earlier attempt of the stage. An earlier run may also have recorded slots that this run does not
    have. Slots with rows wait for such slots, but slots without rows do not.
    """
    attempts = list(empty)
    for attempt in attempts:
        own = entries.get(attempt.slot)
        _require_not_ahead(attempt, own)
        if own is not None and own.batch == attempt.batch:
            _require_same_write(attempt, [own])
            raise _rows_differ(attempt, own, _NO_ROWS)
    for attempt in attempts:
        if slots := unverified(attempt, entries):
            raise _layout_changed(attempt, slots)


def unverified(attempt: Attempt, entries: Mapping[int, Entry]) -> tuple[int, ...]:
    """Return the slots of this micro-batch that another run recorded, and that this run has not verified yet."""
    found = (e for e in entries.values() if e.batch == attempt.batch and not attempt.has_recorded(e))
    return tuple(sorted(entry.slot for entry in found))


def _awaited(attempt: Attempt, entries: Mapping[int, Entry]) -> tuple[int, ...]:
    """Return the slots that an unrecorded slot waits for.

    Raise if an entry is ahead: then a later run has completed the micro-batch while this attempt waited, and has
    overwritten the micro-batch's entries instead of verifying them.
    """
    for entry in entries.values():
        _require_not_ahead(attempt, entry)
    _require_alone(attempt, entries.values())
    _require_same_job(attempt, entries.values())
    _require_same_write(attempt, entries.values())
    return unverified(attempt, entries)


def _awaited_elsewhere(attempt: Attempt, others: Mapping[str, Collection[Entry]]) -> tuple[str, ...]:
    """Return the ledgers where another run recorded slots of this micro-batch that this run has not verified."""
    for entry in chain.from_iterable(others.values()):
        _require_not_ahead(attempt, entry)
    return tuple(
        ledger
        for ledger, entries in others.items()
        if any(entry.batch == attempt.batch and entry.run != attempt.run for entry in entries)
    )


def _was_accepted(attempt: Attempt, entries: Mapping[int, Entry]) -> bool:
    """True if the write has an entry of this batch under its present name, and so had no earlier name for this batch."""
    return any(entry.batch == attempt.batch for entry in entries.values())


def _may_be_renumbered(attempt: Attempt, entries: Mapping[int, Entry]) -> bool:
    """True if batchId may have been set or left out since the write tried this batch.

    Queries and jobs often have the same numbers. A job is therefore suspected only while it has no entry at all.
    """
    if attempt.is_job:
        return not entries
    return bool(attempt.write) and not _was_accepted(attempt, entries)


def _require_not_renamed(attempt: Attempt, earlier: Mapping[str, Collection[Entry]]) -> None:
    """Raise if this batch is recorded under an earlier name.

    Ignore entries with other batch numbers, because they can belong to other queries and jobs.
    """
    ledgers = sorted(
        ledger for ledger, entries in earlier.items() if any(entry.batch == attempt.batch for entry in entries)
    )
    if ledgers:
        raise LEDGER_MOVED(
            f"Batch {attempt.batch} was written to the same topic, at least in part, under {listing(ledgers)}: this write "
            "may have done so before batchId was set or left out, and would duplicate rows. If so, set writerName and "
            "batchId as they were, let the batch complete, and change them then. If that was another write, set a "
            "transactionalIdPrefix of its own for this one, and keep it",
            batch=attempt.batch,
            ledgers=tuple(ledgers),
        )


def _require_not_ahead(attempt: Attempt, entry: Entry | None) -> None:
    if entry is None or entry.batch <= attempt.batch:
        return
    raise CHECKPOINT_ROLLED_BACK(
        f"The write is of batch {attempt.batch}, but its ledger has rows of batch {entry.batch} for slot "
        f"{entry.slot}: the checkpoint is older than what the query wrote, or batchId is lower than before. Start the "
        "query with its latest checkpoint, and run numbered jobs in order. To write everything again on purpose, use a new "
        "checkpoint, or another writerName where batchId is set",
        slot=entry.slot,
        batch=attempt.batch,
        recorded_batch=entry.batch,
    )


def _require_alone(attempt: Attempt, entries: Collection[Entry]) -> None:
    """Raise if another run has recorded a batch after this run had begun it. All earlier runs had ended by then.

    The other run has the same checkpoint, or a copy of it. Its micro-batches may have rows that belong to other
    micro-batches of this run.
    """
    begun = [attempt.since, *(entry.batch for entry in entries if entry.run == attempt.run)]
    since = min((batch for batch in begun if batch is not None), default=attempt.batch)
    other = next((e for e in entries if since <= e.batch < attempt.batch and e.run != attempt.run), None)
    if other is not None:
        raise CHECKPOINT_SHARED(
            f"The ledger has rows of batch {other.batch} for slot {other.slot} from another run, which wrote or verified "
            "them after this run had begun the batch. Two queries use the same checkpoint or copies of it, or the same "
            "writerName, and may have written rows twice: stop one of them, give the other one a checkpoint and names of "
            "its own, and check the topic. If only a worker of an earlier run was left, restart the query",
            slot=other.slot,
            batch=attempt.batch,
            recorded_batch=other.batch,
        )


def _require_same_job(attempt: Attempt, entries: Iterable[Entry]) -> None:
    """Raise if another job has the same number: two jobs of a group that were planned at the same time share a number."""
    other = next((e for e in entries if e.batch == attempt.batch and e.ends != attempt.ends), None)
    if other is not None:
        raise UNFINISHED_JOB(
            f"Another job of the group began to write at the same time, and commits the offsets {other.ends}; this one "
            f"would commit {attempt.ends}. Run one job of a group at a time, and this one again",
            unfinished=other.ends,
        )


def _require_same_write(attempt: Attempt, entries: Iterable[Entry]) -> None:
    """Raise if an earlier call of the same run has recorded this micro-batch under a name that the user did not give.

    The later call is another write, or the user tries the same write again.
    """
    if attempt.is_named or not attempt.write:
        return
    others = [e for e in entries if (e.batch, e.run) == (attempt.batch, attempt.run) and e.write != attempt.write]
    if others:
        raise WRITTEN_TWICE(
            f"Micro-batch {attempt.batch} has been written already, at least in part, by an earlier write of the same "
            "foreachBatch under the same name. If this write tries the earlier one again, do not name it, because that "
            "would duplicate rows: let the query fail, and restart it. If it is another write, set a writerName of its own "
            "for it and for each further one, and keep the name of the first write: its rows are recorded under this name",
            batch=attempt.batch,
        )


def _rows_differ(attempt: Attempt, own: Entry, found: RowSet) -> LedgerError:
    return ROWS_DIFFER(
        f"Slot {attempt.slot} of batch {attempt.batch} was written before, with {own.rows} rows of hash "
        f"{own.digest}. Now it has {found.rows} rows of hash {found.digest}, and writing them could duplicate rows; "
        f"{_REMEDY}",
        slot=attempt.slot,
        batch=attempt.batch,
        recorded=(own.rows, own.digest),
        found=tuple(found),
    )


def _moved(attempt: Attempt, ledgers: Collection[str]) -> LedgerError:
    return LEDGER_MOVED(
        f"Batch {attempt.batch} was written, at least in part, under {listing(sorted(ledgers))}, and this run has not "
        "repeated that write; writing could duplicate rows. If transactionalIdPrefix, writerName, batchId, topic or "
        "ledgerTopic has changed, restore it, and change it when the batch is complete. Another batch job needs another "
        f"writerName or a higher batchId. If nothing has changed, {_REMEDY}",
        batch=attempt.batch,
        ledgers=tuple(sorted(ledgers)),
    )


def _layout_changed(attempt: Attempt, awaited: Collection[int]) -> LedgerError:
    slots = listing(sorted(awaited))
    return LAYOUT_CHANGED(
        f"Slot {attempt.slot} of batch {attempt.batch} was not written before, but slot(s) {slots} were, and no task of "
        f"this run has repeated them in time. Writing could duplicate rows; {_REMEDY}",
        slot=attempt.slot,
        batch=attempt.batch,
        unverified=tuple(sorted(awaited)),
    )
