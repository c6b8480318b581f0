"""Protobuf messages and columns: presence, unknown fields, malformed bytes, message indexes, and rows that do not fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.protobuf import ProtobufSchema, parse

IMPORTS = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";'


def one(fields: str, syntax: str = "proto3") -> ProtobufSchema:
    """Return a schema with one message of the given fields."""
    return parse(f'syntax = "{syntax}"; {IMPORTS} message M {{ {fields} }}')


def decode(schema: ProtobufSchema, *payloads: bytes | None) -> Decoded:
    decoded = schema.decoder(None, schema.type).decode(pa.array(payloads, pa.binary()))
    decoded.column.validate(full=True)
    assert decoded.column.type == schema.type
    return decoded


def fields_of(schema: ProtobufSchema, payload: bytes) -> dict[str, Any]:
    decoded = decode(schema, payload)
    assert not decoded.malformed
    (row,) = decoded.column.to_pylist()
    found: dict[str, Any] = row
    return found


def encode(schema: ProtobufSchema, *rows: Any, kind: pa.DataType | None = None) -> list[bytes | None]:
    kind = kind or schema.type
    encoded: list[bytes | None] = schema.encoder(kind).encode(pa.array(rows, kind)).to_pylist()
    return encoded


def test_entries_of_maps() -> None:
    """Map entries are in the order of their keys, since the runtime's own order differs from process to process."""
    schema = one("map<string, int32> m = 1;")
    payload = b"".join(b"\x0a\x05\x0a\x01%c\x10\x01" % key for key in b"lkjihgfedcba")
    assert [key for key, _ in fields_of(schema, payload)["m"]] == list("abcdefghijkl")


def test_messages_with_the_names_of_times() -> None:
    """A Timestamp or Duration with fields of other types is a struct, for reads and for writes."""
    own = "message Timestamp { string seconds = 1; int32 nanos = 2; }"
    list_of_seconds = "message Duration { repeated int64 seconds = 1; int32 nanos = 2; }"
    schema = one(f"{own} {list_of_seconds} Timestamp t = 1; Duration d = 2;")
    row = {"t": {"seconds": "now", "nanos": 1}, "d": {"seconds": [1, 2], "nanos": None}}
    assert fields_of(schema, encode(schema, row)[0] or b"") == row


@pytest.mark.parametrize(
    ("fields", "syntax", "payload", "reason"),
    [
        ("int32 i = 1;", "proto3", b"\x0a\1a", "field i, number 1, has a value that its type does not allow"),
        ("enum E { A = 0; } optional E e = 1;", "proto2", b"\x08\5", "field e, number 1, has a value that its type does"),
        ("optional int32 i = 1; required int32 r = 2;", "proto2", b"\x08\0", "required fields are missing: r"),
        (
            "google.protobuf.Timestamp t = 1;",
            "proto3",
            b"\x0a\x0a\x08" + b"\xff" * 8 + b"\x7f",
            "a time in field t, number 1, is outside 64 bits of microseconds",
        ),
    ],
    ids=["another wire type", "unknown number of an enum", "missing field", "time"],
)
def test_reasons(fields: str, syntax: str, payload: bytes, reason: str) -> None:
    """A message that does not fit its schema is null with the field and the reason."""
    decoded = decode(one(fields, syntax), None, payload)
    assert decoded.column.to_pylist() == [None, None]
    assert list(decoded.malformed) == [1]
    assert decoded.malformed[1].startswith(reason)


def test_malformed_bytes() -> None:
    """Malformed records become null with a reason, even if only reading a string reveals it; other records are unharmed."""
    schema = one("optional string s = 1; optional int32 i = 2;", "proto2")
    decoded = decode(schema, b"\x10\1", b"\x08", b"\x0a\1\xff", None, b"\x0a\1x")
    assert decoded.column.to_pylist() == [{"s": None, "i": 1}, None, None, None, {"s": "x", "i": None}]
    assert list(decoded.malformed) == [1, 2]
    assert decoded.malformed[1].startswith("the bytes are no M: ")
    assert "utf8" in decoded.malformed[2]


def test_keys_that_are_not_utf8() -> None:
    """A map of proto2 with such a key, alone or among others, makes its record malformed, and no other."""
    schema = one("map<string, int32> m = 1;", "proto2")
    bad, good = b"\x0a\5\x0a\1\xff\x10\1", b"\x0a\5\x0a\1k\x10\1"
    decoded = decode(schema, good, bad, bad + good, good)
    assert decoded.column.to_pylist() == [{"m": [("k", 1)]}, None, None, {"m": [("k", 1)]}]
    assert list(decoded.malformed) == [1, 2]
    assert decoded.malformed[2] == "a key of field m, number 1, is not UTF-8"


