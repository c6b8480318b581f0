"""``zkafka groups members`` with a fake ensemble."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.tools.group_describe import members
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run

pytestmark = pytest.mark.usefixtures("brokerless")


def test_members(run: Run) -> None:
    """A member is shown with its subscription, its partitions and the time of its registration."""
    (row,) = run(members, ["g"])
    assert (row["consumer"], row["subscription"], row["pattern"]) == ("g_a", {"t": 1}, "static")
    assert (row["partitions"], row["assignment"], row["timestamp"]) == (1, {"t": [0]}, "2026-11-21T02:41:05.441Z")


def test_unreadable_registration(client: EnsembleClient, run: Run) -> None:
    """An unreadable registration is a row with its error, in the order of ids."""
    client.put("/consumers/g/ids/g_0", b"?")
    rows = run(members, ["g"])
    assert [row["consumer"] for row in rows] == ["g_0", "g_a"]
    assert "/consumers/g/ids/g_0" in rows[0]["error"]


def test_all_groups(run: Run) -> None:
    """Groups without members have no rows, and an unknown group is an error."""
    assert [row["group"] for row in run(members, None, all_groups=True)] == ["g"]
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(members, ["nobody"])
