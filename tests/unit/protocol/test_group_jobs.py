"""Jobs of a group: new ones, repeated ones, and those that must not be written."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.protocol.group_jobs import MAX_ENDS_BYTES, GroupJob, group_job, job_name, last_entry, parse_ends
from pyspark_zkafka.protocol.ledger import Entry, decode, encode
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import canonical_json

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NAME = "group.billing"
ENDS = {FIRST: 10, SECOND: 20}
LAST = Entry(0, 3, 5, "0" * 32, "run", ends=canonical_json(ENDS))


def test_first_job() -> None:
    """The first job of a group has number 0."""
    assert group_job(NAME, ENDS, None, {}) == GroupJob(NAME, 0, '{"orders":{"0":10,"1":20}}')


def test_new_job() -> None:
    """A job follows the last one when all of its offsets are committed, or later ones."""
    assert group_job(NAME, {FIRST: 15, SECOND: 20}, LAST, {FIRST: 10, SECOND: 25}).number == 4


def test_new_job_without_records() -> None:
    """A job that would commit the offsets that are committed already is a new one, not the last one repeated."""
    assert group_job(NAME, ENDS, LAST, ENDS).number == 4


@pytest.mark.parametrize("committed", [{}, {FIRST: 10}, {FIRST: 10, SECOND: 19}])
def test_repeated_job(committed: dict[TopicPartition, int]) -> None:
    """A job with the ends of the last one repeats it as long as one of them is not committed."""
    assert group_job(NAME, ENDS, LAST, committed).number == 3


def test_unfinished_job() -> None:
    """Another job is refused before the last one is finished; the error names the offsets to repeat it with."""
    with pytest.raises(LedgerError, match=r"UNFINISHED_JOB.*\{\"orders\":\{\"0\":10,\"1\":20\}\}.*endingOffsets") as caught:
        group_job(NAME, {FIRST: 12, SECOND: 20}, LAST, {FIRST: 10})
    assert caught.value.parameters["unfinished"] == canonical_json(ENDS)


def test_last_entry() -> None:
    """The last job is that of the highest number; slots of an earlier one may not have been written since."""
    entries = [Entry(0, 2, 1, "", "a"), LAST, Entry(1, 1, 1, "", "a")]
    assert last_entry(entries) is LAST
    assert last_entry([]) is None


def test_names_of_members() -> None:
    """Members of a group, which own different partitions, have ledgers of their own; another program has the group's."""
    names = {job_name("g", [tp], is_member=True) for tp in (FIRST, SECOND)} | {job_name("g", [FIRST], is_member=False)}
    assert len(names) == 3


def test_ends() -> None:
    """Ends are read as they are written."""
    assert parse_ends(canonical_json(ENDS)) == ENDS
    assert parse_ends("") == {}


def test_size_of_an_entry() -> None:
    """An entry with the longest ends, and long names besides, is no larger than brokers accept."""
    ends = canonical_json({TopicPartition("t" * 100, p): 10**8 for p in range(180)})
    assert 0.9 * MAX_ENDS_BYTES < len(ends) <= MAX_ENDS_BYTES
    entry = Entry(2**31, 2**31, 2**31, "0" * 32, "r" * 36, "w" * 36, 2**41, ends)
    assert len(encode(entry).encode()) < 3500
    assert decode(encode(entry)) == entry
