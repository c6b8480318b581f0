"""The ledger of exactly-once writes: names, keys, entries as metadata, including foreign ones, and the jobs of a group."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import (
    MAX_ENDS_BYTES,
    Entry,
    GroupJob,
    LastJob,
    LedgerGroup,
    LedgerKey,
    QueryName,
    SinkIdentity,
    decode,
    encode,
    group_job,
    is_ledger_of,
    job_names,
    key_of,
    last_job,
    newest,
    parse_ends,
)
from pyspark_zkafka.model.nouns import LAST_MS, TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

ENTRY = Entry(3, 7, 1000, "0f" * 16, "run", "write", 1_700_000_000_000)
VALUES: dict[str, Any] = json.loads(encode(ENTRY))
MAX_METADATA = 4096


def test_name() -> None:
    """The name includes the writer if there is one."""
    assert str(QueryName("zkafka", "8f1c")) == "zkafka-8f1c"
    assert str(QueryName("zkafka", "8f1c", "orders")) == "zkafka-8f1c-orders"


@pytest.mark.parametrize(
    ("group", "owned"),
    [
        ("zkafka-8f1c.slots-4-0", True),
        ("zkafka-8f1c.slots-12-31", True),
        ("zkafka-8f1c", False),
        ("zkafka-8f1c-orders.slots-4-0", False),
        ("zkafka-8f1c.slots-4-0.slots-4-0", False),
        ("zkafka-8f.slots-4-0", False),
    ],
)
def test_owns(group: str, owned: bool) -> None:
    """A query owns the groups of its name, but not those of its other writers."""
    assert bool(QueryName("zkafka", "8f1c").groups([group])) is owned


@pytest.mark.parametrize(
    ("base", "is_of_it"),
    [
        ("team-8f1c", True),
        ("team-8f1c-orders", True),
        ("team-8f1c-copy-8f1c2", True),
        ("team-8f1c2", False),
        ("team-9a0d-orders", False),
        ("team-writer.audit-8f1c", False),
    ],
)
def test_ledgers_of_a_query(base: str, is_of_it: bool) -> None:
    """A query's ledgers are found under all prefixes and writers. Other queries and numbered writes are left out."""
    assert QueryName.belongs(base, "8f1c") == is_of_it


@pytest.mark.parametrize(
    "name",
    [
        "",
        "billing",
        ".slots-4-1",
        "a.slots-4",
        "a.slots--1",
        "a.slots-4-",
        "a.slots-0-1",
        "a.slots-4-1-2",
        "a.slots-4-1 ",
        "a.slots-4-1\n",
        "a.slots-+4-1",
        "a.slots-04-1",
        "a.slots-4-01",
        "a.slots-\u0664-1",
        "a.slots-\u00b2-1",
        "a.slots-4_0-1",
        "a.slots-4-" + "9" * 5_000,
        "a.slots-" + "9" * 5_000 + "-1",
    ],
)
def test_foreign_group(name: str) -> None:
    """A group whose name no ledger would have is not a ledger."""
    assert LedgerGroup.parse(name) is None


def test_keys() -> None:
    """Slots fill one group up to its width before the next."""
    found = [key_of(QueryName("z", "q"), slot, width=2) for slot in range(4)]
    first, second = "z-q.slots-2-0", "z-q.slots-2-1"
    assert found == [LedgerKey(first, 0), LedgerKey(first, 1), LedgerKey(second, 0), LedgerKey(second, 1)]


def test_size() -> None:
    """An entry with the largest numbers and the longest names fits into the metadata that brokers accept."""
    largest = Entry(2**31 - 1, 2**63 - 1, 2**63 - 1, "f" * 32, "r" * 36, "w" * 36, 2**63 - 1)
    assert len(encode(largest)) < MAX_METADATA / 10


def test_unknown_fields() -> None:
    """Fields that this version does not know are ignored."""
    assert decode(json.dumps(VALUES | {"more": [1]})) == ENTRY


@pytest.mark.parametrize("identity", ["a-b_cdefghijklmnopqrst", 77, 0, 2**63 - 1])
def test_topic(identity: str | int) -> None:
    """An entry may name the topic of its rows, which entries of earlier versions lack."""
    entry = replace(ENTRY, sink=SinkIdentity("orders", identity))
    assert decode(encode(entry)) == entry
    assert "sink" not in VALUES


