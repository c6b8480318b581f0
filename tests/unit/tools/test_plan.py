"""``zkafka plan`` on a view of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.tools.output import Row
from pyspark_zkafka.tools.plan import plan


def split(partition: int, task: int, start: int, until: int) -> Row:
    place = {"topic": "t", "partition": partition, "leader": 1, "isr": [1], "rack": None}
    return {**place, "start": start, "until": until, "records": until - start, "spark_partition": task}


@pytest.mark.parametrize(
    ("given", "restricted"),
    [
        ({"topic": ["a", "b"]}, {"subscribe": "a,b"}),
        ({"pattern": "a.*"}, {"subscribePattern": "a.*"}),
        ({"pattern": ""}, {"subscribePattern": ""}),
        (
            {"topic": ["a"], "option": ["minPartitions=16", "kafka.client.id=x=y"]},
            {"subscribe": "a", "minPartitions": "16", "kafka.client.id": "x=y"},
        ),
        ({"topic": ["b"], "option": ["subscribe=a"]}, {"subscribe": "b"}),
    ],
)
def test_options_of_the_read(
    views: Any, run: Callable[..., list[Row]], given: dict[str, Any], restricted: dict[str, str]
) -> None:
    """Topics, a pattern and further options are those of the read that is planned."""
    views.rows["plan"] = []
    run(plan, **given)
    assert views.restricted == [("plan", restricted)]


def test_malformed_option(run: Callable[..., list[Row]]) -> None:
    """An option is a name and a value."""
    with pytest.raises(typer.BadParameter, match="found 'minPartitions'; write NAME=VALUE"):
        run(plan, option=["minPartitions"])


def test_splits(views: Any, run: Callable[..., list[Row]]) -> None:
    """Each range is shown with its Spark task."""
    views.rows["plan"] = [split(0, 0, 5, 8), split(1, 1, 0, 9)]
    assert [
        (row["partition"], row["start"], row["until"], row["records"], row["spark_partition"]) for row in run(plan)
    ] == [
        (0, 5, 8, 3, 0),
        (1, 0, 9, 9, 1),
    ]


def test_summary(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """For people, the number of records, ranges and tasks is noted, of which several may share one."""
    views.rows["plan"] = [split(0, 0, 0, 1_000_000), split(1, 0, 0, 500), split(2, 1, 0, 7)]
    text, note = show(plan)
    assert note == "1,000,507 records in 3 ranges, 2 Spark tasks\n"
    assert "TASK" in text


def test_nothing_to_read(views: Any, show: Callable[..., tuple[str, str]]) -> None:
    """A read without records has a note, and no table."""
    views.rows["plan"] = []
    assert show(plan) == ("", "There is nothing to read.\n")
