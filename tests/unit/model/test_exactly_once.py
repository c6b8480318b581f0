"""Steps of a task that writes its rows exactly once, for each state of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from pyspark_zkafka.errors import LedgerError
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
    require_repeated,
    unverified,
    write_slot,
)
from pyspark_zkafka.model.ledger import Entry

ATTEMPT = Attempt(slot=1, batch=7, run="new")
FOREACH = replace(ATTEMPT, write="w2")
NAMED = replace(FOREACH, is_named=True)
JOB = Attempt(slot=1, batch=7, run="call", is_job=True)
OF_GROUP = replace(JOB, ends='{"orders":{"0":7}}')
ROWS = RowSet(10, "aa")
NONE = RowSet(0, "00")
BEFORE = Entry(1, 6, 5, "bb", "new")
WRITTEN = Entry(1, 7, 10, "aa", "new")
WRITTEN_BEFORE = replace(WRITTEN, run="old")
OTHER = Entry(0, 7, 3, "cc", "old")

NOWHERE = OtherEntries({}, {})

Script = Sequence[tuple[Step, Any]]


def looks(
    own: Entry | None,
    entries: dict[int, Entry],
    others: Mapping[str, Sequence[Entry]] = MappingProxyType({}),
    former: Mapping[str, Sequence[Entry]] = MappingProxyType({}),
    *,
    earlier: bool = False,
) -> Script:
    """Return the steps in which a slot reads its own entry, its ledger, and what the query has recorded elsewhere."""
    return [(Begin(), own), (ReadLedger(), entries), (ReadOthers(earlier), OtherEntries(others, former))]


def follow(attempt: Attempt, script: Script) -> Result:
    """Return the task's result after exactly these steps, each paired with its answer."""
    steps, answer = write_slot(attempt), None
    for expected, next_answer in script:
        step = steps.send(answer)
        assert (type(step), step) == (type(expected), expected)  # steps without fields are equal
        answer = next_answer
    try:
        extra = steps.send(answer)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
    raise AssertionError(f"{extra} is one step too many")


def failure(attempt: Attempt, script: Script) -> LedgerError:
    """Return the task's error after exactly these steps."""
    with pytest.raises(LedgerError) as caught:
        follow(attempt, script)
    return caught.value


# --- a slot that is not recorded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [{}, {0: replace(OTHER, batch=6)}, {0: replace(OTHER, run="new")}])
def test_first(entries: dict[int, Entry]) -> None:
    """A slot without an entry reads the others, and writes if no other run has recorded this micro-batch."""
    script = [*looks(None, entries), (Send(), ROWS), (Commit(WRITTEN), None)]
    assert follow(ATTEMPT, script) == Result(10, was_written=False)


def test_next_micro_batch() -> None:
    """A slot that this run has written before does not read the others."""
    assert follow(ATTEMPT, [(Begin(), BEFORE), (Send(), ROWS), (Commit(WRITTEN), None)]) == Result(10, was_written=False)


def test_first_micro_batch_of_a_run() -> None:
    """A slot that only another run has written before reads the others."""
    own = replace(BEFORE, run="old")
    script = [*looks(own, {1: own}), (Send(), ROWS), (Commit(WRITTEN), None)]
    assert follow(ATTEMPT, script) == Result(10, was_written=False)


def test_next_micro_batch_of_foreach_batch() -> None:
    """A write in a foreachBatch reads the ledger in each micro-batch, since the user may have tried the write before."""
    own = replace(BEFORE, write="w1")
    script = [(Begin(), own), (ReadLedger(), {1: own}), (Send(), ROWS), (Commit(replace(WRITTEN, write="w2")), None)]
    assert follow(FOREACH, script) == Result(10, was_written=False)


def test_batch_job() -> None:
    """A batch job's slot reads the ledger in every run, and again before the commit, as other runs may write meanwhile."""
    own = replace(BEFORE, run="another call")
    look = (ReadLedger(), {1: own})
    script = [(Begin(), own), look, (ReadOthers(), NOWHERE), (Send(), ROWS), look]
    assert follow(JOB, [*script, (Commit(replace(WRITTEN, run="call")), None)]) == Result(10, was_written=False)


