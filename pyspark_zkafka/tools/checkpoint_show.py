"""``zkafka checkpoint show``: the positions in a query's checkpoint, and the options that take the query over.

A checkpoint's folder has the end of micro-batch N in each source (``offsets/N``), a mark that it is finished
(``commits/N``), and the start of source S, if it is Spark's own (``sources/S/0``).

References
----------
org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog, org.apache.spark.sql.kafka010.KafkaSourceOffset and
KafkaSourceInitialOffsetWriter (Spark 4.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, NOT_A_CHECKPOINT
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import Target, reads_files
from pyspark_zkafka.tools.output import columns

SourceFormat = Literal["zkafka", "kafka", "other"]
_NOTHING = "-"
_LONG = range(2**63)

_OFFSETS = "committed_offset planned_offset"
_COLUMNS = columns(f"source format topic partition {_OFFSETS}", right=f"source partition {_OFFSETS}")
_IN_JSON = (*_COLUMNS, *columns("query committed_batch planned_batch"))

app = typer.Typer(no_args_is_help=True, help="Show the checkpoints of streaming queries.")

_As = Annotated[
    Literal["starting-offsets"] | None,
    typer.Option(
        "--as", help="Print the positions as startingOffsets for a query that takes over, of zkafka or Spark's kafka."
    ),
]


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a micro-batch in one source: its positions, and, for a source of this package, where it started.

    `in_group` is true if a range has the offset of a group, and the query has not left the group.
    """

    format: SourceFormat
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """The positions of one source after the last finished micro-batch, and after the last planned one."""

    source: str
    format: SourceFormat
    committed: Mapping[TopicPartition, int]
    planned: Mapping[TopicPartition, int]
    in_group: bool = False


@app.command("show")
@reads_files
def show(
    target: Target,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The checkpointLocation: a folder, or a file: URI.")],
    as_: _As = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="N", help="Only this source of the query, counted from 0.")
    ] = None,
) -> None:
    """Show the positions of a query after its last finished and its last planned micro-batch.

    Reads the checkpoints of this package and of Spark's own Kafka source.

    Example: zkafka checkpoint show /checkpoints/billing --as starting-offsets
    """
    folder = _folder(path)
    planned_batch, committed_batch, found = read_checkpoint(folder)
    if source is not None and source not in {one.source for one in found}:
        raise INVALID_OPTION(f"--source is {source!r}; the query has the sources {listing(s.source for s in found)}")
    chosen = [one for one in found if source in (None, one.source)]
    if as_ is not None:
        target.output.lines(_starting_offsets(chosen))
    else:
        facts = {"query": _query_id(folder), "committed_batch": committed_batch, "planned_batch": planned_batch}
        rows = [{**row, **facts} for one in chosen for row in _rows(one)]
        target.output.rows(rows, _COLUMNS, "The query has no source.", in_json=_IN_JSON)
    if committed_batch != planned_batch:
        finished = "none is finished" if committed_batch is None else f"the last finished one is {committed_batch}"
        target.output.note(
            f"Micro-batch {planned_batch} is planned, and {finished}: its rows may be written. A query that takes over "
            "repeats them; run the old one with Trigger.AvailableNow first."
        )
    if any(one.in_group for one in chosen):
        target.output.note("The query is in a group: it continues at the group's offset if the offset has changed since.")


def read_checkpoint(folder: Path) -> tuple[int, int | None, list[SourcePositions]]:
    """Return the numbers of the last planned and of the last finished micro-batch, and the positions of each source.

    Raises CheckpointError if the folder has no checkpoint, or it cannot be read.
    """
    batches, finished = _numbers(folder / "offsets"), _numbers(folder / "commits")
    if not batches:
        raise NOT_A_CHECKPOINT(
            f"{folder} has no file in offsets: no micro-batch was planned; name the checkpointLocation of a streaming query"
        )
    planned = _offsets(folder, batches[-1])
    if not finished:
        return batches[-1], None, positions(planned, None, _initial(folder, planned))
    if finished[-1] not in batches:
        raise NOT_A_CHECKPOINT(f"{folder} has commits/{finished[-1]}, but no offsets/{finished[-1]}; copy the whole folder")
    committed = planned if finished[-1] == batches[-1] else _offsets(folder, finished[-1])
    return batches[-1], finished[-1], positions(planned, committed, _initial(folder, planned))


def _folder(path: str) -> Path:
    try:
        url = urlsplit(path)
        is_local = url.scheme in ("", "file") and url.netloc in ("", "localhost")
    except ValueError:  # a host with brackets
        is_local = False
    if not is_local:
        raise INVALID_OPTION(f"PATH is {path!r}; only local folders are read: copy the checkpoint here first")
    return Path(unquote(url.path) if url.scheme else path)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal()) if folder.is_dir() else []


def _offsets(folder: Path, batch: int) -> dict[str, SourceEnd | None]:
    file = folder / "offsets" / str(batch)
    return parse_offset_log(_text(file), str(file))


def _initial(folder: Path, sources: Mapping[str, object]) -> dict[str, SourceEnd | None]:
    files = {source: folder / "sources" / source / "0" for source in sources}
    return {source: parse_initial(_text(file), str(file)) for source, file in files.items() if file.is_file()}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise NOT_A_CHECKPOINT(f"{file} is not text; name the checkpointLocation of a streaming query") from None


