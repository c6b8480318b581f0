"""``zkafka groups export`` and ``import``: offsets as files of Kafka's tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.tools.command import Target, changes_cluster, read_text, reads_cluster
from pyspark_zkafka.tools.group_stores import AllGroups, Groups, open_servers, require_groups, with_progress
from pyspark_zkafka.tools.output import columns

if TYPE_CHECKING:
    from pyspark_zkafka.tools.offset_files import GroupOffset
    from pyspark_zkafka.tools.offset_imports import OffsetImports, PlannedImport

__all__ = ["add_to"]


class Format(str, Enum):
    """The form of a file of offsets."""

    zk = "zk"
    csv = "csv"


_Format = Annotated[
    Format,
    typer.Option(
        "--format",
        help="zk: lines of znodes and offsets, as ExportZkOffsets writes; csv: lines TOPIC,PARTITION,OFFSET, with GROUP "
        "first for several groups, as kafka-consumer-groups --export writes.",
    ),
]
_EXPORTED = columns("group topic partition offset", right="partition offset")
_IMPORTED = columns("group topic partition current_offset new_offset", right="partition current_offset new_offset")
_FAILED = 1


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("export")(export_offsets)
    app.command("import")(import_offsets)


@reads_cluster
def export_offsets(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    format: _Format = Format.zk,
) -> None:
    """Write the offsets that groups have in ZooKeeper, to keep them or to import them elsewhere.

    What cannot be read is reported, and the exit status is 1.

    Example: zkafka groups export billing > billing.offsets
    """
    from pyspark_zkafka.inspect.offsets import stored_offsets
    from pyspark_zkafka.tools.group_deletion import require_groups as require_existing
    from pyspark_zkafka.tools.offset_files import exported

    names = require_groups(groups, all_groups)
    with target.zookeeper() as client:
        if names is not None:
            require_existing(client, names)
        stored = stored_offsets(client, client.groups() if names is None else names)
    offsets = [offset for group in sorted(stored) for offset in exported(group, stored[group], csv=format is Format.csv)]
    _write(target, offsets, format, with_group=all_groups or len(stored) != 1)
    problems = [problem for one in stored.values() for problem in one.problems]
    unset = sum(len(one.unset) for one in stored.values())
    legacy = sum(len(one.legacy) for one in stored.values()) if format is Format.csv else 0
    for count, reason in ((unset, "without an offset (below 0)"), (legacy, "of Kafka 0.7, which CSV cannot name")):
        if count:
            target.output.note(f"Left out: {count} partition(s) {reason}.")
    for problem in problems:
        target.output.note(f"Left out: {problem}")
    if problems:
        raise typer.Exit(_FAILED)


def _write(target: Target, offsets: Sequence[GroupOffset], format: Format, *, with_group: bool) -> None:
    from pyspark_zkafka.inspect.offsets import key_of
    from pyspark_zkafka.tools.offset_files import csv_text, zk_text

    if target.output.as_json:
        rows = [
            {"group": o.group, "topic": o.partition.topic, "partition": key_of(o.partition), "offset": o.offset}
            for o in offsets
        ]
        target.rows(rows, _EXPORTED)
    else:
        text = zk_text(offsets) if format is Format.zk else csv_text(offsets, with_group=with_group)
        typer.echo(text, nl=False)


@changes_cluster
def import_offsets(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; - for the standard input.", show_default=False)],
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="The group of lines TOPIC,PARTITION,OFFSET.")
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Write offsets outside of the logs, and of unknown partitions, as they are.")
    ] = False,
) -> None:
    """Write offsets from a file to ZooKeeper, for groups without active members.

    All lines, groups and partitions are checked before anything is written. An offset outside of its log is moved to the
    log's nearer end.

    Example: zkafka groups import billing.offsets --dry-run
    """
    from pyspark_zkafka.tools.offset_files import parse_offsets_file
    from pyspark_zkafka.tools.offset_imports import OffsetImports

    found = parse_offsets_file(str(file), read_text(file), group)
    with open_servers(target) as servers:
        imports = OffsetImports(servers.ensemble, servers.brokers, checked=not unchecked)
        planned = imports.plan(found.offsets)
        if found.without:
            target.output.note(f"Left out: {len(found.without)} line(s) without an offset (below 0).")
        for warning in planned.warnings:
            target.output.note(warning)
        rows = list(_rows(planned))
        target.rows(rows, _IMPORTED, "The file has no offsets.")
        back = sum(row["new_offset"] < (row["current_offset"] or 0) for row in rows)
        if back:
            target.output.note(f"{back} offset(s) go back.")
        count = sum(map(len, planned.offsets.values()))
        if count and target.proceed(f"Write these {count} offset(s) of {len(planned.offsets)} group(s) to ZooKeeper?"):
            _import(target, imports, planned)


def _import(target: Target, imports: OffsetImports, planned: PlannedImport) -> None:
    done: list[str] = []
    try:
        for group in with_progress(target, planned.offsets, "Importing offsets"):
            imports.apply(planned, group)
            done.append(group)
    except ZKafkaError:
        target.output.note(f"Imported: {', '.join(done) or 'no group'}. The others are as they were.")
        raise
    target.output.note(f"Imported {sum(map(len, planned.offsets.values()))} offset(s) of {len(done)} group(s).")


def _rows(planned: PlannedImport) -> Iterable[dict[str, Any]]:
    from pyspark_zkafka.inspect.offsets import key_of

    for group, offsets in planned.offsets.items():
        for partition, offset in offsets.items():
            yield {
                "group": group,
                "topic": partition.topic,
                "partition": key_of(partition),
                "current_offset": planned.current(group, partition),
                "new_offset": offset,
            }
