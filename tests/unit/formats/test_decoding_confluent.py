"""Confluent's wire format."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from pyspark_zkafka.conditions import FORMAT_LIBRARY_MISSING
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.avro import AVRO
from pyspark_zkafka.formats.decoding import ConfluentDecoder
from pyspark_zkafka.formats.format import format_of
from pyspark_zkafka.formats.registry import StoredSchema, UnknownSchema
from tests.support.fake_format import NUMBERS, NumberSchema

GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Registry:
    """Schemas by id, with a list of the ids requested."""

    def __init__(self, schemas: Mapping[int | str, StoredSchema]) -> None:
        self.schemas = schemas
        self.asked: list[int | str] = []
        self.contexts: set[str] = set()

    def schema(self, key: int | str, context: str = "") -> StoredSchema:
        """Return the schema of an id."""
        self.contexts.add(context)
        self.asked.append(key)
        if key not in self.schemas:
            raise UnknownSchema(f"the registry has no schema id {key}")
        return self.schemas[key]


def wire(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + payload


def payloads(*values: bytes | None) -> pa.Array:
    """Return a slice from the middle of an array."""
    return pa.array([b"before", *values, b"after"], pa.binary())[1:-1]


def no_headers(count: int) -> pa.Array:
    return pa.array([None] * count, HEADERS)


@pytest.fixture
def decoder() -> ConfluentDecoder:
    """A decoder of the column value, with the schemas x (7) and xyz (8), an unresolvable one (9) and one of JSON (10)."""
    schemas: dict[int | str, StoredSchema] = {
        7: StoredSchema("x", "AVRO", id=7),
        8: StoredSchema("xyz", "AVRO"),
        9: StoredSchema("foreign", "AVRO"),
        10: StoredSchema("x", "JSON"),
        str(GUID): StoredSchema("xy", "AVRO"),
    }
    reader = NumberSchema("x")
    return ConfluentDecoder("value", NUMBERS["avro"], reader, schemas[7], reader.type, Registry(schemas))  # type: ignore[arg-type]


def numbers(decoded: Any) -> list[int | None]:
    return [None if row is None else row["x"] for row in decoded.column.to_pylist()]


def test_one_schema(decoder: ConfluentDecoder) -> None:
    """A batch with a single schema id is decoded in one call."""
    batch = payloads(wire(7, b"1"), None, wire(7, b"22"))
    decoded = decoder.decode(batch, no_headers(3))
    assert numbers(decoded) == [1, None, 22]
    assert not decoded.malformed
    assert decoder._decoders[7].calls == [3]  # type: ignore[union-attr]


def test_several_schemas(decoder: ConfluentDecoder) -> None:
    """Rows with several schema ids keep their order, and each is decoded with its writer's schema."""
    batch = payloads(wire(8, b"1"), wire(7, b"2"), None, wire(8, b"x"), wire(7, b"4"))
    decoded = decoder.decode(batch, no_headers(5))
    assert numbers(decoded) == [3, 2, None, None, 4]
    assert decoded.malformed == {3: "b'x' is no number"}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "the payload has 0 bytes, and the schema id alone takes 5"),
        (b"\0\0\0\0", "the payload has 4 bytes, and the schema id alone takes 5"),
        (b'{"a":1}', "the first byte is 0x7b, and Confluent's format starts with 0x00"),
        (wire(77, b"1"), "the registry has no schema id 77"),
        (wire(2**32 - 1, b"1"), "the registry has no schema id 4294967295"),
        (wire(9, b"1"), "the schema of id 9 cannot be used: foreign does not resolve"),
        (
            wire(10, b"1"),
            "the schema of id 10 cannot be used: "
            "the schema is of the type JSON, and the format is avro; correct the format",
        ),
    ],
)
def test_malformed(decoder: ConfluentDecoder, payload: bytes, reason: str) -> None:
    """A record without a usable schema is malformed, whether it is alone or among others."""
    alone = decoder.decode(payloads(payload), no_headers(1))
    assert numbers(alone) == [None]
    assert alone.malformed == {0: reason}
    among = decoder.decode(payloads(wire(7, b"1"), payload, wire(7, b"3")), no_headers(3))
    assert numbers(among) == [1, None, 3]
    assert among.malformed == {1: reason}


def test_nothing(decoder: ConfluentDecoder) -> None:
    """Batches without rows, or with tombstones only, become columns of the right type."""
    assert decoder.decode(payloads(), no_headers(0)).column.type == decoder.type
    assert decoder.decode(payloads(None, None), no_headers(2)).column.to_pylist() == [None, None]


def test_unknown_ids_are_asked_for_again(decoder: ConfluentDecoder) -> None:
    """The decoder requests a schema once and its own schema never; the registry decides how long an id stays unknown."""
    for _ in range(2):
        decoder.decode(payloads(wire(7, b"1"), wire(8, b"1"), wire(77, b"2")), no_headers(3))
    assert decoder.registry.asked == [8, 77, 77]  # type: ignore[attr-defined]


def test_tombstones_with_headers(decoder: ConfluentDecoder) -> None:
    """A tombstone is null, whatever schema its header names."""
    headers = [[("__value_schema_id", b"bad")], [("__value_schema_id", wire(12345, b""))], []]
    decoded = decoder.decode(payloads(None, None, wire(7, b"1")), pa.array(headers, HEADERS))
    assert numbers(decoded) == [None, None, 1]
    assert not decoded.malformed


