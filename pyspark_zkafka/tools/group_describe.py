"""``zkafka groups list``, ``describe`` and ``members``: groups with their stores, partitions and registered consumers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated

import typer

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.inspect.groups import (
    PARTITION_COLUMNS,
    GroupReport,
    GroupReports,
    OffsetsStorage,
    consumer_host,
    partitions_by_topic,
    total_lag,
)
from pyspark_zkafka.inspect.reads import read_groups, read_kafka_groups, unreadable_groups
from pyspark_zkafka.inspect.view_rows import member_rows
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.view_tables import VIEWS, Row
from pyspark_zkafka.tools.command import AllGroups, Groups, Servers, Target, open_servers, reads_cluster, require_groups
from pyspark_zkafka.tools.output import Column, columns, iso_time, with_others

StorageOption = Annotated[
    OffsetsStorage | None,
    typer.Option(
        "--offsets-storage",
        help="Read offsets in ZooKeeper, in Kafka, or in both (dual commits); by default in ZooKeeper, if it is given.",
    ),
]

_LIST = columns("group members topics state store", right="members")

_CONSUMER = Column("consumer", "CONSUMER-ID")
_DESCRIBE = (
    *columns("group topic partition", right="partition"),
    Column("offset", "CURRENT-OFFSET", right=True),
    Column("latest", "LOG-END-OFFSET", right=True),
    Column("lag", right=True),
    _CONSUMER,
)
"""The columns of a table, with the headings of kafka-consumer-groups."""
_OF_MEMBERS = columns("host client_id")
_STORES = columns("zookeeper_offset kafka_offset", right="zookeeper_offset kafka_offset")


def _assignment_text(assignment: dict[str, list[int]] | None) -> str | None:
    """Return partitions by topic, as kafka-consumer-groups shows them.

    >>> _assignment_text({"orders": [0, 1], "payments": [2]})
    'orders(0,1), payments(2)'
    """
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in (assignment or {}).items()) or None


_OWNED = (Column("partitions", "#PARTITIONS", right=True), Column("assignment", readable=_assignment_text))
_MEMBERS = (*columns("group"), _CONSUMER, *columns("host pattern subscription"), *_OWNED, *columns("timestamp"))
_MEMBERS_NARROW = (_CONSUMER, *columns("pattern subscription"), *_OWNED)
_INSTANCE = Column("instance", "GROUP-INSTANCE-ID")
_KAFKA_MEMBERS = (*columns("group"), _CONSUMER, _INSTANCE, *columns("host client_id"), *_OWNED)
_KAFKA_MEMBERS_NARROW = (_CONSUMER, *columns("host"), *_OWNED)


@reads_cluster
def list_(
    target: Target,
    storage: StorageOption = None,
    lag: Annotated[
        bool, typer.Option("--lag", help="Also show the lag of each group. This asks the leaders of its partitions.")
    ] = False,
) -> None:
    """List the groups, with the number of their members, their topics, and where their offsets are.

    Without ZooKeeper, or with --offsets-storage kafka or both, groups that only the brokers have are listed, too. A group
    with the store `ledger` has no consumers: it holds what an exactly-once query has recorded (zkafka ledger).

    Examples: zkafka groups list --lag --zookeeper zk1:2181/kafka; zkafka groups list --bootstrap-server broker1:9092
    """
    with open_servers(target) as servers:
        storage = target.storage(storage)
        reports = GroupReports()
        if servers.zookeeper is not None:
            reports = read_groups(servers.zookeeper, (lambda: servers.brokers) if lag else None, storage=storage)
        groups = reports.groups
        lags = group_lags(reports) if lag else {}
        in_kafka, unlisted = ([], []) if storage == "zookeeper" else _kafka_rows(servers.brokers, lag)
        kafka_rows = {row["group"]: row for row in in_kafka}
    rows: list[Row] = [{**_list_row(group, kafka_rows.get(name)), "lag": lags.get(name)} for name, group in groups.items()]
    rows += [row for name, row in kafka_rows.items() if name not in groups]
    shown = [row for row in rows if storage != "kafka" or row["store"] in ("kafka", "both", "ledger")]
    ordered = sorted(shown, key=lambda row: str(row["group"]))
    unreadable = [f"{row['group']} ({row['unreadable_offsets']})" for row in ordered if row.get("unreadable_offsets")]
    error = columns("error") if any(row["error"] for row in ordered) else ()
    shown_columns = (*_LIST, *(columns("lag", right="lag") if lag else ()), *error)
    if not target.output.as_json:
        ordered = [{**row, "store": f"{row['store']}*"} if row.get("unreadable_offsets") else row for row in ordered]
    in_json = (*shown_columns, Column("unreadable_offsets"))
    target.output.rows(ordered, shown_columns, "There is no group.", in_json=in_json)
    target.output.note(*reports.logs.problems, *(error.message for error in unlisted))
    if unreadable:
        target.output.note(f"* Offsets that cannot be read: {listing(unreadable)}; `zkafka groups describe` shows why.")


def _list_row(group: GroupReport, in_kafka: Row | None) -> Row:
    """Return the row of a group in ZooKeeper, with the members and topics that the group of its name in Kafka has."""
    is_in_zookeeper = bool(group.offsets or group.unreadable_offsets)
    stores = {(True, True): "both", (True, False): "zookeeper", (False, True): "kafka"}
    there: Row = {"members": 0, "topics": (), "state": "", "error": None} if in_kafka is None else in_kafka
    is_active_there = there["members"] != 0  # None if it cannot be read
    return {
        "group": group.name,
        "members": None if there["members"] is None else group.member_count + there["members"],
        "topics": sorted({*group.topics, *there["topics"]}),
        "state": there["state"] if is_active_there and not group.member_count else group.state,
        "store": stores.get((is_in_zookeeper, in_kafka is not None)),
        "unreadable_offsets": len(group.unreadable_offsets),
        "error": there["error"],
    }


def group_lags(reports: GroupReports) -> dict[str, int | None]:
    """Return the records after each group's offsets; None if it has no offset, or if the end of a log is unknown.

    Partitions that do not exist have no records.
    """
    found: dict[str, list[int | None]] = {}
    for row in reports.partitions:
        if reports.has_lag(row):
            found.setdefault(row.group, []).append(row.lag)
    return {name: total_lag(lags) for name, lags in found.items()}


def _kafka_rows(brokers: GroupAdmin, lag: bool) -> tuple[list[Row], list[ZKafkaError]]:
    """Return the rows of groups in Kafka, and the errors of brokers that do not list theirs."""
    names, unlisted = brokers.known_group_names()
    offsets, unread = brokers.committed_each(names)
    everywhere = {tp for of_group in offsets.values() for tp in of_group if lag}
    ends, failed = brokers.list_offsets_each(dict.fromkeys(everywhere, LATEST)) if everywhere else ({}, {})

    def lag_of(name: str) -> int | None:
        if name not in offsets:
            return None
        existing = [tp for tp in offsets[name] if not isinstance(failed.get(tp), UnknownTopic)]
        return total_lag([ends[tp] - offsets[name][tp] if tp in ends else None for tp in existing])

    rows: list[Row] = [
        {
            "group": name,
            "members": state.member_count,
            "topics": sorted({tp.topic for tp in offsets.get(name, ())}),
            "state": state.name,
            "store": "kafka" if LedgerGroup.parse(name) is None else "ledger",
            "lag": lag_of(name) if lag and LedgerGroup.parse(name) is None else None,
            "error": unreadable_groups({name: state}, {name: unread[name]} if name in unread else {}),
        }
        for name, state in brokers.group_states(names).items()
    ]
    return rows, unlisted


@reads_cluster
def describe(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    storage: StorageOption = None,
) -> None:
    """Describe groups: offset, latest offset of the log, lag and consumer of each partition.

    Without ZooKeeper, describe groups in Kafka.

    Examples: zkafka groups describe billing --zookeeper zk1:2181/kafka;
    zkafka groups describe billing --bootstrap-server broker1:9092;
    watch zkafka groups describe --all-groups
    """
    names = require_groups(groups, all_groups)
    with open_servers(target) as servers:
        stores = target.storage(storage)
        reports = servers.read_groups(names, stores)
    target.output.note(*reports.problems)
    _note_idle(target, reports, "" if servers.zookeeper is None else " in ZooKeeper")
    rows = [{**row.as_row(), "commit_time": iso_time(row.commit_us)} for row in reports.partitions]
    _show(target, rows, _STORES if stores == "both" else ())
    _require_readable(servers, names, reports)


def _require_readable(servers: Servers, names: Sequence[str] | None, reports: GroupReports) -> None:
    """End with status 1 if a named group in Kafka cannot be read, after the others were shown."""
    if names is not None and servers.zookeeper is None and reports.kafka_problem is not None:
        raise typer.Exit(1)


def _note_idle(target: Target, reports: GroupReports, place: str) -> None:
    """Write a note with the groups without members in ZooKeeper; in Kafka if `place` is empty."""
    of_kafka = not place
    idle = [
        name for name, group in reports.groups.items() if (group.kafka_members == 0 if of_kafka else not group.member_count)
    ]
    if len(idle) == 1:
        target.output.note(f"Consumer group '{idle[0]}' has no active members{place}.")
    elif idle:
        target.output.note(f"{len(idle)} consumer groups have no active members{place}: {listing(idle)}.")


def _show(target: Target, rows: Sequence[Row], stores: Sequence[Column]) -> None:
    """Write the rows. If one table is too wide, write a table for each group, with fewer columns if needed."""
    empty = "There is no offset and no owner."
    hosts = [column for column in _OF_MEMBERS if any(row[column.name] for row in rows)]
    layouts = [[*_DESCRIBE, *hosts, *stores], [*_DESCRIBE, *stores]]
    of_one_group = [[*_DESCRIBE[1:], *stores]]
    if stores:
        of_one_group.append([*(column for column in _DESCRIBE[1:] if column.name != "consumer"), *stores])
    names = {row["group"] for row in rows}
    if target.output.as_json or len(names) < 2 or any(target.output.fits(rows, shown) for shown in layouts):
        in_json = with_others(_DESCRIBE, (name.replace("commit_us", "commit_time") for name in PARTITION_COLUMNS))
        target.output.rows(rows, layouts[0], empty, layouts[1], *of_one_group, in_json=in_json)
        return
    for name, of_group in groupby(rows, key=itemgetter("group")):
        target.output.lines("", f"GROUP {name}")
        first, *narrower = of_one_group
        target.output.rows(list(of_group), first, empty, *narrower)


@reads_cluster
def members(target: Target, groups: Groups = None, all_groups: AllGroups = False) -> None:
    """List the members of groups, with their threads for each topic or regex, their partitions, and when they registered.

    Without ZooKeeper, list the members of groups in Kafka, with their clients and hosts.

    Examples: zkafka groups members billing --zookeeper zk1:2181/kafka;
    zkafka groups members billing --bootstrap-server broker1:9092
    """
    names = require_groups(groups, all_groups)
    with open_servers(target) as servers:
        if servers.zookeeper is None:
            reports = read_kafka_groups(servers.brokers, names, logs=False)
        else:
            reports = read_groups(
                servers.zookeeper, names=names, brokers_with_short_timeout=lambda: servers.brokers_with_short_timeout
            )
    target.output.note(*reports.member_notes)
    if servers.zookeeper is None:
        rows = [row for group in reports.groups.values() for row in _kafka_member_rows(group)]
        target.output.rows(rows, _KAFKA_MEMBERS, "There is no member.", _KAFKA_MEMBERS_NARROW)
        _require_readable(servers, names, reports)
        return
    rows = [row for group in reports.groups.values() for row in _member_rows(group)]
    error = columns("error") if any("error" in row for row in rows) else ()
    in_json = with_others(_MEMBERS, VIEWS["members"].columns)
    target.output.rows(rows, [*_MEMBERS, *error], "There is no member.", [*_MEMBERS_NARROW, *error], in_json=in_json)


def _kafka_member_rows(group: GroupReport) -> list[Row]:
    members = () if group.in_kafka is None else group.in_kafka.members.values()
    return [
        {
            "group": group.name,
            "consumer": member.id,
            "instance": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": len(member.assigned or ()),
            "assignment": _by_topic(member.assigned or ()),
        }
        for member in sorted(members, key=lambda member: member.id)
    ]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    return {topic: [tp.partition for tp in tps] for topic, tps in partitions_by_topic(partitions).items()}


def _member_rows(group: GroupReport) -> list[Row]:
    """Return the rows of the view, with the host and the partitions of each member that can be read."""
    rows: list[Row] = []
    for row in member_rows(group):
        if row["readable"]:
            owned = [tp for tp, owner in group.owners.items() if owner.consumer == row["consumer"]]
            row = {
                **row,
                "host": consumer_host(group.name, row["consumer"]),
                "subscription": dict(row["subscription"]),
                "partitions": len(owned),
                "assignment": _by_topic(owned),
                "timestamp": iso_time(row["timestamp"]),
            }
        rows.append(row)
    return rows
