"""``zkafka groups verify``: whether groups own their partitions properly, and their offsets are within the logs."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.cli.command import FAILED, Target, reads_cluster
from pyspark_zkafka.cli.group_stores import AllGroups, Groups, Servers, open_servers, require_groups
from pyspark_zkafka.cli.output import columns
from pyspark_zkafka.protocol.model import TopicPartition

if TYPE_CHECKING:
    from pyspark_zkafka.operations.verification import Problem

__all__ = ["add_to"]

_COLUMNS = columns("group topic partition problem found remedy", right="partition")
_PAUSE_S = 1.0

_Timeout = Annotated[
    float, typer.Option(min=0.0, metavar="S", help="Verify again for so many seconds while a problem is found.")
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("verify")(verify)


@reads_cluster
def verify(target: Target, groups: Groups = None, all_groups: AllGroups = False, timeout: _Timeout = 0.0) -> None:
    """Verify groups: each partition of a subscribed topic has one live owner, and offsets are within the logs.

    The exit status is 1 if a problem is found. While members rebalance, partitions have no owner for some seconds: see
    --timeout.

    Example: zkafka groups verify billing --timeout 30 --zookeeper zk1:2181/kafka
    """
    names, deadline = require_groups(groups, all_groups), time.monotonic() + timeout
    with open_servers(target) as servers:
        problems, notes = _verify(servers, names)
        while problems and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            problems, notes = _verify(servers, names)
    for note in notes:
        target.output.note(note)
    rows = list(map(asdict, problems))
    if target.output.as_json or target.output.fits(rows, _COLUMNS):
        target.rows(rows, _COLUMNS, "No problem was found.")
    else:
        for problem in problems:
            target.output.lines(*_paragraph(problem))
    if problems:
        raise typer.Exit(FAILED)


def _paragraph(problem: Problem) -> tuple[str, ...]:
    """A problem as a paragraph, for a terminal on which the table is too wide: the remedy may be a command to copy."""
    place = "" if problem.topic is None else f" {TopicPartition(problem.topic, problem.partition or 0)}"
    return f"{problem.group}{place}: {problem.problem}", f"  {problem.found}", f"  -> {problem.remedy}"


def _verify(servers: Servers, names: list[str] | None) -> tuple[list[Problem], tuple[str, ...]]:
    from pyspark_zkafka.operations.group_reads import read_groups, read_logs, read_topics
    from pyspark_zkafka.operations.kafka_membership import read_kafka_membership
    from pyspark_zkafka.operations.verification import verify_groups, verify_kinds

    states = read_groups(servers.ensemble, names)
    logs = read_logs(lambda: servers.brokers, read_topics(servers.ensemble, states.values()))
    in_kafka = read_kafka_membership(servers.ensemble, lambda: servers.prompt_brokers, states)
    in_zookeeper = {name: state.member_count for name, state in states.items()}
    problems = [*verify_kinds(in_kafka.in_both(in_zookeeper)), *verify_groups(states.values(), logs.bounds)]
    return problems, (*logs.problems, *in_kafka.notes(in_zookeeper))
