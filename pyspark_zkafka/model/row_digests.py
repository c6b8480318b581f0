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
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.model.exactly_once import RowSet
from pyspark_zkafka.model.rows import OutgoingBatch

HashRows: TypeAlias = "Callable[[OutgoingBatch], tuple[int, int]]"
"""Returns the sums of the first and of the second halves of the hashes of a batch's rows, modulo 2**64."""

_NULL = b"\xff\xff\xff\xff"
_HALF = 1 << 64


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
    """Hash a batch row by row, as `HashRows` describes."""
    import mmh3  # only exactly-once writes without the compiled library need it

    topic = _field(batch.topic.encode())
    columns = (
        map(_field, _cells(batch, batch.key)),
        map(_field, _cells(batch, batch.value)),
        (_number("<i", partition) for partition in _cells(batch, batch.partition)),
        (_number("<q", timestamp_ms) for timestamp_ms in _cells(batch, batch.timestamp_ms)),
        repeat(bytes(4)) if batch.headers is None else _headers(batch.headers),
    )
    first = second = 0
    for fields in zip(*columns, strict=False):
        hashed = mmh3.hash64(topic + b"".join(fields), signed=False)
        first, second = first + hashed[0], second + hashed[1]
    return first % _HALF, second % _HALF


def _cells(batch: OutgoingBatch, column: pa.Array | None) -> list[Any]:
    if column is None:
        return [None] * len(batch.value)
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_binary())
    return list(column.to_pylist())


def _field(data: bytes | None) -> bytes:
    return _NULL if data is None else struct.pack("<I", len(data)) + data


def _number(form: str, number: int | None) -> bytes:
    return _field(None if number is None else struct.pack(form, number))


def _headers(lists: pa.Array) -> Iterator[bytes]:
    """Yield the number of each row's headers, and their fields."""
    entries = lists.flatten()
    names, values = (pc.struct_field(entries, name).cast(pa.large_binary()).to_pylist() for name in ("key", "value"))
    fields = chain.from_iterable(zip(map(_field, names), map(_field, values), strict=True))
    for count in pc.fill_null(pc.list_value_length(lists), 0).to_pylist():
        yield b"".join((struct.pack("<I", count), *islice(fields, 2 * count)))