@pytest.mark.parametrize(
    "sink",
    [
        1,
        "orders",
        {},
        [],
        ["orders"],
        ["orders", None],
        ["a/b", 7],
        ["orders", -1],
        ["orders", 2**63],
        ["orders", True],
        [7, 7],
    ],
)
def test_no_topic(sink: Any) -> None:
    """An entry with an invalid topic is unreadable."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {"sink": sink}))


@pytest.mark.parametrize("ends", [{"orders": {"0": 0}}, {"orders": {"2147483647": 2**63 - 1}, "b": {"0": 1}}])
def test_offsets(ends: dict[str, dict[str, int]]) -> None:
    """An entry may have the offsets that its job commits."""
    assert parse_ends(decode(json.dumps(VALUES | {"ends": ends})).ends) == parse_ends(json.dumps(ends))


@pytest.mark.parametrize(
    "ends",
    [
        1,
        "orders",
        [],
        ["orders"],
        {"a/b": {"0": 1}},
        {"orders": 1},
        {"orders": []},
        *({"orders": {partition: 1}} for partition in ("x", "", "-1", "00", " 0", "\u0661", "2147483648", "9" * 5_000)),
        *({"orders": {"0": offset}} for offset in (-1, 2**63, 1.0, True, None, "1", [1])),
        {"orders": {"0": 1, "1": -1}},
    ],
)
def test_no_offsets(ends: Any) -> None:
    """An entry whose offsets no broker could have committed is unreadable."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {"ends": ends}))


@pytest.mark.parametrize(
    ("before", "is_replaced"),
    [
        (None, False),
        (SinkIdentity("orders", 77), False),
        (SinkIdentity("orders", 12), True),
        (SinkIdentity("orders", "a-topic-id"), False),
        (SinkIdentity("invoices", 12), False),
    ],
)
def test_topic_created_again(before: SinkIdentity | None, is_replaced: bool) -> None:
    """A topic replaces one of the same name with another id; ids from Kafka and ZooKeeper cannot be compared."""
    assert SinkIdentity("orders", 77).replaces(before) is is_replaced


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        " ",
        "consumed by hand",
        "null",
        "true",
        "1",
        '"v"',
        "[]",
        "[1]",
        "{}",
        "{",
        "[" * 4_000,
        '{"v":' * 800,
        "[" * 1_900 + "]" * 1_900,
        "9" * 4_096,
        '{"v":' + "9" * 4_400 + "}",
        "\x00",
        "\ud800",
        "NaN",
        encode(ENTRY)[:-1],
    ],
)
def test_unreadable(metadata: str) -> None:
    """Text that is no entry is an error that quotes its beginning."""
    with pytest.raises(LedgerError, match=r"\] The ledger has an entry that cannot be read") as caught:
        decode(metadata)
    assert caught.value.condition == "UNREADABLE_LEDGER"
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("metadata", ["{", pytest.param(json.dumps(VALUES | {"rows": -1}), id="negative rows")])
def test_place_of_an_unreadable_entry(metadata: str) -> None:
    """The error for an unreadable entry names the place that has the entry."""
    with pytest.raises(LedgerError, match="Partition 3 of audit has an entry that cannot be read"):
        decode(metadata, "Partition 3 of audit")


@pytest.mark.parametrize("name", VALUES)
def test_missing_field(name: str) -> None:
    """An entry that lacks a field is unreadable."""
    with pytest.raises(LedgerError):
        decode(json.dumps({key: value for key, value in VALUES.items() if key != name}))


@pytest.mark.parametrize("name", ["v", "slot", "batch", "rows", "at"])
@pytest.mark.parametrize(
    "value",
    [-1, 1.0, 7.5, 1e300, 10**30, 2**63, True, False, None, "7", [], [7], {}, float("nan"), float("inf"), float("-inf")],
)
def test_no_number(name: str, value: Any) -> None:
    """A number must be a non-negative integer of 63 bits, and no other JSON value."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {name: value}))


def test_impossible_time() -> None:
    """A time that no worker's clock can show is read as 0, and the entry still counts."""
    for at_ms in (LAST_MS + 1, 2**63 - 1):
        assert decode(encode(replace(ENTRY, at_ms=at_ms))) == replace(ENTRY, at_ms=0)
    last = replace(ENTRY, at_ms=LAST_MS)
    assert decode(encode(last)) == last


@pytest.mark.parametrize("version", [0, 2])
def test_other_version(version: int) -> None:
    """An entry of another version is refused."""
    with pytest.raises(LedgerError, match="later version"):
        decode(json.dumps(VALUES | {"v": version}))


