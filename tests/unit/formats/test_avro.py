"""Avro payloads: resolution of schemas, malformed payloads and columns."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.avro import AvroSchema, parse
from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.wire.protocol import unsigned_varint
from tests.support.avro_schemas import long, record

NEEDS_TIMES = pytest.mark.spark(4, 2)


def schema_of(schema: Any) -> AvroSchema:
    return parse(json.dumps(schema))


def decode(writer: Any, reader: Any, *payloads: bytes | None, type: pa.DataType | None = None, skip: int = 0) -> Decoded:
    ours = schema_of(reader)
    done = ours.decoder(schema_of(writer), type or ours.type).decode(pa.array(payloads, pa.binary()), skip)
    done.column.validate(full=True)
    return done


def value(writer: Any, reader: Any, payload: bytes) -> Any:
    done = decode(writer, reader, payload)
    assert not done.malformed
    return done.column[0].as_py()


def reason(schema: Any, payload: bytes, reader: Any = None) -> str:
    """Return why a payload is malformed, after checking that null payloads before and after it stay null."""
    done = decode(schema, reader or schema, None, payload, None)
    assert done.column.to_pylist() == [None] * 3
    assert list(done.malformed) == [1]
    return done.malformed[1]


# --- Values ------------------------------------------------------------------------------------------------------------


@NEEDS_TIMES
def test_times() -> None:
    """Times get Spark's units, and times before 1970 are rounded down."""
    timestamp, time = (long(logicalType=name) for name in ("timestamp-millis", "time-micros"))
    day = {"type": "int", "logicalType": "date"}
    assert value(timestamp, timestamp, b"\x01") == datetime(1969, 12, 31, 23, 59, 59, 999000, timezone.utc)
    assert decode(time, time, b"\x04").column.cast(pa.int64()).to_pylist() == [2000]
    assert value(day, day, b"\x01") == date(1969, 12, 31)


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ("timestamp-millis", "timestamp-micros", -3000),
        ("timestamp-micros", "timestamp-millis", -3),
        ("timestamp-nanos", "timestamp-micros", -1),
        ("timestamp-micros", "timestamp-nanos", -3000),
        ("timestamp-nanos", "timestamp-nanos", -3),
        ("local-timestamp-millis", "local-timestamp-micros", -3000),
        ("", "timestamp-millis", -3000),
        ("timestamp-millis", "", -3),
    ],
)
def test_units(writer: str, reader: str, expected: int) -> None:
    """A time keeps its moment if the units of writer and reader differ; a plain number takes the reader's unit."""
    done = decode(long(logicalType=writer), long(logicalType=reader), b"\x05")
    assert done.column.cast(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", "0.00"),
        (b"\x80", "-1.28"),
        (b"\x00" * 20 + b"\x80", "1.28"),
        (b"\xff" * 20 + b"\x80", "-1.28"),
        (b"\xd8\xf1", "-99.99"),
    ],
)
def test_decimals(data: bytes, expected: str) -> None:
    """A decimal may have more bytes than it needs."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert value(schema, schema, bytes([2 * len(data)]) + data) == Decimal(expected)


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("bytes", b"-1\x02"),
        ("string", "-1\x02"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("29616.66")),
        (["null", "bytes"], b"-1\x02"),
        (["int", "bytes"], {"member0": None, "member1": b"-1\x02"}),
    ],
)
def test_bytes_without_a_length(reader: Any, expected: Any) -> None:
    """In Confluent's format, bytes that are a whole payload have no length, whatever the reader's type is."""
    ours, payloads = schema_of(reader), pa.array([b"hdr-1\x02", None])
    done = ours.decoder(schema_of("bytes"), ours.type, confluent=True).decode(payloads, 3)
    assert done.column.to_pylist() == [expected, None]
    assert not done.malformed


def test_bytes_without_a_length_are_checked() -> None:
    """Bytes without a length may be empty, be skipped, or not fit the reader; other types keep their lengths."""
    payloads = pa.array([b"", b"a\xff"])

    def read(writer: Any, reader: Any, type: pa.DataType) -> tuple[list[Any], list[str]]:
        done = schema_of(reader).decoder(schema_of(writer), type, confluent=True).decode(payloads)
        return done.column.to_pylist(), list(done.malformed.values())

    assert read("bytes", "string", pa.string()) == (["", None], ["the string at byte 0 is not UTF-8"])
    member = pa.struct([("member0", pa.int32())])
    assert read("bytes", ["int", "bytes"], member) == ([{"member0": None}] * 2, [])
    assert read("string", "bytes", pa.binary())[0] == [None, None]
    assert read(["null", "bytes"], "bytes", pa.binary())[0] == [None, None]


def test_blocks_with_sizes() -> None:
    """A negative block count is followed by the block's size, and a projection skips the block by it."""
    schema = record(("list", {"type": "array", "items": "string"}), ("n", "int"))
    payload = b"\x03\x08\x02a\x02b\x01\x06\x04cd\x00\x0e"
    assert value(schema, schema, payload) == {"list": ["a", "b", "cd"], "n": 7}
    assert decode(schema, schema, payload, type=pa.struct([("n", pa.int32())])).column.to_pylist() == [{"n": 7}]


