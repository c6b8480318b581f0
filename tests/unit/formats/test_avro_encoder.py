"""Avro payloads of columns: bytes, types that fit, and values that do not."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats.avro import parse
from tests.support.avro_schemas import long, record


def encode(schema: Any, column: pa.Array) -> list[bytes | None]:
    encoded = parse(json.dumps(schema)).encoder(column.type).encode(column)
    encoded.validate(full=True)
    return encoded.to_pylist()


def decimal(kind: str, precision: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": "decimal", "precision": precision, "scale": scale, **more}


def test_bytes_without_a_length() -> None:
    """In Confluent's format, bytes that are a whole payload have no length, and other types are as in bare Avro."""
    price = pa.array([Decimal("-1.28"), None, Decimal("0.00")], pa.decimal128(4, 2))
    for schema, column, expected in (
        ("bytes", pa.array([b"", None, b"ab"], pa.large_binary()), [b"", None, b"ab"]),
        (decimal("bytes", 4, 2), price, [b"\x80", None, b"\0"]),
        ("string", pa.array(["ab"]), [b"\x04ab"]),
        (["null", "bytes"], pa.array([b"ab"]), [b"\x02\x04ab"]),
    ):
        encoder = parse(json.dumps(schema)).encoder(column.type, confluent=True)
        assert encoder.encode(column).to_pylist() == expected


@pytest.mark.parametrize("schema", ["null", ["null", "string"], ["null", "int", "long"]], ids=str)
def test_rows_of_a_void_column(schema: Any) -> None:
    """Rows without a type are null, as in other columns: their records have no value."""
    assert encode(schema, pa.nulls(2)) == [None, None]


@pytest.mark.long  # takes 3 GiB
def test_more_than_2_gib() -> None:
    """A batch whose payloads have more than 2 GiB is refused, with the setting that makes batches smaller."""
    schema = parse(json.dumps(record(("id", "long"), ("large", ["bytes", "null"], "x" * 2**20))))
    encoder = schema.encoder(pa.struct([("id", pa.int64())]))
    rows = pa.StructArray.from_arrays([pa.array(range(2048))], names=["id"])
    assert len(encoder.encode(rows.slice(0, 2000))) == 2000
    with pytest.raises(MemoryError, match=r"2048 rows in Avro, or .* 2 GiB.*maxRecordsPerBatch"):
        encoder.encode(rows)


_LIST = {"type": "array", "items": ["int", "null"]}
_MAP = {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ("long", pa.array([0, -1, 64, 2**63 - 1, -(2**63)]), ["00", "01", "8001", "fe" + "ff" * 8 + "01", "ff" * 9 + "01"]),
        ("long", pa.array([-3], pa.int8()), ["05"]),
        ("double", pa.array([0.5], pa.float32()), ["000000000000e03f"]),
        ("boolean", pa.array([False, True]), ["00", "01"]),
        ("string", pa.array(["", "ö"]), ["00", "04c3b6"]),
        ("bytes", pa.array([b"a"], pa.large_binary()), ["0261"]),
        (long(logicalType="timestamp-millis"), pa.array([-1, 1999], pa.timestamp("us", "UTC")), ["01", "02"]),
        (long(logicalType="timestamp-micros"), pa.array([-1], pa.timestamp("us", "Europe/Warsaw")), ["01"]),
        ("long", pa.array([2000], pa.timestamp("us")), ["04"]),
        (long(logicalType="time-micros"), pa.array([2000], pa.time64("ns")), ["04"]),
        (
            decimal("bytes", 4, 2),
            pa.array(map(Decimal, ["0", "-1.28", "1.28", "-99.99"]), pa.decimal128(4, 2)),
            ["0200", "0280", "040080", "04d8f1"],
        ),
        (decimal("fixed", 4, name="F", size=2), pa.array([Decimal(-2)], pa.decimal128(3, 0)), ["fffe"]),
        (decimal("fixed", 4, name="F", size=18), pa.array([Decimal(-2)], pa.decimal128(4, 0)), ["ff" * 17 + "fe"]),
        (["null", "int"], pa.array([1, 2], pa.int32()), ["0202", "0204"]),
        (["float", "double"], pa.array([0.5]), ["02000000000000e03f"]),
        (["int", "long"], pa.array([1]), ["0202"]),
        (["int", "long"], pa.array([1], pa.int32()), ["0002"]),
        (["long", "null", "int"], pa.array([1], pa.int8()), ["0002"]),
        (["float", "double"], pa.array([0.5], pa.float32()), ["000000003f"]),
        (_LIST, pa.array([[1, None], []], pa.list_(pa.int32())), ["0400020200", "00"]),
        (_MAP, pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())), ["0202610200", "00"]),
    ],
)
def test_bytes(schema: Any, column: pa.Array, expected: list[str]) -> None:
    """Values become the bytes of Avro's specification, and null becomes a null payload, even in a slice."""
    assert [data and data.hex() for data in encode(schema, column)] == expected
    padded = pa.concat_arrays([column, pa.nulls(1, column.type), column]).slice(1)
    assert encode(schema, padded) == [*map(bytes.fromhex, expected[1:]), None, *map(bytes.fromhex, expected)]


