"""``zkafka ledger``: what exactly-once queries have recorded, how old it is, and its deletion."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.conditions import INVALID_OPTION, LEDGER_IN_USE, UNKNOWN_LEDGER
from pyspark_zkafka.errors import LedgerError, listing
from pyspark_zkafka.model.ledger import Entry, LedgerGroup, decode, newest
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.options.kinds import parse_duration_ms
from pyspark_zkafka.tools.command import FAILED, Target, changes_cluster, open_servers, reads_cluster
from pyspark_zkafka.tools.output import Column, columns, duration_text, iso_time

RECENT_MS = 60_000
"""The age up to which a ledger's newest entry suggests that its query is running."""

app = typer.Typer(no_args_is_help=True, help="Show and delete what exactly-once queries have recorded.")

_SHORT = 8
_NUMBERS = "slots batch rows slot partition groups"
_AGE = Column("age_s", "AGE", right=True, readable=duration_text)
_GROUP = Column("group", readable=lambda group: group.rpartition(".")[2])
_DIGEST, _WRITE = (Column(name, readable=lambda text: text and text[:_SHORT]) for name in ("digest", "write"))
_RUN, _WRITTEN, _METADATA = columns("run written metadata")
_LIST_NARROW = (*columns("query slots batch rows", right=_NUMBERS), _AGE)
_LIST = (*columns("query topics slots batch rows", right=_NUMBERS), _AGE, _RUN)
_SHOW_NARROW = (*columns("slot topic partition batch rows", right=_NUMBERS), _DIGEST, _AGE)
_SHOW = (_SHOW_NARROW[0], _GROUP, *_SHOW_NARROW[1:], _RUN)
_DELETE = (*columns("query groups slots batch", right=_NUMBERS), _AGE)
_SHOWN = 5
_QUOTED = 200


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One key of a ledger. `entry` is None, and `metadata` the text, if it cannot be read."""

    group: str
    partition: TopicPartition
    metadata: str
    entry: Entry | None

    @classmethod
    def read(cls, group: str, partition: TopicPartition, metadata: str) -> StoredEntry:
        """The record with its entry, if that can be read."""
        try:
            return cls(group, partition, "", decode(metadata))
        except LedgerError:
            return cls(group, partition, metadata, None)


@dataclass(frozen=True, slots=True)
class QueryLedger:
    """All that a query has recorded.

    `query` is the base of its groups' names, ``<prefix>-<query>[-<writer>]``. `groups` are in order of width and number,
    `records` in order of slots, unreadable ones last. A slot may have several keys.
    """

    query: str
    groups: tuple[str, ...]
    records: tuple[StoredEntry, ...] = ()

    @property
    def topics(self) -> list[str]:
        """The topics whose partitions are keys, sorted."""
        return sorted({record.partition.topic for record in self.records})

    @property
    def unreadable(self) -> list[StoredEntry]:
        """The records without an entry."""
        return [record for record in self.records if record.entry is None]

    @property
    def entries(self) -> dict[int, Entry]:
        """The last entry of each slot."""
        return newest(record.entry for record in self.records if record.entry is not None)

    @property
    def last_entries(self) -> list[Entry]:
        """The entries of the last micro-batch, ordered by time."""
        entries = self.entries.values()
        last = max((entry.batch for entry in entries), default=None)
        return sorted((entry for entry in entries if entry.batch == last), key=lambda entry: entry.at_ms)

    @property
    def written_ms(self) -> int | None:
        """The time of the newest entry, by its worker's clock; None if an entry has no time or cannot be read."""
        times = [entry.at_ms for entry in self.entries.values()]
        return None if self.unreadable or not all(times) else max(times, default=None)


def groups_of(names: Iterable[str], queries: Collection[str] | None = None) -> dict[str, list[str]]:
    """The groups of ledgers among these, in order of width and number, by query; of all queries by default.

    >>> groups_of(["billing", "zkafka-8f1c.slots-4-1", "zkafka-8f1c.slots-4-0"])
    {'zkafka-8f1c': ['zkafka-8f1c.slots-4-0', 'zkafka-8f1c.slots-4-1']}
    """
    found: dict[str, list[str]] = {}
    for group, name in sorted((group, name) for name in names if (group := LedgerGroup.parse(name)) is not None):
        if queries is None or group.base in queries:
            found.setdefault(group.base, []).append(name)
    return found


