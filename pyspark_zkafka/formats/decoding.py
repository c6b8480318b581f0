"""Read with formats: the schemas that give the columns' types, and the decoding of batches of records.

In Confluent's wire format, a payload names its writer's schema: it starts with a zero byte and the four bytes of a
schema's id. A Protobuf payload continues with message indexes, which locate the message in its file. Alternatively, a
record header has these bytes, or a byte 1 and the schema's GUID instead of the id.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.conditions import INVALID_OPTION, MALFORMED_RECORD, UNKNOWN_COLUMN_TYPE
from pyspark_zkafka.errors import OptionError, listing
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.format import Decoder, Format, Schema, format_of, named_errors
from pyspark_zkafka.formats.registry import Registry, StoredSchema, UnknownSchema, context_of, open_registry
from pyspark_zkafka.formats.types import require_depth
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Assign, Subscribe
from pyspark_zkafka.model.records import COLUMNS, CORRUPT_COLUMNS, RAW_HEADERS, frame_schema
from pyspark_zkafka.options.values import ColumnFormat, ParseMode, ReadOptions, RegistryOptions

_log = logging.getLogger(__name__)
_Rows = npt.NDArray[np.int64]

_HEADERS, _OFFSET = "headers", "offset"
_ADDED = {_HEADERS: RAW_HEADERS, _OFFSET: COLUMNS[_OFFSET][0]}
_ID_BYTES = 5
_GUID_BYTES = 17


@dataclass(frozen=True, slots=True)
class PinnedColumn:
    """The schema that gives the type of a column. None if the frame's schema declares the type. Pickle-safe.

    In errors, `origin` says where the schema comes from.
    """

    format: ColumnFormat
    schema: Schema | None = None
    stored: StoredSchema | None = None
    origin: str = ""

    def type(self, wanted: pa.DataType | None = None) -> pa.DataType | None:
        """Return the column's type, with the fields that a frame wants. None if the frame's schema declares the type."""
        if self.schema is None:
            return None
        with named_errors(f"{self.origin} cannot be used"):
            return require_depth(self.schema.type if wanted is None else self.schema.projection(wanted))

    def reader(self, type: pa.DataType) -> Schema:
        """Return the schema for decoding payloads to a column of the declared type."""
        if self.schema is not None:
            return self.schema
        format = format_of(self.format.base)
        return format.schema(format.schema_of(type))


@dataclass(frozen=True, slots=True)
class PinnedFormats:
    """The decoded columns of a frame. They stay the same for all tasks and micro-batches of a query. Pickle-safe."""

    columns: Mapping[str, PinnedColumn]
    mode: ParseMode
    registry: RegistryOptions | None

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """The types of the decoded columns. None if the frame's schema declares the type."""
        return {name: column.type() for name, column in self.columns.items()}

    def projected(self, declared: pa.Schema) -> dict[str, pa.DataType | None]:
        wanted = {field.name: field.type for field in declared}
        return {name: column.type(wanted[name]) if name in wanted else None for name, column in self.columns.items()}

    @property
    def has_corrupt_columns(self) -> bool:
        return self.mode == "PERMISSIVE"


def pin_formats(options: ReadOptions, declared: Collection[str] | None = None) -> PinnedFormats | None:
    """Find the schemas that give the columns' types. None without formats. May ask the registry.

    If the user has declared a frame with the columns `declared`, other columns need no schema.

    Raises OptionError for a schema that cannot be used, UNKNOWN_COLUMN_TYPE if topics have different schemas, and
    SchemaRegistryError.
    """
    formats = options.formats
    if formats is None:
        return None
    needed = [column for column in formats.columns if declared is None or column.column in declared]
    columns = {column.column: _pinned(column, options) for column in needed}
    return PinnedFormats(columns, formats.mode, formats.registry)