def test_projection_of_a_union() -> None:
    """A union member that is not requested is skipped, and the other members are null."""
    schema = record(("any", ["int", "string", record(("x", "int"), ("y", "int"), name="Q")]), ("n", "int"))
    type = pa.struct(
        [("n", pa.int32()), ("any", pa.struct([("member2", pa.struct([("y", pa.int32())])), ("member0", pa.int32())]))]
    )
    found = decode(schema, schema, b"\x00\x02\x0a", b"\x02\x02a\x0a", b"\x04\x04\x06\x0a", type=type).column.to_pylist()
    assert [row["n"] for row in found] == [5, 5, 5]
    assert [row["any"] for row in found] == [
        {"member2": None, "member0": 1},
        {"member2": None, "member0": None},
        {"member2": {"y": 3}, "member0": None},
    ]


def test_fields_of_a_null_struct() -> None:
    """The fields of a null struct have no nulls, since pyarrow refuses to cast nulls of a field that is not nullable."""
    schema = ["null", record(("x", "int"), ("l", {"type": "array", "items": "int"}), ("s", "string"))]
    column = decode(schema, schema, b"\x00", b"\x02\x02\x00\x00").column
    assert [column.field(i).null_count for i in range(3)] == [0, 0, 0]
    assert column.cast(column.type).to_pylist() == [None, {"x": 1, "l": [], "s": ""}]


def test_slices_large_offsets_and_header() -> None:
    """Payloads may be a slice, have 64-bit offsets and start with a header."""
    payloads = pa.array([b"x", b"hdr\x02", None, b"hdr\x04"], pa.large_binary()).slice(1)
    done = schema_of("int").decoder(None, pa.int32()).decode(payloads, 3)
    assert done == Decoded(pa.array([1, None, 2], pa.int32()), {})
    assert decode("int", "int", b"hd", skip=3).malformed == {0: "the value at byte 0 needs 3 bytes, 2 are left"}


@pytest.mark.long
def test_too_many_bytes_for_a_column() -> None:
    """A column of more than 2 GiB is refused, even if there is room for its bytes."""
    sizes = np.array([1_145_000_000, 1_100_000_000] + 15 * [0])  # with 17 rows, the first size makes room for 2.28 GB
    lengths = [unsigned_varint(2 * int(size)) for size in sizes]
    offsets = np.cumsum([0, *(sizes + list(map(len, lengths)))])
    data = np.zeros(offsets[-1], np.uint8)  # takes no memory where it is only read
    for at, length in zip(offsets[:-1], lengths, strict=True):
        data[at : at + len(length)] = list(length)
    payloads = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 17, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    with pytest.raises(MemoryError, match="more than 2 GiB"):
        schema_of("bytes").decoder(None, pa.binary()).decode(payloads)


