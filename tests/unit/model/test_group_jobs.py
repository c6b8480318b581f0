"""Jobs of a group: new, repeated and refused."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.group_jobs import (
    MAX_ENDS_BYTES,
    GroupJob,
    LastJob,
    group_job,
    is_ledger_of,
    job_names,
    last_job,
    parse_ends,
)
from pyspark_zkafka.model.ledger import Entry, decode, encode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

FIRST, SECOND, THIRD = (TopicPartition("orders", p) for p in range(3))
NAME, MEMBERS = "group.billing", "group.billing:4ef79fa17659"
ENDS = {FIRST: 10, SECOND: 20}
LAST = LastJob(NAME, 3, (canonical_json(ENDS),))


def test_first_job() -> None:
    """The first job of a group has number 0."""
    assert group_job(NAME, ENDS, [], {}) == GroupJob(NAME, 0, '{"orders":{"0":10,"1":20}}')


def test_new_job() -> None:
    """A new job follows the last one once the last one's offsets, or later ones, are committed."""
    ends = {FIRST: 15, SECOND: 20}
    assert group_job(NAME, ends, [LAST], {FIRST: 10, SECOND: 25}) == GroupJob(NAME, 4, canonical_json(ends))


@pytest.mark.parametrize("last", [[], [LAST]])
def test_committed_job(last: list[LastJob]) -> None:
    """There is no job if its offsets are committed, since it is repeated or the group is ahead."""
    assert group_job(NAME, ENDS, last, {FIRST: 10, SECOND: 21}) is None


def test_job_elsewhere() -> None:
    """An unfinished job under another name or topic must be finished there, unless it is of other partitions."""
    elsewhere = LastJob("team-group.billing (topic orders)", 3, LAST.ends)
    with pytest.raises(LedgerError, match=r"LEDGER_MOVED.*under team-group.billing \(topic orders\).*\"1\":20"):
        group_job(NAME, ENDS, [], {FIRST: 10}, [elsewhere])
    assert group_job(NAME, {THIRD: 5}, [], {FIRST: 10}, [elsewhere]) is not None
    assert group_job(NAME, {SECOND: 25}, [], ENDS, [elsewhere]) is not None


@pytest.mark.parametrize(
    ("base", "is_of_it"),
    [
        ("zkafka-group.billing", True),
        ("team-a-group.billing:audit", True),
        ("zkafka-group.billing:4ef79fa17659", True),
        ("zkafka-group.billing:4ef79fa17659:audit", True),
        ("zkafka-group.billing:0123456789ab", False),
        ("zkafka-group.billing-2", False),
        ("zkafka-writer.billing", False),
    ],
)
def test_ledgers_of_a_group(base: str, is_of_it: bool) -> None:
    """Ledgers of a group's jobs are found under all prefixes and writers, without those of other members."""
    assert is_ledger_of(base, "billing", [FIRST]) == is_of_it


@pytest.mark.parametrize("committed", [{}, {FIRST: 10}, {FIRST: 10, SECOND: 19}])
def test_repeated_job(committed: dict[TopicPartition, int]) -> None:
    """A job with the last job's ends repeats it while any of them is not committed."""
    assert group_job(NAME, ENDS, [LAST], committed).number == 3


def test_unfinished_job() -> None:
    """Another job is refused until the last one is finished, and the error has the offsets for repeating it."""
    with pytest.raises(LedgerError, match=r"UNFINISHED_JOB.*\{\"orders\":\{\"0\":10,\"1\":20\}\}.*endingOffsets") as caught:
        group_job(NAME, {FIRST: 12, SECOND: 20}, [LAST], {FIRST: 10})
    assert caught.value.parameters["unfinished"] == canonical_json(ENDS)


def test_job_of_a_member() -> None:
    """A job without a member repeats a member's unfinished job, and is refused if it would commit other offsets."""
    of_member = LastJob(MEMBERS, 7, LAST.ends)
    finished = LastJob(NAME, 3, (canonical_json({FIRST: 5}),))
    assert group_job(NAME, ENDS, [finished, of_member], {FIRST: 5}) == GroupJob(MEMBERS, 7, canonical_json(ENDS))
    with pytest.raises(LedgerError, match=f"UNFINISHED_JOB.*{MEMBERS}"):
        group_job(NAME, {FIRST: 11, SECOND: 20}, [finished, of_member], {FIRST: 5})


def test_member_after_an_unfinished_job() -> None:
    """A member is refused only if the unfinished job without a member wrote records of its partitions."""
    assert group_job(MEMBERS, {THIRD: 1}, [LAST], {}) == GroupJob(MEMBERS, 0, canonical_json({THIRD: 1}))
    with pytest.raises(LedgerError, match="UNFINISHED_JOB"):
        group_job(MEMBERS, {FIRST: 10}, [LAST], {})


def test_last_job() -> None:
    """The last job has the highest number, even if some slots only have entries of an earlier job."""
    entries = [Entry(0, 2, 1, "", "a", ends="{}"), Entry(2, 3, 1, "", "a", ends=LAST.ends[0]), Entry(1, 1, 1, "", "a")]
    assert last_job(NAME, entries) == LAST
    assert last_job(NAME, []) is None


def test_jobs_of_one_number() -> None:
    """Two jobs that were planned at the same time must both be finished."""
    other = {FIRST: 10, THIRD: 5}
    entries = [Entry(slot, 3, 1, "", "a", ends=canonical_json(ends)) for slot, ends in enumerate((ENDS, other))]
    last = last_job(NAME, entries)
    assert last is not None
    assert group_job(NAME, other, [last], ENDS).number == 3
    with pytest.raises(LedgerError, match="UNFINISHED_JOB"):
        group_job(NAME, {FIRST: 12}, [last], ENDS)
    assert group_job(NAME, {FIRST: 12}, [last], {**ENDS, **other}).number == 4


def test_names() -> None:
    """Members have ledgers by their partitions, writers have their own, and other programs share the group's."""
    of_members = {job_names("g", [tp], is_member=True)[0] for tp in (FIRST, SECOND)}
    of_writers = {job_names("g", [FIRST], "w", is_member=is_member)[0] for is_member in (True, False)}
    of_groups = {job_names(group, [FIRST], is_member=False)[0] for group in ("g", "g-w")}
    assert len(of_members | of_writers | of_groups) == 6


def test_ends() -> None:
    """Ends are the same after they were written and read."""
    assert parse_ends(canonical_json(ENDS)) == ENDS
    assert parse_ends("") == {}


def test_size_of_an_entry() -> None:
    """An entry with the longest ends and long names is small enough for brokers."""
    ends = canonical_json({TopicPartition("t" * 100, p): 10**8 for p in range(180)})
    assert 0.9 * MAX_ENDS_BYTES < len(ends) <= MAX_ENDS_BYTES
    entry = Entry(2**31, 2**31, 2**31, "0" * 32, "r" * 36, "w" * 36, 2**41, ends)
    assert len(encode(entry).encode()) < 3500
    assert decode(encode(entry)) == entry
