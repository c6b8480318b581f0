"""Confluent's wire format: payloads that name their writer's schema.

A payload starts with a zero byte and the four bytes of a schema's id. A Protobuf payload continues with the place of its
message in the file. Alternatively, a record header has this, or a byte 1 and the schema's GUID instead of the id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.codec import Decoded, Decoder, Schema, parse_schema, require_kind
from pyspark_zkafka.formats.registry import Registry, StoredSchema, UnknownSchema

_ID_BYTES = 5
_GUID_BYTES = 17
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The id or GUID of a payload's schema, and the bytes of the payload before the value.

    `before` has the message indexes of a Protobuf value, if a header holds them.
    """

    key: int | str
    skip: int
    before: bytes = b""


@dataclass
class ConfluentDecoder:
    """Decodes payloads, each by the writer's schema that its id names. `column` is key or value.

    A record is malformed if its schema is unknown, or does not resolve to the reader's. `context` is the subject's: each
    context of a registry has ids of its own. Raises SchemaRegistryError if the registry cannot be asked.
    """

    column: str
    name: str
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
        parts, places = [pa.nulls(0, self.type)], [np.empty(0, dtype=np.int64)]
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
        found = np.concatenate(places)
        order[found] = np.arange(len(found))
        malformed = {row: malformed[row] for row in sorted(malformed) if payloads[row].is_valid}  # headers of tombstones
        return Decoded(pa.concat_arrays(parts).take(pa.array(order, mask=order < 0)), malformed)

    def _decode(self, decoder: Decoder, payloads: pa.Array, prefix: Prefix) -> Decoded:
        if prefix.before and self.name == "protobuf":
            payloads = pc.binary_join_element_wise(prefix.before, payloads, b"")
        return decoder.decode(payloads, prefix.skip)

    def _groups(self, payloads: pa.Array, headers: pa.Array) -> tuple[dict[Prefix, _Rows], dict[int, str]]:
        groups, malformed = header_groups(headers, f"__{self.column}_schema_id")
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
        require_kind(self.name, stored)
        # JSON is decoded without the writer's schema.
        writer = None if is_own or self.name == "json" else parse_schema(self.name, stored)
        return self.reader.decoder(writer, self.type, confluent=True)


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
    for found in ids[:1] if (ids == ids[:1]).all() else np.unique(ids):
        yield Prefix(int(found), _ID_BYTES), rows[ids == found]


def header_groups(headers: pa.Array, name: str) -> tuple[dict[Prefix, _Rows], dict[int, str]]:
    """Return the rows with a schema's id in the header of a name, by prefix, and those with a malformed header."""
    groups: dict[Prefix, _Rows] = {}
    malformed: dict[int, str] = {}
    entries = headers.flatten()
    keys = pc.struct_field(entries, "key")  # strings, or bytes if they are read only for this
    hits = np.flatnonzero(pc.equal(keys, pa.scalar(name, keys.type)).to_numpy(zero_copy_only=False))
    if not len(hits):
        return groups, malformed
    rows = pc.list_parent_indices(headers).to_numpy()[hits].astype(np.int64)
    is_last = np.append(rows[1:] != rows[:-1], True)  # of several, Confluent's deserializers take the last
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


def _header_prefix(value: bytes) -> Prefix | None:
    if value[:1] == b"\0" and len(value) >= _ID_BYTES:
        return Prefix(int.from_bytes(value[1:_ID_BYTES], "big"), 0, value[_ID_BYTES:])
    if value[:1] == b"\1" and len(value) >= _GUID_BYTES:
        return Prefix(str(uuid.UUID(bytes=value[1:_GUID_BYTES])), 0, value[_GUID_BYTES:])
    return None
