"""What each format offers, the format string, and Confluent's wire format.

A payload in Confluent's format starts with a zero byte and the four bytes of a schema's id. A Protobuf payload continues
with the place of its message in the file. Alternatively, a record header has this, or a byte 1 and the schema's GUID
instead of the id.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module  # noqa: TID251 - formats are imported by name, when an option names them
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.registry import Registry, StoredSchema, UnknownSchema

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""The formats with schemas, and their names in a registry."""

_RECORD = "topLevelRecord"  # as Spark's to_avro has it
_ID_BYTES = 5
_GUID_BYTES = 17
_PARSED = 256
_Rows = npt.NDArray[np.int64]


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


@dataclass(frozen=True, slots=True)
class Prefix:
    """The id or GUID of a payload's schema, and the bytes of the payload before the value.

    `before` has the bytes of a header that a value in Protobuf continues: its message indexes.
    """

    key: int | str
    skip: int
    before: bytes = b""


class ConfluentDecoder:
    """Decodes payloads, each by the writer's schema that its id names. `column` is key or value.

    A record whose schema is unknown, or does not resolve to the reader's, is malformed. Raises SchemaRegistryError if the
    registry cannot be asked.
    """

    def __init__(
        self, column: str, name: str, reader: Schema, stored: StoredSchema | None, type: pa.DataType, registry: Registry
    ) -> None:
        self._header = f"__{column}_schema_id"
        self._name = name
        self._reader = reader
        self._stored = stored
        self._type = type
        self._registry = registry
        self._decoders: dict[int | str, Decoder | str] = {}
        if stored is not None and stored.id is not None:  # spare each new worker a request
            self._decoders[stored.id] = self._new_decoder(stored)

    def decode(self, payloads: pa.Array, headers: pa.Array) -> Decoded:
        """Decode the payloads; `headers` are the records' headers."""
        groups, malformed = self._groups(payloads, headers)
        if len(groups) == 1 and not malformed:
            ((prefix, rows),) = groups.items()
            decoder = self._decoder(prefix.key)
            if not isinstance(decoder, str) and len(rows) == len(payloads) - payloads.null_count:
                return self._decode(decoder, payloads, prefix)
        parts, places = [], []
        for prefix, rows in groups.items():
            decoder = self._decoder(prefix.key)
            if isinstance(decoder, str):
                malformed.update(dict.fromkeys(rows.tolist(), decoder))
                continue
            decoded = self._decode(decoder, payloads.take(pa.array(rows)), prefix)
            malformed.update((int(rows[row]), reason) for row, reason in decoded.malformed.items())
            parts.append(decoded.column)
            places.append(rows)
        order = np.full(len(payloads), -1, dtype=np.int64)
        if places:
            found = np.concatenate(places)
            order[found] = np.arange(len(found))
        column = pa.concat_arrays(parts) if parts else pa.nulls(0, self._type)
        return Decoded(column.take(pa.array(order, mask=order < 0)), dict(sorted(malformed.items())))

    def _decode(self, decoder: Decoder, payloads: pa.Array, prefix: Prefix) -> Decoded:
        if prefix.before and self._name == "protobuf":
            payloads = pc.binary_join_element_wise(prefix.before, payloads, b"")
        return decoder.decode(payloads, prefix.skip)

    def _groups(self, payloads: pa.Array, headers: pa.Array) -> tuple[dict[Prefix, _Rows], dict[int, str]]:
        groups, malformed = header_groups(headers, self._header)
        rows = np.flatnonzero(pc.is_valid(payloads).to_numpy(zero_copy_only=False)).astype(np.int64)
        if groups or malformed:
            taken = np.concatenate([*groups.values(), np.array(list(malformed), dtype=np.int64)])
            rows = rows[~np.isin(rows, taken)]
        groups.update(payload_groups(payloads, rows, malformed))
        return groups, malformed

    def _decoder(self, key: int | str) -> Decoder | str:
        """Return the decoder of a writer's schema, or why its records are malformed."""
        if key not in self._decoders:
            try:
                stored = self._registry.schema(key)
            except UnknownSchema as unknown:
                return str(unknown)
            try:
                self._decoders[key] = self._new_decoder(stored)
            except OptionError as error:
                named = "id" if isinstance(key, int) else "GUID"
                self._decoders[key] = f"the schema of {named} {key} cannot be used: {error.message}"
        return self._decoders[key]

    def _new_decoder(self, stored: StoredSchema) -> Decoder:
        own = self._stored
        is_own = own is not None and (own.text, own.references, own.kind) == (stored.text, stored.references, stored.kind)
        writer = None if is_own else parse_schema(self._name, stored)
        if self._name == "protobuf":
            decoder: Decoder = self._reader.decoder(writer, self._type, indexed=True)  # type: ignore[call-arg]
            return decoder
        return self._reader.decoder(writer, self._type)


