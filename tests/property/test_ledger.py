"""Names, keys and entries of the ledger of exactly-once writes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import Entry, LedgerGroup, QueryName, SinkIdentity, decode, encode, key_of, newest
from pyspark_zkafka.model.nouns import LAST_MS, TopicPartition
from pyspark_zkafka.model.offsets import canonical_json

BASES = st.text(min_size=1) | st.lists(st.sampled_from(["a", "-", ".slots-", "4", "4-1", "\n"]), min_size=1).map("".join)
NUMBERS = st.integers(0, 2**31 - 1)
LONGS = st.integers(0, 2**63 - 1)
OFFSETS = st.dictionaries(st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-1"]), NUMBERS), LONGS)
ENDS = OFFSETS.map(lambda offsets: canonical_json(offsets) if offsets else "")
TIMES = st.integers(0, LAST_MS)
SINKS = st.none() | st.builds(SinkIdentity, st.sampled_from(["a", "b.c"]), LONGS | st.text())
ENTRIES = st.builds(Entry, NUMBERS, LONGS, LONGS, st.text(), st.text(), st.text(), TIMES, ENDS, SINKS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["v", "slot", "batch", "rows", "digest", "run", "ends", "sink"]), inner)
    ),
)


@given(BASES, st.integers(1, 2**31 - 1), NUMBERS)
def test_group(base: str, width: int, number: int) -> None:
    """Parsing the name of a ledger group returns its parts, for any name of the query."""
    group = LedgerGroup(base, width, number)
    assert LedgerGroup.parse(str(group)) == group


@given(st.text() | st.builds("{}.slots-{}-{}".format, BASES, st.text("0123456789-+ "), st.text("0123456789-+ ")))
def test_group_of_any_name(name: str) -> None:
    """A group name is not a ledger's, or equals the name of the parsed group."""
    group = LedgerGroup.parse(name)
    assert group is None or str(group) == name


@given(BASES, st.integers(1, 50), st.sets(NUMBERS, min_size=2, max_size=2))
def test_keys_are_distinct(query: str, width: int, slots: set[int]) -> None:
    """No two slots share a key, and each key is an existing partition in a group of the query."""
    name = QueryName("zkafka", query)
    keys = [key_of(name, slot, width) for slot in slots]
    assert len(set(keys)) == len(slots)
    assert all(0 <= key.partition < width and name.groups([key.group]) for key in keys)


@given(st.integers(1, 20))
def test_keys_are_filled(width: int) -> None:
    """Slots fill all keys of a ledger group before the next group starts."""
    keys = {key_of(QueryName("z", "q"), slot, width) for slot in range(3 * width)}
    assert keys == {(f"z-q.slots-{width}-{number}", partition) for number in range(3) for partition in range(width)}


@given(ENTRIES)
def test_entries(entry: Entry) -> None:
    """Parsing an entry's metadata, which is ASCII, returns the entry."""
    assert decode(encode(entry)) == entry
    assert encode(entry).isascii()


@given(st.text() | JSON.map(json.dumps))
def test_hostile_metadata(metadata: str) -> None:
    """Any metadata gives a ledger entry or a LedgerError."""
    try:
        found = decode(metadata)
    except LedgerError:
        return
    assert decode(encode(found)) == found


@given(st.lists(st.builds(Entry, st.integers(0, 3), st.integers(0, 5), LONGS, st.just("d"), st.just("r"))))
def test_newest(entries: list[Entry]) -> None:
    """The newest entry of each slot is of its latest micro-batch."""
    found = newest(entries)
    assert {slot: entry.batch for slot, entry in found.items()} == {
        slot: max(e.batch for e in entries if e.slot == slot) for slot in {e.slot for e in entries}
    }
    assert all(entry in entries for entry in found.values())
