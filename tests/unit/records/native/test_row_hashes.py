"""Hashes of rows in C, at the edge between Python and C; their values are compared in tests/unit/model."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.hashes import hash_rows


def batch(topic: str, values: pa.Array) -> OutgoingBatch:
    return OutgoingBatch(topic, values, None, None, None, None)


@pytest.mark.parametrize("name", ["a\0b", "x" * 600, ""], ids=lambda name: ascii(name)[:8])
def test_names_that_c_cannot_hold(name: str) -> None:
    """A topic's name that C would read as another is refused: its rows would have the other's hash."""
    with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
        hash_rows(batch(name, pa.array([b"v"])))


def test_slices() -> None:
    """A slice has the hash of its own rows."""
    rows = pa.array([b"a", b"b", None, b"c"], pa.binary())
    assert hash_rows(batch("t", rows.slice(1, 2))) == hash_rows(batch("t", pa.array([b"b", None], pa.binary())))


def test_hashing_takes_nothing_over() -> None:
    """The arrays that were hashed are released by Python alone."""
    gc.collect()
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    for _ in range(20):
        hash_rows(batch("t", pa.array([b"x" * 100] * 100, pa.binary(), memory_pool=pool)))
    assert pool.bytes_allocated() == 0
