"""Batch jobs that write exactly once and then commit a group's offsets: which run repeats which, pure.

The rows of a job are in one transaction for each slot, and the group's offsets are committed when all of these are. A job
that dies in between has written rows from offsets that its group still has to read. So each entry of its ledger holds the
offsets that the job was about to commit, and the ledger is named after the group: the next job of the group finds out that
the last one is unfinished, and must repeat it before it writes anything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.protocol.ledger import Entry
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import canonical_json

__all__ = ["MAX_ENDS_BYTES", "GroupJob", "group_job", "job_name", "last_entry", "parse_ends"]

MAX_ENDS_BYTES = 3000
"""The size of `Entry.ends` up to which an entry fits into the metadata that brokers accept by default, 4,096 bytes."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """A job's number in its group's ledger, the same for each run that repeats it, and the offsets that it commits."""

    query: str
    number: int
    ends: str


def job_name(group: str, offsets: Iterable[TopicPartition], *, is_member: bool) -> str:
    """The name under which a group's jobs are recorded; members of a group, which run at the same time, have several.

    >>> job_name("billing", [TopicPartition("orders", 0)], is_member=False)
    'group.billing'
    >>> job_name("billing", [TopicPartition("orders", 0)], is_member=True)
    'group.billing-4ef79fa17659'
    """
    if not is_member:
        return f"group.{group}"
    partitions = json.dumps([[tp.topic, tp.partition] for tp in sorted(offsets)])
    return f"group.{group}-{hashlib.sha256(partitions.encode()).hexdigest()[:12]}"


def last_entry(entries: Iterable[Entry]) -> Entry | None:
    """An entry of the job that was begun last; all entries of a job have the same number and ends."""
    return max(entries, key=lambda entry: entry.batch, default=None)


def parse_ends(ends: str) -> dict[TopicPartition, int]:
    """The offsets of `Entry.ends`.

    >>> parse_ends('{"orders":{"0":12}}')
    {TopicPartition(topic='orders', partition=0): 12}
    """
    found: dict[str, dict[str, int]] = json.loads(ends or "{}")
    return {
        TopicPartition(topic, int(p)): offset for topic, by_partition in found.items() for p, offset in by_partition.items()
    }


def group_job(
    query: str, ends: Mapping[TopicPartition, int], last: Entry | None, committed: Mapping[TopicPartition, int]
) -> GroupJob:
    """The job that commits `ends`: a new one if the last one is finished, else the last one, repeated.

    `committed` are the group's offsets of the partitions that the last job was about to commit.

    Raises
    ------
    LedgerError
        UNFINISHED_JOB: the last job wrote rows, its offsets were not committed, and this one would commit others.
    """
    text = canonical_json(ends)
    if last is None:
        return GroupJob(query, 0, text)
    if all(committed.get(tp, 0) >= offset for tp, offset in parse_ends(last.ends).items()):
        return GroupJob(query, last.batch + 1, text)
    if last.ends != text:
        raise LedgerError(
            "UNFINISHED_JOB",
            f"The last job of the ledger {query} wrote rows, and ended before it committed the offsets {last.ends}; this "
            f"one would commit {text}, and write these rows again; run it once with endingOffsets and commitOffsets of the "
            "last one, which writes what is missing; if the group was reset on purpose, to write everything again, delete "
            "the ledger with zkafka ledger delete",
            unfinished=last.ends,
        )
    return GroupJob(query, last.batch, text)