def payload_groups(payloads: pa.Array, rows: _Rows, malformed: dict[int, str]) -> Iterator[tuple[Prefix, _Rows]]:
    """Yield the given rows, which are not null, by the schema's id; adds rows without an id to `malformed`."""
    if not len(rows):
        return
    _, offsets, data = payloads.buffers()
    bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1].astype(np.int64)
    content = np.frombuffer(data or b"", np.uint8)
    starts, lengths = bounds[:-1][rows], np.diff(bounds)[rows]
    has_id = lengths >= _ID_BYTES
    for row, length in zip(rows[~has_id].tolist(), lengths[~has_id].tolist(), strict=True):
        malformed[row] = f"the payload has {length} bytes, and the schema id alone takes {_ID_BYTES}"
    rows, starts = rows[has_id], starts[has_id]
    heads = content[starts[:, None] + np.arange(_ID_BYTES)]
    is_magic = heads[:, 0] == 0
    for row, magic in zip(rows[~is_magic].tolist(), heads[~is_magic, 0].tolist(), strict=True):
        malformed[row] = f"the first byte is 0x{magic:02x}, and Confluent's format starts with 0x00"
    rows = rows[is_magic]
    ids = np.ascontiguousarray(heads[is_magic, 1:]).view(">u4").ravel()
    if len(ids) and (ids == ids[0]).all():
        yield Prefix(int(ids[0]), _ID_BYTES), rows
        return
    for found in np.unique(ids):
        yield Prefix(int(found), _ID_BYTES), rows[ids == found]


def header_groups(headers: pa.Array, name: str) -> tuple[dict[Prefix, _Rows], dict[int, str]]:
    """Return the rows with a schema's id in the header of a name, by prefix, and those with a malformed header."""
    groups: dict[Prefix, _Rows] = {}
    malformed: dict[int, str] = {}
    entries = headers.flatten()
    hits = np.flatnonzero(pc.equal(pc.struct_field(entries, "key"), name).to_numpy(zero_copy_only=False))
    if not len(hits):
        return groups, malformed
    rows = pc.list_parent_indices(headers).to_numpy()[hits].astype(np.int64)
    values = pc.struct_field(entries, "value").take(pa.array(hits)).fill_null(b"").dictionary_encode()
    codes = values.indices.to_numpy()
    for code, value in enumerate(values.dictionary.to_pylist()):
        prefix, members = _header_prefix(value), rows[codes == code]
        if prefix is None:
            malformed.update(
                dict.fromkeys(members.tolist(), f"the header {name} is 0x{value.hex()}, which is no schema id")
            )
        else:
            groups[prefix] = members
    return groups, malformed


def _header_prefix(value: bytes) -> Prefix | None:
    if value[:1] == b"\0" and len(value) >= _ID_BYTES:
        return Prefix(int.from_bytes(value[1:_ID_BYTES], "big"), 0, value[_ID_BYTES:])
    if value[:1] == b"\1" and len(value) >= _GUID_BYTES:
        return Prefix(str(uuid.UUID(bytes=value[1:_GUID_BYTES])), 0, value[_GUID_BYTES:])
    return None