def test_job_of_a_group() -> None:
    """A group's job does not look elsewhere, since each of the group's ledgers has its own numbers."""
    recorded = replace(WRITTEN, run="call", ends=OF_GROUP.ends)
    script = [(Begin(), None), (ReadLedger(), {}), (Send(), ROWS), (ReadLedger(), {}), (Commit(recorded), None)]
    assert follow(OF_GROUP, script) == Result(10, was_written=False)


def test_no_rows() -> None:
    """A slot without rows commits nothing."""
    assert follow(ATTEMPT, [(Begin(), BEFORE), (Send(), NONE)]) == Result(0, was_written=False)


def test_no_rows_beside_others() -> None:
    """A slot without rows does not wait for other slots, but leaves them to the driver."""
    script = [*looks(None, {0: OTHER}), (Send(), NONE)]
    assert follow(ATTEMPT, script) == Result(0, was_written=False, is_open=True)


def test_waits() -> None:
    """A slot commits once this run has verified all slots that others have recorded, including those that appear late."""
    late, verified = replace(OTHER, slot=2), replace(OTHER, run="new")
    script: Script = [
        *looks(None, {0: OTHER}),
        (Send(), ROWS),
        (AwaitTasks((0,)), True),
        (ReadLedger(), {0: verified, 2: late}),
        (ReadOthers(), NOWHERE),
        (AwaitTasks((2,)), True),
        (ReadLedger(), {0: verified, 2: replace(late, run="new")}),
        (ReadOthers(), NOWHERE),
        (Commit(WRITTEN), None),
    ]
    assert follow(ATTEMPT, script) == Result(10, was_written=False)


def test_waits_in_vain() -> None:
    """If a slot is not verified in time, the layout has changed, and the transaction is aborted."""
    error = failure(ATTEMPT, [*looks(None, {0: OTHER}), (Send(), ROWS), (AwaitTasks((0,)), False), (Abort(), None)])
    assert error.condition == "LAYOUT_CHANGED"
    assert error.parameters == {"slot": 1, "batch": 7, "unverified": (0,)}
    assert "slot(s) 0 were" in str(error)


def test_waits_for_an_earlier_try() -> None:
    """A write in a foreachBatch waits for slots of its earlier try in the run, and does not read other ledgers."""
    own = replace(BEFORE, write="w1")
    earlier_try = replace(OTHER, run="new", write="w1")
    script: Script = [
        (Begin(), own),
        (ReadLedger(), {0: earlier_try, 1: own}),
        (Send(), ROWS),
        (AwaitTasks((0,)), True),
        (ReadLedger(), {0: replace(earlier_try, write="w2"), 1: own}),
        (Commit(replace(WRITTEN, write="w2")), None),
    ]
    assert follow(NAMED, script) == Result(10, was_written=False)


def test_overtaken_while_it_waits() -> None:
    """A slot's entry that a later micro-batch overwrites during the wait does not count as verified."""
    ahead = replace(OTHER, batch=8, run="newer")
    waits: Script = [(Send(), ROWS), (AwaitTasks((0,)), True), (ReadLedger(), {0: ahead}), (Abort(), None)]
    assert failure(ATTEMPT, [*looks(None, {0: OTHER}), *waits]).condition == "CHECKPOINT_ROLLED_BACK"


def test_two_runs_of_a_job() -> None:
    """A slot that another run of the job records during the sends is noticed before the commit."""
    waits: Script = [(Send(), ROWS), (ReadLedger(), {0: OTHER}), (AwaitTasks((0,)), False), (Abort(), None)]
    error = failure(JOB, [*looks(None, {0: replace(OTHER, batch=6)}), *waits])
    assert error.condition == "LAYOUT_CHANGED"
    assert "run the job again" in error.message


# --- what the query has recorded elsewhere -------------------------------------------------------------------------------

