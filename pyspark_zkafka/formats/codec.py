"""The interface of formats, the format string, and code that the formats share: limits on types, and columns of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from importlib import import_module  # noqa: TID251 - formats are imported by name, when an option names them
from itertools import accumulate, islice
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA, INVALID_VALUE
from pyspark_zkafka.errors import OptionError, listing
from pyspark_zkafka.formats.registry import StoredSchema
from pyspark_zkafka.model.rows import first_not_utf8
from pyspark_zkafka.model.spark_types import spark_name

_Row = TypeVar("_Row")

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""The formats with schemas, and their names in a registry."""

RECORD = "topLevelRecord"
"""The name of the record in a schema that is made from a type, as in Spark's to_avro."""

STRINGS = (pa.string(), pa.large_string())
BINARIES = (pa.binary(), pa.large_binary())
REFUSALS = (ValueError, TypeError, ArithmeticError)

NOT_WANTED = pa.string()
"""The type of a struct's fields that the frame does not ask for. Only their names matter, for errors."""

_NOTHING = pa.struct([])  # the wanted type of a part that the frame's type lacks, because its form differs: an error
_PARSED = 256


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

    `type` is the Arrow type of the column, in the form of Spark's `to_arrow_type`. It raises INVALID_SCHEMA if Spark has no
    such type, as for a schema that contains itself.
    """

    @property
    def type(self) -> pa.DataType: ...

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        """Return the type, with `NOT_WANTED` for fields that the wanted type does not have. Raises INVALID_SCHEMA."""
        ...

    def decoder(self, writer: Any, type: pa.DataType, *, confluent: bool = False) -> Decoder:
        """Return a decoder to the type, which is the schema's own or a projection of it.

        The payloads have the writer's schema, of the same format, or this one if there is no other. With `confluent`, they
        have the form of Confluent's serializers, after the id.
        """
        ...

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> Encoder:
        """Return an encoder of columns of the type. Raises OptionError if the schema does not accept the type.

        With `confluent`, values have the form of Confluent's serializers, without id and message indexes.
        """
        ...


def parse_schema(name: str, stored: StoredSchema, message: str | None = None) -> Schema:
    """Parse a schema of a format, once in a process. Raises OptionError with the reason."""
    require_kind(name, stored)
    return _parsed(name, stored.text, tuple(stored.references.items()), message)


def require_kind(name: str, stored: StoredSchema) -> None:
    """Raise INVALID_SCHEMA for a schema of another format."""
    if stored.kind != KINDS[name]:
        raise INVALID_SCHEMA(f"the schema is of the type {stored.kind}, and the format is {name}; correct the format")


def schema_of(name: str, type: pa.DataType, *, is_registered: bool = False) -> StoredSchema:
    """Make a schema of a format from a column's type. Raises OptionError with the fields that the format does not have.

    A schema that `is_registered` has what later versions need to be compatible.
    """
    module = format_module(name)
    make = getattr(module, "evolving_schema_of", module.schema_of) if is_registered else module.schema_of
    return StoredSchema(make(type), KINDS[name])


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


def format_module(name: str) -> Any:
    """Import the module of the format avro, protobuf or json, which offers `parse`."""
    return import_module(f"pyspark_zkafka.formats.{name}")


@lru_cache(_PARSED)
def _parsed(name: str, text: str, references: tuple[tuple[str, str], ...], message: str | None) -> Schema:
    schema: Schema = format_module(name).parse(text, dict(references), message)
    return schema


@contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Put what was tried before the message of an OptionError that the ``with`` block raises."""
    try:
        yield
    except OptionError as error:
        raise type(error)(error.condition, f"{what}: {error.message}") from error


class StringSchema:
    """The schema of the format string, UTF-8, and its decoder and encoder."""

    type = pa.string()

    def projection(self, wanted: pa.DataType) -> pa.DataType:
        return self.type

    def decoder(self, writer: Schema | None, type: pa.DataType, *, confluent: bool = False) -> Decoder:
        return self

    def encoder(self, type: pa.DataType, *, confluent: bool = False) -> Encoder:
        if type not in STRINGS:
            raise INVALID_SCHEMA(
                f"the format string needs a column of type string, and the column is {spark_name(type)}; cast it"
            )
        return self

    def decode(self, payloads: pa.Array, skip: int = 0) -> Decoded:
        try:
            return Decoded(payloads.cast(pa.string()))
        except pa.ArrowInvalid:
            malformed = dict(_not_utf8(payloads))
            is_text = pa.array([row not in malformed for row in range(len(payloads))])
            return Decoded(pc.if_else(is_text, payloads, pa.scalar(None, payloads.type)).cast(pa.string()), malformed)

    def encode(self, column: pa.Array) -> pa.Array:
        data = column.cast(pa.binary())
        row = first_not_utf8(data)
        if row is not None:
            raise INVALID_VALUE(f"Row {row} of a batch has a value in the column that is not UTF-8; correct the row")
        return data


