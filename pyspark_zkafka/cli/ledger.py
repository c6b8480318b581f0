"""``zkafka ledger``: what exactly-once queries have recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.cli.command import FAILED, Target, changes_cluster, reads_cluster
from pyspark_zkafka.cli.group_stores import open_servers, with_progress
from pyspark_zkafka.cli.output import Column, Row, columns, duration_text, iso_time
from pyspark_zkafka.errors import OptionError, listing

if TYPE_CHECKING:
    from pyspark_zkafka.kafka.group_admin import GroupAdmin
    from pyspark_zkafka.operations.ledger_state import Ledger, Record

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show and delete what exactly-once queries have recorded.")

_NUMBERS = "slots batch rows slot partition groups"
_AGE = Column("age_s", "AGE", right=True)
_RUN, _WRITE, _WRITTEN, _METADATA = columns("run write written metadata")
_LIST_NARROW = (*columns("query slots batch rows", right=_NUMBERS), _AGE)
_LIST = (*columns("query topics slots batch rows", right=_NUMBERS), _AGE, _RUN)
_SHOW_NARROW = (*columns("slot topic partition batch rows digest", right=_NUMBERS), _AGE)
_SHOW = (*columns("slot group topic partition batch rows digest", right=_NUMBERS), _AGE, _RUN)
_DELETE = (*columns("query groups slots batch", right=_NUMBERS), _AGE)
_SHORT = 8
_SHOWN = 5
_QUOTED = 200

_OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="DURATION", help="All whose newest entry is older, for example 7d or 12h."),
]
_Force = Annotated[bool, typer.Option("--force", help="Delete ledgers of queries that may be running, too.")]


@app.command("list")
@reads_cluster
def list_(target: Target) -> None:
    """List the queries with a ledger: topics, slots, and the number and rows of the last micro-batch.

    Example: zkafka ledger list --bootstrap-server broker1:9092
    """
    from pyspark_zkafka.operations.ledger import read_ledgers

    with open_servers(target) as servers:
        ledgers = read_ledgers(servers.brokers)
    rows = [_list_row(ledger) for ledger in ledgers.values()]
    _write(target, rows, (*_LIST, _WRITTEN), "There is no ledger.", _LIST, _LIST_NARROW)
    for ledger in ledgers.values():
        if ledger.unreadable:
            count = len(ledger.unreadable)
            target.output.note(f"Unreadable entries of {ledger.query}: {count}; see zkafka ledger show {ledger.query}")


@app.command()
@reads_cluster
def show(
    target: Target, query: Annotated[str, typer.Argument(help="The query, as `list` names it.", show_default=False)]
) -> None:
    """Show what each slot of a query wrote last; exit status 1 if an entry cannot be read.

    Example: zkafka ledger show zkafka-8f1c --bootstrap-server broker1:9092
    """
    from pyspark_zkafka.operations.ledger import read_ledgers

    with open_servers(target) as servers:
        ledger = read_ledgers(servers.brokers, [query])[query]
    rows = [_show_row(record, ledger.query, short=not target.output.as_json) for record in ledger.records]
    writes = [_WRITE] if any(row.get("write") for row in rows) else []
    layouts = ([*layout, *writes] for layout in (_SHOW, _SHOW_NARROW))
    _write(target, rows, (*_SHOW, _WRITE, _WRITTEN, _METADATA), "The ledger has no entry.", *layouts)
    for record in ledger.unreadable:
        target.output.note(f"Unreadable, group {record.group}, {record.partition}: {record.metadata[:_QUOTED]!r}")
    if ledger.unreadable:
        raise typer.Exit(FAILED)


@app.command()
@changes_cluster
def delete(
    target: Target,
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUERY]...", help="The queries, as `list` names them.", show_default=False),
    ] = None,
    older_than: _OlderThan = None,
    force: _Force = False,
) -> None:
    """Delete the ledgers of queries that will not be started again.

    A micro-batch that is replayed afterwards is written again. Ledgers that were written within the last minute are
    refused without --force.

    Example: zkafka ledger delete --older-than 7d --dry-run --bootstrap-server broker1:9092
    """
    from pyspark_zkafka.operations.ledger import read_ledgers
    from pyspark_zkafka.operations.ledger_state import require_idle

    names = list(dict.fromkeys(queries or ()))
    if bool(names) == (older_than is not None):
        raise OptionError("INVALID_OPTION", "Name one or more queries, or use --older-than")
    age_ms = None if older_than is None else _age_ms(older_than)
    with open_servers(target) as servers:
        found = list(read_ledgers(servers.brokers, names or None).values())
        now_ms = _now_ms()
        chosen = found if age_ms is None else _older(target, found, now_ms - age_ms)
        if not force:
            require_idle(chosen, now_ms)
        _write(target, [_list_row(ledger) for ledger in chosen], _DELETE, "No ledger is that old.", _DELETE)
        if chosen:
            target.output.note("A micro-batch that one of these queries replays afterwards is written again.")
        if chosen and target.proceed(f"Delete {_count(chosen)}?"):
            _delete(target, servers.brokers, chosen, force=force)


def _count(ledgers: Sequence[Ledger]) -> str:
    return "this ledger" if len(ledgers) == 1 else f"these {len(ledgers)} ledgers"


def _delete(target: Target, brokers: GroupAdmin, chosen: Iterable[Ledger], *, force: bool) -> None:
    from pyspark_zkafka.operations.ledger import delete_ledger

    by_query = {ledger.query: ledger for ledger in chosen}
    for query in with_progress(target, by_query, "Deleting ledgers"):
        delete_ledger(brokers, by_query[query], force=force)
        target.output.note(f"Deleted the ledger of {query}.")


def _older(target: Target, ledgers: Iterable[Ledger], time_ms: int) -> list[Ledger]:
    from pyspark_zkafka.operations.ledger_state import written_before

    old, unknown = written_before(ledgers, time_ms)
    if unknown:
        names = listing((ledger.query for ledger in unknown), _SHOWN)
        target.output.note(f"Left out, as the age of some entries is unknown: {names}.")
    return old


def _age_ms(text: str) -> int:
    from pyspark_zkafka.options.kinds import parse_duration_ms

    try:
        if text.strip().isdigit():
            raise ValueError("a number with its unit, such as 7d, 12h or 30m")
        return parse_duration_ms(text)
    except ValueError as error:
        raise OptionError("INVALID_OPTION", f"--older-than {text!r} is not a duration; write {error}") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _list_row(ledger: Ledger) -> Row:
    last = ledger.last_entries
    return {
        "query": ledger.query,
        "topics": ledger.topics,
        "groups": len(ledger.groups),
        "slots": len(ledger.entries),
        "batch": last[-1].batch if last else None,
        "rows": sum(entry.rows for entry in last) if last else None,
        "run": last[-1].run if last else None,
        **_times(ledger.written_ms),
    }


def _show_row(record: Record, query: str, *, short: bool) -> Row:
    """The row of a record; with `short`, names and hashes without what a table has no place for."""
    place = {"group": record.group.removeprefix(f"{query}.") if short else record.group, **record.partition._asdict()}
    if record.entry is None:
        return {**place, "metadata": record.metadata}
    entry = record.entry
    most = _SHORT if short else None
    return {
        **place,
        "slot": entry.slot,
        "batch": entry.batch,
        "rows": entry.rows,
        "digest": entry.digest[:most],
        "run": entry.run,
        "write": entry.write[:most],
        **_times(entry.at_ms or None),
    }


def _times(written_ms: int | None) -> Row:
    if written_ms is None:
        return {}
    return {"age_s": max(0, _now_ms() - written_ms) // 1000, "written": iso_time(written_ms * 1000)}


def _write(target: Target, rows: Sequence[Row], in_json: Sequence[Column], empty: str, *layouts: Sequence[Column]) -> None:
    """Write rows; ages are seconds in JSON, durations in tables, whose `layouts` are from wide to narrow."""
    if target.output.as_json:
        target.rows(rows, in_json)
    else:
        target.rows([{**row, "age_s": duration_text(row.get("age_s"))} for row in rows], layouts[0], empty, *layouts[1:])