ELSEWHERE = {"old-8f1c (topic orders)": [replace(OTHER, batch=6), OTHER]}


@pytest.mark.parametrize(("attempt", "with_earlier_name"), [(ATTEMPT, False), (JOB, True)])
def test_renamed(attempt: Attempt, with_earlier_name: bool) -> None:
    """A write whose micro-batch another run recorded under another name stops before it sends a row."""
    error = failure(attempt, looks(None, {}, ELSEWHERE, earlier=with_earlier_name))
    assert error.condition == "LEDGER_MOVED"
    assert "under old-8f1c (topic orders), and" in error.message
    assert error.parameters == {"batch": 7, "ledgers": ("old-8f1c (topic orders)",)}
    assert "Another batch job needs another writerName or a higher batchId" in error.message


@pytest.mark.parametrize("attempt", [NAMED, JOB])
def test_renumbered(attempt: Attempt) -> None:
    """A write that may have recorded its micro-batch before its batchId was set or removed stops before it sends a row."""
    error = failure(attempt, looks(None, {}, former=ELSEWHERE, earlier=True))
    assert error.condition == "LEDGER_MOVED"
    assert "under old-8f1c (topic orders): this write may" in error.message
    assert error.parameters == {"batch": 7, "ledgers": ("old-8f1c (topic orders)",)}


@pytest.mark.parametrize("batch", [6, 8])
def test_renumbered_between_micro_batches(batch: int) -> None:
    """A former ledger does not stop a write if its entries belong to other micro-batches."""
    former = {"zkafka-8f1c-orders (topic orders)": [replace(OTHER, batch=batch)]}
    script: Script = [*looks(None, {}, former=former, earlier=True), (Send(), NONE)]
    assert follow(JOB, script) == Result(0, was_written=False)


def test_numbered_before() -> None:
    """A job that has a ledger does not look for a former one, since a query may be at the same number by chance."""
    script = [*looks(None, {0: replace(OTHER, batch=6)}), (Send(), NONE)]
    assert follow(JOB, script) == Result(0, was_written=False)


def test_numbered_in_this_batch() -> None:
    """A write that has recorded a slot of this batch does not look for a former ledger, since it was accepted before."""
    assert follow(NAMED, [*looks(None, {0: OTHER}), (Send(), NONE)]) == Result(0, was_written=False, is_open=True)


def test_renamed_and_rolled_back() -> None:
    """A write that is behind a micro-batch recorded under another name stops."""
    ahead = {"old-8f1c (topic orders)": [replace(OTHER, batch=8)]}
    error = failure(ATTEMPT, looks(None, {}, ahead))
    assert error.condition == "CHECKPOINT_ROLLED_BACK"


def test_renamed_between_micro_batches() -> None:
    """A micro-batch that was never tried under the old name is written under the new one."""
    script = [*looks(None, {}, {"old": [replace(OTHER, batch=6)]}), (Send(), ROWS), (Commit(WRITTEN), None)]
    assert follow(ATTEMPT, script) == Result(10, was_written=False)


def test_waits_for_another_write() -> None:
    """A write in a foreachBatch waits until this run has repeated the other writes that an earlier run recorded."""
    repeated = {"old-8f1c (topic orders)": [replace(OTHER, run="new", write="w1")]}
    ledgers = tuple(ELSEWHERE)
    script: Script = [
        *looks(None, {}, ELSEWHERE, earlier=True),
        (Send(), ROWS),
        (AwaitTasks((), ledgers), True),
        (ReadLedger(), {}),
        (ReadOthers(True), OtherEntries(repeated, {})),
        (Commit(replace(WRITTEN, write="w2")), None),
    ]
    assert follow(NAMED, script) == Result(10, was_written=False)


