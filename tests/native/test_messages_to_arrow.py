"""The C code that turns messages into Arrow columns, against the Python code that does the same, on made-up messages.

librdkafka is played by ``fake_librdkafka.c``, which hands out what a script says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_zkafka.protocol.records import COLUMNS
from tests.native.scripts import (
    ALL,
    END,
    PASSING,
    Entry,
    Event,
    Limits,
    Native,
    Pause,
    Record,
    assert_same,
    assert_script,
    built,
    gathered,
    taken,
)
from tests.support.cases import each

TEXTS = st.text(max_size=12)
DATA = st.none() | st.binary(max_size=20) | TEXTS.map(str.encode) | st.binary(min_size=1, max_size=3).map(lambda b: b * 100)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
HEADS = st.none() | st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=9)), max_size=4).map(tuple)
TIMES = st.tuples(st.integers(0, 2), st.integers(-1, 2**43) | st.integers(-(2**63), 2**63 - 1))
RECORDS = st.builds(Record, st.integers(1, 3) | st.integers(1, 5000), DATA, DATA, TIMES, HEADS)
GOOD_TIMES = st.tuples(st.integers(0, 2), st.integers(-1, 2**43))
TAME = st.builds(Record, st.integers(1, 2), DATA, DATA, GOOD_TIMES, HEADS)
EVENTS = st.builds(Event, st.sampled_from([END, PASSING]))
FIELDS = [st.sampled_from([pa.field(name, kind) for kind in kinds]) for name, kinds in COLUMNS.items()]
SCHEMAS = (
    st.tuples(*FIELDS)
    .flatmap(lambda fields: st.lists(st.sampled_from(fields), unique_by=lambda field: field.name))
    .map(pa.schema)
)
LIMITS = st.builds(Limits, st.integers(1, 300), st.integers(1, 3000), st.integers(1, 300) | st.just(2**62))


def scripts(records: st.SearchStrategy[Record]) -> st.SearchStrategy[list[Entry]]:
    """Entries whose records have rising offsets: what they are made with is the distance to the one before."""
    return st.lists(records | records | records | EVENTS | st.builds(Pause), max_size=60).map(_risen)


def _risen(entries: Sequence[Entry]) -> list[Entry]:
    at, risen = -1, []
    for entry in entries:
        if isinstance(entry, Record):
            at += entry.at
            entry = replace(entry, at=at)
        elif isinstance(entry, Event):
            entry = replace(entry, at=at + 1)
        risen.append(entry)
    return risen


@given(entries=scripts(RECORDS), schema=SCHEMAS, limits=LIMITS, polls=st.integers(1, 4))
@example(entries=[], schema=ALL, limits=Limits(), polls=1)
@example(entries=[Record(0)], schema=pa.schema([]), limits=Limits(), polls=1)
@example(entries=[Record(n, heads=()) for n in range(9)], schema=ALL, limits=Limits(records=1), polls=3)
def test_any_script(native: Native, entries: list[Entry], schema: pa.Schema, limits: Limits, polls: int) -> None:
    """Whatever messages and events come, in whatever portions, columns and errors are those of the Python path."""
    assert_script(native, schema, entries, limits, polls)


@given(entries=scripts(TAME), limits=LIMITS, polls=st.integers(1, 4))
def test_scripts_without_flaws(native: Native, entries: list[Entry], limits: Limits, polls: int) -> None:
    """All columns of messages that Spark can hold are those of the Python path."""
    assert_script(native, ALL, entries, limits, polls)


@given(entries=scripts(TAME), limits=LIMITS)
def test_polls_keep_to_their_limits(native: Native, entries: list[Entry], limits: Limits) -> None:
    """A batch ends with the record that reaches its bytes, and a poll stops at an event."""
    sizes = [e.size(with_headers=True) for e in entries if isinstance(e, Record)]
    for rows, batch in gathered(native, ALL, entries, limits):
        assert batch.num_rows == rows
        assert rows == 1 or sum(sizes[: rows - 1]) < limits.size_bytes
        del sizes[:rows]


def test_each_poll_has_its_own_limits(native: Native) -> None:
    """What earlier polls have gathered does not count against the limits of the next."""
    records = [Record(n, None, b"v" * 100) for n in range(40)]
    with native.consumer(ALL, records) as consumer:
        consumer.seek(0)
        polls = [consumer.poll(1000, 1000, 2**62, 0).records for _ in range(4)]
        polls += [consumer.poll(7, 1 << 20, 2**62, 0).records for _ in range(2)]
        assert (polls, taken(consumer).num_rows) == ([10, 10, 10, 10, 0, 0], 40)


@each("rows", [1, 1023, 1024, 1025, 2048, 5000, 70_000])
@each("first_null", [0, 1, 1024, 4999, None])
def test_columns_that_grow(native: Native, rows: int, first_null: int | None) -> None:
    """Columns are whole where their buffers have grown, with and without nulls before."""
    numbers = random.Random(rows)

    def data(n: int) -> bytes | None:
        is_null = first_null is not None and (n == first_null or (n > first_null and numbers.random() < 0.1))
        return None if is_null else numbers.randbytes(numbers.randrange(20))

    entries: list[Entry] = [
        Record(n, data(n), data(n), (1, n), ((f"h{n}", data(n)),) * numbers.randrange(3)) for n in range(min(rows, 20_000))
    ]
    assert_script(native, ALL, entries, Limits(records=rows, size_bytes=1 << 30), polls=10)


def test_large_values(native: Native) -> None:
    """Values of megabytes are whole, and batches after them as well."""
    values = [bytes([n]) * (3_000_000 * (n % 3)) for n in range(12)]
    entries = [Record(n, v, v, heads=(("h", v),)) for n, v in enumerate(values)]
    assert_script(native, ALL, entries, Limits(size_bytes=20_000_000))


def test_take_without_records(native: Native) -> None:
    """A batch of nothing has all columns, each with buffers that can be read."""
    with native.consumer(ALL, []) as consumer:
        for _ in range(3):
            assert_same(taken(consumer), pa.RecordBatch.from_pylist([], ALL))


@each("milliseconds", [2**63 // 1000, 2**63 - 1, -(2**63) // 1000, -(2**63), -1, 0])
@each("more", [-1, 0, 1])
def test_edges_of_time(native: Native, milliseconds: int, more: int) -> None:
    """Times are microseconds up to the last that Spark can hold, and an error beyond it, on both sides."""
    far = max(-(2**63), min(2**63 - 1, milliseconds + more))
    assert_script(native, ALL, [Record(n, time=(1, t)) for n, t in enumerate((5, far, far))], Limits(), polls=9)


@pytest.mark.parametrize("name", ["key", "value"])
def test_first_flaw_is_told(native: Native, name: str) -> None:
    """Of several records that cannot be held, the first is named, and the next batch is told of its own."""
    schema = pa.schema([(name, pa.string()), ("timestamp", COLUMNS["timestamp"][0])])
    bad = [Record(n, **{name[0]: b"\xff"}) for n in range(3)]
    late = [Record(n, time=(1, 2**62 + n)) for n in range(3, 6)]
    good = [Record(n, b"k", b"v") for n in range(6, 9)]
    for records in (bad, late, [*bad, *late], good):
        assert_script(native, schema, records, Limits(), polls=9)
    assert_script(native, schema, [*bad, *late, *good], Limits(records=3))


@pytest.mark.parametrize(
    ("offsets", "ordered"),
    [((5, 6, 9), True), ((5, 6, 6), False), ((5, 4), False), ((7, 9, 8), False), ((0,), True), ((0, 0), False)],
)
def test_offsets_that_do_not_rise(native: Native, offsets: tuple[int, ...], ordered: bool) -> None:
    """A poll says whether offsets rose."""
    with native.consumer(ALL, [Record(offset) for offset in offsets]) as consumer:
        consumer.seek(0)
        assert consumer.poll(1000, 1 << 20, 2**62, 0).ordered is ordered


def test_a_poll_ends_with_the_range(native: Native) -> None:
    """A poll looks at nothing behind the last record of its range, nor waits for it."""
    with native.consumer(ALL, [Record(n) for n in range(10)]) as consumer:
        consumer.seek(0)
        poll = consumer.poll(1000, 1 << 20, 5, 0)
        assert (poll.records, poll.first, poll.last) == (5, 0, 4)


def test_seek_drops_what_was_fetched(native: Native) -> None:
    """What was fetched before a seek, and not gathered, does not come after it."""
    with native.consumer(ALL, [Record(n, b"key") for n in range(600)]) as consumer:
        consumer.seek(0)
        assert consumer.poll(1000, 5, 2**62, 0).last == 1
        consumer.seek(256)
        assert consumer.poll(1000, 5, 2**62, 0).first == 256


def test_seek_keeps_what_was_gathered(native: Native) -> None:
    """What is in the batch stays there over a seek; what was fetched beyond it is dropped."""
    records = [Record(n, b"k", b"v") for n in range(600)]
    with native.consumer(ALL, records) as consumer:
        consumer.seek(0)
        assert consumer.poll(10, 1 << 20, 2**62, 0).records == 10
        consumer.seek(50)
        assert_same(taken(consumer), built(records[:10], ALL))


def test_a_consumer_left_with_a_batch(native: Native) -> None:
    """A consumer that is left in the middle of a batch leaves nothing of it to the next one."""
    with native.consumer(ALL, [Record(n, b"\xff" * n, heads=(("h", b""),)) for n in range(300)]) as consumer:
        consumer.seek(0)
        assert consumer.poll(100, 1 << 20, 2**62, 0).records == 100
    assert native.fake.fake_live() == 2  # the client and its queue
    assert_script(native, pa.schema([("key", pa.string())]), [Record(7, b"x")], Limits())


def test_a_batch_outlives_its_consumer(native: Native) -> None:
    """A batch is its own: neither the next batch nor the end of its consumer change it."""
    records = [Record(n, b"%d" % n, b"v" * n, heads=((f"{n}", None),)) for n in range(500)]
    kept = [batch for _, batch in gathered(native, ALL, records, Limits(records=50))]
    assert pa.Table.from_batches(kept).equals(pa.Table.from_batches([built(records, ALL)]))
