"""``zkafka brokers``, ``controller``, ``topics`` and ``plan``: views as tables and JSON."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from pyspark_zkafka.model.view_tables import VIEWS, Row
from pyspark_zkafka.tools.command import Target, parse_pairs, reads_cluster, require_topics
from pyspark_zkafka.tools.output import columns, iso_time, view_columns, with_others

_BROKERS = columns("id host port rack leaders controller timestamp endpoints", right="id port leaders")
_NARROW_BROKERS = tuple(column for column in _BROKERS if column.name not in ("host", "port"))
_CONTROLLER, _TOPICS = view_columns("controller"), view_columns("topics")
_NARROW_TOPICS = tuple(column for column in _TOPICS if column.name != "topic_id")
_PARTITIONS = columns("topic partition leader replicas isr", right="partition leader")
_PLAN = view_columns("plan", spark_partition="TASK")

_NO_TOPIC, _NOT_IN_STATE = "There is no topic.", "No partition is in this state."

_Internal = Annotated[bool, typer.Option("--exclude-internal", help="Leave out topics such as __consumer_offsets.")]
_UnderReplicated = Annotated[
    bool, typer.Option("--under-replicated", help="Show only partitions with a replica outside the ISR.")
]
_Topic = Annotated[list[str] | None, typer.Option("--topic", help="A topic to read; repeatable.")]
_Pattern = Annotated[
    str | None, typer.Option("--pattern", metavar="REGEX", help="Read the topics whose whole name matches this regex.")
]
_Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A read option, such as minPartitions=16; repeatable."),
]


@reads_cluster
def brokers(target: Target) -> None:
    """List the live brokers: how many partitions each leads, which one is the controller, and when each registered.

    Without ZooKeeper, the controller and the times of registration are unknown.

    Example: zkafka brokers --zookeeper zk1:2181/kafka
    """
    found = target.view("brokers")
    leaders = Counter(row.get("leader") for row in target.view("partitions")) if found else Counter()
    active = None
    if found and "zookeeper.connect" in target.options:
        active = next((row.get("broker") for row in target.view("controller")), None)
    rows = [
        {
            **row,
            "leaders": leaders[row["id"]],
            "controller": None if active is None else row["id"] == active,
            "timestamp": iso_time(row.get("timestamp")),
        }
        for row in found
    ]
    in_json = with_others(_BROKERS, VIEWS["brokers"].columns)
    target.output.rows(rows, _BROKERS, "No broker is registered.", _NARROW_BROKERS, in_json=in_json)


@reads_cluster
def controller(target: Target) -> None:
    """Show the active controller, its epoch, when it was elected, and the cluster's id.

    Example: zkafka controller --zookeeper zk1:2181/kafka
    """
    rows = [{**row, "timestamp": iso_time(row.get("timestamp"))} for row in target.view("controller")]
    target.output.rows(rows, _CONTROLLER)
    if "zookeeper.connect" not in target.options and not any(row.get("broker") is not None for row in rows):
        target.output.note("In KRaft mode, use Kafka's kafka-metadata-quorum --bootstrap-server ... describe --status.")


@reads_cluster
def list_topics(target: Target, exclude_internal: _Internal = False) -> None:
    """List the topics.

    Example: zkafka topics list --zookeeper zk1:2181/kafka
    """
    target.output.rows(_topic_rows(target, None, exclude_internal), _TOPICS, _NO_TOPIC, _NARROW_TOPICS)


@reads_cluster
def describe_topics(
    target: Target,
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="The topics; all by default.")] = None,
    under_replicated: _UnderReplicated = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only partitions without a live leader.")] = False,
    exclude_internal: _Internal = False,
) -> None:
    """Describe topics: the leader, the replicas and the ISR of each partition.

    Examples: zkafka topics describe orders --zookeeper zk1:2181/kafka;
    watch zkafka topics describe --under-replicated
    """
    described = _topic_rows(target, topics, exclude_internal)
    names = {row["topic"] for row in described}
    partitions = [
        {**row, "leader": None if row.get("leader") == -1 else row.get("leader")}
        for row in target.view("partitions", topics)
        if row["topic"] in names
        and (not under_replicated or row["under_replicated"])
        and (not unavailable or row["offline"])
    ]
    if not (under_replicated or unavailable or target.output.as_json):
        target.output.rows(described, _TOPICS, "", _NARROW_TOPICS)
        target.output.lines("")
    empty = _NOT_IN_STATE if under_replicated or unavailable else _NO_TOPIC
    target.output.rows(partitions, _PARTITIONS, empty, in_json=with_others(_PARTITIONS, VIEWS["partitions"].columns))


def _topic_rows(target: Target, topics: list[str] | None, exclude_internal: bool) -> list[Row]:
    rows = target.view("topics", topics)
    require_topics(topics or (), [row["topic"] for row in rows])
    return [
        {**row, "config": None if row.get("config") is None else dict(row["config"])}
        for row in rows
        if not (exclude_internal and row["topic"].startswith("__"))
    ]


@reads_cluster
def plan(target: Target, topic: _Topic = None, pattern: _Pattern = None, option: _Options = None) -> None:
    """Show the offset ranges of a batch read, and the Spark task for each. No record is read.

    Example: zkafka plan --topic orders --option minPartitions=16 --zookeeper zk1:2181/kafka
    """
    options = dict(parse_pairs(option, "--option"))
    if pattern is not None:
        options["subscribePattern"] = pattern
    rows = target.view("plan", topic, **options)
    target.output.rows(rows, _PLAN, "There is nothing to read.")
    if rows and not target.output.as_json:
        tasks = len({row["spark_partition"] for row in rows})
        target.output.note(f"{sum(row['records'] for row in rows):,} records in {len(rows)} ranges, {tasks} Spark tasks")
