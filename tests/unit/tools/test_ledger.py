"""``zkafka ledger`` with fake brokers: reading, age and deletion of ledgers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import GroupError, LedgerError
from pyspark_zkafka.model.ledger import Entry, QueryName, encode, key_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools import ledger
from pyspark_zkafka.tools.ledger import (
    RECENT_MS,
    QueryLedger,
    delete_ledger,
    group_by_query,
    groups_of,
    read_ledgers,
    require_idle,
    written_before,
)
from tests.support.group_brokers import GroupBrokers
from tests.support.running import Run, Show


@pytest.fixture
def foreign(group_admin: GroupBrokers) -> GroupBrokers:
    """The ledger of a query whose only entry has a time after the year 9999."""
    entry = encode(Entry(0, 7, 10, "0" * 32, "run", at_ms=2**63 - 1))
    group_admin.metadata["zkafka-q.slots-1-0"] = {TopicPartition("t", 0): entry}
    return group_admin


@pytest.mark.usefixtures("foreign")
def test_entries_with_an_impossible_time(run: Run, show: Show) -> None:
    """An entry with a time at which no worker can have written it is shown without a time."""
    assert [(row["batch"], row["age_s"], row["written"]) for row in run(ledger.list_)] == [(7, None, None)]
    assert [(row["batch"], row["age_s"], row["written"]) for row in run(ledger.show, "zkafka-q")] == [(7, None, None)]
    assert "Left out, because the age of some entries is unknown: zkafka-q." in show(ledger.delete, older_than="7d")[1]


def test_deletion_of_an_entry_with_an_impossible_time(foreign: GroupBrokers, run: Run) -> None:
    """A ledger with impossible times is deleted only with --force, like any other of unknown age."""
    with pytest.raises(LedgerError, match="the age of its last entry is unknown"):
        run(ledger.delete, ["zkafka-q"])
    run(ledger.delete, ["zkafka-q"], force=True)
    assert foreign.metadata == {}


# --- state -------------------------------------------------------------------------------------------------------------

NOW = 1_795_000_000_000
DIGEST = "0" * 32
FOREIGN = '{"v":2}'


def entry(slot: int, batch: int = 7, rows: int = 10, *, run: str = "r1", at_ms: int = NOW - RECENT_MS) -> Entry:
    """Return an entry whose query may have ended."""
    return Entry(slot, batch, rows, DIGEST, run, at_ms=at_ms)


def recorded(*texts: Entry | str, query: str = "zkafka-q") -> QueryLedger:
    """Return a ledger with these entries, each under its own key; a text is stored as it is."""
    group = f"{query}.slots-8-0"
    found = {TopicPartition("t", n): text if isinstance(text, str) else encode(text) for n, text in enumerate(texts)}
    return group_by_query({query: [group]}, {group: found})[query]


def test_groups_of_a_query() -> None:
    """The groups of ledgers are found among others, and those of a query are sorted by number."""
    names = ["q.slots-4-10", "billing", "q.slots-4-2", "p.slots-1-0", "x.slots-0-1", ".slots-1-1", "q.slots-04-3"]
    assert groups_of(names) == {"p": ["p.slots-1-0"], "q": ["q.slots-4-2", "q.slots-4-10"]}
    assert groups_of(names, ["p", "unknown"]) == {"p": ["p.slots-1-0"]}


@given(st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 40)), unique=True), st.integers(1, 9))
def test_each_slot_is_in_the_ledger_of_its_query(slots: list[tuple[str, int]], width: int) -> None:
    """Whatever the keys, a ledger has only the slots of its own query, sorted."""
    metadata: dict[str, dict[TopicPartition, str]] = {}
    for query, slot in slots:
        key = key_of(QueryName("zkafka", query), slot, width)
        metadata.setdefault(key.group, {})[TopicPartition("t", key.partition)] = encode(entry(slot))
    found = group_by_query(groups_of(metadata), metadata)
    for query in "pq":
        of_query = sorted(slot for name, slot in slots if name == query)
        if of_query:
            records = found[f"zkafka-{query}"].records
            assert [record.entry and record.entry.slot for record in records] == of_query


def test_last_micro_batch() -> None:
    """The last micro-batch contains the most recent entries of slots, and the last one of these has the present run."""
    found = recorded(entry(0, 6), entry(1, 7, run="r2", at_ms=NOW), entry(2, 7, rows=5))
    assert [(e.slot, e.rows, e.run) for e in found.last_entries] == [(2, 5, "r1"), (1, 10, "r2")]
    assert len(found.entries) == 3
    assert found.written_ms == NOW
    assert found.topics == ["t"]


def test_slot_with_several_keys() -> None:
    """A slot with several keys counts once, with its latest micro-batch."""
    found = recorded(entry(0, 6, rows=1), entry(0, 7, rows=2))
    assert [e.rows for e in found.last_entries] == [2]
    assert len(found.records) == 2


def test_unreadable_entries() -> None:
    """Text that is no entry of this version is kept unchanged after the entries, and makes the ledger's age unknown."""
    found = recorded("", entry(3), FOREIGN)
    assert [record.entry and record.entry.slot for record in found.records] == [3, None, None]
    assert [record.metadata for record in found.unreadable] == ["", FOREIGN]
    assert found.written_ms is None


