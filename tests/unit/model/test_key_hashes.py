"""Hashes of keys: murmur2 as recorded from Java, and all hashes of Arrow arrays in any layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.key_hashes import crc32, fnv1a, hash_keys, murmur2, murmur3, to_positive
from tests.support.cases import each

JAVA = json.loads((Path(__file__).parents[2] / "vectors" / "murmur2.json").read_text(encoding="utf-8"))["keys"]
KEYS = [bytes.fromhex(row[0]) for row in JAVA]
HASHES = [row[1] for row in JAVA]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_murmur2_equals_java(kind: pa.DataType) -> None:
    """Every recorded key has the hash of Utils.murmur2, with 32-bit and 64-bit offsets."""
    assert murmur2(pa.array(KEYS, kind)).tolist() == HASHES


@pytest.mark.parametrize("rows", [1, 2, 23, 24, 25])
def test_murmur2_equals_java_in_small_batches(rows: int) -> None:
    """Hashes are the same below and above the size from which numpy is used."""
    keys = pa.array(KEYS, pa.binary())
    found = [h for first in range(0, len(keys), rows) for h in murmur2(keys.slice(first, rows)).tolist()]
    assert found == HASHES


@each("hash_of", [murmur2, murmur3, crc32, fnv1a])
@each("kind", [pa.string(), pa.large_string()])
def test_strings_hash_as_their_utf8(hash_of: Any, kind: pa.DataType) -> None:
    """A string key has the hash of its UTF-8 bytes."""
    texts = ["", "a", "Zoë", "日本語", "🚀"]
    assert hash_of(pa.array(texts, kind)).tolist() == hash_of(pa.array([t.encode() for t in texts])).tolist()


@pytest.mark.parametrize("hash_of", [murmur2, murmur3, crc32, fnv1a])
def test_nulls_hash_to_zero_and_chunks_follow_each_other(hash_of: Any) -> None:
    """The hash of a null is 0, and the hashes of a chunked array are in the order of its rows."""
    chunked = pa.chunked_array([[b"a", None], [], [b"bc"]], pa.binary())
    [one], [two] = hash_of(pa.array([b"a"])).tolist(), hash_of(pa.array([b"bc"])).tolist()
    assert hash_of(chunked).tolist() == [one, 0, two]


@pytest.mark.parametrize("hash_of", [murmur2, murmur3, crc32, fnv1a])
def test_nothing_hashes_to_nothing(hash_of: Any) -> None:
    """An empty array, an empty slice and an array without chunks have no hashes."""
    for keys in (pa.array([], pa.binary()), pa.array([b"a"]).slice(1), pa.chunked_array([], pa.binary())):
        assert hash_of(keys).tolist() == []


def test_keys_behind_a_null_with_bytes_are_found() -> None:
    """A null with bytes in its slot, which Arrow allows, does not shift the keys after it."""
    offsets, data = pa.py_buffer(np.array([0, 1, 4, 6], np.int32)), pa.py_buffer(b"aXXXbc")
    keys = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    assert murmur2(keys).tolist() == murmur2(pa.array([b"a", None, b"bc"])).tolist()


@pytest.mark.timeout(60)
def test_one_huge_key_does_not_slow_the_others() -> None:
    """A key of 4 MB among short ones is hashed correctly, at a cost proportional to the bytes."""
    huge = b"0123456" * 600_000
    keys = pa.array([b"a"] * 1000 + [huge] + [b"bcdef"] * 1000)
    assert murmur2(keys)[[0, 1000, 2000]].tolist() == [murmur2(pa.array([k]))[0] for k in (b"a", huge, b"bcdef")]


def test_to_positive_clears_the_sign_bit() -> None:
    """A negative hash loses its sign bit, as in Utils.toPositive, and is not negated."""
    assert to_positive(np.array([-1, -(2**31), 5], np.int32)).tolist() == [0x7FFFFFFF, 0, 5]


@pytest.mark.parametrize("name", ["murmur2", "murmur3", "crc32", "fnv1a"])
def test_keys_that_cannot_be_hashed(name: str) -> None:
    """Keys that are neither binary nor string are refused by their type."""
    with pytest.raises(OptionError, match=r"\[BAD_KEY_TYPE\] A column key of type int64 cannot be hashed"):
        hash_keys(name, pa.array([1]))
