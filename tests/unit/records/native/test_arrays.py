"""Ownership of Arrow arrays that are passed to C."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.records.native.library import CArray, require


@pytest.fixture
def pool() -> pa.MemoryPool:
    """A separate memory pool, so that its bytes can be counted."""
    gc.collect()
    return pa.proxy_memory_pool(pa.default_memory_pool())


def some(pool: pa.MemoryPool, rows: int = 1000) -> pa.Array:
    return pa.array([b"x" * 100] * rows, pa.binary(), memory_pool=pool)


def test_released_with_its_place(pool: pa.MemoryPool) -> None:
    """An array is released with its CArray, and not before."""
    place = CArray.of(some(pool))
    gc.collect()
    assert pool.bytes_allocated() > 100_000
    del place
    assert pool.bytes_allocated() == 0


def test_hashing_takes_nothing_over(pool: pa.MemoryPool) -> None:
    """Hashing leaves an array with its CArray."""
    hashes = np.arange(1000, dtype=np.uint32)
    for _ in range(50):
        place = CArray.of(some(pool))
        require().hash(0, *place.column, hashes.ctypes.data)
        assert pool.bytes_allocated() > 100_000
        del place
    assert pool.bytes_allocated() == 0
    (found,) = set(hashes.tolist())
    assert found != 0


def test_null_pointer() -> None:
    """A missing array is a null pointer, and nothing is released."""
    place = CArray.of(None)
    assert place.column == (None, False)


@pytest.mark.parametrize(
    ("kind", "large"),
    [(pa.binary(), False), (pa.string(), False), (pa.large_binary(), True), (pa.large_string(), True), (pa.int64(), False)],
    ids=str,
)
def test_large_offsets(kind: pa.DataType, large: bool) -> None:
    """The type determines whether offsets have 64 bits."""
    place = CArray.of(pa.array([], kind))
    assert place.column == (place.address, large)


def test_place_to_fill() -> None:
    """An empty CArray takes a struct that C fills in, and returns its batch once."""
    place = CArray()
    pa.array([{"a": 1}, {"a": None}])._export_to_c(place.address)
    assert place.batch(pa.schema([("a", pa.int64())])).to_pylist() == [{"a": 1}, {"a": None}]


def test_batch_that_does_not_fit_its_schema(pool: pa.MemoryPool) -> None:
    """A struct with other columns is refused, and still released."""
    place = CArray()
    pa.StructArray.from_arrays([some(pool)], ["a"])._export_to_c(place.address)
    with pytest.raises(pa.ArrowInvalid):
        place.batch(pa.schema([("a", pa.binary()), ("b", pa.binary())]))
    del place
    gc.collect()
    assert pool.bytes_allocated() == 0
