"""Reads of many groups, from an ensemble of values."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyspark_zkafka.protocol.znodes.groups import offsets_path
from pyspark_zkafka.zookeeper.connection import Results, Watch
from pyspark_zkafka.zookeeper.groups import group_children, member_znodes, partition_znodes
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
    assert sorted(member_znodes(client, ["g", "h"])) == ["/consumers/g/ids/g_a", "/consumers/h/ids/h_a"]
    assert client.rounds == 2


def test_partitions(client: CountingClient) -> None:
    """The partitions of the chosen topics of all groups are read in three rounds."""
    found = partition_znodes(client, map(offsets_path, ["g", "h"]), lambda names: [n for n in names if n == "u"])
    assert {path: node.data for path, node in found.items()} == {
        "/consumers/g/offsets/u/0": b"6",
        "/consumers/h/offsets/u/0": b"6",
    }
    assert client.rounds == 3
