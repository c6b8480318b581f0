"""Columns of rows for formats that pass through Python objects: malformed rows, refused rows, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import listing

_Row = TypeVar("_Row")

REFUSALS = (ValueError, TypeError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded column.

    A cell is null if its payload is null or malformed. `malformed` has a short reason for each malformed row, in the order
    of the rows.
    """

    column: pa.Array
    malformed: Mapping[int, str] = field(default_factory=dict)


def decode_rows(
    rows: list[_Row | None], build: Callable[[list[_Row | None]], pa.Array], malformed: dict[int, str]
) -> Decoded:
    """Build a column from parsed rows. `build` raises ValueError for the first row that does not fit.

    Finds malformed rows by halving, adds them to `malformed`, and replaces them by None, which becomes null.
    """

    def search(start: int, stop: int) -> pa.Array | None:
        try:
            return build(rows[start:stop])
        except (ValueError, OverflowError) as exc:
            if stop - start == 1:
                malformed[start] = str(exc)
                rows[start] = None
            else:
                middle = (start + stop) // 2
                search(start, middle)
                search(middle, stop)
            return None

    column = search(0, len(rows))
    return Decoded(build(rows) if column is None else column, dict(sorted(malformed.items())))


def encode_rows(column: pa.Array, encode: Callable[[pa.Array], list[bytes | None]], schema: str) -> pa.Array:
    """Return the encoded rows. `encode` raises ValueError or TypeError if it refuses a row.

    `encode` must also accept structs with only some of the fields. Raises InvalidRow (INVALID_VALUE) for the first row that
    cannot be encoded, with the name of its field.
    """
    try:
        return pa.array(encode(column), pa.binary())
    except REFUSALS:
        number = first_refused(len(column), lambda start, stop: encode(column.slice(start, stop - start)))
    row = column.slice(number, 1)
    parts = [("", row)]
    if pa.types.is_struct(row.type) and not row.null_count:
        children = zip(row.type, row.flatten(), strict=True)
        fields = [(f" in the field {f.name}", pa.StructArray.from_arrays([child], fields=[f])) for f, child in children]
        parts = [*fields, *parts]
    for name, part in parts:
        try:
            encode(part)
        except REFUSALS as exc:
            raise INVALID_VALUE(
                f"Row {number} of a batch has a value{name} that {schema} does not allow: {exc}; correct the row"
            ) from exc
    raise RuntimeError("each row can be encoded by itself")


def first_refused(count: int, attempt: Callable[[int, int], object]) -> int:
    """Find the first of `count` rows that `attempt` refuses, by halving. `attempt` takes the start and end of a range."""
    start, stop = 0, count
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            attempt(start, middle)
        except REFUSALS:
            stop = middle
        else:
            start = middle
    return start


def require_fit(problems: Iterable[str], schema: str) -> None:
    """Raise INVALID_SCHEMA if a column to encode has fields that do not fit the schema."""
    if reasons := listing(problems, separator="; "):
        raise INVALID_SCHEMA(f"The column does not fit {schema}: {reasons}; rename, cast or leave out these fields")


def masked(column: pa.Array, values: list[Any]) -> list[Any]:
    """Return the values, with None where the column is null."""
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def grouped(column: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Convert the elements of a column of lists, or the entries of maps, and return a list for each row.

    The column may be sliced.
    """
    start, stop = column.offsets[0].as_py(), column.offsets[-1].as_py()
    values = iter(convert(column.values.slice(start, stop - start)))
    return masked(column, [list(islice(values, size)) for size in np.diff(column.offsets.to_numpy()).tolist()])


def dictionaries(
    column: pa.Array, keys: Callable[[pa.Array], list[Any]], items: Callable[[pa.Array], list[Any]]
) -> list[Any]:
    """Convert a column of maps, and return a dictionary for each row."""

    def convert(entries: pa.Array) -> list[Any]:
        key, item = entries.flatten()
        return list(zip(keys(key), items(item), strict=True))

    return [None if pairs is None else dict(pairs) for pairs in grouped(column, convert)]


def offsets_of(lists: Iterable[Sized]) -> pa.Array:
    """Return the offsets of lists in the concatenation of their elements."""
    return pa.array(accumulate(map(len, lists), initial=0), pa.int32())


def varint(number: int) -> bytes:
    """Return a number of 64 bits as a zigzag varint, as Avro and Confluent's message indexes have it."""
    bits, data = (number << 1) ^ (number >> 63), bytearray()
    while bits >= 0x80:
        data.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*data, bits])