@pytest.mark.parametrize("type", ["int", ["null", "string"], record(("a", {"type": "map", "values": "long"}))], ids=str)
def test_no_rows(type: Any) -> None:
    """A column without rows has buffers that Spark can read."""
    column = decode(type, type).column
    assert len(column) == 0
    assert column.equals(pa.array([], column.type))


# --- Resolution --------------------------------------------------------------------------------------------------------


def test_skipped_recursion() -> None:
    """A writer's record may contain itself if the reader's schema leaves that field out."""
    writer = record(("next", ["null", "R"]), ("n", "int"))
    assert value(writer, record(("n", "int")), b"\x02\x02\x00\x02\x04\x06") == {"n": 3}
    deep = b"\x02" * 600 + b"\x00" + b"\x02" * 601
    assert "more than 512 levels deep" in reason(writer, deep, record(("n", "int")))


def test_defaults() -> None:
    """Fields of all types get their defaults, even from a later branch of a union and from nested fields."""
    inner = record(("a", "int", 3), ("b", ["null", "string"], "x"), name="Q")
    reader = record(
        ("n", "int"),
        ("inner", inner, {}),
        ("map", {"type": "map", "values": {"type": "array", "items": "double"}}, {"k": [1, 2.5]}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4}, "\u00ff"),
        ("kind", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}, 1),
    )
    assert value(record(("n", "int")), reader, b"\x02") == {
        "n": 1,
        "inner": {"a": 3, "b": "x"},
        "map": [("k", [1.0, 2.5])],
        "price": Decimal(-1),
        "kind": "B",
        "at": datetime(1970, 1, 1, 0, 0, 0, 1000, timezone.utc),
    }


def test_aliases() -> None:
    """A field without a default is found by its own name before another field's alias; an enum is found by an alias."""
    kind = {"type": "enum", "name": "new.E", "aliases": ["old.E2"], "symbols": ["A"]}
    writer = record(("a", "int"), ("b", "int"), ("e", {**kind, "name": "old.E2"}))
    reader = record(("x", "int", 9, "a"), ("a", "int"), ("y", "int", 8, "b"), ("z", "int", 7, "b"), ("e", kind))
    assert value(writer, reader, b"\x02\x04\x00") == {"x": 9, "a": 1, "y": 2, "z": 7, "e": "A"}


def test_reused_name() -> None:
    """A renamed field keeps its values, also if a new field with a default takes its old name, as with from_avro."""
    reader = record(("name", "string", "new"), ("full", "string", "none", "name"))
    assert value(record(("name", "string")), reader, b"\x02a") == {"name": "new", "full": "a"}
    assert value(reader, {**reader, "doc": "as written"}, b"\x02a\x02b") == {"name": "a", "full": "b"}


def test_renamed_branches() -> None:
    """A record with another name takes the branch of the union whose fields it has, as with from_avro."""
    number, text = record(("a", "int"), name="X"), record(("a", "string"), ("c", ["null", "int"]), name="Y")
    writer = [record(("a", "int"), name="A"), record(("a", "string"), ("c", ["int", "null"]), name="B")]
    done = decode(writer, ["null", number, text], b"\x00\x02", b"\x02\x02b\x00\x04")
    assert not done.malformed
    assert done.column.to_pylist() == [
        {"member0": {"a": 1}, "member1": None},
        {"member0": None, "member1": {"a": "b", "c": 2}},
    ]


