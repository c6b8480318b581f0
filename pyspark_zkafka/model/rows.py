"""Rows to write: checks of the frame's columns, the conversion to batches of each topic, and digests.

References
----------
https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp, for `RowDigest`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_HEADERS, INVALID_SCHEMA, INVALID_TIMESTAMP, INVALID_TOPIC, NULL_TOPIC
from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.model.exactly_once import RowSet
from pyspark_zkafka.model.spark_types import spark_name
from pyspark_zkafka.model.topic_names import RULE, is_topic_name, shown_name

_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_QUOTED_BYTES = 60
_GATHERED_ROWS = 10_000  # as many as Spark passes at once
_GATHERED_BYTES = 4 * 1024 * 1024
_TEXTS = (pa.string(), pa.large_string())
_PAYLOADS = (*_TEXTS, pa.binary(), pa.large_binary())
_NULL_FIELD = b"\xff\xff\xff\xff"
_MODULUS = 1 << 64

Encode: TypeAlias = "Callable[[OutgoingBatch], OutgoingBatch]"
"""Function that encodes the keys and values of one topic's rows, which have the frame's types, as bytes."""

HashRows: TypeAlias = "Callable[[OutgoingBatch], tuple[int, int]]"
"""Function from a batch to the sums of the first and of the second halves of its rows' hashes, modulo 2**64."""


def _is_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = list(kind.value_type)
    return [f.name for f in fields] == ["key", "value"] and fields[0].type in _TEXTS and fields[1].type in _PAYLOADS


_EXPECTED = {
    "value": ("string or binary", lambda kind: kind in _PAYLOADS),
    "key": ("string or binary", lambda kind: kind in _PAYLOADS),
    "topic": ("string", lambda kind: kind in _TEXTS),
    "partition": ("int", pa.types.is_int32),
    "headers": ("array<struct<key:string,value:binary>>", _is_headers),
    "timestamp": (
        "timestamp",
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in _PER_MILLISECOND,
    ),
}


def check_columns(schema: pa.Schema, topic: str | None, encoded: Collection[str] = ()) -> None:
    """Raise OptionError with all problems of the columns of a frame to write. Unknown columns are ignored.

    `topic` is the option. With it, a column of that name is ignored; without it, the frame must have the column. A second
    column of a name is always a problem. Columns that are `encoded` may have any type.
    """
    types = {field.name: field.type for field in schema}
    problems = [
        f"column {name} must be {expected}, it is {spark_name(types[name])}{_hint(name, types[name])}"
        for name, (expected, fits) in _EXPECTED.items()
        if name in types and name not in encoded and not fits(types[name]) and (name != "topic" or topic is None)
    ]
    problems += [f"there is no column {name}, which {name}.format encodes" for name in encoded if name not in types]
    problems += [f"there are several columns {name}" for name in _EXPECTED if schema.names.count(name) > 1]
    if "value" not in types and "value" not in encoded:
        problems.append(f"there is no column value; there are {', '.join(types) or 'none'}")
    if topic is None and "topic" not in types:
        problems.append("there is neither the option topic nor a column topic")
    if problems:
        raise INVALID_SCHEMA("The frame cannot be written: " + "; ".join(problems))


