"""Ledgers of exactly-once writes as operators see them: what each query has recorded, how old it is, and what may go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark_zkafka.errors import LedgerError, listing
from pyspark_zkafka.protocol.ledger import Entry, LedgerGroup, decode, newest
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = [
    "Ledger",
    "Record",
    "group_by_query",
    "groups_of",
    "require_idle",
    "require_queries",
    "without_ledgers",
    "written_before",
]

RECENT_MS = 60_000
"""The age up to which a ledger's newest entry suggests that its query is running."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Record:
    """The metadata of one key of a ledger; `entry` is None if it cannot be read."""

    group: str
    partition: TopicPartition
    metadata: str
    entry: Entry | None

    @classmethod
    def read(cls, group: str, partition: TopicPartition, metadata: str) -> Record:
        """The record with its entry, if that can be read."""
        try:
            return cls(group, partition, metadata, decode(metadata))
        except LedgerError:
            return cls(group, partition, metadata, None)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that a query has recorded.

    Attributes
    ----------
    query : str
        The base of its groups' names, ``<prefix>-<query>[-<writer>]``.
    groups : tuple of str
        The names of its groups, in order of width and number.
    records : tuple of Record
        Ordered by slot, unreadable ones last; a slot may have several keys.
    """

    query: str
    groups: tuple[str, ...]
    records: tuple[Record, ...] = ()

    @property
    def topics(self) -> list[str]:
        """The topics whose partitions are keys, sorted."""
        return sorted({record.partition.topic for record in self.records})

    @property
    def unreadable(self) -> list[Record]:
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
        """The time of the newest entry, by its worker's clock; None if none has one, or an entry cannot be read."""
        if self.unreadable:
            return None
        return max((entry.at_ms for entry in self.entries.values()), default=0) or None


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


def without_ledgers(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names of groups that are no ledgers', and of those that are."""
    others, ledgers = list[str](), list[str]()
    for name in names:
        (others if LedgerGroup.parse(name) is None else ledgers).append(name)
    return others, ledgers


def group_by_query(
    groups: Mapping[str, Collection[str]], metadata: Mapping[str, Mapping[TopicPartition, str]]
) -> dict[str, Ledger]:
    """The ledgers by query, of groups by query and the metadata of their offsets by group."""
    return {query: Ledger(query, tuple(names), _records(names, metadata)) for query, names in groups.items()}


def _records(groups: Iterable[str], metadata: Mapping[str, Mapping[TopicPartition, str]]) -> tuple[Record, ...]:
    found = [Record.read(group, tp, text) for group in groups for tp, text in metadata.get(group, {}).items()]
    return tuple(sorted(found, key=_by_slot))


def _by_slot(record: Record) -> tuple[bool, int, str, TopicPartition]:
    return record.entry is None, record.entry.slot if record.entry else 0, record.group, record.partition


def require_queries(ledgers: Mapping[str, Ledger], queries: Iterable[str]) -> None:
    """Raise LedgerError for queries without a ledger: their names are probably wrong."""
    unknown = [query for query in queries if query not in ledgers]
    if unknown:
        raise LedgerError(
            "UNKNOWN_LEDGER",
            f"There is no ledger of {listing(unknown, _SHOWN)}; brokers forget one some days after its last write "
            "(offsets.retention.minutes); list the ledgers with `zkafka ledger list`",
            queries=unknown,
        )


def require_idle(ledgers: Iterable[Ledger], now_ms: int) -> None:
    """Raise LedgerError if one of the queries may be running: its newest entry is young, or its age unknown."""
    reasons = {ledger.query: _reason(ledger, now_ms) for ledger in ledgers}
    active = [f"{query} ({reason})" for query, reason in reasons.items() if reason is not None]
    if active:
        raise LedgerError(
            "LEDGER_IN_USE",
            f"No ledger was deleted, as these queries may be running: {listing(active, _SHOWN)}; stop them, and run this "
            "again a minute later, or use --force",
            queries=[query for query, reason in reasons.items() if reason is not None],
        )


def _reason(ledger: Ledger, now_ms: int) -> str | None:
    """Why the query may be running; None if it is idle, as far as its ledger says."""
    if ledger.unreadable:
        return "it has unreadable entries, whose age is unknown"
    if ledger.written_ms is None:
        return "it has no entry with a time"
    age_ms = now_ms - ledger.written_ms
    return f"its last entry is {max(0, age_ms) // 1000} s old" if age_ms < RECENT_MS else None


def written_before(ledgers: Iterable[Ledger], time_ms: int) -> tuple[list[Ledger], list[Ledger]]:
    """The ledgers whose entries are all older than a time, and those of which it is unknown."""
    old, unknown = list[Ledger](), list[Ledger]()
    for ledger in ledgers:
        if ledger.written_ms is None:
            unknown.append(ledger)
        elif ledger.written_ms < time_ms:
            old.append(ledger)
    return old, unknown
