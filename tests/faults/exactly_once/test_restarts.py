"""Queries that are stopped, started on another checkpoint, or restarted without their ledger."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.applications import Application
from tests.support.copied_rows import Copy, fail

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2)]

WITH_UUID = ("key", "concat(cast(value AS string), ':', uuid()) AS value")


def forget(copy: Copy) -> None:
    """Delete the ledger, as brokers do after offsets.retention.minutes."""
    groups = copy.ledger_groups
    assert groups
    with AdminClient({"bootstrap.servers": copy.cluster.bootstrap_servers}) as admin:
        for future in admin.delete_consumer_groups(groups).values():
            future.result(30)


def test_stopped_and_started(copy: Copy) -> None:
    """A query stopped within a micro-batch and restarted at once in the same application writes each row once."""
    slow = {"point": "commit_offset.before", "batch": 1, "slot": 2, "action": "sleep", "seconds": 0.5}
    outcome = copy.run(slow, stop_at="commit_offset.before-1-2")
    assert outcome.error is None
    copy.expect_each_once()


def test_stopped_task_goes_on(copy: Copy, new_application: Callable[..., Application]) -> None:
    """A stopped query's task is fenced if it commits after the next run has written its slot."""
    application = new_application(conf={"spark.python.task.killTimeout": "120s"})
    waits = {
        "point": "commit_offset.before",
        "batch": 1,
        "slot": 2,
        "action": "wait",
        "after": ["driver_commit.after-1--1"],
    }
    outcome = copy.run(waits, stop_at="commit_offset.before-1-2", on=application)
    assert outcome.error is None
    application.mark("abort.before-1-2")
    copy.expect_each_once()


def test_rows_that_do_not_repeat(copy: Copy) -> None:
    """A plan with uuid() fails with an error that names the slot, both counts and both hashes; no row is written twice."""
    copy.failed(fail("driver_commit.before"), select=WITH_UUID)
    error = copy.refused("ROWS_DIFFER", select=WITH_UUID)
    found = re.search(
        r"Slot \d of batch 1 was written before, with 100 rows of hash ([0-9a-f]{32})\. "
        r"Now it has 100 rows of hash ([0-9a-f]{32})",
        error,
    )
    assert found is not None
    assert found[1] != found[2]
    assert "no uuid() or rand() after the source" in error
    copy.expect_each_once(rows=range(800))


def test_rolled_back_checkpoint(copy: Copy) -> None:
    """A query whose checkpoint was replaced by an older one is refused by its first task."""
    copy.complete()
    older = copy.checkpoint.with_name("older")
    shutil.copytree(copy.checkpoint, older)
    copy.add_rows()
    copy.complete()
    shutil.rmtree(copy.checkpoint)
    older.rename(copy.checkpoint)
    copy.refused("CHECKPOINT_ROLLED_BACK")
    copy.expect_each_once()


def test_new_checkpoint(copy: Copy, tmp_path: Path) -> None:
    """A query with a new checkpoint is a new query, and writes all rows."""
    copy.complete()
    copy.complete(checkpoint=str(tmp_path / "another"))
    assert copy.counts() == Counter(dict.fromkeys(range(copy.rows), 2))


def test_forgotten_ledger(copy: Copy, application: Application) -> None:
    """A query whose ledger was deleted continues after its last complete micro-batch, and starts a new ledger."""
    copy.complete()
    forget(copy)
    copy.add_rows()
    copy.complete()  # by processes that still know the ledger
    copy.expect_each_once()
    application.kill()
    forget(copy)
    copy.add_rows()
    copy.failed(fail("driver_commit.before", batch=7))
    copy.complete()
    copy.expect_each_once()