def test_names_of_methods() -> None:
    """A field may have the name of a method of Python's messages, or of a keyword."""
    schema = one("optional int32 HasField = 1; optional int32 FromString = 2; repeated int32 from = 3;")
    row = {"HasField": 1, "FromString": None, "from": [3]}
    assert fields_of(schema, encode(schema, row)[0] or b"") == row


def test_structs_without_fields() -> None:
    """A frame may ask for none of a message's fields, in lists and maps too; such structs can be written."""
    schema = parse(
        'syntax = "proto3"; message T { E e = 1; repeated E l = 2; map<string, E> m = 3; } message E { int32 n = 1; }'
    )
    empty, value = pa.struct([]), pa.field("value", pa.struct([]), False)
    kind = pa.struct([("e", empty), ("l", pa.list_(value.with_name("element"))), ("m", pa.map_(pa.string(), value))])
    rows = [{"e": {}, "l": [{}, {}], "m": [("k", {})]}, None, {"e": None, "l": [], "m": []}]
    decoded = schema.decoder(None, kind).decode(schema.encoder(kind).encode(pa.array(rows, kind)))
    decoded.column.validate(full=True)
    assert decoded.column.to_pylist() == rows
    assert not decoded.malformed
    assert schema.encoder(empty).encode(pa.array([{}, None], empty)).to_pylist() == [b"", None]


def test_projection() -> None:
    """A projection, in any order and nested, decodes only its fields."""
    schema = one("int32 i = 1; message N { int32 a = 1; string b = 2; } N n = 2; string s = 3;")
    kind = pa.struct([("s", pa.string()), ("n", pa.struct([("b", pa.string())]))])
    payload = b"\x08\5\x12\3\x12\1x\x1a\1y"
    assert schema.decoder(None, kind).decode(pa.array([payload])).column.to_pylist() == [{"s": "y", "n": {"b": "x"}}]


def test_slices_and_headers() -> None:
    """Slices are decoded, and the bytes of the header are skipped."""
    schema = one("int32 i = 1;")
    payloads = pa.array([b"12345\x08\1", None, b"12345\x08\2"]).slice(1)
    assert schema.decoder(None, schema.type).decode(payloads, skip=5).column.to_pylist() == [None, {"i": 2}]
    assert schema.decoder(None, schema.type).decode(pa.array([], pa.binary())).column.to_pylist() == []


TWO = 'syntax = "proto3"; package p; message A { int32 i = 1; } message B { message C { int32 i = 1; } int32 i = 1; }'


def test_message_indexes() -> None:
    """The indexes choose the writer's message; indexes of another message, or unreadable ones, are malformed."""
    schema = parse(TWO, message="B.C")
    payloads = [b"\4\2\0\x08\1", b"\0\x08\1", b"\2\2\x08\1", b"\2\6\x08\1", b"", b"\xff", b"\4\2", b"\3\1", b"\xff" * 9]
    decoder = schema.decoder(parse(TWO), schema.type, confluent=True)
    decoded = decoder.decode(pa.array([b"head!" + payload for payload in payloads]), skip=5)
    assert decoded.column.to_pylist() == [{"i": 1}, *[None] * 8]
    assert decoded.malformed == {
        1: "the record has a p.A, and the column's message is p.B.C",
        2: "the record has a p.B, and the column's message is p.B.C",
        3: "the message indexes [3] are not in the writer's schema",
        4: "the message index at byte 5 does not end",
        5: "the message index at byte 5 does not end",
        6: "the number of message indexes is 2, and 1 bytes are left",
        7: "the number of message indexes is -2, and 1 bytes are left",
        8: "the message index at byte 5 does not end",
    }


def test_resolution_by_number() -> None:
    """Fields are matched by number, whatever names the writer gave them."""
    writer = parse('syntax = "proto3"; message M { int32 old = 1; int32 more = 9; }')
    schema = one("int32 i = 1; int32 later = 2;")
    (payload,) = encode(writer, {"old": 5, "more": 6})
    decoded = schema.decoder(writer, schema.type).decode(pa.array([payload]))
    assert decoded.column.to_pylist() == [{"i": 5, "later": None}]


