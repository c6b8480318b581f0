"""Arrow columns built by the C code, compared with Python's columns of the same records."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.records import COLUMNS
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from tests.native.decoding import ALL, PARTITION, Limits, assert_same, decoded, encode, expected, taken
from tests.support.record_batches import Batch, Row

WIDE = Limits(records=10**6, size_bytes=1 << 30)
TEXT = pa.schema([("value", pa.string())])


def assert_rows(*rows: Row, schema: pa.Schema = ALL) -> None:
    """Check that rows decode to one batch as Python builds it."""
    batches = [Batch(rows)]
    found, _ = decoded(encode(batches), schema, rows[0].offset, WIDE)
    assert_same(found, expected(batches, schema))


@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 2048, 5000])
@pytest.mark.parametrize("first_null", [0, 1, 1024, 4999, None])
def test_columns_that_grow(rows: int, first_null: int | None) -> None:
    """Columns are complete after their buffers have grown, with and without nulls before."""
    numbers = random.Random(rows)

    def data(n: int) -> bytes | None:
        is_null = first_null is not None and (n == first_null or (n > first_null and numbers.random() < 0.1))
        return None if is_null else numbers.randbytes(numbers.randrange(20))

    assert_rows(*(Row(n, data(n), data(n), n, ((b"h%d" % n, data(n)),) * numbers.randrange(3)) for n in range(rows)))


def test_large_values() -> None:
    """Values of hundreds of kilobytes, and records after them, are decoded completely."""
    values = [bytes([n]) * (300_000 * (n % 3)) for n in range(9)]
    assert_rows(*(Row(n, value, value, headers=((b"h", value),)) for n, value in enumerate(values)))


def test_take_without_records() -> None:
    """A batch without records has all columns, with readable buffers."""
    with RecordDecoder(PARTITION, ALL) as decoder:
        for _ in range(3):
            assert_same(taken(decoder), pa.RecordBatch.from_pylist([], ALL))


@pytest.mark.parametrize("milliseconds", [2**63 // 1000, 2**63 - 1, -(2**63) // 1000, -(2**63), -1, 0])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_edges_of_time(milliseconds: int, more: int) -> None:
    """Times decode to microseconds up to the last that Spark can hold, and to an error beyond it."""
    far = max(-(2**63), min(2**63 - 1, milliseconds + more))
    assert_rows(*(Row(n, timestamp_ms=t) for n, t in enumerate((5, far, far))))


@pytest.mark.parametrize("name", ["key", "value"])
def test_first_flaw_is_told(name: str) -> None:
    """The first of several invalid records is named, and the next batch has its own error."""
    schema = pa.schema([(name, pa.string()), ("timestamp", COLUMNS["timestamp"][0])])
    bad = Batch(tuple(Row(n, **{name: b"\xff"}) for n in range(3)))
    late = Batch(tuple(Row(n, timestamp_ms=2**62 + n) for n in range(3, 6)))
    good = Batch(tuple(Row(n, b"k", b"v") for n in range(6, 9)))
    with RecordDecoder(PARTITION, schema) as decoder:
        decoder.seek(0)
        for batches in ([bad], [late], [good]):
            decoder.feed(encode(batches))
            decoder.poll(9, 1 << 20, 2**62)
            assert_same(taken(decoder), expected(batches, schema))
    assert_rows(*bad.rows, *late.rows, schema=schema)


def test_a_batch_outlives_its_decoder() -> None:
    """Neither the next batch nor the end of its decoder changes a batch."""
    batches = [Batch(tuple(Row(n, b"%d" % n, b"v" * n, headers=((b"%d" % n, None),)) for n in range(200)))]
    kept = []
    with RecordDecoder(PARTITION, ALL) as decoder:
        decoder.seek(0)
        decoder.feed(encode(batches))
        while decoder.poll(50, 1 << 20, 2**62).records:
            kept.append(taken(decoder))
    assert pa.Table.from_batches(kept).equals(pa.Table.from_batches([expected(batches)]))


# --- UTF-8

_EDGES = """
00 7f 80 bf c080 c1bf c2 c280 c27f dfbf e08080 e09fbf e0a080 e0a0 ecbfbf ed9fbf eda080 edbfbf ee8080 efbfbf efbf f0808080
f08fbfbf f0908080 f09080 f3bfbfbf f48fbfbf f4908080 f5808080 f888808080 fe ff efbbbf c28080 e180c0 f18080ff
"""
EDGES = tuple(map(bytes.fromhex, _EDGES.split()))
MIXED = (
    st.binary(max_size=24)
    | st.lists(st.sampled_from(EDGES), max_size=5).map(b"".join)
    | st.text(max_size=12).map(str.encode)
)


def assert_texts(*texts: bytes) -> None:
    """Check that each text alone is valid UTF-8 exactly if Python's decoder accepts it."""
    for text in texts:
        assert_rows(Row(5, None, text), schema=TEXT)


@pytest.mark.parametrize("before", [b"", b"a", b"1234567", b"12345678", "\u00e4\u4e2d".encode()])
@pytest.mark.parametrize("behind", [b"", b"z", b"12345678"])
def test_edges_of_utf8(before: bytes, behind: bytes) -> None:
    """Overlong forms, surrogates, truncated forms and values beyond U+10FFFF are invalid UTF-8, wherever they are."""
    assert_texts(*(before + edge + behind for edge in EDGES))


def test_all_pairs_of_bytes() -> None:
    """Two bytes are valid UTF-8 exactly if Python's decoder accepts them."""
    for first in (0x7F, 0x80, *range(0xC0, 0xE2), 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF):
        assert_texts(*(bytes((first, second)) for second in range(0, 256, 5 if first < 0xE0 else 17)))


@given(st.lists(MIXED, max_size=9))
def test_any_bytes_as_text(texts: list[bytes]) -> None:
    """Any bytes are valid UTF-8 exactly if Python's decoder accepts them."""
    assert_texts(*texts)
