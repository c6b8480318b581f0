"""Digest of rows regardless of their order, for the ledger of exactly-once writes.

Each row is encoded and hashed by MurmurHash3_x64_128 with seed 0. The digest is the sum of the hashes, each half modulo
2**64. A row is encoded as its fields topic, key, value, partition (int32) and timestamp in ms (int64), then the number of
its headers (uint32), then each header's key and value. A field is its length in bytes (uint32) and its bytes. A null or a
missing column is 0xFFFFFFFF alone. Integers are little-endian.

Later versions compare stored digests: neither the encoding nor the hash may change.

References
----------
https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.model.exactly_once import RowSet
from pyspark_zkafka.model.rows import OutgoingBatch

HashRows: TypeAlias = "Callable[[OutgoingBatch], tuple[int, int]]"
"""Returns the sums of the first and of the second halves of the hashes of a batch's rows, modulo 2**64."""

_NULL = b"\xff\xff\xff\xff"
_HALF = 1 << 64
# Rows that are encoded together, so that their encodings stay in the processor's cache.
_BLOCK_ROWS = 4_096


class RowDigest:
    """Number and digest of the rows that are added, in batches and in any order."""

    def __init__(self, hash_rows: HashRows) -> None:
        self._hash_rows = hash_rows
        self._rows = 0
        self._sums = (0, 0)

    def add(self, batch: OutgoingBatch) -> None:
        first, second = self._hash_rows(batch)
        self._sums = (self._sums[0] + first) % _HALF, (self._sums[1] + second) % _HALF
        self._rows += len(batch.value)

    def row_set(self) -> RowSet:
        return RowSet(self._rows, "{:016x}{:016x}".format(*self._sums))


def hash_rows(batch: OutgoingBatch) -> tuple[int, int]:
    """Hash a batch as `HashRows` describes, in about 250 ns for a row of 100 bytes."""
    import mmh3  # only exactly-once writes without the compiled library need it

    first = second = 0
    for start in range(0, len(batch.value), _BLOCK_ROWS):
        rows = _encodings(batch, start, _BLOCK_ROWS).to_numpy(zero_copy_only=False)
        hashes = np.frombuffer(b"".join(map(mmh3.hash_bytes, rows)), dtype="<u8").reshape(-1, 2)
        sums = hashes.sum(axis=0, dtype=np.uint64)
        first, second = first + int(sums[0]), second + int(sums[1])
    return first % _HALF, second % _HALF


def _encodings(batch: OutgoingBatch, start: int, count: int) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = [_scalar(struct.pack("<I", len(batch.topic.encode())) + batch.topic.encode())]
    for column in (batch.key, batch.value, batch.partition, batch.timestamp_ms):
        parts += [_scalar(_NULL)] if column is None else _field(column.slice(start, count))
    parts += [_scalar(bytes(4))] if batch.headers is None else _headers(batch.headers.slice(start, count))
    return _joined(parts)


def _scalar(data: bytes) -> pa.Scalar:
    return pa.scalar(data, pa.large_binary())


def _joined(parts: list[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _scalar(b""), null_handling="replace", null_replacement="")


def _field(column: pa.Array) -> list[pa.Array]:
    """Return a column's lengths and its bytes. The bytes are null where the column is."""
    if pa.types.is_integer(column.type):
        data = _fixed(column.fill_null(0).to_numpy(zero_copy_only=False), column)
        lengths = np.full(len(column), column.type.bit_width // 8, dtype="<u4")
    else:
        data = column.cast(pa.large_binary())
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype("<u4")
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0xFFFFFFFF
    return [_fixed(lengths), data]


def _fixed(numbers: npt.NDArray[np.generic], nulls_of: pa.Array | None = None) -> pa.Array:
    """Return the little-endian bytes of each number; null where another array is."""
    kind = numbers.dtype.newbyteorder("<")
    whole = pa.py_buffer(np.ascontiguousarray(numbers, dtype=kind))
    offsets = pa.py_buffer(np.arange(len(numbers) + 1, dtype=np.int64) * kind.itemsize)
    data = pa.Array.from_buffers(pa.large_binary(), len(numbers), [None, offsets, whole])
    if nulls_of is None or not nulls_of.null_count:
        return data
    return pc.if_else(nulls_of.is_valid(), data, pa.scalar(None, pa.large_binary()))


def _headers(lists: pa.Array) -> list[pa.Array]:
    """Return the number of each row's headers, and their joined encodings."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    entries = lists.flatten()
    parts = [part for name in ("key", "value") for part in _field(pc.struct_field(entries, name))]
    offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int64())
    encoded = pa.LargeListArray.from_arrays(offsets, _joined(parts))
    return [_fixed(counts.astype("<u4")), pc.binary_join(encoded, _scalar(b""))]
