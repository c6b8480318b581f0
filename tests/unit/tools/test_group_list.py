"""``zkafka groups list`` with a fake ensemble."""

from __future__ import annotations

from pyspark_zkafka.brokers.groups import GroupState
from pyspark_zkafka.errors import GroupError, NoLeader
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.group_describe import list_
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers, active
from tests.support.running import Run


def test_lag(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group's lag is the sum over its partitions, and is unknown without an offset or a leader."""
    client.put("/consumers/former")
    client.put("/consumers/g/offsets/t/1", b"12")
    client.put("/consumers/idle/offsets/gone/0", b"3")
    group_admin.stored = {"in-kafka": {TopicPartition("t", 0): 40, TopicPartition("t", 1): 25}}

    def lags() -> dict[str, int | None]:
        return {row["group"]: row["lag"] for row in run(list_, storage="both", lag=True)}

    assert lags() == {"former": None, "g": 95 + 8, "idle": 13, "in-kafka": 60}
    group_admin.offline = {TopicPartition("t", 1): NoLeader("NO_LEADER", "t-1 has no leader")}
    assert lags() == {"former": None, "g": None, "idle": None, "in-kafka": None}
    assert "lag" not in run(list_)[0]


def test_group_in_both_places(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group whose consumers have moved to Kafka shows them, and its topics in both places."""
    group_admin.stored = {"idle": {TopicPartition("u", 0): 4}}
    group_admin.states = {"idle": active(2)}
    found = {row["group"]: row for row in run(list_, storage="both")}["idle"]
    assert [found[n] for n in ("members", "topics", "state", "store")] == [2, ["t", "u"], "Stable", "both"]


def test_groups_that_cannot_be_read(client: EnsembleClient, group_admin: GroupBrokers, run: Run) -> None:
    """A group that the brokers cannot describe is a row with the reason, whether ZooKeeper has it, too, or not."""
    odd = GroupState.unreadable(GroupError("UNREADABLE_GROUP", "a member is odd"))
    group_admin.stored = {name: {TopicPartition("u", 0): 4} for name in ("idle", "g", "in-kafka")}
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
