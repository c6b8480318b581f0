"""``zkafka groups describe`` with a fake ensemble, without a live leader of any partition."""

from __future__ import annotations

from pyspark_zkafka.inspect.groups import PARTITION_COLUMNS
from pyspark_zkafka.tools.group_describe import describe
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show


def test_description(client: EnsembleClient, run: Run) -> None:
    """Without brokers, a description has offsets and owners of each subscribed partition, but no lag."""
    del client.ensemble.nodes["/brokers/ids/1"]
    rows = run(describe, ["g"])
    assert [(row["partition"], row["offset"], row["thread"]) for row in rows] == [(0, 5, "g_a-0"), (1, None, None)]
    assert {(row["latest"], row["lag"]) for row in rows} == {(None, None)}


def test_all_columns_in_json(run: Run) -> None:
    """JSON has every column of a partition's report; the time of the commit is in ISO 8601."""
    row, _ = run(describe, ["g"])
    assert set(row) == {*PARTITION_COLUMNS, "commit_time"} - {"commit_us"}
    assert row["commit_time"].endswith("Z")


def test_groups_without_members(client: EnsembleClient, show: Show) -> None:
    """A group without members is noted, and many such groups share a single line."""
    del client.ensemble.nodes["/brokers/ids/1"]
    note = "Consumer group 'idle' has no active members in ZooKeeper.\n"
    assert note in show(describe, ["idle"])[1]
    assert note in show(describe, all_groups=True)[1]
    for number in range(20):
        client.put(f"/consumers/idle{number}/offsets/t/1", b"7")
    notes = show(describe, all_groups=True)[1].splitlines()
    found = [line for line in notes if "no active members" in line]
    assert len(found) == 1
    assert found[0].startswith("21 consumer groups have no active members in ZooKeeper: idle, idle0, idle1, ")
