"""Reads of many groups, and the proof that a group has no members, on an ensemble of values."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyspark_zkafka.protocol.znodes.groups import ids_path, offsets_path
from pyspark_zkafka.zookeeper.connection import Results, Watch
from pyspark_zkafka.zookeeper.groups import NoMembers, group_children, group_znodes
from pyspark_zkafka.zookeeper.transactions import Reason
from tests.support.ensemble_client import EnsembleClient


class CountingClient(EnsembleClient):
    """A client that counts its rounds of requests."""

    rounds = 0

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
    ) -> Results:
        self.rounds += 1
        return super().ask(get, children, exists, watch)


@pytest.fixture
def client() -> CountingClient:
    """An ensemble with two groups."""
    client = CountingClient()
    for group in ("g", "h"):
        client.put(f"/consumers/{group}/ids/{group}_a", b"registration")
        client.put(f"/consumers/{group}/offsets/t/0", b"5")
        client.put(f"/consumers/{group}/offsets/u/0", b"6")
    return client


def test_children(client: CountingClient) -> None:
    """The children of all groups are read at once; paths that do not exist are absent."""
    found = group_children(client, ["g", "h", "unknown"])
    assert found["/consumers/g"] == ["ids", "offsets"]
    assert found["/consumers/h/offsets"] == ["t", "u"]
    assert {"/consumers/g/owners", "/consumers/unknown"}.isdisjoint(found)
    assert client.rounds == 1


def test_members(client: CountingClient) -> None:
    """The registrations of all groups are read in two rounds."""
    children = client.children_many(map(ids_path, ["g", "h"]))
    assert sorted(group_znodes(client, children)) == ["/consumers/g/ids/g_a", "/consumers/h/ids/h_a"]
    assert client.rounds == 2


def test_partitions(client: CountingClient) -> None:
    """The partitions of the chosen topics of all groups are read in three rounds."""
    children = client.children_many(map(offsets_path, ["g", "h"]))
    found = group_znodes(client, children, lambda names: [name for name in names if name == "u"])
    assert {path: node.data for path, node in found.items()} == {
        "/consumers/g/offsets/u/0": b"6",
        "/consumers/h/offsets/u/0": b"6",
    }
    assert client.rounds == 3


def test_whole_groups(client: CountingClient) -> None:
    """All of a group is read in three rounds."""
    assert sorted(group_znodes(client, group_children(client, ["g"]))) == [
        "/consumers/g/ids/g_a",
        "/consumers/g/offsets/t/0",
        "/consumers/g/offsets/u/0",
    ]
    assert client.rounds == 3


@pytest.mark.parametrize("ids", [None, "/consumers/g/ids"])
def test_proof(ids: str | None) -> None:
    """The proof leaves the znodes as they were, whether ``ids`` exists or not."""
    client = EnsembleClient()
    client.put(ids or "/consumers/g")
    before = {path: node.data for path, node in client.ensemble.nodes.items()}
    assert client.transact(NoMembers.read(client, "g").operations()).conflict is None
    assert {path: node.data for path, node in client.ensemble.nodes.items()} == before


def test_no_proof() -> None:
    """The transaction fails if a member is registered, and if one has joined and left since the proof was read."""
    client = EnsembleClient()
    client.put("/consumers/g")
    proof = NoMembers.read(client, "g")
    client.put("/consumers/g/ids/g_a")
    conflict = client.transact(proof.operations()).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NODE_EXISTS
    conflict = client.transact(NoMembers.read(client, "g").operations()).conflict
    assert conflict is not None
    assert conflict.reason is Reason.NOT_EMPTY