def test_nested() -> None:
    """Slices of lists of structs are encoded, with union members and with defaults for fields that the frame lacks."""
    union = ["null", "int", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]
    inner = record(("any", union), ("extra", ["string", "null"], "d"), name="Q")
    schema = record(("rows", {"type": "array", "items": inner}), ("more", ["null", "int"]))
    any = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    type = pa.struct([("rows", pa.list_(pa.struct([("any", any)])))])
    rows = [{"any": {"member0": 1}}, {"any": {"member1": "B"}}, {"any": None}, {"any": {}}]
    column = pa.array([{"rows": []}, {"rows": rows}, None, {"rows": rows[:1]}], type).slice(1)
    default = b"\x00\x02d"
    one = b"\x02\x02" + default
    assert encode(schema, column) == [
        b"\x08" + one + b"\x04\x02" + default + b"\x00" + default + b"\x00" + default + b"\x00\x00",
        None,
        b"\x02" + one + b"\x00\x00",
    ]


def test_types_that_do_not_fit() -> None:
    """One error lists all differences between a frame and the schema."""
    schema = record(
        ("a", "int"),
        ("b", "string"),
        ("c", decimal("bytes", 4, 2)),
        ("d", {"type": "array", "items": "int"}),
        ("e", ["int", "string"]),
        ("f", long(logicalType="local-timestamp-micros")),
        ("g", "int"),
    )
    type = pa.struct(
        [
            ("a", pa.int64()),
            ("b", pa.binary()),
            ("c", pa.decimal128(5, 2)),
            ("d", pa.list_(pa.string())),
            ("e", pa.string()),
            ("f", pa.timestamp("us", "UTC")),
            ("x", pa.int32()),
        ]
    )
    with pytest.raises(OptionError, match="INVALID_SCHEMA") as refused:
        parse(json.dumps(schema)).encoder(type)
    for problem in (
        "x is not in the schema",
        "a is bigint, and the schema has int",
        "b is binary, and the schema has string",
        "c is decimal(5,2), and the schema has bytes (decimal(4,2))",
        "d.element is string, and the schema has int",
        "e is string, and the union needs a struct of member0, member1",
        "f is timestamp_ltz, and the schema has long (local-timestamp-micros)",
        "g is missing, and int in the schema is not nullable",
    ):
        assert problem in str(refused.value)
    with pytest.raises(OptionError, match=r"the default of h is not of its type \('x' is not union\)"):
        parse(json.dumps(record(("h", ["null", "int"], "x")))).encoder(pa.struct([]))


_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
_FIXED = {"type": "fixed", "name": "F", "size": 2}
_MEMBERS = pa.struct([("u", pa.struct([("member0", pa.int32()), ("member1", pa.string())]))])


@pytest.mark.parametrize(
    ("schema", "column", "problem"),
    [
        (record(("a", "int")), pa.array([{"a": 1}, None, {"a": None}]), "Row 2 of a batch has a value in a that is null"),
        (
            record(("a", {"type": "array", "items": _ENUM})),
            pa.array([{"a": ["A", "B"]}, {"a": []}, {"a": ["B", "C"]}]),
            "Row 2 of a batch has a value in a.element that is not a symbol of the enum E: A, B",
        ),
        (
            {"type": "map", "values": "long"},
            pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int64())),
            "Row 1 of a batch has a value in value that is null",
        ),
        (_FIXED, pa.array([b"ab", None, b"c"]), "Row 2 of a batch has a value in the column"),
        (record(("u", ["int", "string"])), pa.array([{"u": {}}], _MEMBERS), "in u that has no member that is set"),
        (
            record(("u", ["null", "int", "string"])),
            pa.array([{"u": {"member0": 1}}, None, {"u": {"member0": 1, "member1": "a"}}], _MEMBERS),
            "Row 2 of a batch has a value in u that has more than one member that is set",
        ),
    ],
)
def test_values_that_do_not_fit(schema: Any, column: pa.Array, problem: str) -> None:
    """A value that the schema does not allow is an error that names row and field."""
    if column.type == pa.struct([("a", pa.int64())]):
        column = column.cast(pa.struct([("a", pa.int32())]))
    with pytest.raises(InvalidRow, match="INVALID_VALUE") as refused:
        encode(schema, column)
    assert problem in str(refused.value)


_BAD = pa.array([b"a", b"\xff"]).view(pa.string())


@pytest.mark.parametrize(
    ("schema", "column", "problem"),
    [
        ("string", _BAD, "Row 1 of a batch has a value in the column that is not UTF-8"),
        (
            record(("a", ["null", "string"])),
            pa.StructArray.from_arrays([_BAD], ["a"]),
            "Row 1 of a batch has a value in a ",
        ),
        (
            {"type": "array", "items": "string"},
            pa.ListArray.from_arrays([0, 1, 2], _BAD),
            "Row 1 of a batch has a value in element that",
        ),
        (_MAP, pa.MapArray.from_arrays([0, 2], _BAD, pa.array([1, 2], pa.int32())), "Row 0 of a batch has a value in key "),
    ],
)
def test_text_that_is_not_utf8(schema: Any, column: pa.Array, problem: str) -> None:
    """A Spark string that is not UTF-8 is an error that names row and field."""
    with pytest.raises(InvalidRow, match=r"INVALID_VALUE.*is not UTF-8") as refused:
        encode(schema, column)
    assert problem in str(refused.value)


def test_times_in_any_zone() -> None:
    """The time zone of a timestamp's type does not change its moment."""
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    in_utc, elsewhere = (
        encode(long(logicalType="timestamp-micros"), pa.array([at], pa.timestamp("us", zone)))
        for zone in ("UTC", "America/New_York")
    )
    assert in_utc == elsewhere