def _query_id(folder: Path) -> str | None:
    try:
        found = json.loads((folder / "metadata").read_text(encoding="utf-8"))
        return str(found["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def parse_offset_log(text: str, name: str) -> dict[str, SourceEnd | None]:
    """Parse a file of ``offsets``: the end of each source, by its number; None if it has no offset yet.

    `name` is the file's, for errors. Raises CheckpointError for a file of another form.
    """
    version, *lines = text.splitlines() or [""]
    if version not in ("v1", "v2") or not lines:
        raise _not_readable(name, "no offset log of version v1 or v2")
    given = lines[1:]
    if version == "v1":
        named = [(str(source), offset) for source, offset in enumerate(given)]
    else:
        named = [(source, offset) for source, _, offset in (line.partition(":") for line in given)]
    return {source: parse_source_end(offset, name) for source, offset in named}


def parse_source_end(offset: str, name: str) -> SourceEnd | None:
    """Parse the offset of one source: of this package, of Spark's Kafka source, or of another source."""
    if offset.strip() in ("", _NOTHING):
        return None
    try:
        found = json.loads(offset)
    except (ValueError, RecursionError):
        raise _not_readable(name, "an offset that is not JSON") from None
    if isinstance(found, dict) and type(found.get("version")) is int and isinstance(found.get("topics"), dict):
        ranges = StreamOffset.from_json(found).ranges
        ends = {tp: planned.until for tp, planned in ranges.items()}
        starts = {tp: planned.start for tp, planned in ranges.items()}
        in_group = any(planned.committed is not None and planned.left is None for planned in ranges.values())
        return SourceEnd("zkafka", ends, starts, in_group)
    positions = _kafka_offsets(found)
    return SourceEnd("other") if positions is None else SourceEnd("kafka", positions)


def _kafka_offsets(found: object) -> dict[TopicPartition, int] | None:
    """Return the offsets of ``{"topic":{"0":5}}``; None for another form."""
    if not isinstance(found, dict) or not found or not all(isinstance(given, dict) for given in found.values()):
        return None
    entries = [(topic, number, offset) for topic, given in found.items() for number, offset in given.items()]
    if not all(number.isdecimal() and type(offset) is int and offset in _LONG for _, number, offset in entries):
        return None
    return {TopicPartition(topic, int(number)): offset for topic, number, offset in entries}


def parse_initial(text: str, name: str) -> SourceEnd | None:
    """Parse a file ``sources/S/0``: Spark's Kafka source writes a zero byte, a line with the version, and the offsets.

    The offsets are ``{}`` if a pattern matched no topic. Only the zero byte then shows that the source is Spark's.
    """
    _, _, offset = text.lstrip("\0").partition("\n")
    if text.startswith("\0") and offset.strip() == "{}":
        return SourceEnd("kafka")
    return parse_source_end(offset, name)


def _not_readable(name: str, what: str) -> Exception:
    return NOT_A_CHECKPOINT(f"{name} is {what}; name the checkpointLocation of a streaming query")


def positions(
    planned: Mapping[str, SourceEnd | None],
    committed: Mapping[str, SourceEnd | None] | None,
    initial: Mapping[str, SourceEnd | None],
) -> list[SourcePositions]:
    """Return the positions of each source.

    `planned` has the ends of the last planned micro-batch, and `committed` the ends of the last finished one, which may be
    the same mapping; None if none is finished. `initial` has the starts of sources of Spark's.
    """
    found, nothing = [], SourceEnd("other")
    for source, end in planned.items():
        finished = (committed or {}).get(source) or initial.get(source)
        after = dict((finished or nothing).ends)
        if committed is not planned:
            # A planned range starts at the end of the last one, at the group's offset, or at the start of a new partition.
            after |= (end or nothing).starts
        known = end or finished or nothing
        if known.format == "other":  # `{}` may be the end of a source of Spark's, too
            known = initial.get(source) or known
        found.append(SourcePositions(source, known.format, after, (end or nothing).ends, known.in_group))
    return found


def _rows(one: SourcePositions) -> list[Row]:
    place = {"source": int(one.source) if one.source.isdecimal() else one.source, "format": one.format}
    partitions = sorted({*one.committed, *one.planned})
    return [
        {**place, **tp._asdict(), "committed_offset": one.committed.get(tp), "planned_offset": one.planned.get(tp)}
        for tp in partitions
    ] or [place]


def _starting_offsets(chosen: Sequence[SourcePositions]) -> str:
    """Return the JSON of ``startingOffsets``; a partition that appeared in an unfinished micro-batch starts at earliest."""
    of_kafka = [one for one in chosen if one.format != "other"]
    if len(of_kafka) != 1:
        raise INVALID_OPTION(
            f"The query has {len(of_kafka)} sources of Kafka here; name one with --source"
            if of_kafka
            else "The source is neither of zkafka nor of Spark's Kafka source; name another one with --source"
        )
    (one,) = of_kafka
    offsets: dict[TopicPartition, int] = {tp: one.committed.get(tp, -2) for tp in {*one.committed, *one.planned}}
    if not offsets:
        raise INVALID_OPTION("The source has no partition yet; start the new query where the old one was started")
    return canonical_json(offsets)
