"""Round trips of formats, and damaged payloads."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.formats.codec import Decoded
from pyspark_zkafka.formats.format import Schema
from pyspark_zkafka.formats.json import JsonSchema
from pyspark_zkafka.formats.json import parse as parse_json
from pyspark_zkafka.formats.protobuf import ProtobufSchema
from pyspark_zkafka.formats.protobuf import parse as parse_protobuf

PROTO = """
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message N { optional int32 x = 1; repeated string l = 2; optional N2 n = 3; }
message N2 { optional bytes b = 1; optional string s = 2; }
message M {
  optional int32 i = 1; optional uint64 u = 2; optional double d = 3; optional float f = 4; optional string s = 5;
  optional google.protobuf.Timestamp t = 6; optional google.protobuf.Duration du = 7; optional N n = 8; repeated N ns = 9;
  map<string, N> m = 10; repeated sint64 r = 11; map<int32, bool> mb = 12; optional E e = 13; optional bool b = 14;
  repeated google.protobuf.Timestamp ts = 15; map<string, google.protobuf.Duration> md = 16; map<int64, bool> ml = 17;
  enum E { A = 0; B = 1; }
}
"""
DDL = (
    "i int, l bigint, b boolean, d double, s string, y binary, da date, t timestamp, n timestamp_ntz, de decimal(12,3), "
    "a array<int>, m map<string,struct<x:int>>, st struct<a:array<string>,b:double>"
)
LOW, HIGH = dt.datetime(1, 1, 2, tzinfo=dt.timezone.utc), dt.datetime(9999, 12, 30, tzinfo=dt.timezone.utc)


@lru_cache
def protobuf(syntax: str) -> ProtobufSchema:
    return parse_protobuf(f'syntax = "{syntax}"; {PROTO}', message="M")


@lru_cache
def json() -> JsonSchema:
    return parse_json(DDL)


def values(kind: pa.DataType, name: str = "") -> st.SearchStrategy[Any]:
    """Draw values of a type, and null where Protobuf and JSON keep it."""
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries(
            {f.name: st.none() | values(f.type, f.name) if not _never_null(f) else values(f.type) for f in kind}
        )
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(values(kind.key_type), values(kind.item_type), max_size=3).map(lambda d: list(d.items()))
    if name == "e":
        return st.sampled_from("AB")
    if pa.types.is_integer(kind):
        half = 2 ** (kind.bit_width - 1)
        return st.integers(-half, half - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if pa.types.is_timestamp(kind):
        times = st.datetimes(LOW.replace(tzinfo=None), HIGH.replace(tzinfo=None))
        return times if kind.tz is None else times.map(lambda time: time.replace(tzinfo=dt.timezone.utc))
    return {
        pa.string(): st.text(max_size=5),
        pa.binary(): st.binary(max_size=5),
        pa.bool_(): st.booleans(),
        pa.date32(): st.dates(),
        pa.duration("us"): st.integers(-(10**15), 10**15).map(lambda micros: dt.timedelta(microseconds=micros)),
        pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3).map(lambda d: d.quantize(Decimal("0.001"))),
    }[kind]


def _never_null(field: pa.Field) -> bool:
    return bool(pa.types.is_list(field.type) or pa.types.is_map(field.type))


def columns(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    return st.lists(st.none() | values(kind), max_size=4).map(lambda rows: pa.array(rows, kind))


def comparable(column: pa.Array) -> list[Any]:
    """Return the rows, with the entries of maps in a fixed order."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            found = [plain(inner) for inner in value]
            return sorted(found, key=repr) if found and isinstance(value[0], tuple) else found
        return tuple(map(plain, value)) if isinstance(value, tuple) else value

    return [plain(row) for row in column.to_pylist()]


def check(decoded: Decoded, payloads: list[bytes | None], kind: pa.DataType) -> None:
    """Check that the column is valid, and that malformed rows are null with a reason."""
    decoded.column.validate(full=True)
    assert decoded.column.type == kind
    assert len(decoded.column) == len(payloads)
    assert list(decoded.malformed) == sorted(decoded.malformed)
    assert all(decoded.column[row].as_py() is None and reason for row, reason in decoded.malformed.items())


