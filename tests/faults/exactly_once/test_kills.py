"""Queries that are killed as a whole, at one point after another, and restarted."""

from __future__ import annotations

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy, kill

TWO_OF_FOUR = (
    {"point": "commit_offset.before", "batch": 1, "slot": 2, "after": ["never"], "action": "wait"},
    kill("commit_offset.before", 3, after=("commit.after-1-0", "commit.after-1-1")),
)
"""The kill when slots 0 and 1 of micro-batch 1 have committed, and slots 2 and 3 have sent their rows."""


@pytest.mark.long
def test_undisturbed(copy: Copy) -> None:
    """A query that nothing disturbs writes each row once, in as many micro-batches as the limit asks for."""
    assert copy.complete().batches == ((0, 400), (1, 400), (2, 400))
    copy.expect_each_once()


@pytest.mark.long
def test_all_slots_committed(any_copy: Copy) -> None:
    """A query that is killed when all slots have committed, and the checkpoint has not, finds the rows in the log."""
    any_copy.killed(kill("driver_commit.before"))
    any_copy.complete()
    any_copy.expect_each_once()


def test_some_slots_committed(any_copy: Copy, application: Application) -> None:
    """A query that is killed when two of four slots have committed writes the rows of the others; the first try's rows of
    these are in the log, for a reader of uncommitted records.
    """
    any_copy.killed(*TWO_OF_FOUR)
    committed = {mark.name for mark in application.marks.glob("commit.after-1-*")}
    assert committed == {"commit.after-1-0", "commit.after-1-1"}
    any_copy.complete()
    any_copy.expect_each_once()
    assert any_copy.counts(committed=False).total() > any_copy.rows


@pytest.mark.long
def test_entry_sent_and_not_committed(any_copy: Copy) -> None:
    """A query that is killed when a transaction holds the rows and the entry, and is not committed, writes them again."""
    any_copy.killed(kill("commit_offset.after", 1))
    any_copy.complete()
    any_copy.expect_each_once()


@pytest.mark.long
def test_commit_under_way(copy: Copy) -> None:
    """A query that is killed while a commit is under way writes each row once, whether the commit succeeded or not."""
    for batch, slot, seconds in ((0, 0, 0.0), (1, 3, 0.001), (2, 2, 0.003)):
        copy.killed(kill("commit.during", slot, batch=batch, seconds=seconds))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_before_and_after(copy: Copy) -> None:
    """A query that is killed before it sends a row, in its first micro-batch, and after a commit, in its last, goes on."""
    copy.killed(kill("begin.before", 0, batch=0))
    copy.killed(kill("begin.after", 3, batch=0))
    copy.killed(kill("commit.after", 1, batch=2))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_first_and_last_micro_batch(copy: Copy) -> None:
    """The first micro-batch and the last one can be replayed."""
    copy.killed(kill("driver_commit.before", batch=0))
    copy.killed(kill("driver_commit.before", batch=2))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_killed_in_the_replay(copy: Copy) -> None:
    """A query that is killed again in the replay, when it has verified some slots, verifies all of them at last."""
    copy.killed(*TWO_OF_FOUR)
    copy.killed(kill("commit.after", 1))
    copy.killed(kill("commit_offset.before", 3, after=("commit.after-1-2",)))
    copy.killed(kill("driver_commit.before"))
    copy.complete()
    copy.expect_each_once()


@pytest.mark.long
def test_at_least_once(copy: Copy) -> None:
    """The same kill repeats a micro-batch of a query that is not exactly-once: the check sees it."""
    writes = [copy.at_least_once()]
    copy.killed(kill("driver_commit.before"), writes=writes)
    copy.complete(writes=writes)
    found = copy.counts()
    assert (len(found), found.total()) == (1200, 1600)


@pytest.mark.long
@pytest.mark.parametrize("columns", [(4,), (4, "key")])
def test_shuffled_rows(copy: Copy, columns: tuple[int | str, ...]) -> None:
    """Rows that are distributed anew, in turn or by a column, come into the same slots when the query is restarted."""
    copy.killed(kill("driver_commit.before"), repartition=columns)
    copy.complete(repartition=columns)
    copy.expect_each_once()
