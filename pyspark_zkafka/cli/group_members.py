"""``zkafka groups members``: the registered consumers of groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.group_stores import AllGroups, Groups, open_servers, require_groups
from pyspark_zkafka.cli.output import Column, Row, columns, iso_time

if TYPE_CHECKING:
    from pyspark_zkafka.operations.group_state import GroupState, Member
    from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["add_to"]

_PARTITIONS = Column("partitions", "#PARTITIONS", right=True)
_COLUMNS = (
    *columns("group consumer_id host pattern subscription"),
    _PARTITIONS,
    *columns("assignment registered"),
)
_NARROW = (*columns("consumer_id pattern subscription"), _PARTITIONS, *columns("assignment"))


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("members")(members)


@reads_cluster
def members(target: Target, groups: Groups = None, all_groups: AllGroups = False) -> None:
    """List the members of groups: threads by topic or regex, the partitions that they own, and when they registered.

    Example: zkafka groups members billing --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.operations.group_reads import read_groups
    from pyspark_zkafka.operations.kafka_membership import read_kafka_membership

    names = require_groups(groups, all_groups)
    with open_servers(target) as servers:
        states = read_groups(servers.ensemble, names)
        in_kafka = read_kafka_membership(servers.ensemble, lambda: servers.prompt_brokers, states)
    for note in in_kafka.notes({name: state.member_count for name, state in states.items()}):
        target.output.note(note)
    rows = [row for state in states.values() for row in _rows(state)]
    if not target.output.as_json:
        rows = [{**row, "assignment": _assignment_text(row.get("assignment", {}))} for row in rows]
    error = columns("error") if any("error" in row for row in rows) else ()
    target.rows(rows, [*_COLUMNS, *error], "There is no member.", [*_NARROW, *error])


def _rows(state: GroupState) -> list[Row]:
    from pyspark_zkafka.protocol.znodes.groups import ids_path

    ids = ids_path(state.name) + "/"
    readable = [_row(state, consumer, member) for consumer, member in state.members.items()]
    unreadable = [
        {"group": state.name, "consumer_id": path.removeprefix(ids), "error": error.message}
        for path, error in state.unreadable.items()
        if path.startswith(ids)
    ]
    return sorted([*readable, *unreadable], key=lambda row: str(row["consumer_id"]))


def _row(state: GroupState, consumer: str, member: Member) -> Row:
    from pyspark_zkafka.operations.group_state import consumer_host
    from pyspark_zkafka.protocol.view_tables import timestamp_us

    owned = [tp for tp, owner in sorted(state.owners.items()) if owner.consumer == consumer]
    registration = member.registration
    return {
        "group": state.name,
        "consumer_id": consumer,
        "host": consumer_host(state.name, consumer),
        "pattern": registration.pattern,
        "subscription": dict(registration.subscription),
        "partitions": len(owned),
        "assignment": _by_topic(owned),
        "registered": iso_time(timestamp_us(registration.timestamp)),
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


def _assignment_text(assignment: dict[str, list[int]]) -> str | None:
    """Partitions by topic, as kafka-consumer-groups shows them.

    >>> _assignment_text({"orders": [0, 1], "payments": [2]})
    'orders(0,1), payments(2)'
    """
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in assignment.items()) or None
