"""``zkafka topics``: the views ``topics`` and ``partitions``, with the searches of kafka-topics."""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.output import Row, columns

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and describe topics.")

_TOPICS = columns("topic topic_id partitions replication config", right="partitions replication")
_NARROW = tuple(column for column in _TOPICS if column.name != "topic_id")
_PARTITIONS = columns("topic partition leader replicas isr", right="partition leader")

_Topics = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="The topics; all by default.")]
_Internal = Annotated[bool, typer.Option("--exclude-internal", help="Leave out topics such as __consumer_offsets.")]
_UnderReplicated = Annotated[bool, typer.Option("--under-replicated", help="Only partitions whose ISR lacks a replica.")]
_Unavailable = Annotated[bool, typer.Option("--unavailable", help="Only partitions without a live leader.")]
# The names of Kafka's tool, apart: help would cut a second name off.
_UnderReplicatedPartitions = Annotated[bool, typer.Option("--under-replicated-partitions", hidden=True)]
_UnavailablePartitions = Annotated[bool, typer.Option("--unavailable-partitions", hidden=True)]


@app.command("list")
@reads_cluster
def list_(target: Target, exclude_internal: _Internal = False) -> None:
    """List the topics.

    Example: zkafka topics list --zookeeper zk1:2181/kafka
    """
    target.rows(_topic_rows(target, None, exclude_internal), _TOPICS, "There is no topic.", _NARROW)


@app.command()
@reads_cluster
def describe(
    target: Target,
    topics: _Topics = None,
    under_replicated: _UnderReplicated = False,
    unavailable: _Unavailable = False,
    exclude_internal: _Internal = False,
    under_replicated_partitions: _UnderReplicatedPartitions = False,
    unavailable_partitions: _UnavailablePartitions = False,
) -> None:
    """Describe topics: the leader, the replicas and the ISR of each partition.

    Example: zkafka topics describe orders --under-replicated --zookeeper zk1:2181/kafka
    """
    under_replicated, unavailable = under_replicated or under_replicated_partitions, unavailable or unavailable_partitions
    described = _topic_rows(target, topics, exclude_internal)
    names = {row["topic"] for row in described}
    partitions = [
        row
        for row in target.view("partitions", **_restriction(topics))
        if row["topic"] in names
        and (not under_replicated or row["under_replicated"])
        and (not unavailable or row["offline"])
    ]
    filtered = under_replicated or unavailable
    if not (filtered or target.output.as_json):
        target.rows(described, _TOPICS, "", _NARROW)
        target.output.show("")
    shown = [{**row, "leader": None if row.get("leader") == -1 else row.get("leader")} for row in partitions]
    target.rows(shown, _PARTITIONS, "No partition is in this state." if filtered else "There is no topic.")


def _topic_rows(target: Target, topics: list[str] | None, exclude_internal: bool) -> list[Row]:
    from pyspark_zkafka.operations.topics import require_topics

    rows = target.view("topics", **_restriction(topics))
    require_topics(topics or (), [row["topic"] for row in rows])
    return [
        {**row, "config": None if row.get("config") is None else dict(row["config"])}
        for row in rows
        if not (exclude_internal and row["topic"].startswith("__"))
    ]


def _restriction(topics: list[str] | None) -> dict[str, str]:
    return {"subscribe": ",".join(topics)} if topics else {}
