"""Znodes of groups: joint reads of many groups, and the proof that a group has no members."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.commits import no_members
from pyspark_zkafka.model.znodes.groups import ids_path, offsets_path
from pyspark_zkafka.zookeeper.snapshots import (
    Activity,
    group_activity,
    group_children,
    read_group_znodes,
    require_inactive,
)
from pyspark_zkafka.zookeeper.transactions import Operation, Reason
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def two_groups() -> EnsembleClient:
    """An ensemble with two groups."""
    client = EnsembleClient()
    for group in ("g", "h"):
        client.put(f"/consumers/{group}/ids/{group}_a", b"registration")
        client.put(f"/consumers/{group}/offsets/t/0", b"5")
        client.put(f"/consumers/{group}/offsets/u/0", b"6")
    return client


def test_children(two_groups: EnsembleClient) -> None:
    """The children of all groups are read in one round; missing paths are absent."""
    found = group_children(two_groups, ["g", "h", "unknown"])
    assert found["/consumers/g"] == ["ids", "offsets"]
    assert found["/consumers/h/offsets"] == ["t", "u"]
    assert {"/consumers/g/owners", "/consumers/unknown"}.isdisjoint(found)
    assert two_groups.requests == 1


def test_members(two_groups: EnsembleClient) -> None:
    """The registrations of all groups are read in two rounds."""
    children = two_groups.children_many(map(ids_path, ["g", "h"]))
    assert sorted(read_group_znodes(two_groups, children)) == ["/consumers/g/ids/g_a", "/consumers/h/ids/h_a"]
    assert two_groups.requests == 2


def test_partitions(two_groups: EnsembleClient) -> None:
    """The partitions of the chosen topics of all groups are read in three rounds."""
    children = two_groups.children_many(map(offsets_path, ["g", "h"]))
    found = read_group_znodes(two_groups, children, lambda names: [name for name in names if name == "u"])
    assert {path: node.data for path, node in found.items()} == {
        "/consumers/g/offsets/u/0": b"6",
        "/consumers/h/offsets/u/0": b"6",
    }
    assert two_groups.requests == 3


def test_whole_groups(two_groups: EnsembleClient) -> None:
    """An entire group is read in three rounds."""
    assert sorted(read_group_znodes(two_groups, group_children(two_groups, ["g"]))) == [
        "/consumers/g/ids/g_a",
        "/consumers/g/offsets/t/0",
        "/consumers/g/offsets/u/0",
    ]
    assert two_groups.requests == 3


@pytest.fixture
def client() -> EnsembleClient:
    """A client of an empty ensemble."""
    return EnsembleClient()


def test_activity(client: EnsembleClient) -> None:
    """Members and claims are found; a group without a znode is inactive, and a topic without claims does not count."""
    client.put("/consumers/g/ids/g_a")
    client.put("/consumers/g/owners/t/0")
    client.put("/consumers/g/owners/u")
    found = group_activity(client, ["g", "g", "unknown"])
    assert found == {"g": Activity(("g_a",), ("t/0",)), "unknown": Activity()}
    assert [bool(activity) for activity in found.values()] == [True, False]


def test_require_inactive() -> None:
    """The error names members or, without any, claims, and starts with the caller's text."""
    require_inactive("g", Activity(), "Nothing was done")
    with pytest.raises(GroupError, match="group g must be inactive, but it has the members a, b, c and 1 more"):
        require_inactive("g", Activity(("a", "b", "c", "d"), ("t/0",)), "Nothing was done")
    with pytest.raises(GroupError, match=r"Nothing was done: .*but its partitions t/0 have owners; stop its consumers"):
        require_inactive("g", Activity(claims=("t/0",)), "Nothing was done")


def proof(client: EnsembleClient) -> list[Operation]:
    """Return the proof that group ``g`` has no members."""
    return no_members(client, "g", client.get_many(["/consumers/g/ids"]).get("/consumers/g/ids"))


@pytest.mark.parametrize("ids", [None, "/consumers/g/ids"])
def test_proof(client: EnsembleClient, ids: str | None) -> None:
    """The proof leaves the znodes unchanged, whether or not ``ids`` exists."""
    client.put(ids or "/consumers/g")
    before = {path: node.data for path, node in client.ensemble.nodes.items()}
    assert client.transact(proof(client)).conflict is None
    assert {path: node.data for path, node in client.ensemble.nodes.items()} == before


def test_no_proof(client: EnsembleClient) -> None:
    """The transaction fails if a member is registered, or has joined and left since the proof was read."""
    client.put("/consumers/g")
    before = proof(client)
    client.put("/consumers/g/ids/g_a")
    conflict = client.transact(before).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NODE_EXISTS
    conflict = client.transact(proof(client)).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NOT_EMPTY
