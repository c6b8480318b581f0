"""Plans of assignments, and the members that they are made for."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.tools.assignment_plans import numbered_members, parse_members, plan_assignments
from tests.support.cases import each

PARTITIONS = {"t": [0, 1, 2, 3]}


def test_moves() -> None:
    """A move is a partition that another thread owns now; a partition without an owner is none."""
    members = {"g_c1": ConsumerRegistration({"t": 1}), "g_c2": ConsumerRegistration({"t": 1})}
    owners = {TopicPartition("t", 0): "g_c1-0", TopicPartition("t", 1): "g_c2-0", TopicPartition("t", 2): "g_c3-0"}
    by_range, sticky = plan_assignments(["range", "sticky"], members, PARTITIONS, owners)
    assert list(by_range.owners.values()) == ["g_c1-0", "g_c1-0", "g_c2-0", "g_c2-0"]
    assert (by_range.moves, by_range.threads, by_range.fewest, by_range.most) == (2, 2, 2, 2)
    assert sticky.moves == 1


def test_threads_without_partitions() -> None:
    """Threads beyond the partitions count, too: the fewest partitions are 0."""
    (plan,) = plan_assignments(["range"], numbered_members("g", [3, 3], ["t"]), PARTITIONS, {})
    assert (plan.moves, plan.threads, plan.fewest, plan.most) == (0, 6, 0, 1)


def test_many_numbered_members() -> None:
    """The ids of ten members sort in their order."""
    members = numbered_members("g", [1] * 10, ["t"])
    assert sorted(members) == list(members)
    assert next(iter(members)) == "g_member-01"


def test_members_in_json() -> None:
    """A member is a number of threads for the group's topics, threads by topic, or what a znode has."""
    text = '{"c1": 2, "g_c2": {"u": 1}, "c3": {"version": 1, "subscription": {"t.*": 3}, "pattern": "white_list"}}'
    assert parse_members("g", text, ["t"]) == {
        "g_c1": ConsumerRegistration({"t": 2}),
        "g_c2": ConsumerRegistration({"u": 1}),
        "g_c3": ConsumerRegistration({"t.*": 3}, "white_list"),
    }


@each("text", ["", "[]", "{}", '{"c1": 0}', '{"c1": "t"}', '{"c1": {"t": 1.5}}', '{"c1": true}'])
def test_malformed_members(text: str) -> None:
    """Anything else is an error that shows the form."""
    with pytest.raises(OptionError, match=r'--members cannot be used: .*"orders": 1'):
        parse_members("g", text, ["t"])
