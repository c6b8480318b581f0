"""The ledger of exactly-once writes: the last write of each slot, as metadata of a committed offset, and jobs to repeat.

A *slot* is a partition of the frame that is written, numbered as Spark numbers it: the task of slot 3 writes in the
transactions of slot 3. Each transaction also commits an offset with an `Entry` as its metadata, under a key that belongs to
the slot alone. The rows and the entry become visible together, or never.

A key is a group, and a partition of the ledger's topic. A group has a key for each partition that the topic had when the
query began, its *width*; further slots use further groups. The width is a part of the group's name, and the slot a part of
the entry, so that no key changes when partitions are added later.

A batch job that commits a group's offsets writes the rows of each slot in a transaction, and commits the offsets after all
transactions. If the job dies in between, its rows are written, but its offsets are not committed. Each entry of its ledger
therefore has the offsets to commit, and the ledger is named after the group. The group's next job finds the unfinished job,
and must repeat it before it writes anything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_zkafka.conditions import LEDGER_MOVED, UNFINISHED_JOB, UNREADABLE_LEDGER
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.nouns import LAST_MS, TopicPartition
from pyspark_zkafka.model.offsets import canonical_json
from pyspark_zkafka.model.topic_names import is_topic_name

MAX_ENDS_BYTES = 3000
"""The largest `Entry.ends` of an entry that fits into 4,096 bytes, the metadata that brokers accept by default."""

_VERSION = 1
_QUOTED = 200
_LARGEST = 2**63 - 1
_PARTITION = re.compile("0|[1-9][0-9]{0,9}")
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Only numbers as `str` writes them: at most 10 digits (Kafka's int32), and no leading zero, which another group may have.
_NAME = re.compile(r"(?P<base>.+)\.slots-(?P<width>[1-9][0-9]{0,9})-(?P<number>0|[1-9][0-9]{0,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryName:
    """The identity under which a query, or a batch job, writes: the base of its transactional ids and its groups.

    `query` is the id of a query in Spark, or the name of a batch job after the prefix ``writer.`` or ``group.``. `writer`
    distinguishes several writes of one query, for example in ``foreachBatch``. It is empty for a query's only write.
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
        """True if `base` is the base of a ledger of the query, with any prefix and any writer.

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
        """Return a pattern for the ledger bases of a write without batchId, in any query, for these writers or no writer.

        >>> bool(QueryName.unnumbered("z", "orders").fullmatch("z-8f1c2d3e-0000-4000-8000-000000000001-orders"))
        True
        """
        return re.compile(f"{re.escape(prefix)}-{_UUID}(-({'|'.join(map(re.escape, writers))}))?")


class LedgerGroup(NamedTuple):
    """Group `number` of a ledger, counted from 0, with a key for each of `width` partitions."""

    base: str
    width: int
    number: int

    def __str__(self) -> str:
        return f"{self.base}.slots-{self.width}-{self.number}"

    @classmethod
    def parse(cls, name: str) -> LedgerGroup | None:
        """Parse the name of a ledger's group. Return None for any other group.

        >>> LedgerGroup.parse("zkafka-8f1c.slots-4-1")
        LedgerGroup(base='zkafka-8f1c', width=4, number=1)
        >>> LedgerGroup.parse("billing") is None
        True
        """
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found["base"], int(found["width"]), int(found["number"]))


class LedgerKey(NamedTuple):
    """The key under which an entry is stored: a group, and a partition of the ledger's topic."""

    group: str
    partition: int