@pytest.mark.parametrize("attempt", [FOREACH, NAMED])
def test_next_to_another_write(attempt: Attempt) -> None:
    """A write of a foreachBatch that has recorded a slot does not wait for the other writes that are recorded.

    These may come after it, or need its cores. It only waits for its own other slots.
    """
    recorded = replace(OTHER, run=attempt.run, write=attempt.write)
    commit = Commit(replace(WRITTEN, write=attempt.write))
    script = [*looks(None, {0: recorded}, ELSEWHERE), (Send(), ROWS), (commit, None)]
    assert follow(attempt, script) == Result(10, was_written=False)
    waits: Script = [(Send(), ROWS), (AwaitTasks((2,)), False), (Abort(), None)]
    error = failure(attempt, [*looks(None, {0: recorded, 2: replace(OTHER, slot=2)}, ELSEWHERE), *waits])
    assert error.condition == "LAYOUT_CHANGED"


def test_waits_for_another_write_in_vain() -> None:
    """If the recorded write is not repeated, it was renamed, and the transaction is aborted."""
    waits: Script = [(Send(), ROWS), (AwaitTasks((), tuple(ELSEWHERE)), False), (Abort(), None)]
    error = failure(NAMED, [*looks(None, {}, ELSEWHERE, earlier=True), *waits])
    assert error.condition == "LEDGER_MOVED"
    assert "If nothing has changed, restart the query" in error.message


# --- a slot that is recorded ---------------------------------------------------------------------------------------------


def test_repeated_by_another_run() -> None:
    """A slot that another run has recorded is compared and marked as verified without waiting for others."""
    own = replace(WRITTEN_BEFORE, at_ms=5)
    script = [*looks(own, {0: OTHER, 1: own}), (CountRows(), ROWS), (Commit(replace(WRITTEN, at_ms=5)), None)]
    assert follow(ATTEMPT, script) == Result(10, was_written=True)


def test_job_that_is_run_again() -> None:
    """A slot of a job that another run has recorded is compared and marked as verified after reading the ledger."""
    commit = Commit(replace(WRITTEN, run="call"))
    script = [(Begin(), WRITTEN_BEFORE), (ReadLedger(), {1: WRITTEN_BEFORE}), (CountRows(), ROWS), (commit, None)]
    assert follow(JOB, script) == Result(10, was_written=True)


def test_repeated_by_the_same_run() -> None:
    """A slot that this run has recorded is only compared."""
    assert follow(ATTEMPT, [(Begin(), WRITTEN), (CountRows(), ROWS)]) == Result(10, was_written=True)


def test_repeated_by_another_write() -> None:
    """A slot recorded by an earlier try of a named write is marked as verified by this try."""
    own = replace(WRITTEN, write="w1")
    commit = Commit(replace(WRITTEN, write="w2"))
    assert follow(NAMED, [*looks(own, {1: own}), (CountRows(), ROWS), (commit, None)]) == Result(10, was_written=True)


def test_batch_job_repeats_a_task() -> None:
    """A repeated task of a batch job compares its rows with those that the first attempt has committed."""
    own = replace(WRITTEN, run="call")
    assert follow(JOB, [(Begin(), own), (CountRows(), ROWS)]) == Result(10, was_written=True)


@pytest.mark.parametrize("found", [RowSet(9, "aa"), RowSet(10, "ab"), NONE])
@pytest.mark.parametrize("before", [[(Begin(), WRITTEN)], looks(WRITTEN_BEFORE, {1: WRITTEN_BEFORE})])
def test_other_rows(before: Script, found: RowSet) -> None:
    """Another count or digest than any run has recorded is an error before anything is sent."""
    error = failure(ATTEMPT, [*before, (CountRows(), found)])
    assert error.condition == "ROWS_DIFFER"
    assert error.parameters == {"slot": 1, "batch": 7, "recorded": (10, "aa"), "found": tuple(found)}
    assert f"10 rows of hash aa. Now it has {found.rows} rows of hash {found.digest}" in error.message


# --- a ledger that does not fit ------------------------------------------------------------------------------------------


def test_own_entry_is_ahead() -> None:
    """A slot that has written a later micro-batch stops."""
    assert failure(ATTEMPT, [(Begin(), replace(WRITTEN, batch=8))]).condition == "CHECKPOINT_ROLLED_BACK"


