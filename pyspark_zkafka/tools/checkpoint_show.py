"""``zkafka checkpoint show``: the positions in a query's checkpoint, and the options that take the query over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, NOT_A_CHECKPOINT
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json
from pyspark_zkafka.model.query_checkpoint import (
    SourceEnd,
    SourcePositions,
    parse_initial,
    parse_offset_log,
    positions,
)
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import Target, reads_files
from pyspark_zkafka.tools.output import columns

_OFFSETS = "committed_offset planned_offset"
_COLUMNS = columns(f"source format topic partition {_OFFSETS}", right=f"source partition {_OFFSETS}")
_IN_JSON = (*_COLUMNS, *columns("query committed_batch planned_batch"))

app = typer.Typer(no_args_is_help=True, help="Show the checkpoints of streaming queries.")

_As = Annotated[
    Literal["starting-offsets"] | None,
    typer.Option("--as", help="Write the option startingOffsets of a query that takes over, for zkafka or Spark's kafka."),
]


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
        target.output.rows(rows, _IN_JSON if target.output.as_json else _COLUMNS, "The query has no source.")
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
