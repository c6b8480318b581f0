"""``zkafka plan``: the plan of a batch read, without reading."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_zkafka.tools.command import Target, pairs, reads_cluster
from pyspark_zkafka.tools.output import Column, columns

__all__ = ["add_to"]

_NUMBERS = "partition leader start until records"
_PLAN = (
    *columns("topic partition leader isr rack start until records", right=_NUMBERS),
    Column("spark_partition", "TASK", right=True),
)

_Topics = Annotated[list[str] | None, typer.Option("--topic", help="A topic to read; repeatable.")]
_Pattern = Annotated[
    str | None, typer.Option("--pattern", metavar="REGEX", help="Read the topics whose whole name matches.")
]
_Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the read, see docs/options.md; repeatable."),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("plan")(plan)


@reads_cluster
def plan(target: Target, topic: _Topics = None, pattern: _Pattern = None, option: _Options = None) -> None:
    """Show the ranges of offsets that a batch read would read, and the Spark task of each.

    Example: zkafka plan --topic orders --option minPartitions=16 --zookeeper zk1:2181/kafka
    """
    options = pairs(option, "--option")
    if topic:
        options["subscribe"] = ",".join(topic)
    if pattern is not None:
        options["subscribePattern"] = pattern
    rows = target.view("plan", **options)
    target.rows(rows, _PLAN, "There is nothing to read.")
    if rows and not target.output.as_json:
        tasks = len({row["spark_partition"] for row in rows})
        target.output.note(f"{sum(row['records'] for row in rows):,} records in {len(rows)} ranges, {tasks} Spark tasks")