def test_another_entry_is_ahead() -> None:
    """A slot that finds another slot's entry of a later micro-batch stops."""
    error = failure(ATTEMPT, [(Begin(), None), (ReadLedger(), {0: replace(OTHER, batch=9)})])
    assert error.condition == "CHECKPOINT_ROLLED_BACK"
    assert error.parameters == {"slot": 0, "batch": 7, "recorded_batch": 9}
    assert "The write is of batch 7, but its ledger has rows of batch 9 for slot 0" in error.message


def test_another_entry_is_ahead_of_a_recorded_slot() -> None:
    """A recorded slot stops at another slot's later entry, since this run's next micro-batch would not look at it."""
    entries = {0: replace(OTHER, batch=8), 1: WRITTEN_BEFORE}
    assert failure(ATTEMPT, [(Begin(), WRITTEN_BEFORE), (ReadLedger(), entries)]).condition == "CHECKPOINT_ROLLED_BACK"


def test_entry_under_another_name_is_ahead_of_a_recorded_slot() -> None:
    """A recorded slot stops if its query wrote the next micro-batch under another name before it was set back."""
    ahead = {"team-8f1c (topic orders)": [replace(OTHER, batch=8)]}
    script = looks(WRITTEN_BEFORE, {1: WRITTEN_BEFORE}, ahead)
    assert failure(ATTEMPT, script).condition == "CHECKPOINT_ROLLED_BACK"


@pytest.mark.parametrize(
    ("script", "unfinished"),
    [
        ([(Begin(), WRITTEN_BEFORE)], ""),
        ([(Begin(), None), (ReadLedger(), {0: replace(OTHER, ends="{}")})], "{}"),
    ],
)
def test_another_job_of_the_same_number(script: Script, unfinished: str) -> None:
    """A group's job is refused before it writes if another job planned at the same time has begun to write."""
    error = failure(OF_GROUP, script)
    assert error.condition == "UNFINISHED_JOB"
    assert '{"orders":{"0":7}}' in error.message
    assert error.parameters == {"unfinished": unfinished}


def test_second_write_of_the_same_name() -> None:
    """A second write in a foreachBatch stops at the first write's entry in its own slot."""
    error = failure(FOREACH, [(Begin(), replace(WRITTEN, write="w1"))])
    assert error.condition == "WRITTEN_TWICE"
    assert error.parameters == {"batch": 7}
    assert "Micro-batch 7 has been written already" in error.message


def test_second_write_of_the_same_name_in_another_slot() -> None:
    """A second write in a foreachBatch stops at the first write's entry in another slot."""
    entries = {0: replace(OTHER, run="new", write="w1")}
    assert failure(FOREACH, [(Begin(), None), (ReadLedger(), entries)]).condition == "WRITTEN_TWICE"


@pytest.mark.parametrize(
    "other",
    [replace(OTHER, write="w1"), replace(OTHER, run="new", write="w2"), replace(OTHER, batch=6, run="new", write="w1")],
)
def test_no_second_write(other: Entry) -> None:
    """A write of another run, of this call or of an earlier micro-batch is no second write under the same name."""
    script = [*looks(None, {0: other}, earlier=other.batch < FOREACH.batch), (Send(), NONE)]
    assert follow(FOREACH, script) == Result(0, was_written=False, is_open=other.run == "old")


# --- another run at the same time --------------------------------------------------------------------------------------

LATER = replace(ATTEMPT, since=5)


@pytest.mark.parametrize("batch", [5, 6])
def test_checkpoint_that_is_shared(batch: int) -> None:
    """A run that finds its slot written by another run, in a batch that it had begun itself, stops."""
    error = failure(LATER, [(Begin(), replace(BEFORE, batch=batch, run="another"))])
    assert error.condition == "CHECKPOINT_SHARED"
    assert error.parameters == {"slot": 1, "batch": 7, "recorded_batch": batch}
    assert f"rows of batch {batch} for slot 1 from another run" in error.message


