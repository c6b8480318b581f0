"""``zkafka groups members`` on an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.group_describe import members
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """The ensemble without brokers."""
    del client.ensemble.nodes["/brokers/ids/1"]
    return client


def test_members(run: Callable[..., list[Row]]) -> None:
    """A member is shown with its subscription, the partitions that it owns, and the time at which it registered."""
    (row,) = run(members, ["g"])
    assert (row["consumer"], row["subscription"], row["pattern"]) == ("g_a", {"t": 1}, "static")
    assert (row["partitions"], row["assignment"], row["timestamp"]) == (1, {"t": [0]}, "2026-11-21T02:41:05.441Z")


def test_unreadable_registration(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """A registration that cannot be read is a row with its error, in the order of the ids."""
    client.put("/consumers/g/ids/g_0", b"?")
    rows = run(members, ["g"])
    assert [row["consumer"] for row in rows] == ["g_0", "g_a"]
    assert "/consumers/g/ids/g_0" in rows[0]["error"]


def test_all_groups(run: Callable[..., list[Row]]) -> None:
    """Groups without members have no rows; one that does not exist is an error."""
    assert [row["group"] for row in run(members, None, all_groups=True)] == ["g"]
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(members, ["nobody"])
