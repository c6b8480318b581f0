"""``zkafka groups members``: the registered consumers of groups, under the names of the view ``members``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_zkafka.tools.command import AllGroups, Groups, Target, open_servers, reads_cluster, require_groups
from pyspark_zkafka.tools.output import Column, Row, columns, iso_time

if TYPE_CHECKING:
    from pyspark_zkafka.inspect.groups import GroupReport

_PARTITIONS = Column("partitions", "#PARTITIONS", right=True)
_COLUMNS = (*columns("group consumer host pattern subscription"), _PARTITIONS, *columns("assignment timestamp"))
_NARROW = (*columns("consumer pattern subscription"), _PARTITIONS, *columns("assignment"))


@reads_cluster
def members(target: Target, groups: Groups = None, all_groups: AllGroups = False) -> None:
    """List the members of groups: threads by topic or regex, the partitions that they own, and when they registered.

    Example: zkafka groups members billing --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.inspect.group_reads import read_groups

    names = require_groups(groups, all_groups)
    with open_servers(target) as servers:
        reports = read_groups(
            servers.ensemble, names=names, brokers_with_short_timeout=lambda: servers.brokers_with_short_timeout
        )
    for note in reports.member_notes:
        target.output.note(note)
    rows = [row for group in reports.groups.values() for row in _rows(group)]
    if not target.output.as_json:
        rows = [{**row, "assignment": _assignment_text(row.get("assignment", {}))} for row in rows]
    error = columns("error") if any(row["error"] is not None for row in rows) else ()
    target.rows(rows, [*_COLUMNS, *error], "There is no member.", [*_NARROW, *error])


def _rows(group: GroupReport) -> list[Row]:
    """The rows of the view, with the host and the partitions of each member."""
    from pyspark_zkafka.inspect.groups import consumer_host, partitions_by_topic
    from pyspark_zkafka.inspect.view_rows import member_rows

    rows: list[Row] = []
    for row in member_rows(group):
        consumer, error = row["consumer"], row.get("error")
        if error is not None:
            rows.append({"group": group.name, "consumer": consumer, "error": error})
            continue
        owned = [tp for tp, owner in group.owners.items() if owner.consumer == consumer]
        assignment = {topic: [tp.partition for tp in found] for topic, found in partitions_by_topic(owned).items()}
        rows.append(
            {
                **row,
                "host": consumer_host(group.name, consumer),
                "subscription": dict(row["subscription"]),
                "partitions": len(owned),
                "assignment": assignment,
                "timestamp": iso_time(row["timestamp"]),
                "error": None,
            }
        )
    return rows


def _assignment_text(assignment: dict[str, list[int]]) -> str | None:
    """Partitions by topic, as kafka-consumer-groups shows them.

    >>> _assignment_text({"orders": [0, 1], "payments": [2]})
    'orders(0,1), payments(2)'
    """
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in assignment.items()) or None
