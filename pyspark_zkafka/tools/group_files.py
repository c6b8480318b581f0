"""``zkafka groups export`` and ``import``: offsets as files of Kafka's tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from pyspark_zkafka.brokers.groups import DEAD, GroupAdmin
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.commits import Unchanged, commit_offsets
from pyspark_zkafka.inspect.groups import StoredOffsets
from pyspark_zkafka.inspect.reads import consumer_group_names, stored_offsets, unknown_groups_in_kafka
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.groups import Partition, partition_key
from pyspark_zkafka.tools.command import (
    FAILED,
    AllGroups,
    Groups,
    Target,
    changes_cluster,
    find_partitions,
    open_servers,
    read_text,
    reads_cluster,
    require_groups,
    require_no_consumers,
)
from pyspark_zkafka.tools.group_delete import require_existing
from pyspark_zkafka.tools.group_reset import clamp, list_offsets
from pyspark_zkafka.tools.offset_files import OffsetLine, csv_text, parse_offsets_file, zk_text
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient, group_activity

_EXPORTED = columns("group topic partition offset", right="partition offset")
_IMPORTED = columns("group topic partition current_offset new_offset", right="partition current_offset new_offset")

_Format = Annotated[
    Literal["zk", "csv"],
    typer.Option(
        "--format",
        help="zk: znodes and offsets, as ExportZkOffsets writes them. csv: lines TOPIC,PARTITION,OFFSET, with GROUP first "
        "if there are several groups, as kafka-consumer-groups --export writes them.",
    ),
]
_File = Annotated[Path, typer.Argument(metavar="FILE", help="The file; - for the standard input.", show_default=False)]
_Group = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="The group, if the lines are TOPIC,PARTITION,OFFSET.")
]
_Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Write offsets outside the logs, and offsets of unknown partitions, unchanged.")
]


@reads_cluster
def export_offsets(target: Target, groups: Groups = None, all_groups: AllGroups = False, format: _Format = "zk") -> None:
    """Write the offsets that groups have in ZooKeeper, to keep them or to import them elsewhere.

    Without ZooKeeper, the command writes their offsets in Kafka. What cannot be read is reported, and the exit status is 1.

    Example: zkafka groups export billing > billing.offsets
    """
    names = require_groups(groups, all_groups)
    stored, problems = (_stored_in_kafka if target.connection.zookeeper is None else _stored_in_zookeeper)(target, names)
    offsets: list[OffsetLine] = []
    for group in sorted(stored):
        offsets += [OffsetLine(group, tp, offset) for tp, offset in sorted(stored[group].values.items())]
        if format == "zk":
            offsets += [OffsetLine(group, lp, offset) for lp, offset in sorted(stored[group].legacy.items())]
    if target.output.as_json:
        rows = [
            {"group": o.group, "topic": o.partition.topic, "partition": partition_key(o.partition), "offset": o.offset}
            for o in offsets
        ]
        target.output.rows(rows, _EXPORTED)
    elif format == "zk":
        typer.echo(zk_text(offsets), nl=False)
    else:
        typer.echo(csv_text(offsets, with_group=all_groups or len(stored) != 1), nl=False)
    unset = sum(len(one.unset) for one in stored.values())
    legacy = sum(len(one.legacy) for one in stored.values()) if format == "csv" else 0
    for count, reason in ((unset, "without an offset (below 0)"), (legacy, "of Kafka 0.7, which CSV cannot name")):
        if count:
            target.output.note(f"Left out: {count} partition(s) {reason}.")
    target.output.note(*(f"Left out: {problem}" for problem in problems))
    if problems:
        raise typer.Exit(FAILED)


def _stored_in_zookeeper(target: Target, names: list[str] | None) -> tuple[dict[str, StoredOffsets], list[str]]:
    """Return the offsets of groups in ZooKeeper, and the problems of reading them."""
    with target.zookeeper() as client:
        if names is not None:
            require_existing(client, names)
        stored = stored_offsets(client, client.groups() if names is None else names)
    return stored, [problem for one in stored.values() for problem in one.problems]


def _stored_in_kafka(target: Target, names: list[str] | None) -> tuple[dict[str, StoredOffsets], list[str]]:
    """Return the offsets of groups in Kafka, and the problems of reading them."""
    with open_servers(target) as servers:
        brokers = servers.brokers
        listed, unlisted = consumer_group_names(brokers) if names is None else (names, [])
        offsets, failed = brokers.committed_each(listed)
        without = [name for name, of_group in offsets.items() if not of_group and names is not None]
        if missing := [name for name, state in brokers.group_states(without).items() if state.name == DEAD]:
            raise unknown_groups_in_kafka(missing)
    stored = {
        name: StoredOffsets({tp: StoredOffset(offset) for tp, offset in of_group.items()})
        for name, of_group in offsets.items()
    }
    return stored, [error.message for error in (*unlisted, *failed.values())]


@dataclass(frozen=True, slots=True)
class PlannedImport:
    """The offsets to write by group, the stored ones, and warnings for offsets outside of their logs."""

    offsets: Mapping[str, Mapping[Partition, int]]
    stored: Mapping[str, StoredOffsets]
    warnings: tuple[str, ...] = ()


def plan_import(zookeeper: ZooKeeperClient, brokers: GroupAdmin | None, offsets: Collection[OffsetLine]) -> PlannedImport:
    """Plan an import, and check it before anything is written.

    With `brokers`, an offset outside of its log is moved to the log's nearer end. Without, offsets are taken as they are,
    also offsets of partitions that do not exist. Raises GroupError if a group has members, and ClusterStateError if a
    partition does not exist, or has no leader.
    """
    requested: dict[str, dict[Partition, int]] = {}
    for one in offsets:
        requested.setdefault(one.group, {})[one.partition] = one.offset
    for group, activity in group_activity(zookeeper, requested).items():
        require_no_consumers(zookeeper, group, activity, "The offsets were not imported")
    warnings: list[str] = []
    if brokers is not None:
        partitions = {one.partition for one in offsets if isinstance(one.partition, TopicPartition)}
        find_partitions(partitions, zookeeper.snapshot({tp.topic for tp in partitions}))
        earliest, latest = (list_offsets(brokers, dict.fromkeys(partitions, end)) for end in (EARLIEST, LATEST))
        for group, of_group in requested.items():
            of_logs = {tp: offset for tp, offset in of_group.items() if isinstance(tp, TopicPartition)}
            inside, moved = clamp(of_logs, earliest, latest)
            of_group.update(inside.items())
            warnings += [f"{group}: {warning}" for warning in moved]
    return PlannedImport(requested, stored_offsets(zookeeper, requested), tuple(warnings))


@changes_cluster
def import_offsets(target: Target, file: _File, group: _Group = None, unchecked: _Unchecked = False) -> None:
    """Write offsets from a file to ZooKeeper, for groups without active members.

    All lines, groups and partitions are checked before anything is written. An offset outside of its log is moved to the
    log's nearer end.

    Example: zkafka groups import billing.offsets --dry-run
    """
    found = parse_offsets_file(str(file), read_text(file), group)
    offsets = [one for one in found if one.offset >= 0]
    with open_servers(target) as servers:
        planned = plan_import(servers.require_zookeeper(), None if unchecked else servers.brokers, offsets)
        if len(offsets) < len(found):
            target.output.note(f"Left out: {len(found) - len(offsets)} line(s) without an offset (below 0).")
        target.output.note(*planned.warnings)
        rows: list[Row] = []
        for name, of_group in planned.offsets.items():
            current = planned.stored[name].positions
            rows += [
                {
                    "group": name,
                    "topic": partition.topic,
                    "partition": partition_key(partition),
                    "current_offset": current.get(partition),
                    "new_offset": offset,
                }
                for partition, offset in of_group.items()
            ]
        target.output.rows(rows, _IMPORTED, "The file has no offsets.")
        if back := sum(row["new_offset"] < (row["current_offset"] or 0) for row in rows):
            target.output.note(f"{back} offset(s) go back.")
        groups = len(planned.offsets)
        if rows and target.proceed(f"Write these {len(rows)} offset(s) of {groups} group(s) to ZooKeeper?"):
            _apply(target, servers.require_zookeeper(), planned)
            target.output.note(f"Imported {len(rows)} offset(s) of {groups} group(s).")


def _apply(target: Target, zookeeper: ZooKeeperClient, planned: PlannedImport) -> None:
    done: list[str] = []
    try:
        for group in target.output.track(planned.offsets, "Importing offsets"):
            commit_offsets(zookeeper, group, planned.offsets[group], Unchanged(planned.stored[group].versions))
            done.append(group)
    except ZKafkaError:
        failed = next(group for group in planned.offsets if group not in done)
        target.output.note(
            f"Imported: {', '.join(done) or 'no group'}. Group {failed} may be written in part; run the import again. "
            "The others are as they were."
        )
        raise
