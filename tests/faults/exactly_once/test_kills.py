"""Queries that are killed completely, at one point after another, and restarted."""

from __future__ import annotations

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy, kill

TWO_OF_FOUR = (
    {"point": "commit_offset.before", "batch": 1, "slot": 2, "after": ["never"], "action": "wait"},
    kill("commit_offset.before", 3, after=("commit.after-1-0", "commit.after-1-1", "commit_offset.before-1-2")),
)
"""Kills the application when slots 0 and 1 of micro-batch 1 have committed, and slots 2 and 3 have sent their rows."""


@pytest.mark.long
def test_undisturbed(copy: Copy) -> None:
    """An undisturbed query writes each row once, in as many micro-batches as its limit implies."""
    assert copy.complete().batches == ((0, 400), (1, 400), (2, 400))
    copy.expect_each_once()


@pytest.mark.long
def test_all_slots_committed(any_copy: Copy) -> None:
    """A query killed after all slots committed, but before its checkpoint did, finds the rows in the log."""
    any_copy.killed(kill("driver_commit.before"))
    any_copy.complete()
    any_copy.expect_each_once()


def test_some_slots_committed(any_copy: Copy, application: Application) -> None:
    """A query killed when two of four slots have committed writes the other slots' rows again.

    Readers of uncommitted records also see the first try of those slots.
    """
    any_copy.killed(*TWO_OF_FOUR)
    committed = {mark.name for mark in application.marks.glob("commit.after-1-*")}
    assert committed == {"commit.after-1-0", "commit.after-1-1"}
    any_copy.complete()
    any_copy.expect_each_once()
    assert any_copy.counts(committed=False).total() > any_copy.rows


@pytest.mark.long
def test_entry_sent_and_not_committed(any_copy: Copy) -> None:
    """A query killed with its rows and ledger entry in an uncommitted transaction writes the rows again."""
    any_copy.killed(kill("commit_offset.after", 1))
    any_copy.complete()
    any_copy.expect_each_once()


@pytest.mark.long
def test_commit_under_way(copy: Copy) -> None:
    """A query killed during a commit writes each row once, whether or not the commit succeeded."""
    for batch, slot, seconds in ((0, 0, 0.0), (1, 3, 0.001), (2, 2, 0.003)):
        copy.killed(kill("commit.during", slot, batch=batch, seconds=seconds))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_before_and_after(copy: Copy) -> None:
    """A query killed before it sends its first row, and after a commit in its last micro-batch, writes each row once."""
    copy.killed(kill("begin.before", 0, batch=0))
    copy.killed(kill("begin.after", 3, batch=0))
    copy.killed(kill("commit.after", 1, batch=2))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_first_and_last_micro_batch(copy: Copy) -> None:
    """A query killed after its first or last micro-batch can replay it."""
    copy.killed(kill("driver_commit.before", batch=0))
    copy.killed(kill("driver_commit.before", batch=2))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_killed_in_the_replay(copy: Copy) -> None:
    """A query killed again during the replay, with some slots verified, verifies all of them in the end."""
    copy.killed(*TWO_OF_FOUR)
    copy.killed(kill("commit.after", 1))
    copy.killed(kill("commit_offset.before", 3, after=("commit.after-1-2",)))
    copy.killed(kill("driver_commit.before"))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_at_least_once(copy: Copy) -> None:
    """Without exactly-once, the same kill repeats a micro-batch, and the check notices it."""
    writes = [copy.at_least_once()]
    copy.killed(kill("driver_commit.before"), writes=writes)
    copy.complete(writes=writes)
    found = copy.counts()
    assert len(found) == 1200
    assert found.total() == 1600


@pytest.mark.long
@pytest.mark.parametrize("columns", [(4,), (4, "key")])
def test_shuffled_rows(copy: Copy, columns: tuple[int | str, ...]) -> None:
    """Rows repartitioned in turn or by a column land in the same slots after a restart."""
    copy.killed(kill("driver_commit.before"), repartition=columns)
    copy.complete(repartition=columns)
    copy.expect_each_once()