def _pinned(column: ColumnFormat, options: ReadOptions) -> PinnedColumn:
    format = format_of(column.base)
    format.require_native()
    if column.schema is not None:
        stored, origin = StoredSchema(column.schema, format.kind), f"{column.column}.schema"
    elif column.is_confluent:
        stored, origin = _registered(column, options)
    elif column.rules.has_schema:
        return PinnedColumn(column)
    else:  # a format such as string: its only schema has no text
        return PinnedColumn(column, format.schema(StoredSchema("", format.kind)))
    with named_errors(f"{origin} cannot be used"):
        return PinnedColumn(column, format.schema(stored, column.message), stored, origin)


def _registered(column: ColumnFormat, options: ReadOptions) -> tuple[StoredSchema, str]:
    """Return the schema that the subjects of all topics share, and its origin for errors."""
    if options.formats is None or options.formats.registry is None:
        raise INVALID_OPTION(f"{column.column}.format={column.name} needs schema.registry.url")
    registry = open_registry(options.formats.registry)
    subscription = options.require_subscription()
    topics: list[str] = []
    if isinstance(subscription, Subscribe):
        topics = list(subscription.topics)
    elif isinstance(subscription, Assign):
        topics = sorted({partition.topic for partition in subscription.partitions})
    subjects = list(dict.fromkeys(column.subject_of(topic, None) for topic in topics or [""]))
    found = {subject: registry.subject(subject, column.version) for subject in subjects}
    first = found[subjects[0]]
    others = [s for s, stored in found.items() if (stored.text, stored.references) != (first.text, first.references)]
    if others:
        raise UNKNOWN_COLUMN_TYPE(
            f"The column {column.column} would need several types: subject {subjects[0]} has another schema than "
            f"{listing(others)}; set {column.column}.subject or {column.column}.schema, or read each topic by itself",
        )
    return first, f"the schema of subject {subjects[0]}"


def decoded_schema(pinned: PinnedFormats, include_headers: bool) -> pa.Schema:
    """Return the frame's columns, without a schema declared by the user."""
    unknown = [name for name, type in pinned.types.items() if type is None]
    if unknown:
        raise UNKNOWN_COLUMN_TYPE(
            f"The type of the column {unknown[0]} is unknown; set {unknown[0]}.schema, or declare it with .schema(...)",
        )
    raw = frame_schema(include_headers)
    types = dict(zip(raw.names, raw.types, strict=True)) | pinned.types
    types |= {name: found[0] for name, found in CORRUPT_COLUMNS.items() if pinned.has_corrupt_columns}
    return pa.schema(list(types.items()))


