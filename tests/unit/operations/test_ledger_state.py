"""Ledgers of values: grouped by query, aged, and kept while a query may be running."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.operations.ledger_state import (
    RECENT_MS,
    Ledger,
    Record,
    group_by_query,
    groups_of,
    require_idle,
    require_queries,
    without_ledgers,
    written_before,
)
from pyspark_zkafka.protocol.ledger import Entry, QueryName, encode, key_of
from pyspark_zkafka.protocol.model import TopicPartition

NOW = 1_795_000_000_000
DIGEST = "0" * 32
FOREIGN = '{"v":2}'


def entry(slot: int, batch: int = 7, rows: int = 10, *, run: str = "r1", at_ms: int = NOW - RECENT_MS) -> Entry:
    """An entry whose query may have ended."""
    return Entry(slot, batch, rows, DIGEST, run, at_ms=at_ms)


def ledger(*texts: Entry | str, query: str = "zkafka-q") -> Ledger:
    """The ledger with the entries, each under a key of its own; a text is an entry as it is."""
    group = f"{query}.slots-8-0"
    found = {TopicPartition("t", n): text if isinstance(text, str) else encode(text) for n, text in enumerate(texts)}
    return group_by_query({query: [group]}, {group: found})[query]


def test_groups_of_a_query() -> None:
    """The groups of ledgers are found among others, those of a query in order of their numbers."""
    names = ["q.slots-4-10", "billing", "q.slots-4-2", "p.slots-1-0", "x.slots-0-1", ".slots-1-1", "q.slots-04-3"]
    assert groups_of(names) == {"p": ["p.slots-1-0"], "q": ["q.slots-4-2", "q.slots-4-10"]}
    assert groups_of(names, ["p", "unknown"]) == {"p": ["p.slots-1-0"]}


def test_groups_that_are_no_ledgers() -> None:
    """Groups are divided into those of consumers and those of ledgers."""
    assert without_ledgers(["b", "q.slots-4-0", "a"]) == (["b", "a"], ["q.slots-4-0"])


@given(st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 40)), unique=True), st.integers(1, 9))
def test_each_slot_is_in_the_ledger_of_its_query(slots: list[tuple[str, int]], width: int) -> None:
    """Whatever the keys, a ledger has the slots of its query alone, in order."""
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
    """The last micro-batch is that of the slots that wrote most recently; its last entry has the present run."""
    found = ledger(entry(0, 6), entry(1, 7, run="r2", at_ms=NOW), entry(2, 7, rows=5))
    assert [(e.slot, e.rows, e.run) for e in found.last_entries] == [(2, 5, "r1"), (1, 10, "r2")]
    assert (len(found.entries), found.written_ms, found.topics) == (3, NOW, ["t"])


def test_slot_with_several_keys() -> None:
    """A slot with several keys counts once, with its later micro-batch."""
    found = ledger(entry(0, 6, rows=1), entry(0, 7, rows=2))
    assert ([e.rows for e in found.last_entries], len(found.records)) == ([2], 2)


def test_unreadable_entries() -> None:
    """What is no entry of this version is kept as it is, after the others; the age of the ledger is unknown."""
    found = ledger("", entry(3), FOREIGN)
    assert [record.entry and record.entry.slot for record in found.records] == [3, None, None]
    assert [record.metadata for record in found.unreadable] == ["", FOREIGN]
    assert found.written_ms is None


def test_ledger_without_entries() -> None:
    """A group without offsets is a ledger without slots."""
    found = group_by_query({"q": ["q.slots-1-0"]}, {"q.slots-1-0": {}})["q"]
    assert (found.entries, found.last_entries, found.written_ms) == ({}, [], None)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ledger(entry(0, at_ms=NOW - RECENT_MS + 1), entry(1)), "its last entry is 59 s old"),
        (ledger(entry(0, at_ms=NOW + 5_000)), "its last entry is 0 s old"),
        (ledger(entry(0), FOREIGN), "unreadable entries"),
        (ledger(entry(0, at_ms=0)), "no entry with a time"),
        (ledger(), "no entry with a time"),
    ],
)
def test_query_that_may_be_running(found: Ledger, reason: str) -> None:
    """A ledger that is younger than a minute, or of unknown age, is of a query that may be running."""
    with pytest.raises(LedgerError, match=reason) as raised:
        require_idle([ledger(entry(0), query="idle"), found], NOW)
    assert (raised.value.condition, raised.value.parameters["queries"]) == ("LEDGER_IN_USE", ["zkafka-q"])


def test_idle_query() -> None:
    """A ledger whose entries are all a minute old may go."""
    require_idle([ledger(entry(0), entry(1))], NOW)


def test_older_ledgers() -> None:
    """The newest entry decides how old a ledger is; one of unknown age is neither old nor young."""
    old, young = ledger(entry(0, at_ms=10), query="old"), ledger(entry(0, at_ms=10), entry(1, at_ms=30), query="young")
    unknown = ledger(entry(0, at_ms=10), FOREIGN, query="unknown")
    assert written_before([old, young, unknown], 30) == ([old], [unknown])


def test_unknown_queries() -> None:
    """Queries without a ledger are named."""
    require_queries({"q": ledger()}, ["q"])
    with pytest.raises(LedgerError, match=r"no ledger of p, r;") as raised:
        require_queries({"q": ledger()}, ["p", "q", "r"])
    assert raised.value.condition == "UNKNOWN_LEDGER"


def test_record_of_an_entry() -> None:
    """An entry is read from the metadata."""
    record = Record.read("g", TopicPartition("t", 0), encode(entry(3)))
    assert record.entry == entry(3)
