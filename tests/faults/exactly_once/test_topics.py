"""Topics that change while a query writes to them."""

from __future__ import annotations

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import ROWS, Copy, fail

pytestmark = [pytest.mark.long, pytest.mark.spark(4, 2)]


def test_partitions_added(copy: Copy) -> None:
    """Partitions added to the sink between micro-batches or before a replay are used; the ledger stays in place."""
    copy.complete()
    groups = copy.ledger_groups
    copy.cluster.add_partitions(copy.sink, 5)
    copy.add_rows()
    copy.failed(fail("driver_commit.before", batch=4))
    copy.cluster.add_partitions(copy.sink, 7)
    copy.complete()
    copy.expect_each_once()
    assert copy.ledger_groups == groups


@pytest.mark.parametrize(("partitions", "is_new"), [(2, False), (5, False), (3, True)])
def test_topic_created_again(copy: Copy, application: Application, partitions: int, is_new: bool) -> None:
    """A query whose sink was recreated continues there, with any number of partitions.

    Its processes may know the earlier topic's ledger, or be new.
    """
    for _ in range(2):
        copy.complete()
        copy.add_rows()
    if is_new:
        application.kill()
    copy.cluster.delete_topic(copy.sink)
    copy.cluster.create_topic(copy.sink, partitions=partitions)
    copy.failed(fail("driver_commit.before", batch=7))
    copy.complete()
    copy.expect_each_once(rows=range(2 * ROWS, 3 * ROWS))