def key_of(name: QueryName, slot: int, width: int) -> LedgerKey:
    """Return the key of a slot. At the same width, no other slot of the query has this key.

    >>> key_of(QueryName("zkafka", "8f1c"), 5, width=4)
    LedgerKey(group='zkafka-8f1c.slots-4-1', partition=1)
    """
    return LedgerKey(str(LedgerGroup(str(name), width, slot // width)), slot % width)


class SinkIdentity(NamedTuple):
    """A topic, and its id in Kafka (a text) or the czxid of its znode (a number).

    Both ids change if the topic is created again.
    """

    topic: str
    identity: str | int

    def replaces(self, other: SinkIdentity | None) -> bool:
        """True if `other` is a deleted topic of the same name. False if the two identities cannot be compared.

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
    - `rows`, `digest`: the number of the rows, and their hash regardless of their order (`rows.RowDigest`).
    - `run`: the run of the query that wrote the rows, or found that they were written already.
    - `write`: the call that wrote the rows, where one micro-batch may have several calls (``foreachBatch``); else empty.
    - `at_ms`: the worker's time of the write, in milliseconds since 1970, for people only. 0 if unknown.
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
    """Encode an entry as the metadata of an offset: JSON of about 200 characters, plus `ends`.

    Brokers accept 4,096 bytes by default.
    """
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
    """Decode the entry in the metadata of an offset, and ignore text after it. `place` names the key in errors.

    Raises LedgerError (UNREADABLE_LEDGER) for any other text. To ignore an unreadable entry could write its rows again.
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
    canonical = json.dumps(ends, separators=(",", ":"), ensure_ascii=False) if ends else ""
    topic = None if sink is None else SinkIdentity(*sink)
    return Entry(slot, batch, rows, digest, run, write, at_ms, canonical, topic)


def _are_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(
        is_topic_name(name) and isinstance(topic, dict) and all(map(_is_offset, topic.keys(), topic.values()))
        for name, topic in found.items()
    )


def _is_sink(found: Any) -> bool:
    """True for a SinkIdentity as JSON encodes it (a list of two), and for None."""
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
    """Return the last entry of each slot. A slot has several keys if the topic grew before the query wrote anything.

    Two entries of a slot with the same batch have the same rows. The later entry names the last run that verified them.
    """
    found: dict[int, Entry] = {}
    for entry in entries:
        # `max` returns its first argument if both are equal, so the later entry comes first.
        found[entry.slot] = max(entry, found.get(entry.slot, entry), key=lambda e: (e.batch, e.at_ms))
    return found


@dataclass(frozen=True, slots=True)
class GroupJob:
    """A job of a group's ledger, and the offsets that it commits. A run that repeats a job keeps the job's number."""

    query: str
    number: int
    ends: str


@dataclass(frozen=True, slots=True)
class LastJob:
    """The job of a ledger that started last, and the offsets in its entries.

    Entries differ in their offsets only if two jobs were planned at the same time and share a number.
    """

    query: str
    number: int
    ends: tuple[str, ...]

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions whose offsets the job was about to commit."""
        return {tp for ends in self.ends for tp in parse_ends(ends)}

    def unfinished(self, committed: Mapping[TopicPartition, int]) -> list[str]:
        """Return the ends of the job that are not committed."""
        return [ends for ends in self.ends if any(committed.get(tp, 0) < end for tp, end in parse_ends(ends).items())]


def job_names(
    group: str, offsets: Iterable[TopicPartition], writer: str | None = None, *, is_member: bool
) -> tuple[str, str]:
    """Return the name under which a group's jobs are recorded, and the other name that jobs of these partitions may have.

    Members of a group run at the same time, so each has its own name. Names of groups and writers have no colon, so that
    jobs of other groups have other names.

    >>> job_names("billing", [TopicPartition("orders", 0)], is_member=False)
    ('group.billing', 'group.billing:4ef79fa17659')
    >>> job_names("billing", [TopicPartition("orders", 0)], "audit", is_member=True)
    ('group.billing:4ef79fa17659:audit', 'group.billing:audit')
    """
    of_member = _hash_of(offsets)
    alone, member = (":".join(filter(None, (f"group.{group}", part, writer))) for part in ("", of_member))
    return (member, alone) if is_member else (alone, member)


def _hash_of(offsets: Iterable[TopicPartition]) -> str:
    partitions = json.dumps([[tp.topic, tp.partition] for tp in sorted(offsets)])
    return hashlib.sha256(partitions.encode()).hexdigest()[:12]


def is_ledger_of(base: str, group: str, offsets: Iterable[TopicPartition]) -> bool:
    """Return True for a ledger of the group, or of its member with these partitions, with any prefix and any writer.

    >>> is_ledger_of("team-group.billing:audit", "billing", []), is_ledger_of("team-group.billing-2", "billing", [])
    (True, False)
    """
    found = re.fullmatch(rf".*-group\.{re.escape(group)}(:(?P<member>[0-9a-f]{{12}}))?(:.*)?", base, re.DOTALL)
    return found is not None and found["member"] in (None, _hash_of(offsets))


def last_job(query: str, entries: Iterable[Entry]) -> LastJob | None:
    """Return the last job of a ledger; None if it has no entry."""
    found = list(entries)
    number = max((entry.batch for entry in found), default=None)
    if number is None:
        return None
    return LastJob(query, number, tuple(dict.fromkeys(entry.ends for entry in found if entry.batch == number)))


def parse_ends(ends: str) -> dict[TopicPartition, int]:
    """Parse the offsets of `Entry.ends`.

    >>> parse_ends('{"orders":{"0":12}}')
    {TopicPartition(topic='orders', partition=0): 12}
    """
    found: dict[str, dict[str, int]] = json.loads(ends or "{}")
    return {
        TopicPartition(topic, int(p)): offset for topic, by_partition in found.items() for p, offset in by_partition.items()
    }


def group_job(
    query: str,
    ends: Mapping[TopicPartition, int],
    last: Sequence[LastJob],
    committed: Mapping[TopicPartition, int],
    elsewhere: Sequence[LastJob] = (),
) -> GroupJob | None:
    """Return the job that commits `ends`: a new job if the last jobs are finished, or the unfinished job, to be repeated.

    Return None if the group has already committed all of `ends`: such a job could not be distinguished from a finished job.

    `query` is the first of `job_names`. `last` are the last jobs of the ledgers of both names, and `elsewhere` the last
    jobs under other prefixes, writers and topics. `committed` are the group's offsets of the partitions of all these jobs.

    Raises LedgerError. UNFINISHED_JOB: a job in `last` wrote rows without committing its offsets, and this job would commit
    other offsets. LEDGER_MOVED: a job in `elsewhere` wrote rows of these partitions without committing its offsets.
    """
    for job in elsewhere:
        if (unfinished := job.unfinished(committed)) and not job.partitions.isdisjoint(ends):
            raise LEDGER_MOVED(
                f"The last job of the group wrote rows under {job.query}, and ended before it committed the offsets "
                f"{unfinished[0]}; this one would write them again. Run that job once with its transactionalIdPrefix, "
                "writerName, topic and ledgerTopic, and change these then. If the group was reset on purpose, to write "
                "everything again, delete the ledger with zkafka ledger delete",
                unfinished=unfinished[0],
            )
    text, number = canonical_json(ends), 0
    for job in last:
        unfinished = job.unfinished(committed)
        if text in unfinished:
            return GroupJob(job.query, job.number, text)
        if unfinished and (job.query == query or not job.partitions.isdisjoint(ends)):
            raise UNFINISHED_JOB(
                f"The last job of the ledger {job.query} wrote rows, and ended before it committed the offsets "
                f"{unfinished[0]}; this one would commit {text}, and write these rows again; run it once with "
                "endingOffsets and commitOffsets of the last one, which writes what is missing. If the group was reset on "
                "purpose, to write everything again, delete the ledger with zkafka ledger delete (its name there begins "
                "with transactionalIdPrefix)",
                unfinished=unfinished[0],
            )
        if job.query == query:
            number = job.number + 1
    is_committed = all(committed.get(tp, 0) >= end for tp, end in ends.items())
    return None if is_committed else GroupJob(query, number, text)
