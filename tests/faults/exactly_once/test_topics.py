"""Topics that change under a query that writes to them."""

from __future__ import annotations

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import ROWS, Copy, fail

pytestmark = pytest.mark.long


def test_partitions_added(copy: Copy) -> None:
    """Partitions that the sink gains, between micro-batches and before a replay, are used; the ledger stays where it is."""
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
    """A query whose sink was deleted and created again, with as many partitions or others, goes on there: in processes
    that know the earlier topic's ledger, or in new ones.
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
