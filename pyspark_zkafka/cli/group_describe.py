"""``zkafka groups describe``: the partitions of groups, as kafka-consumer-groups shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.group_stores import AllGroups, Groups, Servers, Storage, open_servers, require_groups
from pyspark_zkafka.cli.output import Column, Row, columns, iso_time
from pyspark_zkafka.errors import listing

if TYPE_CHECKING:
    from pyspark_zkafka.operations.group_reads import Described, OffsetsStorage
    from pyspark_zkafka.operations.group_state import PartitionDescription

__all__ = ["StorageOption", "add_to", "description_row"]


StorageOption = Annotated[
    Storage, typer.Option("--offsets-storage", help="Read offsets in ZooKeeper, in Kafka, or in both (dual commits).")
]
_Watch = Annotated[bool, typer.Option("--watch", help="Show lag, rates and the time to catch up until Ctrl-C.")]
_Interval = Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds between the tables of --watch.")]

_NUMBERS = "partition current_offset log_end_offset lag zookeeper_offset kafka_offset"
_DESCRIBE = columns("group topic partition current_offset log_end_offset lag consumer_id", right=_NUMBERS)
_HOST = columns("host")
_STORES = columns("zookeeper_offset kafka_offset", right=_NUMBERS)
_JSON_ONLY = columns("host client_id thread log_start_offset committed")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("describe")(describe)


@reads_cluster
def describe(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    storage: StorageOption = Storage.zookeeper,
    watch: _Watch = False,
    interval: _Interval = 2.0,
) -> None:
    """Describe groups: offset, log end offset, lag and consumer of each partition.

    Examples: zkafka groups describe billing --zookeeper zk1:2181/kafka;
    zkafka groups describe --all-groups --watch --interval 5
    """
    names = require_groups(groups, all_groups)
    stores: OffsetsStorage = storage.value
    with open_servers(target) as servers:
        read = partial(_read, servers, names, stores)
        if watch:
            from pyspark_zkafka.cli.group_watch import watch_groups

            watch_groups(target.output, read, interval)
            return
        described = read()
    for problem in described.problems:
        target.output.note(problem)
    idle = [group for group, state in described.states.items() if not state.member_count]
    if len(idle) == 1:
        target.output.note(f"Consumer group '{idle[0]}' has no active members in ZooKeeper.")
    elif idle:
        target.output.note(f"{len(idle)} consumer groups have no active members in ZooKeeper: {listing(idle)}.")
    rows = [description_row(row) for found in described.groups.values() for row in found]
    _show(target, rows, _STORES if storage is Storage.both else ())


def _read(servers: Servers, names: list[str] | None, stores: OffsetsStorage) -> Described:
    """The descriptions of groups; what ZooKeeper does not show of their members is among the problems."""
    from pyspark_zkafka.operations.group_reads import read_descriptions
    from pyspark_zkafka.operations.kafka_membership import read_kafka_membership

    found = read_descriptions(servers.ensemble, lambda: servers.brokers, names, stores)
    in_kafka = read_kafka_membership(servers.ensemble, lambda: servers.prompt_brokers, found.states)
    notes = in_kafka.notes({name: state.member_count for name, state in found.states.items()})
    return replace(found, problems=(*found.problems, *notes))


def description_row(row: PartitionDescription) -> Row:
    """The values of the columns of `describe`."""
    return {
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "current_offset": row.current_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "consumer_id": row.consumer_id,
        "host": row.host,
        "client_id": None,  # ZooKeeper does not have it
        "thread": row.owner,
        "log_start_offset": row.log_start_offset,
        "committed": iso_time(row.committed_us),
        "zookeeper_offset": row.zookeeper_offset,
        "kafka_offset": row.kafka_offset,
    }


def _show(target: Target, rows: Sequence[Row], stores: Sequence[Column]) -> None:
    """Write the rows; where a table of several groups is too wide, as a table for each, with less columns if needed."""
    empty = "There is no offset and no owner."
    if target.output.as_json:
        target.rows(rows, [*_DESCRIBE, *_JSON_ONLY, *stores])
        return
    hosts = _HOST if any(row["host"] for row in rows) else ()
    layouts = [[*_DESCRIBE, *hosts, *stores], [*_DESCRIBE, *stores]]
    names = {row["group"] for row in rows}
    if len(names) < 2 or any(target.output.fits(rows, shown) for shown in layouts):
        target.rows(rows, layouts[0], empty, layouts[1], *_of_one_group(stores))
        return
    for name, of_group in groupby(rows, key=itemgetter("group")):
        target.output.show("")
        target.output.show(f"GROUP {name}")
        first, *narrower = _of_one_group(stores)
        target.rows(list(of_group), first, empty, *narrower)


def _of_one_group(stores: Sequence[Column]) -> list[list[Column]]:
    """The columns without the group; with those of two stores, also without the consumer."""
    without_group = [[*_DESCRIBE[1:], *stores]]
    return [*without_group, [*_DESCRIBE[1:-1], *stores]] if stores else without_group
