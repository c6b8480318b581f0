"""Digests of rows, compared with a second implementation of their encoding and with recorded values."""

from __future__ import annotations

import struct
from typing import Any

import mmh3
import pyarrow as pa
import pytest

from pyspark_zkafka.model.exactly_once import RowSet
from pyspark_zkafka.model.rows import HashRows, OutgoingBatch, RowDigest
from pyspark_zkafka.model.rows import hash_rows as python
from pyspark_zkafka.records.native.record_encoder import hash_rows as compiled

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BOTH = pytest.mark.parametrize("hash_rows", [python, compiled], ids=["python", "compiled"])


def batch(topic: str, values: list[bytes | None], **columns: Any) -> OutgoingBatch:
    kinds = {"key": pa.binary(), "partition": pa.int32(), "timestamp_ms": pa.int64(), "headers": HEADERS}
    arrays = {name: pa.array(columns[name], kind) if name in columns else None for name, kind in kinds.items()}
    return OutgoingBatch(topic, pa.array(values, pa.binary()), **arrays)


def field(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack("<I", len(data)) + data


FULL = batch(
    "orders",
    [b"v", None, b""],
    key=[None, b"", b"k"],
    partition=[3, None, -1],
    timestamp_ms=[1_700_000_000_000, -1, None],
    headers=[[{"key": "a", "value": b"1"}, {"key": "", "value": None}], [], None],
)
ENCODINGS = [
    field(b"orders")
    + field(None)
    + field(b"v")
    + field(struct.pack("<i", 3))
    + field(struct.pack("<q", 1_700_000_000_000))
    + struct.pack("<I", 2)
    + field(b"a")
    + field(b"1")
    + field(b"")
    + field(None),
    field(b"orders") + field(b"") + field(None) + field(None) + field(struct.pack("<q", -1)) + struct.pack("<I", 0),
    field(b"orders") + field(b"k") + field(b"") + field(struct.pack("<i", -1)) + field(None) + struct.pack("<I", 0),
]


def sums_of(encodings: list[bytes]) -> tuple[int, int]:
    hashes = [mmh3.hash64(encoding, 0, True, signed=False) for encoding in encodings]
    return sum(first for first, _ in hashes) % 2**64, sum(second for _, second in hashes) % 2**64


@BOTH
def test_encoding(hash_rows: HashRows) -> None:
    """Each field of a row is hashed with its length, and null differs from empty."""
    assert hash_rows(FULL) == sums_of(ENCODINGS)


@BOTH
@pytest.mark.parametrize(
    ("values", "digest"),
    [
        ([b"hello"], "e97c132489c9995eef8b78fad8b3e5c9"),
        ([b"hello", b"world"], "551199a131e33f1044d3b399e2d031fc"),
        ([None], "c11ab936a52433001743268205e0e193"),
    ],
)
def test_recorded(hash_rows: HashRows, values: list[bytes | None], digest: str) -> None:
    """Digests equal those of earlier versions, whose ledgers are still read."""
    found = RowDigest(hash_rows)
    found.add(batch("orders", values))
    assert found.row_set() == RowSet(len(values), digest)


@BOTH
def test_every_length(hash_rows: HashRows) -> None:
    """Encodings of any length, in whole blocks of the hash or not, have the hash of mmh3."""
    for size in range(70):
        value = bytes(range(255, 255 - size, -1))
        encoding = field(b"t") + field(None) + field(value) + field(None) * 2 + struct.pack("<I", 0)
        assert hash_rows(batch("t", [value])) == sums_of([encoding])


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_hash_is_murmur3(data: bytes, hashed: str) -> None:
    """The MurmurHash3_x64_128 used in the tests matches published values."""
    first, second = mmh3.hash64(data, 0, True, signed=False)
    assert f"{first:016x}{second:016x}" == hashed


@BOTH
def test_no_rows(hash_rows: HashRows) -> None:
    """The digest without rows equals the digest of an empty batch."""
    digest = RowDigest(hash_rows)
    assert digest.row_set() == RowSet(0, "0" * 32)
    digest.add(batch("t", []))
    assert digest.row_set() == RowSet(0, "0" * 32)


@BOTH
def test_batches_add_up(hash_rows: HashRows) -> None:
    """Rows have the same digest in one batch as in several batches, each with its own headers."""
    rows = [(b"1", [("a", b"x"), ("b", None)]), (b"2", [("c", b"y")]), (b"3", [])]
    whole, parts = RowDigest(hash_rows), RowDigest(hash_rows)
    whole.add(batch("t", [value for value, _ in rows], headers=[headers for _, headers in rows]))
    for value, headers in rows:
        parts.add(batch("t", [value], headers=[headers]))
    assert parts.row_set() == whole.row_set()
    assert parts.row_set().rows == len(rows)


@BOTH
@pytest.mark.parametrize(
    "other",
    [
        batch("orders", [b"ab"], key=[b""]),
        batch("orders", [b"b"], key=[b"a"]),
        batch("orders", [b"a"], key=[b"b"]),
        batch("order", [b"ab"]),
        batch("orders", [b"ab"], partition=[0]),
        batch("orders", [b"ab"], timestamp_ms=[0]),
        batch("orders", [b"ab"], headers=[[{"key": "", "value": None}]]),
        batch("orders", [b"ab", None]),
    ],
)
def test_other_rows(hash_rows: HashRows, other: OutgoingBatch) -> None:
    """Rows that differ in any column have another digest."""
    assert hash_rows(other) != hash_rows(batch("orders", [b"ab"]))


@BOTH
def test_missing_columns(hash_rows: HashRows) -> None:
    """A missing column equals a column of nulls, and null headers equal empty headers."""
    nulls = {"key": [None], "partition": [None], "timestamp_ms": [None]}
    assert hash_rows(batch("t", [b"v"], **nulls, headers=[None])) == hash_rows(batch("t", [b"v"], headers=[[]]))
    assert hash_rows(batch("t", [b"v"], **nulls)) == hash_rows(batch("t", [b"v"]))
