"""Activity of groups, and the proof that there is none, on an ensemble of values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.zookeeper.groups import Activity, NoMembers, group_activity, require_inactive
from pyspark_zkafka.zookeeper.transactions import Reason
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client() -> EnsembleClient:
    """A client of an ensemble without any znode."""
    return EnsembleClient()


def test_activity(client: EnsembleClient) -> None:
    """Members and claims are found; a group without a znode is inactive, as is a topic without claims."""
    client.put("/consumers/g/ids/g_a")
    client.put("/consumers/g/owners/t/0")
    client.put("/consumers/g/owners/u")
    found = group_activity(client, ["g", "g", "unknown"])
    assert found == {"g": Activity(("g_a",), ("t/0",)), "unknown": Activity()}
    assert [bool(activity) for activity in found.values()] == [True, False]


def test_require_inactive() -> None:
    """The error names members, or, without any, the claims, and begins as the caller says."""
    require_inactive("g", Activity(), "Nothing was done")
    with pytest.raises(GroupError, match="group g must be inactive, but it has the members a, b, c and 1 more"):
        require_inactive("g", Activity(("a", "b", "c", "d"), ("t/0",)), "Nothing was done")
    with pytest.raises(GroupError, match=r"Nothing was done: .*but its partitions t/0 have owners; stop its consumers"):
        require_inactive("g", Activity(claims=("t/0",)), "Nothing was done")


@pytest.mark.parametrize("ids", [None, "/consumers/g/ids"])
def test_proof(client: EnsembleClient, ids: str | None) -> None:
    """The proof leaves the znodes as they were, whether ``ids`` exists or not."""
    client.put(ids or "/consumers/g")
    before = {path: node.data for path, node in client.ensemble.nodes.items()}
    assert client.transact(NoMembers.read(client, "g").operations()).conflict is None
    assert {path: node.data for path, node in client.ensemble.nodes.items()} == before


def test_no_proof(client: EnsembleClient) -> None:
    """The transaction fails if a member is registered, and if one has joined and left since the proof was read."""
    client.put("/consumers/g")
    proof = NoMembers.read(client, "g")
    client.put("/consumers/g/ids/g_a")
    conflict = client.transact(proof.operations()).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NODE_EXISTS
    conflict = client.transact(NoMembers.read(client, "g").operations()).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NOT_EMPTY
