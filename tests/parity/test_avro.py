"""Our Avro decoder and encoder, compared with Spark's from_avro and to_avro."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from pyspark_zkafka.engines import arrow_schema
from pyspark_zkafka.formats import avro

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = dt.timezone.utc
_FIELDS: dict[str, tuple[Any, list[Any]]] = {
    "nothing": ("null", [None, None]),
    "flag": ("boolean", [True, False]),
    "number": ("int", [-(2**31), 2**31 - 1]),
    "big": ("long", [-(2**63), 2**63 - 1]),
    "single": ("float", [0.1, float("-inf")]),
    "double": ("double", [0.1, -1e300]),
    "data": ("bytes", [b"", b"\x00\xff"]),
    "text": ("string", ["", "żółw 🐢"]),
    "uuid": ({"type": "string", "logicalType": "uuid"}, ["5b0e", "x"]),
    "day": ({"type": "int", "logicalType": "date"}, [-719162, 20000]),
    "time_ms": ({"type": "int", "logicalType": "time-millis"}, [0, 86_399_999]),
    "time_us": ({"type": "long", "logicalType": "time-micros"}, [0, 86_399_999_999]),
    "at_ms": ({"type": "long", "logicalType": "timestamp-millis"}, [-1, 1_760_000_000_123]),
    "at_us": ({"type": "long", "logicalType": "timestamp-micros"}, [-1, 1_760_000_000_123_456]),
    "local_ms": ({"type": "long", "logicalType": "local-timestamp-millis"}, [-1, 1_760_000_000_123]),
    "local_us": ({"type": "long", "logicalType": "local-timestamp-micros"}, [-1, 1_760_000_000_123_456]),
    "price": ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}, [b"\xff", b"\x01\x00\x00"]),
    "small": ({"type": "bytes", "logicalType": "decimal", "precision": 4}, [b"\x00", b"\xd8\xf1"]),
    "wide": (
        {"type": "fixed", "name": "Wide", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10},
        [b"\xff" * 16, b"\x00" * 8 + b"\x7f" * 8],
    ),
    "not_decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, [b"", b"12"]),
    "too_small": ({"type": "fixed", "name": "Few", "size": 2, "logicalType": "decimal", "precision": 9}, [b"ab", b"cd"]),
    "id": ({"type": "fixed", "name": "Id", "size": 4}, [b"abcd", b"\0\0\0\0"]),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, ["A", "B"]),
    "period": ({"type": "long", "spark.sql.catalyst.type": "interval day to second"}, [-1, 86_400_000_001]),
    "list": ({"type": "array", "items": ["null", "int"]}, [[], [("int", 1), ("null", None)]]),
    "lists": ({"type": "array", "items": {"type": "array", "items": "string"}}, [[[], ["a", "b"]], [["c"]]]),
    "map": ({"type": "map", "values": "long"}, [{}, {"k": 1}]),
    "maps": ({"type": "map", "values": ["null", {"type": "map", "values": "int"}]}, [{"k": None}, {"k": {"l": 1}}]),
    "inner": (
        {
            "type": "record",
            "name": "Inner",
            "fields": [{"name": "x", "type": "int"}, {"name": "kind", "type": ["null", "Kind"]}],
        },
        [{"x": 1, "kind": None}, {"x": 2, "kind": ("Kind", "B")}],
    ),
    "again": (["Inner", "null"], [None, ("Inner", {"x": 3, "kind": None})]),
    "one": (["string"], ["a", "b"]),
    "maybe": (["string", "null"], [None, ("string", "")]),
    "integers": (["int", "long"], [("int", 1), ("long", 2**40)]),
    "reals": (["double", "null", "float"], [("float", 0.5), None]),
    "any": (["int", "null", "string", "Inner"], [("string", "s"), ("Inner", {"x": 4, "kind": None})]),
    "either": (["boolean", {"type": "array", "items": "int"}], [("boolean", True), [1, 2]]),
}
_SCHEMA = {
    "type": "record",
    "name": "All",
    "fields": [{"name": name, "type": type} for name, (type, _) in _FIELDS.items()],
}
_READER = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "text", "type": "bytes"},
        {"name": "number", "type": ["null", "double"], "default": None},
        {"name": "flags", "aliases": ["flag"], "type": "boolean"},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["Z", "B"], "default": "Z"}},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "Inner",
                "fields": [{"name": "y", "type": {"type": "map", "values": "float"}, "default": {"k": 1.5}}],
            },
        },
        {
            "name": "added",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
            "default": "\x01\x00",
        },
        {"name": "any", "type": ["Inner", "null", "string", "long"]},
    ],
}


def _payloads() -> list[bytes]:
    """Encode two records. Values are physical, because fastavro must not convert them."""
    schema = json.loads(json.dumps(_SCHEMA).replace("logicalType", "was"))
    made = []
    for row in (0, 1):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {name: values[row] for name, (_, values) in _FIELDS.items()})
        made.append(out.getvalue())
    return made


def _both_read(spark: SparkSession, schema: Any, **options: str) -> None:
    """Check that our decoder gives the type and the rows of from_avro."""
    from pyspark.sql.avro.functions import from_avro

    payloads = _payloads()
    frame = spark.createDataFrame(
        [(number, data) for number, data in enumerate(payloads)], "n int, payload binary"
    ).coalesce(1)
    column = from_avro("payload", json.dumps(_SCHEMA), {"mode": "FAILFAST", **options}).alias("value")
    theirs = frame.sort("n").select(column)
    ours = avro.parse(json.dumps(schema))
    assert str(ours.type) == str(arrow_schema(theirs.schema).field("value").type)
    done = ours.decoder(avro.parse(json.dumps(_SCHEMA)), ours.type).decode(pa.array(payloads))
    assert not done.malformed
    [*found] = spark.createDataFrame(pa.table({"value": done.column})).coalesce(1).collect()
    [*expected] = theirs.collect()
    for one, other in zip(found, expected, strict=True):
        for name in one["value"].__fields__:
            assert one["value"][name] == other["value"][name], name


def test_types_and_values(spark: SparkSession) -> None:
    """Every Avro type decodes to the same type and values as with from_avro."""
    _both_read(spark, _SCHEMA)


def test_another_reader(spark: SparkSession) -> None:
    """Payloads of an older schema decode with a newer one as with from_avro's option avroSchema."""
    _both_read(spark, _READER, avroSchema=json.dumps(_READER))


