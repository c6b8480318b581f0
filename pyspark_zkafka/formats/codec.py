"""What each format offers, the parsing of schemas by format, the format string, and what formats share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module  # noqa: TID251 - formats are imported by name, when an option names them
from itertools import accumulate, islice
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.formats.registry import StoredSchema

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""The formats with schemas, and their names in a registry."""

_RECORD = "topLevelRecord"  # as Spark's to_avro has it
_PARSED = 256
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded column.

    A cell is null if its payload is null or malformed. `malformed` has a short reason for each malformed row, in the order
    of the rows.
    """

    column: pa.Array
    malformed: Mapping[int, str] = field(default_factory=dict)


class Decoder(Protocol):
    """Decodes payloads of one writer's schema to a column of one type."""

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        """Decode a binary array, which may be sliced and have nulls, without the first `skip` bytes of each payload."""
        ...


class Encoder(Protocol):
    """Encodes a column of one type by one schema."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return a binary array, null where the row is null.

        Raises InvalidRow, with row and field, for a value that the schema does not allow.
        """
        ...


class Schema(Protocol):
    """A parsed schema of a format. Pickle-safe; compiled at first use, once in a process.

    `type` is the Arrow type of the column, in the form of Spark's `to_arrow_type`.
    """

    @property
    def type(self) -> pa.DataType: ...

    def decoder(self, writer: Schema | None, type: pa.DataType) -> Decoder:
        """Return a decoder to the type, which is the schema's own or a projection of it.

        The payloads have the writer's schema, or this one if there is no other.
        """
        ...

    def encoder(self, type: pa.DataType) -> Encoder:
        """Return an encoder of columns of the type. Raises OptionError if the schema does not accept the type."""
        ...


class StringSchema:
    """The schema of the format string: UTF-8."""

    type = pa.string()

    def decoder(self, writer: Schema | None, type: pa.DataType) -> Decoder:
        """Return a decoder to text."""
        return _TextDecoder()

    def encoder(self, type: pa.DataType) -> Encoder:
        """Return an encoder of text; raises INVALID_SCHEMA for columns of other types."""
        if not (pa.types.is_string(type) or pa.types.is_large_string(type)):
            raise INVALID_SCHEMA(f"the format string needs a column of type string, and the column is {type}; cast it")
        return _TextEncoder()


class _TextDecoder:
    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        try:
            return Decoded(payloads.cast(pa.string()))
        except pa.ArrowInvalid:
            malformed = dict(_not_utf8(payloads))
            return Decoded(without(payloads, list(malformed)).cast(pa.string()), malformed)


def _not_utf8(payloads: pa.Array) -> Iterator[tuple[int, str]]:
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            (payload or b"").decode()
        except UnicodeDecodeError as error:
            yield row, f"byte {error.start} is not UTF-8"


class _TextEncoder:
    def encode(self, column: pa.Array) -> pa.Array:
        return column.cast(pa.binary())


def without(column: pa.Array, rows: list[int]) -> pa.Array:
    """Return the column with nulls in the given rows."""
    if not rows:
        return column
    mask = np.zeros(len(column), dtype=bool)
    mask[rows] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


def format_module(name: str) -> Any:
    """Import the module of the format avro, protobuf or json, which offers `parse`."""
    return import_module(f"pyspark_zkafka.formats.{name}")


def parse_schema(name: str, stored: StoredSchema, message: str | None = None) -> Schema:
    """Parse a schema of a format, once in a process. Raises OptionError with the reason."""
    if stored.kind != KINDS[name]:
        raise INVALID_SCHEMA(f"the schema is of the type {stored.kind}, and the format is {name}; correct the format")
    return _parsed(name, stored.text, tuple(stored.references.items()), message)


def schema_of(name: str, type: pa.DataType) -> StoredSchema:
    """Make a schema of a format from a column's type. Raises OptionError with the fields that the format does not have."""
    return StoredSchema(format_module(name).schema_of(type, _RECORD), KINDS[name])


def record_name(name: str, schema: Any) -> str | None:
    """Return the full name of a schema's record or message, or a JSON Schema's title; None if it has none."""
    if name == "protobuf":
        return str(schema.message)
    if name == "avro":
        return schema.root.name or None
    with suppress(ValueError, AttributeError):  # DDL, and documents that are no objects
        title: str | None = json.loads(schema.text).get("title")
        return title
    return None


@lru_cache(_PARSED)
def _parsed(name: str, text: str, references: tuple[tuple[str, str], ...], message: str | None) -> Schema:
    schema: Schema = format_module(name).parse(text, dict(references), message)
    return schema


def decode_rows(
    rows: list[_Row | None], build: Callable[[list[_Row | None]], pa.Array], malformed: dict[int, str]
) -> Decoded:
    """Build a column from parsed rows by `build`, which raises ValueError for the first row that does not fit.

    Halves the rows until the malformed ones are alone, and adds them to `malformed`. None becomes null.
    """

    def parts(start: int, stop: int) -> Iterator[pa.Array]:
        try:
            yield build(rows[start:stop])
        except (ValueError, OverflowError) as exc:
            if stop - start == 1:
                malformed[start] = str(exc)
                yield build([None])
            else:
                middle = (start + stop) // 2
                yield from parts(start, middle)
                yield from parts(middle, stop)

    built = list(parts(0, len(rows)))
    return Decoded(built[0] if len(built) == 1 else pa.concat_arrays(built), dict(sorted(malformed.items())))


def masked(column: pa.Array, values: list[Any]) -> list[Any]:
    """Return the values, with None where the column is null."""
    if not column.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def grouped(column: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Convert the elements of a column of lists, or the keys and items of maps, and return a list for each row.

    The column may be sliced.
    """
    start, stop = column.offsets[0].as_py(), column.offsets[-1].as_py()
    values = iter(convert(column.values.slice(start, stop - start)))
    return masked(column, [list(islice(values, size)) for size in np.diff(column.offsets.to_numpy()).tolist()])


def offsets_of(lists: Iterable[Sized]) -> pa.Array:
    """Return the offsets of lists in the concatenation of their elements."""
    return pa.array(accumulate(map(len, lists), initial=0), pa.int32())


def invalid_row(column: pa.Array, encode: Callable[[pa.Array], object], schema: str) -> InvalidRow:
    """Return the error of the first row that cannot be encoded, with the name of its field.

    `encode` raises ValueError or TypeError for a column of structs, or of some of their fields.
    """
    for number in range(len(column)):
        row = column.slice(number, 1)
        parts = [("", row)]
        if pa.types.is_struct(row.type) and not row.null_count:
            children = zip(row.type, row.flatten(), strict=True)
            fields = [(f" in the field {f.name}", pa.StructArray.from_arrays([child], fields=[f])) for f, child in children]
            parts = [*fields, *parts]
        for name, part in parts:
            try:
                encode(part)
            except (ValueError, TypeError, OverflowError) as exc:
                return INVALID_VALUE(
                    f"Row {number} of a batch has a value{name} that {schema} does not allow: {exc}; correct the row"
                )
    raise RuntimeError("each row can be encoded by itself")