class BatchDecoder:
    """Decodes a task's batches, from `raw` to the frame's schema, in one of the modes.

    Attributes
    ----------
    raw : pa.Schema
        The columns to read from Kafka: without the columns of malformed records, perhaps with offset or headers added.
    """

    def __init__(self, pinned: PinnedFormats, schema: pa.Schema) -> None:
        self._mode = pinned.mode
        self._schema = schema
        self._formats = {name: column.format for name, column in pinned.columns.items()}
        self._decoders: dict[str, Decoder | ConfluentDecoder] = {}
        needed = [_OFFSET]
        registry = None if pinned.registry is None else open_registry(pinned.registry)
        for name, column in pinned.columns.items():
            if name not in schema.names:
                continue
            type = schema.field(name).type
            reader = column.reader(type)
            if registry is not None and column.format.is_confluent:
                format, context = format_of(column.format.base), context_of(column.format.subject)
                self._decoders[name] = ConfluentDecoder(name, format, reader, column.stored, type, registry, context)
                needed.append(_HEADERS)
            else:
                self._decoders[name] = reader.decoder(None, type)
        fields = [f.with_type(pa.binary()) if f.name in self._decoders else f for f in schema]
        fields = [field for field in fields if field.name not in CORRUPT_COLUMNS]
        fields += [pa.field(name, _ADDED[name]) for name in dict.fromkeys(needed) if name not in schema.names]
        self.raw = pa.schema(fields)
        self._dropped = 0
        self._first_dropped = ""

    def decode(self, batch: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
        """Decode a batch of one partition. Raises MALFORMED_RECORD in the mode FAILFAST."""
        found: dict[str, Decoded] = {}
        for name, decoder in self._decoders.items():
            payloads = batch.column(name)
            if isinstance(decoder, ConfluentDecoder):
                found[name] = decoder.decode(payloads, batch.column(_HEADERS))
            else:
                found[name] = decoder.decode(payloads)
        # The value's reasons come before the key's.
        reasons = {
            row: (name, f"{name}: {reason}") for name in sorted(found) for row, reason in found[name].malformed.items()
        }
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns |= {name: decoded.column for name, decoded in found.items()}
        columns |= _corrupt_columns(batch, reasons)
        decoded_batch = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        if not reasons or self._mode == "PERMISSIVE":
            return decoded_batch
        name, reason = reasons[min(reasons)]
        offset = batch.column(_OFFSET)[min(reasons)].as_py()
        if self._mode == "FAILFAST":
            text = (
                f"The record of {partition} at offset {offset} does not have {name}.format={self._formats[name].name}; "
                f"{reason}. Correct the format or schema, or set mode to PERMISSIVE or DROPMALFORMED"
            )
            raise MALFORMED_RECORD(text, column=name, partition=partition, offset=offset)
        if not self._dropped:
            self._first_dropped = f"{partition} at offset {offset}: {reason}"
        self._dropped += len(reasons)
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(reasons)] = False
        return decoded_batch.filter(pa.array(kept))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Log how many records were left out, when the ``with`` block of a task ends."""
        try:
            yield
        finally:
            if self._dropped:
                _log.warning(
                    "%d record(s) that cannot be decoded are left out, because mode is DROPMALFORMED. The first is %s",
                    self._dropped,
                    self._first_dropped,
                )


def _corrupt_columns(batch: pa.RecordBatch, reasons: Mapping[int, tuple[str, str]]) -> dict[str, pa.Array]:
    """Return the columns of malformed records: bytes and reason, null for all other records."""
    record, reason = ((name, types[0]) for name, types in CORRUPT_COLUMNS.items())
    if not reasons:
        return {name: pa.nulls(batch.num_rows, type) for name, type in (record, reason)}
    payloads: list[bytes | None] = [None] * batch.num_rows
    texts: list[str | None] = [None] * batch.num_rows
    for row, (column, text) in reasons.items():
        payloads[row], texts[row] = batch.column(column)[row].as_py(), text
    return {record[0]: pa.array(payloads, record[1]), reason[0]: pa.array(texts, reason[1])}


@dataclass
class ConfluentDecoder:
    """Decodes payloads by the writer's schema that the id of each payload names. `column` is key or value.

    A record is malformed if its schema is unknown, or does not resolve to the reader's. `context` is the subject's context:
    each context of a registry has its own ids. Raises SchemaRegistryError if the registry cannot be asked.
    """

    column: str
    format: Format
    reader: Schema
    stored: StoredSchema | None
    type: pa.DataType
    registry: Registry
    context: str = ""

    def __post_init__(self) -> None:
        self._decoders: dict[int | str, Decoder | str] = {}
        if self.stored is not None and self.stored.id is not None:  # spare each new worker a request
            self._decoders[self.stored.id] = self._new_decoder(self.stored)

    def decode(self, payloads: pa.Array, headers: pa.Array) -> Decoded:
        groups, malformed = self._groups(payloads, headers)
        if len(groups) == 1 and not malformed:
            ((prefix, rows),) = groups.items()
            decoder = self._decoder(prefix.key)
            if not isinstance(decoder, str) and len(rows) == len(payloads) - payloads.null_count:
                return self._decode(decoder, payloads, prefix)
        parts, row_groups = [pa.nulls(0, self.type)], [np.empty(0, dtype=np.int64)]
        for prefix, rows in groups.items():
            decoder = self._decoder(prefix.key)
            if isinstance(decoder, str):
                malformed.update(dict.fromkeys(rows.tolist(), decoder))
                continue
            decoded = self._decode(decoder, payloads.take(pa.array(rows)), prefix)
            malformed.update((int(rows[row]), reason) for row, reason in decoded.malformed.items())
            parts.append(decoded.column)
            row_groups.append(rows)
        order = np.full(len(payloads), -1, dtype=np.int64)
        found = np.concatenate(row_groups)
        order[found] = np.arange(len(found))
        malformed = {row: malformed[row] for row in sorted(malformed) if payloads[row].is_valid}  # headers of tombstones
        return Decoded(pa.concat_arrays(parts).take(pa.array(order, mask=order < 0)), malformed)

    def _decode(self, decoder: Decoder, payloads: pa.Array, prefix: _Prefix) -> Decoded:
        if prefix.before and self.format.has_message_indexes:
            payloads = pc.binary_join_element_wise(prefix.before, payloads, b"")
        return decoder.decode(payloads, prefix.skip)

    def _groups(self, payloads: pa.Array, headers: pa.Array) -> tuple[dict[_Prefix, _Rows], dict[int, str]]:
        groups, malformed = _header_groups(headers, f"__{self.column}_schema_id")
        rows = np.flatnonzero(pc.is_valid(payloads).to_numpy(zero_copy_only=False)).astype(np.int64)
        if groups or malformed:
            taken = np.concatenate([*groups.values(), np.array(list(malformed), dtype=np.int64)])
            rows = rows[~np.isin(rows, taken)]
        groups.update(_payload_groups(payloads, rows, malformed))
        return groups, malformed

    def _decoder(self, key: int | str) -> Decoder | str:
        """Return the decoder of a writer's schema, or why its records are malformed."""
        if key not in self._decoders:
            try:
                stored = self.registry.schema(key, self.context)
            except UnknownSchema as unknown:
                return str(unknown)
            try:
                self._decoders[key] = self._new_decoder(stored)
            except OptionError as error:
                if error.condition != "INVALID_SCHEMA":
                    raise
                named = "id" if isinstance(key, int) else "GUID"
                self._decoders[key] = f"the schema of {named} {key} cannot be used: {error.message}"
        return self._decoders[key]

    def _new_decoder(self, stored: StoredSchema) -> Decoder:
        own = self.stored
        is_own = own is not None and (own.text, own.references, own.kind) == (stored.text, stored.references, stored.kind)
        self.format.require_kind(stored)
        writer = self.format.schema(stored) if self.format.reads_writers_schema and not is_own else None
        return self.reader.decoder(writer, self.type, confluent=True)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The id or GUID of a payload's schema, and the bytes of the payload before the value.

    `before` has the message indexes of a Protobuf value, if a header holds them.
    """

    key: int | str
    skip: int
    before: bytes = b""


def _payload_groups(payloads: pa.Array, rows: _Rows, malformed: dict[int, str]) -> Iterator[tuple[_Prefix, _Rows]]:
    """Yield the given rows by the schema's id. The rows must not be null. Adds rows without an id to `malformed`."""
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
    for found in ids[:1] if (ids == ids[:1]).all() else np.unique(ids):
        yield _Prefix(int(found), _ID_BYTES), rows[ids == found]


