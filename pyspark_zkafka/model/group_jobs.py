"""Batch jobs that write exactly once and then commit a group's offsets: which run repeats which, pure.

The rows of a job are in one transaction for each slot, and the group's offsets are committed when all of these are. A job
that dies in between has written rows from offsets that its group still has to read. So each entry of its ledger holds the
offsets that the job was about to commit, and the ledger is named after the group: the next job of the group finds out that
the last one is unfinished, and must repeat it before it writes anything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.conditions import LEDGER_MOVED, UNFINISHED_JOB
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import Entry
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

MAX_ENDS_BYTES = 3000
"""The size of `Entry.ends` up to which an entry fits into the metadata that brokers accept by default, 4,096 bytes."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """A job's number in its group's ledger, the same for each run that repeats it, and the offsets that it commits."""

    query: str
    number: int
    ends: str


@dataclass(frozen=True, slots=True)
class LastJob:
    """The job of a ledger that was begun last, and the offsets that its entries name.

    These differ among its entries only if two jobs were planned at the same time, and have one number.
    """

    query: str
    number: int
    ends: tuple[str, ...]

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions whose offsets it was about to commit."""
        return {tp for ends in self.ends for tp in parse_ends(ends)}

    def unfinished(self, committed: Mapping[TopicPartition, int]) -> list[str]:
        """Those of its ends that are not committed."""
        return [ends for ends in self.ends if any(committed.get(tp, 0) < end for tp, end in parse_ends(ends).items())]


def job_names(
    group: str, offsets: Iterable[TopicPartition], writer: str | None = None, *, is_member: bool
) -> tuple[str, str]:
    """The name under which a group's jobs are recorded, and the other one under which these partitions may be.

    Members of a group, which run at the same time, have names of their own. Neither a group nor a writer has a colon in its
    name, so that no other group's jobs have the same.

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
    """True for the base of a ledger of the group, or of its member with these partitions, whatever its prefix and writer.

    >>> is_ledger_of("team-group.billing:audit", "billing", []), is_ledger_of("team-group.billing-2", "billing", [])
    (True, False)
    """
    found = re.fullmatch(rf".*-group\.{re.escape(group)}(:(?P<member>[0-9a-f]{{12}}))?(:.*)?", base, re.DOTALL)
    return found is not None and found["member"] in (None, _hash(offsets))


def last_job(query: str, entries: Iterable[Entry]) -> LastJob | None:
    """The last job of a ledger; None if it has no entry."""
    found = list(entries)
    number = max((entry.batch for entry in found), default=None)
    if number is None:
        return None
    return LastJob(query, number, tuple(dict.fromkeys(entry.ends for entry in found if entry.batch == number)))


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
    query: str,
    ends: Mapping[TopicPartition, int],
    last: Sequence[LastJob],
    committed: Mapping[TopicPartition, int],
    elsewhere: Sequence[LastJob] = (),
) -> GroupJob | None:
    """The job that commits `ends`: a new one if the last ones are finished, else one of these, repeated.

    None if the group has committed all of `ends`: nobody could tell this job from the one that did.

    `last` are those of the ledgers of `job_names`, `query` being the first of these names, `elsewhere` those under other
    prefixes, writers and topics; `committed` are the group's offsets of the partitions that all of these commit.

    Raises
    ------
    LedgerError
        UNFINISHED_JOB: a last job wrote rows, its offsets were not committed, and this one would commit others.
        LEDGER_MOVED: a job elsewhere did.
    """
    for job in elsewhere:
        if (unfinished := job.unfinished(committed)) and not job.partitions.isdisjoint(ends):
            raise _moved(job, unfinished[0])
    text, number = canonical_json(ends), 0
    for job in last:
        unfinished = job.unfinished(committed)
        if text in unfinished:
            return GroupJob(job.query, job.number, text)
        if unfinished and (job.query == query or not job.partitions.isdisjoint(ends)):
            raise _unfinished(job, unfinished[0], text)
        if job.query == query:
            number = job.number + 1
    is_committed = all(committed.get(tp, 0) >= end for tp, end in ends.items())
    return None if is_committed else GroupJob(query, number, text)


def _moved(job: LastJob, unfinished: str) -> LedgerError:
    return LEDGER_MOVED(
        f"The last job of the group wrote rows under {job.query}, and ended before it committed the offsets {unfinished}; "
        "this one would write them again. Run that job once with its transactionalIdPrefix, writerName, topic and "
        "ledgerTopic, and change these then. If the group was reset on purpose, to write everything again, delete the "
        "ledger with zkafka ledger delete",
        unfinished=unfinished,
    )


def _unfinished(job: LastJob, unfinished: str, text: str) -> LedgerError:
    return UNFINISHED_JOB(
        f"The last job of the ledger {job.query} wrote rows, and ended before it committed the offsets {unfinished}; this "
        f"one would commit {text}, and write these rows again; run it once with endingOffsets and commitOffsets of the "
        "last one, which writes what is missing; if the group was reset on purpose, to write everything again, delete "
        "the ledger with zkafka ledger delete (its name there begins with transactionalIdPrefix)",
        unfinished=unfinished,
    )