def _not_utf8(payloads: pa.Array) -> Iterator[tuple[int, str]]:
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            (payload or b"").decode()
        except UnicodeDecodeError as error:
            yield row, f"byte {error.start} is not UTF-8"


class TypeLimits:
    """Limits on the type that is built of a schema: it can be exponentially larger than the schema's text.

    If a frame declares the wanted type, only the fields of that type are built and counted.
    """

    MOST_FIELDS: ClassVar = 20_000
    MOST_DEPTH: ClassVar = 63  # Arrow sends at most 64 levels, and the row is one of them

    def __init__(self, wanted: pa.DataType | None = None) -> None:
        self._wanted = wanted
        self._fields, self._depth = 0, 1  # the column is a level, too

    @property
    def is_whole(self) -> bool:
        """True if all parts of the type at this level are built."""
        return self._wanted is None

    def wants(self, name: str) -> bool:
        """True if the field of the struct at this level is built; otherwise it is `NOT_WANTED`."""
        return self._wanted is None or (pa.types.is_struct(self._wanted) and bool(self._wanted.get_all_field_indices(name)))

    @contextmanager
    def level(self, *path: str, is_whole: bool = False) -> Iterator[None]:
        """Count a part, whose type is built in the ``with`` block: a field, "element" or "value", or one inside another.

        Without a path, the part has the type of this level. With `is_whole`, everything in it is built. Raises
        INVALID_SCHEMA if there are too many fields or levels.
        """
        outer = self._wanted
        self._wanted = None if is_whole else reduce(_part, path, outer)
        self._fields += 1
        self._depth += 1
        if self._fields > self.MOST_FIELDS or self._depth > self.MOST_DEPTH:
            raise _too_large()
        try:
            yield
        finally:
            self._depth -= 1
            self._wanted = outer


def require_depth(type: pa.DataType) -> pa.DataType:
    """Return the type of a column to read. Raises INVALID_SCHEMA if Arrow cannot send so many levels to Spark."""
    if depth(type) > TypeLimits.MOST_DEPTH:
        raise _too_large()
    return type


def depth(type: pa.DataType) -> int:
    """Return the number of a type's levels in Arrow, where an array is a level, and a map two.

    >>> depth(pa.int32()), depth(pa.list_(pa.int32())), depth(pa.map_(pa.string(), pa.int32()))
    (1, 2, 3)
    """
    return 1 + max((depth(type.field(number).type) for number in range(type.num_fields)), default=0)


def _part(type: pa.DataType | None, name: str) -> pa.DataType | None:
    """Return the type of a field, an element or a value; `_NOTHING` if there is none of the name."""
    if type is None:
        return None
    if pa.types.is_struct(type):
        places = type.get_all_field_indices(name)
        return type[places[0]].type if places else _NOTHING
    if pa.types.is_list(type):
        return type.value_type if name == "element" else _NOTHING
    return type.item_type if pa.types.is_map(type) and name == "value" else _NOTHING


def _too_large() -> OptionError:
    return INVALID_SCHEMA(
        f"The schema has more than {TypeLimits.MOST_FIELDS} fields, or is more than {TypeLimits.MOST_DEPTH} levels deep. "
        "Give the frame a schema with the fields that you need, by .schema(...)"
    )


def decode_rows(
    rows: list[_Row | None], build: Callable[[list[_Row | None]], pa.Array], malformed: dict[int, str]
) -> Decoded:
    """Build a column from parsed rows by `build`, which raises ValueError for the first row that does not fit.

    Halves the rows until the malformed ones are alone, adds them to `malformed`, and replaces them by None, which becomes
    null.
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
    """Return the encoded rows. `encode` raises ValueError or TypeError for a column of structs, or of some of their fields.

    Raises InvalidRow (INVALID_VALUE) for the first row that cannot be encoded, with the name of its field.
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
    """Return the first of `count` rows that `attempt` refuses, by halving. It takes the ends of a range of rows."""
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
    """Convert the elements of a column of lists, or the keys and items of maps, and return a list for each row.

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


def is_list(kind: pa.DataType) -> bool:
    """True for a list with offsets of any size."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def inner_path(path: str, name: str) -> str:
    """Return the path of a field, an element or a value inside a path, which may be empty."""
    return f"{path}.{name}" if path else name


def varint(number: int) -> bytes:
    """Return a number of 64 bits as a zigzag varint, as Avro and Confluent's message indexes have it."""
    bits, data = (number << 1) ^ (number >> 63), bytearray()
    while bits >= 0x80:
        data.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*data, bits])