def test_branches() -> None:
    """A value takes the branch with its own name or type before a branch that widens it."""
    assert value("int", ["double", "string", "int"], b"\x02") == {"member0": None, "member1": None, "member2": 1}
    assert value("int", ["string", "double"], b"\x02") == {"member0": None, "member1": 1.0}
    first, second = record(("x", "int"), name="A"), record(("x", "int"), name="B")
    assert value(second, [first, second, "int"], b"\x02")["member1"] == {"x": 1}


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        ("string", "int", "the value is string for the writer and int for the reader"),
        (
            record(("a", "int")),
            record(("a", "int"), ("b", "int")),
            "the writer has no field b, and the reader gives it no default",
        ),
        (
            record(("a", record(("x", "long"), name="Q"))),
            record(("a", record(("x", "int"), name="Q"))),
            "a.x is long for the writer",
        ),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "long"}, "element is string for the writer"),
        (["string", "bytes"], "int", "the value is string for the writer and int"),
        ("boolean", ["int", "string"], "the value is boolean, for which the union has no branch"),
        ({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}, "fixed F for the writer"),
        (
            {"type": "enum", "name": "E", "symbols": []},
            {"type": "enum", "name": "G", "symbols": []},
            "enum E for the writer",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "scale 1 for the writer and 2 for the reader",
        ),
        (record(), record(("a", "int", "x")), "the default of a is not of its type ('x' is not int)"),
        (record(), record(("a", "float", 1e300)), "the default of a is not of its type (1e+300 is not float)"),
    ],
)
def test_unresolved(writer: Any, reader: Any, problem: str) -> None:
    """Schemas that do not fit are refused when the decoder is created, and the error names the field."""
    with pytest.raises(OptionError, match="INVALID_SCHEMA") as refused:
        decode(writer, reader)
    assert problem in str(refused.value)


def test_other_projection() -> None:
    """A requested type that the schema does not contain is refused with a list of all differences."""
    schema = schema_of(record(("a", "int"), ("b", {"type": "array", "items": "string"})))
    type = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.binary())), ("c", pa.int32())])
    with pytest.raises(OptionError) as refused:
        schema.decoder(None, type)
    for problem in ("value.a cannot be bigint;", "value.b.element cannot be binary;", "there is no field value.c;"):
        assert problem in str(refused.value)
    with pytest.raises(OptionError, match="two fields of one name"):
        schema.decoder(None, pa.struct([("a", pa.int32()), ("a", pa.int32())]))


def test_pickled_and_cached() -> None:
    """A schema is pickled as its texts, and pairs of equal texts share a program."""
    schema = schema_of(record(("a", "int")))
    assert schema.type is not None
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema
    assert len(pickle.dumps(schema)) < 250
    assert copy.decoder(None, schema.type).program is schema.decoder(None, copy.type).program


# --- Malformed payloads ------------------------------------------------------------------------------------------------

_STRING = record(("a", record(("b", "string"), name="Q")))
_INTS = {"type": "array", "items": "int"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2}


