"""Queries that are killed as a whole, at one point after another, and restarted."""

from __future__ import annotations

import pytest

from tests.support.applications import Rule
from tests.support.copied_rows import Copy


def kill(point: str, slot: int, *, batch: int = 1, after: tuple[str, ...] = (), seconds: float = 0.0) -> Rule:
    return {"point": point, "batch": batch, "slot": slot, "after": after, "seconds": seconds, "action": "kill"}


def test_undisturbed(copy: Copy) -> None:
    """A query that nothing disturbs writes each row once, in as many micro-batches as the limit asks for."""
    assert copy.complete().batches == ((0, 400), (1, 400), (2, 400))
    copy.expect_each_once()


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_all_slots_committed(copy: Copy, batch: int) -> None:
    """A query that is killed when all slots have committed, and the checkpoint has not, finds the rows in the log."""
    copy.killed(kill("driver_commit.before", -1, batch=batch))
    copy.complete()
    copy.expect_each_once()


def test_at_least_once(copy: Copy) -> None:
    """The same kill repeats a micro-batch of a query that is not exactly-once: the check sees it."""
    writes = [copy.at_least_once()]
    copy.killed(kill("driver_commit.before", -1), writes=writes)
    copy.complete(writes=writes)
    found = copy.counts()
    assert (len(found), found.total()) == (1200, 1600)