def test_ids_in_headers(decoder: ConfluentDecoder) -> None:
    """A header names the schema by GUID or id, and the payload then has no prefix; other headers are ignored."""
    name = "__value_schema_id"
    headers = [
        [("trace", b"1"), (name, b"\1" + GUID.bytes)],
        [("__key_schema_id", b"\1" + GUID.bytes)],
        [(name, b"\0\0\0\0\7")],
        [(name, b"\2" + GUID.bytes)],
        None,
    ]
    around = pa.array([[(name, b"bad")], *headers, [(name, b"bad")]], HEADERS)[1:-1]
    batch = payloads(b"5", wire(7, b"6"), b"7", b"8", wire(8, b"9"))
    decoded = decoder.decode(batch, around)
    assert numbers(decoded) == [10, 6, 7, None, 27]
    assert decoded.malformed == {3: f"the header {name} is 0x02{GUID.hex}, which is no schema id"}


def test_repeated_header(decoder: ConfluentDecoder) -> None:
    """Of several headers with an id, the last one counts, as in Confluent's deserializers."""
    ids = {"x": b"\0\0\0\0\7", "xyz": b"\0\0\0\0\x08", "bad": b"bad"}
    headers = [
        [("__value_schema_id", ids[name]) for name in names] for names in (("x", "xyz"), ("xyz", "bad"), ("bad", "x"))
    ]
    decoded = decoder.decode(payloads(b"5", b"6", b"7"), pa.array(headers, HEADERS))
    assert numbers(decoded) == [15, None, 7]
    assert list(decoded.malformed) == [1]


TREE = "message Tree { Tree child = 1; message Leaf {} }"


@pytest.mark.parametrize(
    ("name", "own", "writer", "payload"),
    [
        ("protobuf", "message Order { int64 id = 1; }", f"{TREE} message Order {{ int64 id = 1; }}", b"\2\2\x08\7"),
        ("protobuf", "message Order { int64 id = 1; }", "message Ping {} message Order { int64 id = 1; }", b"\2\2\x08\7"),
        ("json", "id bigint", '{"properties": {"x": {"$ref": "https://example.com/other.json"}}}', b'{"id": 7}'),
        ("json", "id bigint", "true", b'{"id": 7}'),
    ],
)
def test_writers_without_a_type(name: str, own: str, writer: str, payload: bytes) -> None:
    """A record is decoded even if the rest of its writer's schema has no type in Spark."""
    kind, syntax = name.upper(), 'syntax = "proto3"; ' if name == "protobuf" else ""
    registry = Registry({8: StoredSchema(syntax + writer, kind, id=8), 9: StoredSchema("string", "AVRO", id=9)})
    format = format_of(name)
    reader = format.schema(StoredSchema(syntax + own, kind))
    decoder = ConfluentDecoder("value", format, reader, None, reader.type, registry)  # type: ignore[arg-type]
    decoded = decoder.decode(payloads(wire(8, payload), wire(9, payload)), no_headers(2))
    assert decoded.column.to_pylist() == [{"id": 7}, None]
    reason = f"the schema is of the type AVRO, and the format is {name}; correct the format"
    assert decoded.malformed == {1: f"the schema of id 9 cannot be used: {reason}"}


def test_bytes() -> None:
    """Bytes follow the id, or are the whole payload, without a length. Inside of another type, they have one."""
    schemas: dict[int | str, StoredSchema] = {7: StoredSchema('"bytes"', "AVRO", id=7)}
    schemas[8] = StoredSchema('["null", "bytes"]', "AVRO", id=8)
    reader = AVRO.schema(schemas[7])
    decoder = ConfluentDecoder("value", AVRO, reader, schemas[7], reader.type, Registry(schemas))  # type: ignore[arg-type]
    headers = pa.array([None, None, [("__value_schema_id", b"\0\0\0\0\7")], None], HEADERS)
    decoded = decoder.decode(payloads(wire(7, b"\x04ab"), wire(7, b""), b"\x02", wire(8, b"\x02\x04ab")), headers)
    assert decoded.column.to_pylist() == [b"\x04ab", b"", b"\x02", b"ab"]
    assert not decoded.malformed


def test_ids_of_a_context(decoder: ConfluentDecoder) -> None:
    """Ids are requested in the context of the subject."""
    replace(decoder, context=":.staging:").decode(payloads(wire(8, b"1")), no_headers(1))
    decoder.decode(payloads(wire(8, b"1")), no_headers(1))
    assert decoder.registry.contexts == {":.staging:", ""}  # type: ignore[attr-defined]


def test_schema_that_cannot_be_compiled_now(decoder: ConfluentDecoder) -> None:
    """If a schema cannot be judged, as without a library, its records are not malformed: the task fails."""

    def missing(*arguments: object) -> NoReturn:
        raise FORMAT_LIBRARY_MISSING("grpcio-tools is not installed")

    with pytest.raises(OptionError, match="FORMAT_LIBRARY_MISSING"):
        replace(decoder, format=replace(decoder.format, parse=missing)).decode(payloads(wire(8, b"1")), no_headers(1))
