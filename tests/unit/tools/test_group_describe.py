"""``zkafka groups describe``, ``list`` and ``members`` with a fake ensemble and fake brokers."""

from __future__ import annotations

import pytest

from pyspark_zkafka.brokers.groups import GroupState
from pyspark_zkafka.errors import GroupError, NoLeader
from pyspark_zkafka.inspect.groups import PARTITION_COLUMNS
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.group_describe import describe, list_, members
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers, active
from tests.support.running import Run, Show

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.mark.usefixtures("brokerless")
def test_description(run: Run) -> None:
    """Without brokers, a description has offsets and owners of each subscribed partition, but no lag."""
    rows = run(describe, ["g"])
    assert [(row["partition"], row["offset"], row["thread"]) for row in rows] == [(0, 5, "g_a-0"), (1, None, None)]
    assert {(row["latest"], row["lag"]) for row in rows} == {(None, None)}


def test_all_columns_in_json(run: Run) -> None:
    """JSON has every column of a partition's report; the time of the commit is in ISO 8601."""
    row, _ = run(describe, ["g"])
    assert set(row) == {*PARTITION_COLUMNS, "commit_time"} - {"commit_us"}
    assert row["commit_time"].endswith("Z")


@pytest.mark.usefixtures("brokerless")
def test_groups_without_members(client: EnsembleClient, show: Show) -> None:
    """A group without members is noted, and many such groups share a single line."""
    note = "Consumer group 'idle' has no active members in ZooKeeper.\n"
    assert note in show(describe, ["idle"])[1]
    assert note in show(describe, all_groups=True)[1]
    for number in range(20):
        client.put(f"/consumers/idle{number}/offsets/t/1", b"7")
    notes = show(describe, all_groups=True)[1].splitlines()
    found = [line for line in notes if "no active members" in line]
    assert len(found) == 1
    assert found[0].startswith("21 consumer groups have no active members in ZooKeeper: idle, idle0, idle1, ")


# --- list ------------------------------------------------------------------------------------------------------------


def test_lag(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group's lag is the sum over its partitions, and is unknown without an offset or a leader."""
    client.put("/consumers/former")
    client.put("/consumers/g/offsets/t/1", b"12")
    client.put("/consumers/idle/offsets/gone/0", b"3")
    group_admin.stored = {"in-kafka": {T0: 40, T1: 25}}

    def lags() -> dict[str, int | None]:
        return {row["group"]: row["lag"] for row in run(list_, storage="both", lag=True)}

    assert lags() == {"former": None, "g": 95 + 8, "idle": 13, "in-kafka": 60}
    group_admin.offline = {T1: NoLeader("NO_LEADER", "t-1 has no leader")}
    assert lags() == {"former": None, "g": None, "idle": None, "in-kafka": None}
    assert "lag" not in run(list_)[0]


def test_group_in_both_places(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group whose consumers have moved to Kafka shows them, and its topics in both places."""
    group_admin.stored = {"idle": {U0: 4}}
    group_admin.states = {"idle": active(2)}
    found = {row["group"]: row for row in run(list_, storage="both")}["idle"]
    assert [found[n] for n in ("members", "topics", "state", "store")] == [2, ["t", "u"], "Stable", "both"]


def test_groups_that_cannot_be_read(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group that the brokers cannot describe is a row with the reason, whether ZooKeeper has it, too, or not."""
    odd = GroupState.unreadable(GroupError("UNREADABLE_GROUP", "a member is odd"))
    group_admin.stored = {name: {U0: 4} for name in ("idle", "g", "in-kafka")}
    group_admin.states = dict.fromkeys(group_admin.stored, odd)
    columns = ("members", "topics", "state", "error")
    found = {row["group"]: tuple(row[n] for n in columns) for row in run(list_, storage="both")}
    assert found == {
        "g": (None, ["t", "u"], "Stable", "a member is odd"),
        "idle": (None, ["t", "u"], "Unreadable", "a member is odd"),
        "in-kafka": (None, ["u"], "Unreadable", "a member is odd"),
    }


def test_groups(client: EnsembleClient, run: Run) -> None:
    """Groups are sorted and shown with their members, topics and state, and the store of their offsets, if any."""
    client.put("/consumers/former")
    rows = {row["group"]: (row["members"], row["topics"], row["state"], row["store"]) for row in run(list_)}
    assert list(rows) == ["former", "g", "idle"]
    assert rows["former"] == (0, [], "Dead", None)
    assert rows["g"] == (1, ["t"], "Stable", "zookeeper")
    assert rows["idle"] == (0, ["t"], "Empty", "zookeeper")


# --- members ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brokerless")
def test_members(run: Run) -> None:
    """A member is shown with its subscription, its partitions and the time of its registration."""
    (row,) = run(members, ["g"])
    assert row["consumer"] == "g_a"
    assert row["subscription"] == {"t": 1}
    assert row["pattern"] == "static"
    assert row["partitions"] == 1
    assert row["assignment"] == {"t": [0]}
    assert row["timestamp"] == "2026-11-21T02:41:05.441Z"


def test_unreadable_registration(client: EnsembleClient, run: Run) -> None:
    """An unreadable registration is a row with its error, in the order of ids."""
    client.put("/consumers/g/ids/g_0", b"?")
    rows = run(members, ["g"])
    assert [row["consumer"] for row in rows] == ["g_0", "g_a"]
    assert "/consumers/g/ids/g_0" in rows[0]["error"]


def test_members_of_all_groups(run: Run) -> None:
    """Groups without members have no rows, and an unknown group is an error."""
    assert [row["group"] for row in run(members, None, all_groups=True)] == ["g"]
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(members, ["nobody"])