def test_other_types_to_encode() -> None:
    """Numbers of another width, dates, large strings and large lists are encoded, even if the message has more fields."""
    schema = one("int32 i = 1; int64 l = 2; double d = 3; string s = 4; repeated int32 r = 5; bytes b = 6;")
    kind = pa.struct(
        [
            ("i", pa.int64()), ("l", pa.int8()), ("d", pa.float32()), ("s", pa.large_string()),
            ("r", pa.large_list(pa.date32())), ("b", pa.large_binary()),
        ]
    )  # fmt: skip
    row = {"i": 1, "l": 2, "d": 0.5, "s": "x", "r": [3], "b": b"y"}
    (payload,) = encode(schema, row, kind=kind)
    assert fields_of(schema, payload or b"") == row


@pytest.mark.parametrize(
    ("field", "value", "kind", "says"),
    [
        ("int32 f = 1;", 2**31, pa.int64(), "in the field f .*: Value out of range: 2147483648"),
        ("uint32 f = 1;", -1, pa.int64(), "Value out of range: -1"),
        ("enum E { A = 0; } E f = 1;", "B", pa.string(), 'unknown enum label "B"'),
        ("repeated int32 f = 1;", [1, None], pa.list_(pa.int32()), "in the field f .*: f.element is null"),
        (
            "map<string, int32> f = 1;",
            [("k", None)],
            pa.map_(pa.string(), pa.int32()),
            "f.value is null",
        ),
    ],
)
def test_values_that_do_not_fit(field: str, value: Any, kind: pa.DataType, says: str) -> None:
    """A value that does not fit is an error that names row and field."""
    column = pa.struct([("f", kind)])
    with pytest.raises(InvalidRow, match=f"^.INVALID_VALUE. Row 2 of a batch .*{says}"):
        encode(one(field), None, {"f": None}, {"f": value}, kind=column)


def test_text_that_is_not_utf8() -> None:
    """A Spark string that is not UTF-8 is an error that names row and field."""
    texts = pa.array([b"a", b"\xff"]).view(pa.string())
    column = pa.StructArray.from_arrays([texts], names=["s"])
    with pytest.raises(InvalidRow, match="Row 1 of a batch has a value in the field s"):
        one("string s = 1;").encoder(column.type).encode(column)


def test_oneof_with_several_members() -> None:
    """A row that sets several fields of a oneof is an error that names row and oneof; proto3's optional is no oneof."""
    schema = one("message N { oneof o { int32 i = 1; string s = 2; } } repeated N n = 1; optional int32 a = 2;")
    fine = {"n": [{"i": 0, "s": None}, {"i": None, "s": ""}, None], "a": 1}
    with pytest.raises(InvalidRow, match=r"Row 2 .*the field n .*n\.element has more than one member of the oneof o: i, s"):
        encode(schema, {"n": [], "a": 1}, None, {"n": [{"i": 0, "s": ""}], "a": 1})
    assert encode(schema, {**fine, "n": fine["n"][:2]}) == [b"\n\2\x08\0\n\2\x12\0\x10\1"]  # type: ignore[index]


def test_required_field_that_is_null() -> None:
    """A null in a required field is an error that names row and field."""
    with pytest.raises(InvalidRow, match=r"Row 1 .*required fields are null: i"):
        encode(one("required int32 i = 1;", "proto2"), {"i": 1}, {"i": None}, kind=pa.struct([("i", pa.int32())]))


def test_column_that_does_not_fit() -> None:
    """One error lists every field that the message lacks or types differently."""
    schema = one("int32 i = 1; message N { int32 x = 1; } N n = 2; map<string, int32> m = 3; repeated string l = 4;")
    kind = pa.struct(
        [
            ("i", pa.string()),
            ("n", pa.struct([("y", pa.int32())])),
            ("m", pa.int32()),
            ("l", pa.string()),
            ("I", pa.int32()),
        ]
    )
    says = "i is string, .* int32; n.y is no field of M.N.*; m is int, .* a map; l is string, .* repeated string; I is no"
    with pytest.raises(OptionError, match=says):
        schema.encoder(kind)
    with pytest.raises(OptionError, match="the column is int, and M needs a struct"):
        schema.encoder(pa.int32())
    with pytest.raises(OptionError, match="r is required and missing"):
        one("required int32 r = 1; optional int32 i = 2;", "proto2").encoder(pa.struct([("i", pa.int32())]))
