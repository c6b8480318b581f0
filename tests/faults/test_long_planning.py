"""Resources of a planner that runs for days: nothing grows with the number of micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.long_planning import GROUPS, grown

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long


@pytest.mark.parametrize("group", GROUPS)
def test_flat(zkafka_cluster: LocalCluster, group: str) -> None:
    """A planner's memory, threads, open files, watches and connections do not grow over 3,000 micro-batches."""
    found = list(grown(zkafka_cluster, group, 3_000))
    assert {growth.figure for growth in found} == {"rss_mb", "threads", "file_handles", "watches", "connections"}
    assert [growth for growth in found if not growth.flat] == []