def test_ledger_without_entries() -> None:
    """A group without offsets is a ledger without slots."""
    found = group_by_query({"q": ["q.slots-1-0"]}, {"q.slots-1-0": {}})["q"]
    assert found.entries == {}
    assert found.last_entries == []
    assert found.written_ms is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (recorded(entry(0, at_ms=NOW - RECENT_MS + 1), entry(1)), "its last entry is 59 s old.*; stop them, and run"),
        (
            recorded(entry(0, at_ms=NOW + 5_000)),
            "its last entry is 0 s old.*; stop them, and run this again a minute later",
        ),
        (recorded(entry(0), FOREIGN), "unreadable entries, .*; stop them, and use --force"),
        (recorded(entry(0, at_ms=0), entry(1)), "the age of its last entry is unknown.*; stop them, and use --force"),
        (recorded(), "the age of its last entry is unknown.*; stop them, and use --force"),
    ],
)
def test_query_that_may_be_running(found: QueryLedger, reason: str) -> None:
    """A ledger younger than a minute or of unknown age is refused, and the remedy is to wait or to use --force."""
    with pytest.raises(LedgerError, match=reason) as raised:
        require_idle([recorded(entry(0), query="idle"), found], NOW)
    assert raised.value.condition == "LEDGER_IN_USE"
    assert raised.value.parameters["queries"] == ["zkafka-q"]


def test_older_ledgers() -> None:
    """The newest entry decides a ledger's age, and ledgers of unknown age are listed separately."""
    old, young = recorded(entry(0, at_ms=10), query="old"), recorded(entry(0, at_ms=10), entry(1, at_ms=30), query="young")
    unreadable = recorded(entry(0, at_ms=10), FOREIGN, query="unreadable")
    timeless = recorded(entry(0, at_ms=10), entry(1, at_ms=0), query="timeless")
    assert written_before([old, young, unreadable, timeless], 30) == ([old], [unreadable, timeless])


# --- reading and deleting ----------------------------------------------------------------------------------------------

NOT_TO_BE_READ = GroupError("UNREADABLE_GROUP", "this group was not to be read")


def write(brokers: GroupBrokers, query: str, slot: int, batch: int) -> None:
    """Store the entry of a slot, of a query whose ledger is two groups wide."""
    key = key_of(QueryName("zkafka", query), slot, 2)
    brokers.metadata.setdefault(key.group, {})[TopicPartition("t", key.partition)] = encode(entry(slot, batch))


@pytest.fixture
def brokers() -> GroupBrokers:
    """Brokers with the ledgers of two queries and with another group. The ledger of one query has two groups."""
    brokers = GroupBrokers({}, {"billing": {}}, unread={"billing": NOT_TO_BE_READ})
    for slot in range(3):
        write(brokers, "q", slot, batch=7)
    write(brokers, "other", 0, batch=1)
    return brokers


def test_all_ledgers(brokers: GroupBrokers) -> None:
    """All ledgers are found by the names of their groups, and offsets of other groups are not read."""
    found = {query: sorted(ledger.entries) for query, ledger in read_ledgers(brokers).items()}
    assert found == {"zkafka-other": [0], "zkafka-q": [0, 1, 2]}


def test_one_ledger(brokers: GroupBrokers) -> None:
    """For named queries, only their groups are read."""
    brokers.unread = dict.fromkeys(["billing", "zkafka-other.slots-2-0"], NOT_TO_BE_READ)
    assert list(read_ledgers(brokers, ["zkafka-q"])) == ["zkafka-q"]


def test_unknown_ledger(brokers: GroupBrokers) -> None:
    """A query without a ledger is an error, even among others."""
    with pytest.raises(LedgerError, match=r"UNKNOWN_LEDGER.*zkafka-x"):
        read_ledgers(brokers, ["zkafka-q", "zkafka-x"])


@pytest.mark.parametrize("slot", [2, 4], ids=["known-group", "new-group"])
def test_ledger_that_has_changed(brokers: GroupBrokers, slot: int) -> None:
    """A ledger that has changed meanwhile, also in a new group, belongs to a running query; only force deletes it."""
    ledger = read_ledgers(brokers)["zkafka-q"]
    write(brokers, "q", slot, batch=8)
    groups = list(brokers.metadata)
    with pytest.raises(LedgerError, match="The ledger of zkafka-q was not deleted, as it has changed") as caught:
        delete_ledger(brokers, ledger)
    assert caught.value.condition == "LEDGER_IN_USE"
    assert caught.value.parameters["queries"] == ["zkafka-q"]
    assert list(brokers.metadata) == groups
    delete_ledger(brokers, ledger, force=True)
    assert list(brokers.metadata) == ["zkafka-other.slots-2-0"]


def test_deletion(brokers: GroupBrokers) -> None:
    """An unchanged ledger is deleted with all of its groups, although other queries write."""
    ledger = read_ledgers(brokers)["zkafka-q"]
    write(brokers, "other", 0, batch=2)
    delete_ledger(brokers, ledger)
    assert list(brokers.metadata) == ["zkafka-other.slots-2-0"]
