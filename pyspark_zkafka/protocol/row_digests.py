"""Hash of rows regardless of their order: two tasks that would write the same rows have the same one.

A row's fields are encoded one after the other, and hashed by MurmurHash3 (x64, 128 bits, seed 0); the digest is the sum of
all rows' hashes, each of the two 64-bit halves modulo 2**64. The fields are topic, key, value, partition (int32) and
timestamp in milliseconds (int64), and then the number of headers (uint32), and key and value of each. A field is its length
in bytes (uint32) and its bytes, or the length 0xFFFFFFFF for null; all numbers are little-endian.

References
----------
MurmurHash3_x64_128 by Austin Appleby, as the package mmh3 has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.protocol.exactly_once import RowSet
from pyspark_zkafka.protocol.rows import OutgoingBatch

__all__ = ["HashRows", "RowDigest", "hash_rows"]

HashRows: TypeAlias = Callable[[OutgoingBatch], tuple[int, int]]
"""The sums of the halves of all rows' hashes, in ``[0, 2**64)``."""

_NULL_LENGTH = 0xFFFFFFFF
_HALF = 1 << 64


class RowDigest:
    """The digest of the rows that are added; `hash_rows` is the function to hash them by."""

    def __init__(self, hash_rows: HashRows) -> None:
        self._hash_rows = hash_rows
        self._rows = 0
        self._low = self._high = 0

    def add(self, batch: OutgoingBatch) -> None:
        """Add the rows of a batch."""
        low, high = self._hash_rows(batch)
        self._rows += len(batch.value)
        self._low, self._high = (self._low + low) % _HALF, (self._high + high) % _HALF

    def row_set(self) -> RowSet:
        """The number of rows added, and their digest."""
        return RowSet(self._rows, f"{self._low:016x}{self._high:016x}")


def hash_rows(batch: OutgoingBatch) -> tuple[int, int]:
    """The sums of the hashes of a batch's rows, in pure Python: a `HashRows`."""
    encoded = _encoded(batch).to_pylist()
    hashes = np.frombuffer(b"".join(map(mmh3.mmh3_x64_128_digest, encoded)), dtype="<u8").reshape(-1, 2)
    low, high = hashes.sum(axis=0, dtype=np.uint64)  # sums of uint64 wrap around
    return int(low), int(high)


def _encoded(batch: OutgoingBatch) -> pa.Array:
    """The encoding of each row: large binary."""
    rows = len(batch.value)
    topic = batch.topic.encode()
    fields = [
        pa.scalar(_number(len(topic)) + topic, pa.large_binary()),
        *_field(batch.key, rows),
        *_field(batch.value, rows),
        *_numbers(batch.partition, rows, np.int32),
        *_numbers(batch.timestamp_ms, rows, np.int64),
        _headers(batch.headers, rows),
    ]
    return pc.binary_join_element_wise(*fields, pa.scalar(b"", pa.large_binary()))


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _field(column: pa.Array | None, rows: int) -> list[pa.Array | pa.Scalar]:
    """Length and bytes of each cell, as two columns."""
    if column is None:
        return [pa.scalar(_number(_NULL_LENGTH), pa.large_binary())]
    lengths = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False).astype("<i4")
    return [_binary(lengths), pc.fill_null(column.cast(pa.large_binary()), b"")]


def _numbers(column: pa.Array | None, rows: int, kind: type[np.signedinteger]) -> list[pa.Array | pa.Scalar]:
    if column is None:
        return _field(None, rows)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.dtype(kind).newbyteorder("<"))
    present = pc.is_valid(column)
    size = _number(values.dtype.itemsize)
    return [
        pc.if_else(present, pa.scalar(size, pa.large_binary()), pa.scalar(_number(_NULL_LENGTH), pa.large_binary())),
        pc.if_else(present, _binary(values), pa.scalar(b"", pa.large_binary())),
    ]


def _binary(values: npt.NDArray[np.generic]) -> pa.Array:
    """The bytes of each number of an array."""
    size = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * size, size, dtype=np.int64)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _headers(column: pa.Array | None, rows: int) -> pa.Array | pa.Scalar:
    if column is None:
        return pa.scalar(_number(0), pa.large_binary())
    return pa.array([_encoded_headers(headers or []) for headers in column.to_pylist()], pa.large_binary())


def _encoded_headers(headers: list[dict[str, Any]]) -> bytes:
    cells = [cell for header in headers for cell in (header["key"].encode(), header["value"])]
    return _number(len(headers)) + b"".join(map(_encoded_cell, cells))


def _encoded_cell(cell: bytes | None) -> bytes:
    return _number(_NULL_LENGTH) if cell is None else _number(len(cell)) + cell
