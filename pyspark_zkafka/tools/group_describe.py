"""``zkafka groups describe``: offsets, lag and owners of groups' partitions, under the names of the view ``offsets``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated

import typer

from pyspark_zkafka.errors import listing
from pyspark_zkafka.inspect.group_reads import read_groups
from pyspark_zkafka.inspect.groups import OffsetsStorage, PartitionReport
from pyspark_zkafka.tools.command import (
    MOST_SECONDS,
    AllGroups,
    Groups,
    Target,
    open_servers,
    reads_cluster,
    require_groups,
)
from pyspark_zkafka.tools.group_watch import watch_groups
from pyspark_zkafka.tools.output import Column, Row, columns, iso_time

StorageOption = Annotated[
    OffsetsStorage,
    typer.Option("--offsets-storage", help="Read offsets in ZooKeeper, in Kafka, or in both (dual commits)."),
]
_Watch = Annotated[bool, typer.Option("--watch", help="Show lag, rates and the time to catch up until Ctrl-C.")]
_Interval = Annotated[
    float, typer.Option(min=0.1, max=MOST_SECONDS, metavar="S", help="Seconds between the tables of --watch.")
]

_NUMBERS = "partition offset latest lag zookeeper_offset kafka_offset"
_DESCRIBE = columns("group topic partition offset latest lag consumer", right=_NUMBERS)
_HOST = columns("host")
_STORES = columns("zookeeper_offset kafka_offset", right=_NUMBERS)
_JSON_ONLY = columns("host client_id thread earliest commit_time")


@reads_cluster
def describe(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    storage: StorageOption = "zookeeper",
    watch: _Watch = False,
    interval: _Interval = 2.0,
) -> None:
    """Describe groups: offset, latest offset of the log, lag and consumer of each partition.

    Examples: zkafka groups describe billing --zookeeper zk1:2181/kafka;
    zkafka groups describe --all-groups --watch --interval 5
    """
    names = require_groups(groups, all_groups)
    with open_servers(target) as servers:
        read = partial(
            read_groups,
            servers.ensemble,
            lambda: servers.brokers,
            names,
            storage=storage,
            brokers_with_short_timeout=lambda: servers.brokers_with_short_timeout,
        )
        if watch:
            watch_groups(target.output, read, interval)
            return
        reports = read()
    for problem in reports.problems:
        target.output.note(problem)
    idle = [name for name, group in reports.groups.items() if not group.member_count]
    if len(idle) == 1:
        target.output.note(f"Consumer group '{idle[0]}' has no active members in ZooKeeper.")
    elif idle:
        target.output.note(f"{len(idle)} consumer groups have no active members in ZooKeeper: {listing(idle)}.")
    _show(target, list(map(_row, reports.partitions)), _STORES if storage == "both" else ())


def _row(report: PartitionReport) -> Row:
    shown = [column.name for column in (*_DESCRIBE, *_HOST, *_STORES)]
    return {
        **{name: getattr(report, name) for name in (*shown, "thread", "earliest")},
        "client_id": None,  # ZooKeeper does not have it
        "commit_time": iso_time(report.commit_us),
    }


def _show(target: Target, rows: Sequence[Row], stores: Sequence[Column]) -> None:
    """Write the rows; where a table of several groups is too wide, as a table for each, with fewer columns if needed."""
    empty = "There is no offset and no owner."
    if target.output.as_json:
        target.rows(rows, [*_DESCRIBE, *_JSON_ONLY, *stores])
        return
    hosts = _HOST if any(row["host"] for row in rows) else ()
    layouts = [[*_DESCRIBE, *hosts, *stores], [*_DESCRIBE, *stores]]
    of_one_group = [[*_DESCRIBE[1:], *stores]]
    if stores:
        of_one_group.append([*_DESCRIBE[1:-1], *stores])
    names = {row["group"] for row in rows}
    if len(names) < 2 or any(target.output.fits(rows, shown) for shown in layouts):
        target.rows(rows, layouts[0], empty, layouts[1], *of_one_group)
        return
    for name, of_group in groupby(rows, key=itemgetter("group")):
        target.output.show("")
        target.output.show(f"GROUP {name}")
        first, *narrower = of_one_group
        target.rows(list(of_group), first, empty, *narrower)
