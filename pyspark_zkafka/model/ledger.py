"""The ledger of exactly-once writes: the last write of each slot of a query, as metadata of a committed offset.

A *slot* is a partition of the frame that is written, numbered as Spark numbers it: the task of slot 3 writes in the
transactions of slot 3. Each transaction also commits an offset with an `Entry` as its metadata, under a key that belongs to
the slot alone. The rows and the entry become visible together, or never.

A key is a group, and a partition of the ledger's topic. A group has a key for each partition that the topic had when the
query began, its *width*; further slots use further groups. The width is a part of the group's name, and the slot a part of
the entry, so that partitions that are added later move nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_zkafka.conditions import UNREADABLE_LEDGER
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.nouns import LAST_MS
from pyspark_zkafka.model.topic_names import is_topic_name

_VERSION = 1
_QUOTED = 200
_LARGEST = 2**63 - 1
_SEPARATOR = ".slots-"
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# As `str` writes it, and no other way: Kafka numbers partitions by int32, and a leading zero is another group's.
_NAME = re.compile(r"(?P<base>.+)\.slots-(?P<width>[1-9][0-9]{0,9})-(?P<number>0|[1-9][0-9]{0,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryName:
    """The identity under which a query, or a batch job, writes: the base of its transactional ids and its groups.

    `query` is the id of a query in Spark, or the name of a batch job with the kind of name before it: ``writer.`` or
    ``group.``. `writer` distinguishes several writes of one query, for example in ``foreachBatch``. It is empty
    for a query's only write.
    """

    prefix: str
    query: str
    writer: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.prefix, self.query, self.writer)))

    def transactional_id(self, slot: int) -> str:
        """The transactional.id of a slot.

        >>> QueryName("zkafka", "8f1c", "orders").transactional_id(3)
        'zkafka-8f1c-orders-3'
        """
        return f"{self}-{slot}"

    def groups(self, names: Iterable[str]) -> list[LedgerGroup]:
        """Return the groups of this query's ledger among `names`."""
        return [group for group in map(LedgerGroup.parse, names) if group is not None and group.base == str(self)]

    @staticmethod
    def belongs(base: str, query: str) -> bool:
        """True for the base of a query's ledger, whatever its prefix and its writer are.

        >>> QueryName.belongs("team-8f1c-orders", "8f1c"), QueryName.belongs("team-8f1c2", "8f1c")
        (True, False)
        >>> QueryName.belongs("team-writer.audit-8f1c", "8f1c")
        False
        """
        head, found, writer = base.partition(f"-{query}")
        is_numbered = "-writer." in head  # a write with batchId, whose writerName contains the id
        return bool(found) and not is_numbered and (not writer or writer.startswith("-"))

    @classmethod
    def numbered(cls, prefix: str, writer: str) -> QueryName:
        """The name of a write with batchId, which is the same in each query."""
        return cls(prefix, f"writer.{writer}")

    @staticmethod
    def unnumbered(prefix: str, *writers: str) -> re.Pattern[str]:
        """The bases of ledgers that a write without batchId has in any query, as one of these writers, or without a name.

        >>> bool(QueryName.unnumbered("z", "orders").fullmatch("z-8f1c2d3e-0000-4000-8000-000000000001-orders"))
        True
        """
        return re.compile(f"{re.escape(prefix)}-{_UUID}(-({'|'.join(map(re.escape, writers))}))?")


class LedgerGroup(NamedTuple):
    """A group of a ledger: its `number`-th, with a key for each of `width` partitions."""

    base: str
    width: int
    number: int

    def __str__(self) -> str:
        return f"{self.base}{_SEPARATOR}{self.width}-{self.number}"

    @classmethod
    def parse(cls, name: str) -> LedgerGroup | None:
        """The parts of a group's name; None for a group that is no ledger's.

        >>> LedgerGroup.parse("zkafka-8f1c.slots-4-1")
        LedgerGroup(base='zkafka-8f1c', width=4, number=1)
        >>> LedgerGroup.parse("billing") is None
        True
        """
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found["base"], int(found["width"]), int(found["number"]))


class LedgerKey(NamedTuple):
    """Where an entry is stored: a group, and a partition of the ledger's topic."""

    group: str
    partition: int