def group_by_query(
    groups: Mapping[str, Collection[str]], metadata: Mapping[str, Mapping[TopicPartition, str]]
) -> dict[str, QueryLedger]:
    """Return each query's ledger, from the names of its groups and the metadata of their offsets."""
    found = {}
    for query, names in groups.items():
        records = [StoredEntry.read(group, tp, text) for group in names for tp, text in metadata.get(group, {}).items()]
        records.sort(key=lambda r: (r.entry is None, r.entry.slot if r.entry else 0, r.group, r.partition))
        found[query] = QueryLedger(query, tuple(names), tuple(records))
    return found


def require_idle(ledgers: Iterable[QueryLedger], now_ms: int) -> None:
    """Raise LedgerError if one of the queries may be running: its newest entry is young, or its age unknown."""
    active = {ledger.query: (reason, ledger.written_ms) for ledger in ledgers if (reason := _reason(ledger, now_ms))}
    if active:
        is_age_unknown = any(written_ms is None for _, written_ms in active.values())
        raise LEDGER_IN_USE(
            "No ledger was deleted, as these queries may be running: "
            f"{listing([f'{query} ({reason})' for query, (reason, _) in active.items()], _SHOWN)}; stop them, and "
            + ("use --force" if is_age_unknown else "run this again a minute later, or use --force"),
            queries=list(active),
        )


def _reason(ledger: QueryLedger, now_ms: int) -> str | None:
    """Why the query may be running; None if it is idle, by its ledger."""
    if ledger.unreadable:
        return "it has unreadable entries, whose age is unknown"
    if ledger.written_ms is None:
        return "the age of its last entry is unknown"
    age_ms = now_ms - ledger.written_ms
    return f"its last entry is {max(0, age_ms) // 1000} s old" if age_ms < RECENT_MS else None


def written_before(ledgers: Collection[QueryLedger], time_ms: int) -> tuple[list[QueryLedger], list[QueryLedger]]:
    """Ledgers whose entries are all older than a time, and ledgers of unknown age."""
    unknown = [ledger for ledger in ledgers if ledger.written_ms is None]
    old = [ledger for ledger in ledgers if ledger.written_ms is not None and ledger.written_ms < time_ms]
    return old, unknown


def read_ledgers(brokers: GroupAdmin, queries: Collection[str] | None = None) -> dict[str, QueryLedger]:
    """The ledgers by query, all by default; blocks for a request to each broker, and one for each group of a ledger.

    Raises LedgerError (``UNKNOWN_LEDGER``) if a query has none.
    """
    groups = groups_of(brokers.group_names(), queries)
    ledgers = group_by_query(
        groups, brokers.committed_metadata({name: None for names in groups.values() for name in names})
    )
    unknown = [query for query in queries or () if query not in ledgers]
    if unknown:
        raise UNKNOWN_LEDGER(
            f"There is no ledger of {listing(unknown, _SHOWN)}; brokers forget one some days after its last write "
            "(offsets.retention.minutes). List the ledgers with `zkafka ledger list`",
            queries=unknown,
        )
    return ledgers


def delete_ledger(brokers: GroupAdmin, ledger: QueryLedger, *, force: bool = False) -> None:
    """Delete the groups of a ledger, unless it has changed since it was read; with `force`, in any case.

    Blocks for a request to each broker, and two for each group. If one fails, the earlier groups are deleted; read the
    ledger again to delete the rest. Raises LedgerError (``LEDGER_IN_USE``) if the ledger has changed, and GroupError if
    consumers are in one of its groups.
    """
    groups = groups_of(brokers.group_names(), [ledger.query])
    names = groups.get(ledger.query, [])
    now = group_by_query(groups, brokers.committed_metadata(dict.fromkeys(names))).get(ledger.query)
    if now != ledger and not force:
        raise LEDGER_IN_USE(
            f"The ledger of {ledger.query} was not deleted, as it has changed since it was shown: the query is running, or "
            "somebody else has deleted it; stop the query, and run this again a minute later, or use --force",
            queries=[ledger.query],
        )
    brokers.delete_groups(names)


