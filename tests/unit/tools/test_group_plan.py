"""``zkafka groups plan`` with a fake ensemble."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.tools.group_plan import plan, plan_assignments
from tests.support.ensemble_client import EnsembleClient

PARTITIONS = {"t": [0, 1, 2, 3]}


def test_moves() -> None:
    """A partition moves if a strategy gives it to another thread than its present owner; without one, it does not move."""
    members = {"g_c1": ConsumerRegistration({"t": 1}), "g_c2": ConsumerRegistration({"t": 1})}
    owners = {TopicPartition("t", 0): "g_c1-0", TopicPartition("t", 1): "g_c2-0", TopicPartition("t", 2): "g_c3-0"}
    by_range, sticky = plan_assignments(["range", "sticky"], members, PARTITIONS, owners)
    assert list(by_range.owners.values()) == ["g_c1-0", "g_c1-0", "g_c2-0", "g_c2-0"]
    assert (by_range.moves, by_range.threads, by_range.fewest, by_range.most) == (2, 2, 2, 2)
    assert sticky.moves == 1


def test_threads_without_partitions() -> None:
    """Threads without partitions count, so the fewest partitions are 0."""
    members = {"g_c1": ConsumerRegistration({"t": 3}), "g_c2": ConsumerRegistration({"t": 3})}
    (found,) = plan_assignments(["range"], members, PARTITIONS, {})
    assert (found.moves, found.threads, found.partitions, found.fewest, found.most) == (0, 6, 4, 0, 1)


def test_present_members(run: Callable[..., list[Row]]) -> None:
    """Each partition is shown with its present owner and its owner under each strategy."""
    rows = run(plan, "g", strategy=["range"])
    assert [(row["partition"], row["owner"], row["range"]) for row in rows] == [(0, "g_a-0", "g_a-0"), (1, None, "g_a-0")]


def test_summary(client: EnsembleClient, show: Callable[..., tuple[str, str]]) -> None:
    """The table is followed by each strategy's moves and shares, and a partition without an owner does not move."""
    client.put("/consumers/g/ids/g_b", client.data("/consumers/g/ids/g_a"))
    client.put("/consumers/g/owners/t/0", b"g_b-0")
    text, _ = show(plan, "g", strategy=["range"])
    assert [line.split() for line in text.splitlines() if line.startswith(("t ", "range "))] == [
        ["t", "0", "b-0", "a-0"],
        ["t", "1", "-", "b-0"],
        ["range", "1", "2", "2", "1", "1"],
    ]


@pytest.mark.parametrize(("group", "condition"), [("idle", "NO_MEMBERS"), ("nobody", "UNKNOWN_GROUP")])
def test_refused(run: Callable[..., list[Row]], group: str, condition: str) -> None:
    """Unknown groups and groups without members are refused."""
    with pytest.raises(GroupError, match=condition):
        run(plan, group)
