"""``zkafka groups reset-offsets``: the scenarios of kafka-consumer-groups, for offsets in ZooKeeper, Kafka or both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OFFSETS_FILE, INVALID_OPTION
from pyspark_zkafka.tools.command import Target, changes_cluster, read_text
from pyspark_zkafka.tools.group_stores import Storage, open_servers
from pyspark_zkafka.tools.output import columns

if TYPE_CHECKING:
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.tools.offset_reset import Scenario
    from pyspark_zkafka.tools.reset import PlannedReset
    from pyspark_zkafka.tools.topics import Scope

__all__ = ["add_to"]

_NUMBERS = "partition current_offset new_offset"
_COLUMNS = columns(f"group topic {_NUMBERS}", right=_NUMBERS)
_PLACES = {"zookeeper": "ZooKeeper", "kafka": "Kafka", "both": "ZooKeeper and Kafka"}


_Topic = Annotated[
    list[str] | None, typer.Option("--topic", metavar="T[:P,P]", help="A topic, or some of its partitions; repeatable.")
]
_AllTopics = Annotated[bool, typer.Option("--all-topics", help="All partitions of which the group has an offset.")]
_ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the earliest offset.")]
_ToLatest = Annotated[bool, typer.Option("--to-latest", help="To the latest offset.")]
_ToCurrent = Annotated[bool, typer.Option("--to-current", help="To the committed offset, else to the latest.")]
_ToOffset = Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To an offset.")]
_ShiftBy = Annotated[int | None, typer.Option("--shift-by", metavar="N", help="By a number of offsets, negative for back.")]
_ByDuration = Annotated[
    str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="To the first record of at most that age.")
]
_ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="To the first record at or after a time, in UTC."
    ),
]
_FromFile = Annotated[
    Path | None, typer.Option("--from-file", metavar="CSV", help="To the offsets in lines TOPIC,PARTITION,OFFSET.")
]
_Storage = Annotated[Storage, typer.Option("--offsets-storage", help="Where the offsets are.")]
_Export = Annotated[bool, typer.Option("--export", help="Write lines TOPIC,PARTITION,OFFSET instead of a table.")]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("reset-offsets")(reset_offsets)


@changes_cluster
def reset_offsets(
    target: Target,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)],
    topic: _Topic = None,
    all_topics: _AllTopics = False,
    to_earliest: _ToEarliest = False,
    to_latest: _ToLatest = False,
    to_current: _ToCurrent = False,
    to_offset: _ToOffset = None,
    shift_by: _ShiftBy = None,
    by_duration: _ByDuration = None,
    to_datetime: _ToDatetime = None,
    from_file: _FromFile = None,
    offsets_storage: _Storage = Storage.zookeeper,
    export: _Export = False,
) -> None:
    """Reset the offsets of a group that has no active members.

    Example: zkafka groups reset-offsets billing --topic orders:0,1 --to-earliest --dry-run
    """
    from pyspark_zkafka.tools.reset import OffsetResets

    given: dict[str, object] = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-current": to_current or None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--by-duration": by_duration,
        "--to-datetime": to_datetime,
        "--from-file": from_file,
    }
    scenario = _scenario(given, group)
    scope = _scope(topic, all_topics, from_file)
    with open_servers(target) as servers:
        zookeeper = servers.zookeeper if offsets_storage is Storage.kafka else servers.ensemble
        resets = OffsetResets(offsets_storage.value, zookeeper, servers.brokers)
        planned = resets.plan(group, scope, scenario)
        for note in (*planned.plan.warnings, *planned.notes):
            target.output.note(note)
        _show(target, planned, export=export)
        count = len(planned.plan.offsets)
        if count and target.proceed(f"Reset these {count} offset(s) of group {group}?"):
            resets.apply(planned)
            target.output.note(f"Reset {count} offset(s) of group {group} in {_PLACES[offsets_storage.value]}.")


def _show(target: Target, planned: PlannedReset, *, export: bool) -> None:
    from pyspark_zkafka.tools.offset_files import GroupOffset, csv_text

    group, offsets = planned.group, sorted(planned.plan.offsets.items())
    if export and not target.output.as_json:
        typer.echo(csv_text((GroupOffset(group, tp, offset) for tp, offset in offsets), with_group=False), nl=False)
    else:
        rows = [
            {"group": group, **tp._asdict(), "current_offset": planned.current.get(tp), "new_offset": offset}
            for tp, offset in offsets
        ]
        target.rows(rows, _COLUMNS, f"Group {group} has no offsets to reset.")


def _scope(topics: list[str] | None, all_topics: bool, from_file: Path | None) -> Scope | None:
    from pyspark_zkafka.tools.topics import parse_scope

    if bool(topics) + all_topics + (from_file is not None) != 1:
        raise INVALID_OPTION("Use one of --topic, --all-topics and --from-file, whose lines name the partitions")
    return parse_scope(topics) if topics else None


def _scenario(given: dict[str, object], group: str) -> Scenario:
    from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp
    from pyspark_zkafka.tools import offset_reset as resets

    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        found = " and ".join(name for name, _ in named) or "none of them"
        raise INVALID_OPTION(f"Use one of {', '.join(given)}; found {found}")
    match named[0]:
        case ("--to-earliest", _):
            return resets.ToPosition(EARLIEST)
        case ("--to-latest", _):
            return resets.ToPosition(LATEST)
        case ("--to-offset", int(offset)):
            return resets.ToOffset(offset)
        case ("--shift-by", int(by)):
            return resets.ShiftBy(by)
        case ("--by-duration", str(text)):
            ago = resets.parse_iso_duration_ms(text)
            return resets.ToPosition(AtTimestamp(max(0, time.time_ns() // 1_000_000 - ago)))
        case ("--to-datetime", str(text)):
            return resets.ToPosition(AtTimestamp(max(0, resets.parse_datetime_ms(text))))
        case ("--from-file", Path() as file):
            return resets.FromFile(_offsets_in(file, group))
    return resets.ToCurrent()


def _offsets_in(file: Path, group: str) -> dict[TopicPartition, int]:
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.tools.offset_files import parse_offsets_file

    found = parse_offsets_file(str(file), read_text(file), group)
    bad = [str(o.partition) for o in (*found.offsets, *found.without) if not isinstance(o.partition, TopicPartition)]
    bad += [f"{o.partition} at {o.offset}" for o in found.without if isinstance(o.partition, TopicPartition)]
    if bad:
        raise INVALID_OFFSETS_FILE(f"{file} has no offset to reset to for {', '.join(bad[:10])}; leave these lines out")
    return {o.partition: o.offset for o in found.offsets if isinstance(o.partition, TopicPartition)}