def _header_groups(headers: pa.Array, name: str) -> tuple[dict[_Prefix, _Rows], dict[int, str]]:
    """Group rows by the schema's id in the header `name`. Also return the reasons for rows with a malformed header."""
    groups: dict[_Prefix, _Rows] = {}
    malformed: dict[int, str] = {}
    entries = headers.flatten()
    keys = pc.struct_field(entries, "key")  # strings, or bytes if the frame has no column of headers
    hits = np.flatnonzero(pc.equal(keys, pa.scalar(name, keys.type)).to_numpy(zero_copy_only=False))
    if not len(hits):
        return groups, malformed
    rows = pc.list_parent_indices(headers).to_numpy()[hits].astype(np.int64)
    is_last = np.append(rows[1:] != rows[:-1], True)  # Confluent's deserializers take the last header of a name
    hits, rows = hits[is_last], rows[is_last]
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


def _header_prefix(value: bytes) -> _Prefix | None:
    if value[:1] == b"\0" and len(value) >= _ID_BYTES:
        return _Prefix(int.from_bytes(value[1:_ID_BYTES], "big"), 0, value[_ID_BYTES:])
    if value[:1] == b"\1" and len(value) >= _GUID_BYTES:
        return _Prefix(str(uuid.UUID(bytes=value[1:_GUID_BYTES])), 0, value[_GUID_BYTES:])
    return None
