"""``zkafka groups list`` on an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.group_describe import list_
from tests.support.ensemble_client import EnsembleClient


def test_groups(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """Groups are sorted, with their members, topics and state, and the store of their offsets if they have any."""
    client.put("/consumers/former")
    rows = {row["group"]: (row["members"], row["topics"], row["state"], row["store"]) for row in run(list_)}
    assert list(rows) == ["former", "g", "idle"]
    assert rows["former"] == (0, [], "Dead", None)
    assert rows["g"] == (1, ["t"], "Stable", "zookeeper")
    assert rows["idle"] == (0, ["t"], "Empty", "zookeeper")