def key_of(name: QueryName, slot: int, width: int) -> LedgerKey:
    """The key of a slot; no other slot of the query has it at the same width.

    >>> key_of(QueryName("zkafka", "8f1c"), 5, width=4)
    LedgerKey(group='zkafka-8f1c.slots-4-1', partition=1)
    """
    return LedgerKey(str(LedgerGroup(str(name), width, slot // width)), slot % width)


class SinkIdentity(NamedTuple):
    """A topic, and its id in Kafka (a text) or the czxid of its znode (a number), which change if it is created again."""

    topic: str
    identity: str | int

    def replaces(self, other: SinkIdentity | None) -> bool:
        """True if `other` is a topic of the same name that was deleted; False where nobody can tell.

        >>> SinkIdentity("orders", 12).replaces(SinkIdentity("orders", 7))
        True
        >>> SinkIdentity("orders", "a-topic-id").replaces(SinkIdentity("orders", 7))
        False
        """
        if other is None or other.topic != self.topic or type(other.identity) is not type(self.identity):
            return False
        return other.identity != self.identity


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows that a slot wrote in its last transaction.

    - `batch`: the number of the micro-batch, or of the batch job.
    - `rows`, `digest`: the number of the rows, and their hash regardless of their order (`row_digests`).
    - `run`: the run of the query that wrote the rows, or found that they were written already.
    - `write`: the call that wrote them, where one micro-batch may have several (``foreachBatch``); otherwise empty.
    - `at_ms`: the worker's time of the write, in milliseconds since 1970: for people only. 0 if unknown.
    - `ends`: the offsets that a batch job commits to its group after all slots (`canonical_json`); otherwise empty.
    - `sink`: the topic of the rows, if the option ``topic`` names it and its identity is known.
    """

    slot: int
    batch: int
    rows: int
    digest: str
    run: str
    write: str = ""
    at_ms: int = 0
    ends: str = ""
    sink: SinkIdentity | None = None


def encode(entry: Entry) -> str:
    """An entry as the metadata of an offset: JSON of some 200 characters and `ends`; brokers accept 4,096 by default."""
    values: dict[str, Any] = {
        "v": _VERSION,
        "slot": entry.slot,
        "batch": entry.batch,
        "rows": entry.rows,
        "digest": entry.digest,
        "run": entry.run,
        "write": entry.write,
        "at": entry.at_ms,
    }
    if entry.ends:
        values["ends"] = json.loads(entry.ends)
    if entry.sink is not None:
        values["sink"] = entry.sink
    return json.dumps(values, separators=(",", ":"))


def decode(metadata: str, place: str = "The ledger") -> Entry:
    """The entry in the metadata of an offset, whatever follows it; `place` is the key's, for the error.

    Raises LedgerError (UNREADABLE_LEDGER) for anything else: ignoring it would mean writing rows again.
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(metadata)
        version, numbers = found["v"], [found[name] for name in ("slot", "batch", "rows", "at")]
        texts, ends = [found[name] for name in ("digest", "run", "write")], found.get("ends", {})
        sink = found.get("sink")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(metadata, place) from error
    are_numbers = all(type(number) is int and 0 <= number <= _LARGEST for number in (version, *numbers))
    are_texts = all(isinstance(text, str) for text in texts)
    if version != _VERSION or not are_numbers or not are_texts or not _are_offsets(ends) or not _is_sink(sink):
        raise _unreadable(metadata, place)
    slot, batch, rows, at_ms = numbers
    digest, run, write = texts
    at_ms = at_ms if at_ms <= LAST_MS else 0
    topic = None if sink is None else SinkIdentity(*sink)
    return Entry(slot, batch, rows, digest, run, write, at_ms, _canonical(ends), topic)


def _canonical(ends: dict[str, dict[str, int]]) -> str:
    return json.dumps(ends, separators=(",", ":"), ensure_ascii=False) if ends else ""


def _are_offsets(found: Any) -> bool:
    """True for offsets by topic and partition, as JSON has them."""
    return isinstance(found, dict) and all(
        is_topic_name(name) and isinstance(topic, dict) and all(map(_is_offset, topic.keys(), topic.values()))
        for name, topic in found.items()
    )


def _is_sink(found: Any) -> bool:
    """True for a SinkIdentity as JSON has it, or None."""
    if found is None:
        return True
    if not isinstance(found, list) or len(found) != 2:
        return False
    topic, identity = found
    is_identity = isinstance(identity, str) or (type(identity) is int and 0 <= identity <= _LARGEST)
    return isinstance(topic, str) and is_topic_name(topic) and is_identity


def _is_offset(partition: str, offset: Any) -> bool:
    number = _PARTITION.fullmatch(partition)
    return number is not None and int(partition) < 2**31 and type(offset) is int and 0 <= offset <= _LARGEST


def _unreadable(metadata: str, place: str) -> LedgerError:
    return UNREADABLE_LEDGER(
        f"{place} has an entry that cannot be read: {metadata[:_QUOTED]!r}. A later version of this package, or another "
        "program, wrote the entry: use that version, or check the entry with zkafka ledger show, and delete a foreign one",
    )


def newest(entries: Iterable[Entry]) -> dict[int, Entry]:
    """The last entry of each slot, which may have several keys if the topic grew before the query wrote anything."""
    found: dict[int, Entry] = {}
    for entry in entries:
        if entry.slot not in found or _age(entry) >= _age(found[entry.slot]):
            found[entry.slot] = entry
    return found


def _age(entry: Entry) -> tuple[int, int]:
    """Two entries of a micro-batch are of the same rows; the later one names the last run that has verified them."""
    return entry.batch, entry.at_ms