@pytest.mark.parametrize(
    ("schema", "payload", "expected"),
    [
        (_STRING, b"\x8c\x01abc", "a.b: the value at byte 2 needs 70 bytes, 3 are left"),
        (_STRING, b"\x01", "a.b: the length at byte 0 is -1"),
        (_STRING, b"\x02\xff", "a.b: the string at byte 1 is not UTF-8"),
        (_STRING, b"\x02ab", "1 bytes follow the value, at byte 2"),
        (_STRING, b"", "a.b: the value at byte 0 needs 1 bytes, 0 are left"),
        ("long", b"\xff" * 10 + b"\x01", "the number at byte 0 has more than 64 bits"),
        ("long", b"\xff" * 9 + b"\x02", "the number at byte 0 has more than 64 bits"),
        ("int", b"\x80\x80\x80\x80\x10", "the int at byte 0 is 2147483648, which has more than 32 bits"),
        ("boolean", b"\x02", "the boolean at byte 0 is 2"),
        ("double", b"1234567", "the value at byte 0 needs 8 bytes, 7 are left"),
        (["null", "int"], b"\x04", "the union at byte 0 has no branch 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "the enum at byte 0 has no symbol 1"),
        (_INTS, b"\x10\x02\x00", "array or map at byte 0 has 8 items, too many for 3 bytes"),
        ({"type": "array", "items": "null"}, b"\x80\x08\x00", "at byte 0 has 512 items, too many for 3 bytes"),
        (_INTS, b"\x01\x04\x02\x00", "block at byte 0 is not the size of its items"),
        ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\x00", "the string at byte 2 is not UTF-8"),
        (_DECIMAL, b"\x02\x64", "the decimal at byte 1 has too many digits"),
        (_DECIMAL, b"\x00", "the decimal at byte 1 has no bytes"),
        (
            ["null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38}],
            b"\x02\x00",
            "the decimal at byte 2 has no bytes",
        ),
        (long(logicalType="timestamp-millis"), b"\xff" * 9 + b"\x01", "the time at byte 0 is out of range"),
        *(
            pytest.param(long(logicalType="time-micros"), data, "the time at byte 0 is out of range", marks=NEEDS_TIMES)
            for data in (b"\x01", b"\x80\x80\xbb\xdd\x83\x05")
        ),
    ],
)
def test_malformed(schema: Any, payload: bytes, expected: str) -> None:
    """A malformed payload becomes null, and the reason has the field, the position and the bad value."""
    assert expected in reason(schema, payload)


def test_unknown_to_the_reader() -> None:
    """A symbol or branch that the reader's schema lacks makes only its own payload malformed."""
    done = decode(["int", "string"], "long", b"\x00\x02", b"\x02\x02a")
    assert done.column.to_pylist() == [1, None]
    assert done.malformed == {1: "the reader's schema lacks branch 1 of the writer's union, before byte 1"}
    writer, reader = ({"type": "enum", "name": "E", "symbols": symbols} for symbols in (["A", "B"], ["B"]))
    assert reason(writer, b"\x00", reader) == "the reader's enum lacks symbol 0 of the writer's, at byte 0"


def test_partial_record_leaves_nothing() -> None:
    """A record that fails inside its lists leaves no items for later records."""
    items = {"type": "array", "items": record(("s", "string"), ("m", {"type": "map", "values": "int"}), name="Q")}
    schema = record(("n", "int"), ("items", items), ("flag", "boolean"))
    good = b"\x02\x02\x02a\x02\x02k\x04\x00\x00\x01"
    done = decode(schema, schema, good, good[:-1], good[:-3], good[:4], good, good[:-1] + b"\x05")
    whole = {"n": 1, "items": [{"s": "a", "m": [("k", 2)]}], "flag": True}
    assert done.column.to_pylist() == [whole, None, None, None, whole, None]
    assert list(done.malformed) == [1, 2, 3, 5]
    assert len(done.column.field(1).values) == 2


def test_empty_items() -> None:
    """The payload's size limits the number of items without bytes, so that a few bytes do not become gigabytes."""
    schema = {"type": "array", "items": {"type": "array", "items": "null"}}
    assert value(schema, schema, b"\x02\x80\x01\x00\x00") == [[None] * 64]
    assert "items" in reason(schema, b"\x06" + b"\x80\x02\x00" * 3 + b"\x00")
    nulls = {"type": "array", "items": "null"}
    only_a, with_default = record(("a", nulls)), record(("a", nulls), ("b", nulls, [None] * 300))
    assert value(only_a, with_default, b"\x80\x02\x00") == {"a": [None] * 128, "b": [None] * 300}
    many_defaults = {"type": "array", "items": with_default}
    assert "items" in reason({"type": "array", "items": only_a}, b"\x06" + b"\x80\x02\x00" * 3 + b"\x00", many_defaults)


def test_small_schema_of_a_large_type() -> None:
    """A schema whose records repeat each other millions of times is compiled, and its values are skipped at once."""
    schema: Any = record(name="R0")
    for depth in range(1, 40):
        schema = record(("a", schema), ("b", f"R{depth - 1}"), name=f"R{depth}")
    writer = record(("list", {"type": "array", "items": schema}), ("n", "int"), name="R")
    assert value(writer, record(("n", "int")), b"\x00\x06") == {"n": 3}
    assert value(writer, record(("n", "int")), b"\x02\x00\x06") == {"n": 3}
