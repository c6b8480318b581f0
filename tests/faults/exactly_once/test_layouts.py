"""Queries that distribute their rows differently when they replay a micro-batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy, fail

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2)]

CHANGED = "ROWS_DIFFER|LAYOUT_CHANGED"


@pytest.fixture
def hasty(copy: Copy) -> Copy:
    """A copy with a short transaction.timeout.ms, so that its tasks soon stop waiting for other slots."""
    copy.set_sink(**{"kafka.transaction.timeout.ms": "16000"})
    return copy


def committed_alone(slot: int, slots: int) -> list[dict[str, object]]:
    """Return rules that make the query fail when only one slot has committed."""
    others = [n for n in range(slots) if n != slot]
    held = [{"point": "commit.before", "batch": 1, "slot": n, "after": ["never"], "action": "wait"} for n in others]
    return [*held, dict(fail("commit.after", slot))]


@pytest.mark.parametrize("slots", [6, 2])
def test_changed_and_back(hasty: Copy, slots: int) -> None:
    """A partly written micro-batch is refused with more or fewer slots, and completes with the original number."""
    hasty.failed(fail("commit.after", 1, after=("commit.after-1-0",)), repartition=(4,))
    hasty.refused(CHANGED, repartition=(slots,))
    hasty.complete(repartition=(4,))
    hasty.expect_each_once()


@pytest.mark.parametrize("slots", [6, 2])
def test_changed_between_micro_batches(hasty: Copy, slots: int) -> None:
    """The number of slots may change after a complete micro-batch."""
    hasty.complete(repartition=(4,))
    hasty.add_rows()
    hasty.failed(fail("driver_commit.before", batch=3), repartition=(slots,))
    hasty.complete(repartition=(slots,))
    hasty.expect_each_once()


def test_recorded_slot_is_gone(hasty: Copy) -> None:
    """Unwritten slots wait for the recorded one, and write nothing if the new layout lacks it."""
    hasty.failed(*committed_alone(3, 4), repartition=(4,))
    error = hasty.refused("LAYOUT_CHANGED", repartition=(2,))
    assert "slot(s) 3" in error, error
    hasty.complete(repartition=(4,))
    hasty.expect_each_once()


def test_other_number_of_cores(copy: Copy, new_application: Callable[..., Application]) -> None:
    """A query may be restarted with fewer cores, and later with more."""
    one = new_application(cores=1)
    copy.failed(fail("commit.before", 3, after=("commit.after-1-0", "commit.after-1-1")))
    copy.failed(fail("driver_commit.before"), on=one)
    copy.complete()
    copy.expect_each_once()


def test_one_core(copy: Copy, new_application: Callable[..., Application]) -> None:
    """A query also restarts on one core, where slots are written one after another."""
    one = new_application(cores=1)
    copy.failed(fail("commit.before", 2), on=one)
    copy.failed(fail("driver_commit.before"), on=one)
    copy.complete(on=one)
    copy.expect_each_once()


def test_too_few_cores(hasty: Copy, new_application: Callable[..., Application]) -> None:
    """On one core, a replay is refused if only a later slot was written, because a waiting slot occupies the core."""
    one = new_application(cores=1)
    hasty.failed(*committed_alone(3, 4))
    hasty.refused("LAYOUT_CHANGED", on=one)
    hasty.complete()
    hasty.expect_each_once()


def test_empty_slots(copy: Copy) -> None:
    """Slots without rows write nothing, and no slot waits for them."""
    copy.failed(fail("driver_commit.before"), where="partition < 2")
    copy.complete(where="partition < 2")
    copy.expect_each_once(rows=[n for n in range(copy.rows) if n % 4 < 2])


def test_slot_has_become_empty(copy: Copy) -> None:
    """A recorded slot that has no rows in the replay ends the query with an error."""
    copy.failed(fail("driver_commit.before"))
    error = copy.refused("ROWS_DIFFER", where="partition <> 3")
    assert "Slot 3 of batch 1 was written before, with 100 rows" in error
    assert "Now it has 0 rows" in error
    copy.complete()
    copy.expect_each_once()


def test_retried_task_has_become_empty(copy: Copy, retrying: Application) -> None:
    """A task that committed, died, and has no rows when Spark tries it again, ends the query with an error.

    All workers have seen slots without rows before. In micro-batch 1, only the first row that is read exists.
    """
    is_first = "reflect('java.lang.System', 'setProperty', 'zkafka.read', 'yes') = 'null'"
    where = f"offset >= 100 AND (partition <> 0 OR {is_first})"
    die = {"point": "commit.after", "batch": 1, "slot": 0, "attempt": 0, "action": "kill_worker"}
    error = copy.refused("ROWS_DIFFER", die, on=retrying, where=where)
    assert "Slot 0 of batch 1 was written before, with 1 rows" in error
    assert "Now it has 0 rows" in error
