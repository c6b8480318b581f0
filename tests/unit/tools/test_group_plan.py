"""``zkafka groups plan`` on an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import GroupError, OptionError, UnknownTopic
from pyspark_zkafka.tools.group_plan import plan
from pyspark_zkafka.tools.output import Row


def test_present_members(run: Callable[..., list[Row]]) -> None:
    """Each partition is shown with its present owner, and the one under each strategy."""
    rows = run(plan, "g", strategy=["range"])
    assert [(row["partition"], row["owner"], row["range"]) for row in rows] == [(0, "g_a-0", "g_a-0"), (1, None, "g_a-0")]


def test_summary(run: Callable[..., list[Row]]) -> None:
    """A move is a partition that another thread owns now; one without an owner is none."""
    (row,) = run(plan, "g", threads=[1, 1], strategy=["range"], summary=True)
    assert (row["partitions"], row["threads"], row["fewest"], row["most"], row["moves"]) == (2, 2, 1, 1, 1)


@pytest.mark.parametrize("members", ['{"c1": 1, "c2": 1}', ' {"c1": {"t": 1}, "c2": {"t": 1}}'])
def test_other_members(run: Callable[..., list[Row]], members: str) -> None:
    """Members can be given as JSON instead of the present ones, for named topics."""
    rows = run(plan, "g", members=members, topics="t", strategy=["roundrobin"])
    assert len({row["roundrobin"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("group", "options", "error"),
    [
        ("g", {"members": '{"c1": 1}', "threads": [1]}, OptionError),
        ("g", {"members": "/no/such/file"}, OptionError),
        ("g", {"members": "/dev/null/file"}, OptionError),
        ("g", {"threads": [1], "topics": "gone"}, UnknownTopic),
        ("idle", {}, GroupError),
        ("nobody", {}, GroupError),
    ],
)
def test_refused(run: Callable[..., list[Row]], group: str, options: dict[str, object], error: type[Exception]) -> None:
    """Contradictory options, unknown topics and groups, and groups without members are refused."""
    with pytest.raises(error):
        run(plan, group, **options)
