"""Deletion of groups, on an ensemble of values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupContended, GroupError
from pyspark_zkafka.tools.group_deletion import delete_group, group_znodes_of, require_groups
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with a group that has offsets of two topics, and another group."""
    client = EnsembleClient()
    for path in ("offsets/t/0", "offsets/t/1", "offsets/u/0", "owners/t", "ids"):
        client.put(f"/consumers/g/{path}")
    client.put("/consumers/other/offsets/t/0")
    return client


def test_unknown_groups(client: EnsembleClient) -> None:
    """Groups that do not exist are named, with the path at which they were looked up."""
    require_groups(client, ["g", "other"])
    with pytest.raises(GroupError, match=r"^\[UNKNOWN_GROUP\] Group nobody does not exist under /kafka/consumers; "):
        require_groups(client, ["g", "nobody"])


def test_whole_group(client: EnsembleClient) -> None:
    """All znodes of the group are deleted, and no others."""
    assert delete_group(client, "g") == len(["g", "ids", "owners", "owners/t", "offsets"]) + 5
    assert [path for path in client.ensemble.nodes if path.startswith("/consumers/g")] == []
    assert "/consumers/other/offsets/t/0" in client.ensemble.nodes


def test_one_topic(client: EnsembleClient) -> None:
    """Claims and offsets of a topic are deleted; the last topic takes the group with it."""
    assert delete_group(client, "g", "t") == 4
    assert set(group_znodes_of(client, "g")) >= {"/consumers/g/offsets/u/0", "/consumers/g/owners"}
    delete_group(client, "g", "u")
    assert "/consumers/g" not in client.ensemble.nodes


def test_unknown_topic(client: EnsembleClient) -> None:
    """A topic of which the group has nothing is no error."""
    assert delete_group(client, "g", "v") == 0


def test_active_group(client: EnsembleClient) -> None:
    """A group with a member stays as it is."""
    client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="Delete failed: group g must be inactive"):
        delete_group(client, "g")
    assert client.data("/consumers/g/offsets/t/0") is None


def test_member_that_joins(client: EnsembleClient) -> None:
    """A member that registers after the group was looked at prevents the deletion of a topic, too."""
    client.meanwhile = lambda: client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        delete_group(client, "g", "t")
    assert "/consumers/g/offsets/t/0" in client.ensemble.nodes


def test_others_that_write(client: EnsembleClient) -> None:
    """A znode that appears is deleted at the next attempt; if one appears at each attempt, the deletion is given up."""
    numbers = iter(range(2, 100))

    def commit() -> None:
        client.put(f"/consumers/g/offsets/t/{next(numbers)}")

    def commit_once() -> None:
        commit()
        client.meanwhile = lambda: None

    client.meanwhile = commit_once
    assert delete_group(client, "g", "t") == 5
    client.meanwhile = commit
    client.put("/consumers/g/offsets/t")
    with pytest.raises(GroupContended, match="others keep changing it"):
        delete_group(client, "g", "t")
