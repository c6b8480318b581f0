"""``zkafka groups describe``: the partitions of groups, as kafka-consumer-groups shows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.group_stores import AllGroups, Groups, Storage, open_servers, require_groups
from pyspark_zkafka.cli.output import Column, Row, columns, iso_time

if TYPE_CHECKING:
    from pyspark_zkafka.operations.group_reads import OffsetsStorage
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
    from pyspark_zkafka.operations.group_reads import read_descriptions

    names = require_groups(groups, all_groups)
    stores: OffsetsStorage = storage.value
    with open_servers(target) as servers:
        read = partial(read_descriptions, servers.ensemble, lambda: servers.brokers, names, stores)
        if watch:
            from pyspark_zkafka.cli.group_watch import watch_groups

            watch_groups(target.output, read, interval)
            return
        described = read()
    for problem in described.problems:
        target.output.note(problem)
    for group, state in described.states.items():
        if not state.member_count:
            target.output.note(f"Consumer group '{group}' has no active members.")
    rows = [description_row(row) for found in described.groups.values() for row in found]
    target.rows(rows, _shown(target, rows, storage), "There is no offset and no owner.")


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


def _shown(target: Target, rows: Sequence[Row], storage: Storage) -> list[Column]:
    """The columns: of JSON all; in a table without hosts if there are none, on a narrow terminal without a sole group."""
    stores = _STORES if storage is Storage.both else ()
    if target.output.as_json:
        return [*_DESCRIBE, *_JSON_ONLY, *stores]
    if target.output.is_narrow:
        is_one = len({row["group"] for row in rows}) < 2
        return [*(_DESCRIBE[1:] if is_one else _DESCRIBE), *stores]
    return [*_DESCRIBE, *(_HOST if any(row["host"] for row in rows) else ()), *stores]
