"""Hashes of keys and rows in C, compared with Python."""

from __future__ import annotations

import gc
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.model.partitioners import hash_keys as python
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.record_encoder import hash_keys as compiled
from pyspark_zkafka.records.native.record_encoder import hash_rows

NAMES = ("murmur2", "murmur3", "crc32", "fnv1a")
KINDS = (pa.binary(), pa.large_binary())
KEYS = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=1, max_size=2).map(lambda b: b * 500), max_size=40)


def assert_same(keys: pa.Array | pa.ChunkedArray) -> None:
    """Check that all hashes of keys equal Python's, as signed integers."""
    for name in NAMES:
        found = compiled(name, keys)
        assert found.dtype == np.int32
        assert found.tolist() == python(name, keys).tolist()


@given(texts=st.lists(st.none() | st.text(max_size=20), max_size=20), large=st.booleans())
def test_texts(texts: list[str | None], large: bool) -> None:
    """Strings are hashed as their UTF-8 bytes."""
    keys = pa.array(texts, pa.large_string() if large else pa.string())
    assert_same(keys)
    data = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    assert compiled("murmur2", keys).tolist() == compiled("murmur2", data).tolist()


@given(keys=KEYS, start=st.integers(0, 40), count=st.integers(0, 40), kind=st.sampled_from(KINDS))
def test_slices(keys: list[bytes | None], start: int, count: int, kind: pa.DataType) -> None:
    """Bytes of any length have the same hashes in C and Python, and a slice has only the hashes of its rows."""
    assert_same(pa.array(keys, kind).slice(start, count))


@given(parts=st.lists(KEYS, max_size=4), kind=st.sampled_from(KINDS))
def test_chunks(parts: list[list[bytes | None]], kind: pa.DataType) -> None:
    """Chunked arrays, even with empty chunks, have the hashes of all rows in order."""
    keys = pa.chunked_array([pa.array(part, kind) for part in parts], kind)
    assert_same(keys)
    assert_same(keys.slice(3))


def test_every_length() -> None:
    """Keys of each length up to 69, with high bits set, have the same hashes in C and Python."""
    assert_same(pa.array([bytes(range(255, 255 - n, -1)) for n in range(70)]))


def test_many_keys() -> None:
    """40,000 keys, more than Python hashes at a time, have the same hashes in C and Python."""
    numbers = random.Random(1)
    keys = [None if n % 11 == 0 else numbers.randbytes(numbers.randrange(24)) for n in range(40_000)]
    assert_same(pa.array(keys))
    assert_same(pa.chunked_array([pa.array(keys[n : n + 9999]) for n in range(0, 40_000, 9999)]))


def test_no_data_at_all() -> None:
    """Arrays without a data buffer have the hashes of empty keys."""
    assert_same(pa.array([b"", b""]))
    assert_same(pa.nulls(3, pa.binary()))
    assert_same(pa.array([], pa.large_binary()))


@pytest.mark.parametrize("keys", [pa.array([1, 2]), pa.chunked_array([], pa.int64()), pa.array([[b"x"]])])
def test_other_types(keys: pa.Array | pa.ChunkedArray) -> None:
    """Keys that are neither bytes nor strings raise the same error in C and Python."""
    errors = []
    for hash_keys in (compiled, python):
        with pytest.raises(OptionError) as caught:
            hash_keys("murmur2", keys)
        errors.append((caught.value.condition, caught.value.message))
    assert errors[0] == errors[1]
    assert errors[0][0] == "BAD_KEY_TYPE"


def batch(topic: str, values: pa.Array) -> OutgoingBatch:
    return OutgoingBatch(topic, values, None, None, None, None)


@pytest.mark.parametrize("name", ["a\0b", "x" * 600, ""], ids=lambda name: ascii(name)[:8])
def test_names_that_c_cannot_hold(name: str) -> None:
    """A topic name that C would truncate is refused, since its rows would get another topic's hash."""
    with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
        hash_rows(batch(name, pa.array([b"v"])))


def test_slices_of_rows() -> None:
    """A slice has the hash of only its rows."""
    rows = pa.array([b"a", b"b", None, b"c"], pa.binary())
    assert hash_rows(batch("t", rows.slice(1, 2))) == hash_rows(batch("t", pa.array([b"b", None], pa.binary())))


def test_hashing_takes_nothing_over() -> None:
    """Hashed arrays are released by Python."""
    gc.collect()
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    for _ in range(20):
        hash_rows(batch("t", pa.array([b"x" * 100] * 100, pa.binary(), memory_pool=pool)))
    assert pool.bytes_allocated() == 0