@pytest.mark.parametrize("name", ["digest", "run", "write"])
@pytest.mark.parametrize("value", [None, 1, True, ["a"], {"a": "b"}, float("nan")])
def test_no_text(name: str, value: Any) -> None:
    """A text field must be a string."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {name: value}))


def test_newest() -> None:
    """The entry of the latest micro-batch counts in any order, and of two for the same micro-batch, the later one."""
    first, second, again = Entry(0, 1, 5, "a", "r1"), Entry(0, 2, 5, "b", "r1"), Entry(0, 2, 5, "b", "r2", at_ms=9)
    other = Entry(1, 1, 5, "c", "r1")
    assert newest([]) == {}
    assert newest([first, other, second]) == newest([second, first, other]) == {0: second, 1: other}
    assert newest([second, again, first]) == newest([again, second]) == {0: again}


# --- jobs of a group

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
    with pytest.raises(LedgerError, match=r"LEDGER_MOVED.*under team-group.billing \(topic orders\).*\"1\":20") as caught:
        group_job(NAME, ENDS, [], {FIRST: 10}, [elsewhere])
    assert caught.value.parameters == {"unfinished": canonical_json(ENDS)}
    assert group_job(NAME, {THIRD: 5}, [], {FIRST: 10}, [elsewhere]) is not None
    assert group_job(NAME, {SECOND: 25}, [], ENDS, [elsewhere]) is not None


@pytest.mark.parametrize(
    ("base", "is_of_it"),
    [
        ("zkafka-group.billing", True),
        ("team-a-group.billing:audit", True),
        ("team\na-group.billing:audit\nb", True),
        ("zkafka-group.billing:4ef79fa17659", True),
        ("zkafka-group.billing:4ef79fa17659:audit", True),
        ("zkafka-group.billing:0123456789ab", False),
        ("zkafka-group.billing-2", False),
        ("zkafka-writer.billing", False),
    ],
)
def test_ledgers_of_a_group(base: str, is_of_it: bool) -> None:
    """A group's ledgers are found under all prefixes and writers. Ledgers of other members and groups are not."""
    assert is_ledger_of(base, "billing", [FIRST]) == is_of_it


@pytest.mark.parametrize("committed", [{}, {FIRST: 10}, {FIRST: 10, SECOND: 19}])
def test_repeated_job(committed: dict[TopicPartition, int]) -> None:
    """A job with the last job's ends repeats it while any of them is not committed."""
    assert group_job(NAME, ENDS, [LAST], committed).number == 3


def test_repeated_job_of_one_record() -> None:
    """A job that commits the first record of a partition is not finished while the partition has no committed offset."""
    ends = {FIRST: 1}
    last = LastJob(NAME, 3, (canonical_json(ends),))
    assert group_job(NAME, ends, [last], {}) == GroupJob(NAME, 3, canonical_json(ends))


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


@pytest.mark.parametrize(
    ("writer", "is_member", "names"),
    [
        (None, False, (NAME, MEMBERS)),
        (None, True, (MEMBERS, NAME)),
        ("audit", False, (f"{NAME}:audit", f"{MEMBERS}:audit")),
    ],
)
def test_recorded_names(writer: str | None, is_member: bool, names: tuple[str, str]) -> None:
    """All versions of this package record a job under the same name, so that a later version finds an unfinished job."""
    assert job_names("billing", [FIRST], writer, is_member=is_member) == names


def test_ends() -> None:
    """Ends are the same after they were written and read."""
    assert parse_ends(canonical_json(ENDS)) == ENDS
    assert parse_ends("") == {}


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param({TopicPartition("t" * 100, p): 10**8 for p in range(180)}, id="long numbers"),
        pytest.param({TopicPartition(f"t{n}", p): 1 for n in range(10, 54) for p in range(10)}, id="short numbers"),
    ],
)
def test_size_of_an_entry(offsets: dict[TopicPartition, int]) -> None:
    """An entry with the longest ends and long names is small enough for brokers."""
    ends = canonical_json(offsets)
    assert 0.9 * MAX_ENDS_BYTES < len(ends) <= MAX_ENDS_BYTES
    entry = Entry(2**31, 2**31, 2**31, "0" * 32, "r" * 36, "w" * 36, 2**41, ends)
    assert len(encode(entry).encode()) < 3500
    assert decode(encode(entry)) == entry