def test_checkpoint_that_is_shared_in_other_slots() -> None:
    """A slot that looks for other slots finds those that another run has written in a batch that this run had begun.

    That this run had begun the batch follows from its own entries, too.
    """
    foreign = replace(OTHER, batch=6, run="another")
    for attempt, entries in (LATER, {0: foreign}), (ATTEMPT, {0: foreign, 2: Entry(2, 6, 1, "dd", "new")}):
        assert failure(attempt, [(Begin(), None), (ReadLedger(), entries)]).condition == "CHECKPOINT_SHARED"


@pytest.mark.parametrize("since", [None, 7])
def test_entry_before_this_run(since: int | None) -> None:
    """An entry of another run is an earlier run's, as far as the first task of a run can know."""
    own = replace(BEFORE, run="old")
    attempt = replace(ATTEMPT, since=since)
    script = [*looks(own, {1: own}), (Send(), ROWS), (Commit(WRITTEN), None)]
    assert follow(attempt, script) == Result(10, was_written=False)


# --- slots without rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "may_be_recorded"),
    [
        (ATTEMPT, True),
        (replace(ATTEMPT, since=7), True),
        (LATER, False),
        (replace(LATER, is_retry=True), True),
    ],
)
def test_may_be_recorded(attempt: Attempt, may_be_recorded: bool) -> None:
    """A slot may be recorded in the first batch that the process has seen of the run, and if its task is tried again."""
    assert attempt.may_be_recorded == may_be_recorded


@pytest.mark.parametrize(
    ("attempt", "entries", "condition"),
    [
        (LATER, {1: WRITTEN}, "ROWS_DIFFER"),
        (LATER, {1: WRITTEN_BEFORE}, "ROWS_DIFFER"),
        (LATER, {0: OTHER}, "LAYOUT_CHANGED"),
        (LATER, {1: replace(WRITTEN, batch=8)}, "CHECKPOINT_ROLLED_BACK"),
        (replace(FOREACH, since=5), {1: replace(WRITTEN, write="w1")}, "WRITTEN_TWICE"),
        (replace(NAMED, since=5), {1: replace(WRITTEN, write="w1")}, "ROWS_DIFFER"),
    ],
)
def test_not_repeated(attempt: Attempt, entries: dict[int, Entry], condition: str) -> None:
    """When all tasks have succeeded, an entry of a slot without rows is an error, and so is one that nobody verified."""
    with pytest.raises(LedgerError) as caught:
        require_repeated([replace(attempt, slot=3), attempt], entries)
    assert caught.value.condition == condition


@pytest.mark.parametrize("entries", [{}, {1: BEFORE}, {0: replace(OTHER, run="new")}, {0: replace(OTHER, batch=6)}])
def test_repeated(entries: dict[int, Entry]) -> None:
    """Entries of earlier batches and of other slots that this run has written do not matter to a slot without rows."""
    require_repeated([LATER], entries)


@pytest.mark.parametrize(
    ("attempt", "entry", "expected"),
    [
        pytest.param(ATTEMPT, OTHER, (0,), id="another run"),
        pytest.param(ATTEMPT, replace(OTHER, run="new"), (), id="this run"),
        pytest.param(ATTEMPT, replace(OTHER, batch=6), (), id="an earlier micro-batch"),
        pytest.param(NAMED, replace(OTHER, run="new", write="w1"), (0,), id="an earlier try in this run"),
        pytest.param(NAMED, replace(OTHER, run="new", write="w2"), (), id="this try"),
        pytest.param(NAMED, replace(OTHER, write="w2"), (0,), id="a try of the same identifier in another run"),
    ],
)
def test_unverified(attempt: Attempt, entry: Entry, expected: tuple[int, ...]) -> None:
    """A slot is verified if this try has recorded it in this run."""
    assert unverified(attempt, {0: entry}) == expected


def test_unverified_in_order() -> None:
    """Unverified slots are sorted."""
    assert unverified(ATTEMPT, {n: replace(OTHER, slot=n) for n in (2, 0, 1)}) == (0, 1, 2)