@app.command("list")
@reads_cluster
def list_(target: Target) -> None:
    """List the queries that have a ledger, with their topics and slots, and the number and rows of the last micro-batch.

    Example: zkafka ledger list --bootstrap-server broker1:9092
    """
    with open_servers(target) as servers:
        ledgers = read_ledgers(servers.brokers)
    rows = [_list_row(ledger) for ledger in ledgers.values()]
    target.output.rows(rows, _LIST, "There is no ledger.", _LIST_NARROW, in_json=(*_LIST, _WRITTEN))
    for ledger in ledgers.values():
        if ledger.unreadable:
            count = len(ledger.unreadable)
            target.output.note(f"Unreadable entries of {ledger.query}: {count}; see `zkafka ledger show {ledger.query}`.")


@app.command()
@reads_cluster
def show(
    target: Target, query: Annotated[str, typer.Argument(help="The query, as `list` names it.", show_default=False)]
) -> None:
    """Show what each slot of a query wrote last; exit status 1 if an entry cannot be read.

    Example: zkafka ledger show zkafka-8f1c --bootstrap-server broker1:9092
    """
    with open_servers(target) as servers:
        ledger = read_ledgers(servers.brokers, [query])[query]
    rows = list(map(_show_row, ledger.records))
    writes = [_WRITE] if any(row.get("write") for row in rows) else []
    layout, narrow = [*_SHOW, *writes], [*_SHOW_NARROW, *writes]
    in_json = (*_SHOW, _WRITE, _WRITTEN, _METADATA)
    target.output.rows(rows, layout, "The ledger has no entry.", narrow, in_json=in_json)
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
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="DURATION", help="Ledgers whose newest entry is older than this, such as 7d or 12h."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also delete ledgers of queries that may be running.")] = False,
) -> None:
    """Delete the ledgers of queries that will not be started again.

    If a query repeats a micro-batch afterwards, it writes the rows again. Ledgers that were written within the last
    minute are refused without --force.

    Example: zkafka ledger delete --older-than 7d --dry-run --bootstrap-server broker1:9092
    """
    names = list(dict.fromkeys(queries or ()))
    if bool(names) == (older_than is not None):
        raise INVALID_OPTION("Name one or more queries, or use --older-than")
    age_ms = None if older_than is None else _age_ms(older_than)
    with open_servers(target) as servers:
        found = list(read_ledgers(servers.brokers, names or None).values())
        now_ms = _now_ms()
        chosen, unknown = (found, []) if age_ms is None else written_before(found, now_ms - age_ms)
        if unknown:
            left_out = listing((ledger.query for ledger in unknown), _SHOWN)
            target.output.note(f"Left out, because the age of some entries is unknown: {left_out}.")
        if not force:
            require_idle(chosen, now_ms)
        target.output.rows(map(_list_row, chosen), _DELETE, "No ledger is that old.")
        if chosen:
            target.output.note("A micro-batch that one of these queries replays afterwards is written again.")
        which = "this ledger" if len(chosen) == 1 else f"these {len(chosen)} ledgers"
        if chosen and target.proceed(f"Delete {which}?"):
            for ledger in target.output.track(chosen, "Deleting ledgers"):
                delete_ledger(servers.brokers, ledger, force=force)
                target.output.note(f"Deleted the ledger of {ledger.query}.")


def _age_ms(text: str) -> int:
    try:
        if text.strip().isdigit():
            raise ValueError("a number with its unit, such as 7d, 12h or 30m")
        return parse_duration_ms(text)
    except ValueError as error:
        raise INVALID_OPTION(f"--older-than {text!r} is not a duration; write {error}") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _list_row(ledger: QueryLedger) -> Row:
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


def _show_row(record: StoredEntry) -> Row:
    place, entry = {"group": record.group, **record.partition._asdict()}, record.entry
    if entry is None:
        return {**place, "metadata": record.metadata}
    return {
        **place,
        "slot": entry.slot,
        "batch": entry.batch,
        "rows": entry.rows,
        "digest": entry.digest,
        "run": entry.run,
        "write": entry.write,
        **_times(entry.at_ms or None),
    }


def _times(written_ms: int | None) -> Row:
    if written_ms is None:
        return {}
    return {"age_s": max(0, _now_ms() - written_ms) // 1000, "written": iso_time(written_ms * 1000)}
