"""Batch jobs that write exactly once and then commit a group's offsets: which job a run must repeat.

A job writes the rows of each slot in a transaction, and commits the group's offsets after all transactions. If a job dies
in between, its rows are written, but its offsets are not committed. Each entry of its ledger therefore has the offsets to
commit, and the ledger is named after the group. The group's next job finds the unfinished job, and must repeat it before it
writes anything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.conditions import LEDGER_MOVED, UNFINISHED_JOB
from pyspark_zkafka.model.ledger import Entry
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

MAX_ENDS_BYTES = 3000
"""The largest `Entry.ends` of an entry that fits into 4,096 bytes, the metadata that brokers accept by default."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """A job of a group's ledger, and the offsets that it commits. Runs that repeat a job have its number."""

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
    """Return the name under which a group's jobs are recorded, and the other name that these partitions may be under.

    Members of a group run at the same time, so each has its own name. Names of groups and writers have no colon, so that
    jobs of other groups have other names.

    >>> job_names("billing", [TopicPartition("orders", 0)], is_member=False)
    ('group.billing', 'group.billing:4ef79fa17659')
    >>> job_names("billing", [TopicPartition("orders", 0)], "audit", is_member=True)
    ('group.billing:4ef79fa17659:audit', 'group.billing:audit')
    """
    of_member = _hash(offsets)
    alone, member = (":".join(filter(None, (f"group.{group}", part, writer))) for part in ("", of_member))
    return (member, alone) if is_member else (alone, member)


def _hash(offsets: Iterable[TopicPartition]) -> str:
    partitions = json.dumps([[tp.topic, tp.partition] for tp in sorted(offsets)])
    return hashlib.sha256(partitions.encode()).hexdigest()[:12]


def is_ledger_of(base: str, group: str, offsets: Iterable[TopicPartition]) -> bool:
    """Return True for the base of a ledger of the group, or of its member with these partitions, of any prefix and writer.

    >>> is_ledger_of("team-group.billing:audit", "billing", []), is_ledger_of("team-group.billing-2", "billing", [])
    (True, False)
    """
    found = re.fullmatch(rf".*-group\.{re.escape(group)}(:(?P<member>[0-9a-f]{{12}}))?(:.*)?", base, re.DOTALL)
    return found is not None and found["member"] in (None, _hash(offsets))


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
    """Return the job that commits `ends`: a new job if the last ones are finished, or the unfinished one, repeated.

    None if the group has committed all of `ends`, because the job would look like an earlier one.

    `query` is the first of `job_names`. `last` are the last jobs of the ledgers of both names, and `elsewhere` the last
    jobs under other prefixes, writers and topics. `committed` are the group's offsets of the partitions of all these jobs.

    Raises LedgerError. UNFINISHED_JOB: a last job wrote rows without committing its offsets, and this job would commit
    others. LEDGER_MOVED: the same, for a job elsewhere.
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
                "endingOffsets and commitOffsets of the last one, which writes what is missing; if the group was reset on "
                "purpose, to write everything again, delete the ledger with zkafka ledger delete (its name there begins "
                "with transactionalIdPrefix)",
                unfinished=unfinished[0],
            )
        if job.query == query:
            number = job.number + 1
    is_committed = all(committed.get(tp, 0) >= end for tp, end in ends.items())
    return None if is_committed else GroupJob(query, number, text)