def check_round_trip(schema: Schema, column: pa.Array) -> None:
    """Check that a column is the same after encoding and decoding, and that a slice of it has the same payloads."""
    encoder = schema.encoder(schema.type)
    encoded = encoder.encode(column)
    assert encoder.encode(column.slice(1)) == encoded.slice(1)
    decoded = schema.decoder(None, schema.type).decode(encoded)
    assert not decoded.malformed
    check(decoded, encoded.to_pylist(), schema.type)
    assert comparable(decoded.column) == comparable(column)


@given(st.data(), st.sampled_from(["proto2", "proto3"]))
def test_protobuf_round_trip(data: st.DataObject, syntax: str) -> None:
    """Encoding and decoding a Protobuf column returns the same column."""
    schema = protobuf(syntax)
    check_round_trip(schema, data.draw(columns(schema.type)))


@given(st.data())
def test_json_round_trip(data: st.DataObject) -> None:
    """Encoding and decoding a JSON column returns the same column."""
    check_round_trip(json(), data.draw(columns(json().type)))


@st.composite
def damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    """Draw a payload with a byte changed, cut off or added, or any bytes."""
    at = draw(st.integers(0, len(payload)))
    ways = [payload[:at] + draw(st.binary(min_size=1, max_size=3)) + payload[at + draw(st.integers(0, 2)) :], payload[:at]]
    return draw(st.sampled_from([*ways, draw(st.binary(max_size=8))]))


@given(st.data(), st.sampled_from(["proto2", "proto3"]), st.booleans())
def test_damaged_messages(data: st.DataObject, syntax: str, confluent: bool) -> None:
    """Damaged Protobuf messages raise nothing: each is decoded, or is null with a reason."""
    schema = protobuf(syntax)
    column = data.draw(columns(schema.type))
    intact = [
        (schema.message_indexes if confluent else b"") + p
        for p in schema.encoder(schema.type).encode(column).drop_null().to_pylist()
    ]
    payloads = [data.draw(damaged(payload)) for payload in intact]
    decoded = schema.decoder(schema, schema.type, confluent=confluent).decode(pa.array(payloads, pa.binary()))
    check(decoded, payloads, schema.type)
    assert decoded.column.null_count == len(decoded.malformed)


@given(st.data())
def test_damaged_documents(data: st.DataObject) -> None:
    """Damaged JSON documents raise nothing: each is decoded, or is null with a reason."""
    schema = json()
    intact = schema.encoder(schema.type).encode(data.draw(columns(schema.type))).drop_null().to_pylist()
    payloads = [data.draw(damaged(payload)) for payload in intact]
    decoded = schema.decoder(None, schema.type).decode(pa.array(payloads, pa.binary()))
    check(decoded, payloads, schema.type)


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["2026-01-01", "2026-01-01T00:00:00Z", "AQI="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ilbdsyatnmx"), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["i", "l", "b", "d", "s", "y", "da", "t", "n", "de", "a", "m", "st"]), DOCUMENTS),
        max_size=4,
    )
)
def test_documents_of_any_shape(documents: list[Any]) -> None:
    """JSON documents with values of any type raise nothing, and do not affect each other."""
    import json as standard

    schema = json()
    payloads: list[bytes | None] = [standard.dumps(document).encode() for document in documents]
    decoder = schema.decoder(None, schema.type)
    decoded = decoder.decode(pa.array(payloads, pa.binary()))
    check(decoded, payloads, schema.type)
    alone = [decoder.decode(pa.array([payload], pa.binary())) for payload in payloads]
    assert [str(one.column[0]) for one in alone] == list(map(str, decoded.column))
    assert {n: one.malformed[0] for n, one in enumerate(alone) if one.malformed} == decoded.malformed
