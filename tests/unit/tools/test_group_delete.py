"""``zkafka groups delete`` with a fake ensemble."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupContended, GroupError, UnknownTopic
from pyspark_zkafka.tools.group_delete import delete, delete_group, group_znodes_of
from pyspark_zkafka.zookeeper.transactions import Create, Delete
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show


def test_delete(client: EnsembleClient, run: Run) -> None:
    """The znodes of each group are counted, and deleted unless it is a dry run."""
    assert run(delete, ["idle", "idle"], dry_run=True) == [{"group": "idle", "topic": None, "znodes": 4}]
    assert "/consumers/idle" in client.ensemble.nodes
    assert run(delete, ["idle"]) == [{"group": "idle", "topic": None, "znodes": 4}]
    assert "/consumers/idle" not in client.ensemble.nodes


def test_last_topic(client: EnsembleClient, show: Show, run: Run) -> None:
    """A note says if a group goes as a whole with a topic."""
    assert "have no other topic, and are deleted as a whole: idle." in show(delete, ["idle"], topic="t", dry_run=True)[1]
    client.put("/consumers/idle/offsets/u/0", b"1")
    assert "no other topic" not in show(delete, ["idle"], topic="t", dry_run=True)[1]


def test_checked_before_anything_is_deleted(client: EnsembleClient, run: Run) -> None:
    """If one group is active or does not exist, none is deleted."""
    with pytest.raises(GroupError, match="Delete for group 'g' failed because its consumers are still active"):
        run(delete, ["idle", "g"])
    unknown = r"Group nobody does not exist under /kafka/consumers; .* use --bootstrap-server"
    with pytest.raises(GroupError, match=unknown):
        run(delete, ["idle", "nobody"])
    assert "/consumers/idle" in client.ensemble.nodes


def test_topic_that_a_group_does_not_have(client: EnsembleClient, run: Run) -> None:
    """If one group has nothing of the topic, it is an error, and none is deleted."""
    client.put("/consumers/other/offsets/u/0", b"1")
    with pytest.raises(UnknownTopic, match=r"idle, other .* of topic nosuch"):
        run(delete, ["idle", "other"], topic="nosuch")
    with pytest.raises(UnknownTopic, match=r"other .* of topic t;"):
        run(delete, ["idle", "other"], topic="t")
    assert "/consumers/idle" in client.ensemble.nodes


@pytest.fixture
def topics_client() -> EnsembleClient:
    """An ensemble with a group that has offsets in two topics, and another group."""
    client = EnsembleClient()
    for path in ("offsets/t/0", "offsets/t/1", "offsets/u/0", "owners/t", "ids"):
        client.put(f"/consumers/g/{path}")
    client.put("/consumers/other/offsets/t/0")
    return client


def test_whole_group(topics_client: EnsembleClient) -> None:
    """All znodes of the group are deleted, and no others."""
    assert delete_group(topics_client, "g") == len(["g", "ids", "owners", "owners/t", "offsets"]) + 5
    assert [path for path in topics_client.ensemble.nodes if path.startswith("/consumers/g")] == []
    assert "/consumers/other/offsets/t/0" in topics_client.ensemble.nodes


def test_one_topic(topics_client: EnsembleClient) -> None:
    """Claims and offsets of a topic are deleted, and the group is deleted with its last topic."""
    assert delete_group(topics_client, "g", "t") == 4
    assert set(group_znodes_of(topics_client, "g")) >= {"/consumers/g/offsets/u/0", "/consumers/g/owners"}
    delete_group(topics_client, "g", "u")
    assert "/consumers/g" not in topics_client.ensemble.nodes


def test_unknown_topic(topics_client: EnsembleClient) -> None:
    """A topic of which the group has nothing is no error."""
    assert delete_group(topics_client, "g", "v") == 0


def test_active_group(topics_client: EnsembleClient) -> None:
    """A group with a member is not changed."""
    topics_client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="Delete failed: group g must be inactive"):
        delete_group(topics_client, "g")
    assert topics_client.data("/consumers/g/offsets/t/0") is None


@pytest.mark.parametrize("path", ["owners/t/0", "ids/g_a"])
def test_znode_that_outlives_its_consumer(topics_client: EnsembleClient, path: str) -> None:
    """The error for a claim or member that is not ephemeral says to delete it, since no session will end it."""
    topics_client.put(f"/consumers/g/{path}")
    with pytest.raises(GroupError, match=rf"/consumers/g/{path} is not ephemeral.*zkCli\.sh"):
        delete_group(topics_client, "g")
    topics_client.transact([Delete(f"/consumers/g/{path}")])
    delete_group(topics_client, "g")


def test_ephemeral_claim(topics_client: EnsembleClient) -> None:
    """The error for an ephemeral claim says to stop the consumer."""
    topics_client.transact([Create("/consumers/g/owners/t/0", b"g_a-0", ephemeral=True)])
    with pytest.raises(GroupError, match="its partitions t/0 have owners; stop its consumers"):
        delete_group(topics_client, "g")


@pytest.mark.parametrize("has_ids", [True, False])
def test_member_that_joins(topics_client: EnsembleClient, has_ids: bool) -> None:
    """A member that registers during the deletion of a topic prevents it, also as the first one ever."""
    if not has_ids:
        del topics_client.ensemble.nodes["/consumers/g/ids"]
    topics_client.meanwhile = lambda: topics_client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        delete_group(topics_client, "g", "t")
    assert "/consumers/g/offsets/t/0" in topics_client.ensemble.nodes


def test_others_that_write(topics_client: EnsembleClient) -> None:
    """A new znode is deleted at the next attempt, and the deletion fails if new znodes appear at each attempt."""
    numbers = iter(range(2, 100))

    def commit() -> None:
        topics_client.put(f"/consumers/g/offsets/t/{next(numbers)}")

    def commit_once() -> None:
        commit()
        topics_client.meanwhile = lambda: None

    topics_client.meanwhile = commit_once
    assert delete_group(topics_client, "g", "t") == 5
    topics_client.meanwhile = commit
    topics_client.put("/consumers/g/offsets/t")
    with pytest.raises(GroupContended, match="others keep changing group"):
        delete_group(topics_client, "g", "t")