def _hint(name: str, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return ", a time in no zone; cast it to timestamp_ltz"
    return f"; set {name}.format to encode it" if name in ("key", "value") and pa.types.is_nested(kind) else ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as Python objects, by column.

    `others` has each row's further arguments for a producer: ``timestamp`` if the row has one, and ``headers`` if the frame
    has the column. It is None if the frame has neither column.
    """

    values: list[bytes | None]
    keys: list[bytes | None]
    others: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """The rows of one batch for one topic, as arrays of one length in the order of the frame.

    `key` and `value` are binary, `partition` int32, `timestamp_ms` int64, and `headers` a list of structs of a string and
    binary. All but `value` are None if the frame has no such column.
    """

    topic: str
    value: pa.Array
    key: pa.Array | None
    partition: pa.Array | None
    timestamp_ms: pa.Array | None
    headers: pa.Array | None

    def take(self, order: npt.NDArray[np.int64]) -> OutgoingBatch:
        """Return the rows at the given positions, in that order."""
        positions = pa.array(order)
        return self._with_columns(self.topic, lambda column: column.take(positions))

    def of_topic(self, topic: str, mask: pa.Array) -> OutgoingBatch:
        """Return the rows where the mask is true, for the topic."""
        return self._with_columns(topic, lambda column: column.filter(mask))

    def _with_columns(self, topic: str, change: Callable[[pa.Array], pa.Array]) -> OutgoingBatch:
        columns = (self.value, self.key, self.partition, self.timestamp_ms, self.headers)
        return OutgoingBatch(topic, *(None if column is None else change(column) for column in columns))

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of value, key and headers of each row."""
        sizes = _lengths(self.value)
        if self.key is not None:
            sizes = sizes + _lengths(self.key)
        if self.headers is not None:
            sizes = sizes + _header_lengths(self.headers)
        return sizes

    def rows(self, start: int, stop: int) -> Rows:
        """Return rows `[start, stop)` for a producer."""
        values = self.value[start:stop].to_pylist()
        keys = [None] * len(values) if self.key is None else self.key[start:stop].to_pylist()
        if self.timestamp_ms is None and self.headers is None:
            return Rows(values, keys, None)
        others: list[dict[str, Any]] = [{} for _ in values]
        if self.timestamp_ms is not None:
            for row, timestamp_ms in zip(others, self.timestamp_ms[start:stop].to_pylist(), strict=True):
                if timestamp_ms is not None:
                    row["timestamp"] = timestamp_ms
        if self.headers is not None:
            for row, headers in zip(others, self.headers[start:stop].to_pylist(), strict=True):
                row["headers"] = [(h["key"], h["value"]) for h in headers or ()]
        return Rows(values, keys, others)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, in order. Sail passes batches of 1,024 rows, and a batch costs as much as thousands of rows."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            parts, rows, size = [], 0, 0
    if parts:
        yield pa.concat_batches(parts)


def outgoing(batch: pa.RecordBatch, topic: str | None, encode: Encode | None = None) -> Iterator[OutgoingBatch]:
    """Yield the batch's rows by topic, topics in the order of their first rows. `encode` is called with each topic's rows.

    Raises InvalidRow before the first part is returned. NULL_TOPIC, INVALID_TOPIC: without the option `topic`, a row has no
    topic, or a topic that Kafka does not allow. INVALID_TIMESTAMP: a timestamp is before 1970-01-01T00:00:00.001Z. Null and
    -1 ms are allowed, and leave the time to the producer. INVALID_HEADERS: a header has no key, or a key that is not UTF-8
    or has a zero byte. Errors of `encode` pass through.
    """
    if batch.num_rows == 0:
        return
    found = {name: batch.column(name) for name in batch.schema.names if name in _EXPECTED}
    whole = OutgoingBatch(
        topic or "",
        found["value"],
        found.get("key"),
        found.get("partition"),
        _milliseconds(found["timestamp"]) if "timestamp" in found else None,
        _checked_headers(found["headers"]) if "headers" in found else None,
    )
    encode = encode or _payloads_as_bytes
    if topic is not None:
        yield encode(whole)
        return
    topics = batch.column("topic")
    if topics.null_count:
        row = pc.index(pc.is_null(topics), value=True).as_py()
        raise NULL_TOPIC(f"The column topic is null in row {row} of a batch; fill it, or set the option topic")
    parts = [encode(whole.of_topic(name, pc.equal(topics, name))) for name in _names(topics)]
    yield from parts


def _payloads_as_bytes(part: OutgoingBatch) -> OutgoingBatch:
    return replace(part, value=as_bytes(part.value), key=None if part.key is None else as_bytes(part.key))


def _names(topics: pa.Array) -> list[str]:
    """Return the distinct names in a column topic, in the order of their first rows."""
    names = as_bytes(pc.unique(topics)).to_pylist()
    for name in names:
        # A name that is not UTF-8 decodes to an invalid one.
        if not is_topic_name(text := name.decode("utf-8", "surrogateescape")):
            row = pc.index(as_bytes(topics), name).as_py()
            raise INVALID_TOPIC(f"The column topic is {shown_name(text)} in row {row} of a batch; {RULE}. Correct the name")
    return [name.decode() for name in names]


def as_bytes(column: pa.Array) -> pa.Array:
    """Return a column of text or bytes as bytes."""
    return column.cast(pa.large_binary() if _is_large(column.type) else pa.binary())


def _is_large(kind: pa.DataType) -> bool:
    return kind in (pa.large_string(), pa.large_binary())


def _milliseconds(column: pa.Array) -> pa.Array:
    # Integers, because Arrow rounds in local time, which may be ambiguous or of an unknown zone.
    since_epoch, unit = column.cast(pa.int64()), _PER_MILLISECOND[column.type.unit]
    # A record without a timestamp is read as -1 ms.
    since_epoch = pc.if_else(pc.equal(since_epoch, -unit), pa.scalar(None, pa.int64()), since_epoch)
    milliseconds = pc.divide(since_epoch, unit)
    row = pc.index(pc.less(milliseconds, 1), value=True).as_py()
    if row >= 0:
        number = since_epoch[row].as_py()
        time = np.datetime64(number, column.type.unit)
        # NumPy uses the smallest number for a missing time.
        shown = f"{number} {column.type.unit} since 1970" if np.isnat(time) else f"{time}Z"
        raise INVALID_TIMESTAMP(
            f"The column timestamp is {shown} in row {row} of a batch; Kafka stores none before "
            "1970-01-01T00:00:00.001Z. Leave it null to let the producer set the time",
        )
    return milliseconds


def _checked_headers(column: pa.Array) -> pa.Array:
    keys = pc.struct_field(column.flatten(), "key")
    if keys.null_count:
        raise _invalid_headers("has a null key, and Kafka requires one; give each header a key")
    if (row := first_not_utf8(as_bytes(keys))) is not None:
        bad: bytes = as_bytes(keys)[row].as_py()
        shown = f"{bad[:_QUOTED_BYTES]!r}{'...' if len(bad) > _QUOTED_BYTES else ''}"
        raise _invalid_headers(
            f"has a key that is not UTF-8: {shown}; readers could not return it as a string. Encode it as UTF-8"
        )
    if pc.any(pc.match_substring(keys, "\0")).as_py():
        raise _invalid_headers("has a zero byte in its key; librdkafka would end the key there. Remove it")
    # With binary values: unlike a key, a value declared as string may be any bytes.
    key, value = column.type.value_type
    binary = pa.large_binary() if _is_large(value.type) else pa.binary()
    entry = pa.struct([key, value.with_type(binary)])
    return column.cast(pa.large_list(entry) if pa.types.is_large_list(column.type) else pa.list_(entry))


def _invalid_headers(problem: str) -> InvalidRow:
    return INVALID_HEADERS(f"A header in the column headers {problem}")


def first_not_utf8(data: pa.Array) -> int | None:
    """Return the first row that is not UTF-8, or None if all rows are. Spark's strings may be any bytes."""
    try:
        data.cast(pa.large_string() if _is_large(data.type) else pa.string())  # checks without a copy
    except pa.ArrowInvalid:
        texts = ((row, text or b"") for row, text in enumerate(data.to_pylist()))
        return next(row for row, text in texts if text.decode(errors="ignore").encode() != text)
    return None


def slices_by_size(sizes: npt.NDArray[np.int64], most_rows: int, most_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield slices `(start, stop, bytes)` of rows of the given sizes: at least one row, else within both limits."""
    ends = np.cumsum(sizes, dtype=np.int64)
    start, before = 0, 0
    while start < len(ends):
        fitting = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = min(max(fitting, start + 1), start + most_rows)
        yield start, stop, int(ends[stop - 1]) - before
        start, before = stop, int(ends[stop - 1])


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the bytes of each cell, 0 for null."""
    return _as_numbers(pc.binary_length(column))


def _header_lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    entries = column.flatten()
    sizes = _lengths(pc.struct_field(entries, "key")) + _lengths(pc.struct_field(entries, "value"))
    ends = np.append(np.int64(0), np.cumsum(sizes))
    counts = _as_numbers(pc.list_value_length(column))
    stops = np.cumsum(counts)
    found: npt.NDArray[np.int64] = ends[stops] - ends[stops - counts]
    return found


def _as_numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers, 0 for null."""
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64)


class RowDigest:
    """Number and digest of the rows that are added, in batches and in any order, for the ledger of exactly-once writes.

    Each row is encoded and hashed by MurmurHash3_x64_128 with seed 0. The digest is the sum of the hashes, each half modulo
    2**64. A row is encoded as its fields topic, key, value, partition (int32) and timestamp in ms (int64), then the number
    of its headers (uint32), then each header's key and value. A field is its length in bytes (uint32) and its bytes. A null
    or a missing column is 0xFFFFFFFF alone. Integers are little-endian.

    Later versions compare stored digests: neither the encoding nor the hash may change.
    """

    def __init__(self, hash_rows: HashRows) -> None:
        self._hash_rows = hash_rows
        self._rows = 0
        self._sums = (0, 0)

    def add(self, batch: OutgoingBatch) -> None:
        first, second = self._hash_rows(batch)
        self._sums = (self._sums[0] + first) % _MODULUS, (self._sums[1] + second) % _MODULUS
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
        (_number_field("<i", partition) for partition in _cells(batch, batch.partition)),
        (_number_field("<q", timestamp_ms) for timestamp_ms in _cells(batch, batch.timestamp_ms)),
        repeat(bytes(4)) if batch.headers is None else _header_fields(batch.headers),
    )
    first = second = 0
    for fields in zip(*columns, strict=False):
        hashed = mmh3.hash64(topic + b"".join(fields), signed=False)
        first, second = first + hashed[0], second + hashed[1]
    return first % _MODULUS, second % _MODULUS


def _cells(batch: OutgoingBatch, column: pa.Array | None) -> list[Any]:
    if column is None:
        return [None] * len(batch.value)
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_binary())
    return list(column.to_pylist())


def _field(data: bytes | None) -> bytes:
    return _NULL_FIELD if data is None else struct.pack("<I", len(data)) + data


def _number_field(form: str, number: int | None) -> bytes:
    return _field(None if number is None else struct.pack(form, number))


def _header_fields(lists: pa.Array) -> Iterator[bytes]:
    """Yield the number of each row's headers, and their fields."""
    entries = lists.flatten()
    names, values = (pc.struct_field(entries, name).cast(pa.large_binary()).to_pylist() for name in ("key", "value"))
    fields = chain.from_iterable(zip(map(_field, names), map(_field, values), strict=True))
    for count in pc.fill_null(pc.list_value_length(lists), 0).to_pylist():
        yield b"".join((struct.pack("<I", count), *islice(fields, 2 * count)))