_FRAME = """flag boolean, tiny tinyint, small smallint, number int, big bigint, single float, double double, text string,
    data binary, day date, at timestamp, local timestamp_ntz, price decimal(10,2), wide decimal(38,10),
    list array<int>, map map<string,struct<a:decimal(5,1)>>, inner struct<a:int,b:struct<c:decimal(5,1),d:array<string>>>"""


def test_written_as_to_avro_does(spark: SparkSession) -> None:
    """A frame gets the Avro schema that Spark derives, and encodes to the same bytes."""
    from pyspark.sql.avro.functions import to_avro
    from pyspark.sql.functions import struct

    at, local = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, _UTC), dt.datetime(1969, 1, 2, 3, 4, 5, 678901)
    row = (True, 1, -2, 3, 2**40, 0.5, -1e100, "ö", b"\0", dt.date(1960, 1, 1), at, local, Decimal("-1.25"))
    row += (Decimal("1234567890123456.5"), [1, None], {"k": {"a": Decimal("2.5")}}, {"a": 1, "b": {"c": None, "d": []}})
    frame = spark.createDataFrame([row, (None,) * len(row)], _FRAME).coalesce(1)
    frame = frame.select(struct(*frame.columns).alias("value"))
    column = frame.toArrow()["value"].combine_chunks()
    converters = spark._jvm.org.apache.spark.sql.avro.SchemaConverters
    theirs = converters.toAvroType(frame._jdf.schema().apply(0).dataType(), False, "topLevelRecord", "").toString()
    made = avro.schema_of(column.type)
    assert fastavro.parse_schema(json.loads(made)) == fastavro.parse_schema(json.loads(theirs))
    encoded = avro.parse(made).encoder(column.type).encode(column)
    expected = frame.select(to_avro("value", made).alias("payload")).toArrow()["payload"].combine_chunks()
    assert encoded.to_pylist() == expected.to_pylist()
