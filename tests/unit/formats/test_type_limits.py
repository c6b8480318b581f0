"""Schemas of a hostile registry: deep ones, and short ones with exponentially large types."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats import avro, protobuf
from pyspark_zkafka.formats import json as json_format
from pyspark_zkafka.formats.decoding import BatchDecoder, decoded_schema, pin_formats
from pyspark_zkafka.formats.format import Schema
from pyspark_zkafka.formats.types import NOT_WANTED
from pyspark_zkafka.model.records import projection_problems, require_projection
from pyspark_zkafka.options.batch import parse_read

DOUBLINGS = 40


def doubled_avro() -> Schema:
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}}]
    for i in range(1, DOUBLINGS):
        twice = [{"name": name, "type": f"R{i - 1}"} for name in "ab"]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"R{i}", "fields": twice}})
    return avro.parse(json.dumps({"type": "record", "name": "top", "fields": fields}))


def doubled_json() -> Schema:
    definitions: dict[str, object] = {"R0": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for i in range(1, DOUBLINGS):
        inner = {"$ref": f"#/definitions/R{i - 1}"}
        definitions[f"R{i}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    properties = {f"f{i}": {"$ref": f"#/definitions/R{i}"} for i in range(DOUBLINGS)}
    return json_format.parse(json.dumps({"type": "object", "properties": properties, "definitions": definitions}), {})


def doubled_protobuf() -> Schema:
    messages = [f"message R{i} {{ R{i - 1} a = 1; R{i - 1} b = 2; }}" for i in range(DOUBLINGS - 1, 0, -1)]
    top = " ".join(f"R{i} f{i} = {i + 1};" for i in range(DOUBLINGS))
    text = " ".join([f"message Top {{ {top} }}", *messages, "message R0 { int32 x = 1; }"])
    return protobuf.parse(f'syntax = "proto3"; {text}')


def test_the_deepest_type() -> None:
    """A column of the most levels is decoded, and Arrow serializes it within the struct that Spark's worker sends."""
    schema = avro.parse('{"type":"array","items":' * 62 + '"int"' + "}" * 62)
    column = schema.decoder(None, schema.type).decode(pa.array([b"\x02" * 62 + b"\x0a" + b"\0" * 62])).column
    batch = pa.record_batch([pa.StructArray.from_arrays([column], ["value"])], ["row"])
    assert pa.ipc.read_record_batch(batch.serialize(), batch.schema) == batch
    assert batch.column(0).field(0).flatten()[0].as_py() is not None


def deep_json(levels: int) -> object:
    return json_format.parse('{"type":"object","properties":{"f":' * levels + "{}" + "}}" * levels, {}).type


DOUBLED = pytest.mark.parametrize("parse", [doubled_avro, doubled_json, doubled_protobuf])


@DOUBLED
def test_exponential_types(parse: Callable[[], Schema]) -> None:
    """A schema of a few kilobytes whose type has 2^40 fields is refused with the remedy."""
    schema = parse()
    with pytest.raises(
        OptionError,
        match=r"^\[INVALID_SCHEMA\] The schema has more than 20000 fields, or is more than 63 levels deep\. "
        r"Give the frame a schema with the fields that you need, by \.schema\(\.\.\.\)$",
    ):
        _ = schema.type


@DOUBLED
def test_wanted_fields(parse: Callable[[], Schema]) -> None:
    """A frame gets types for the fields that it asks for, within a second and 100 MB, and only names for the others."""
    schema = parse()
    integer = pa.int64() if parse is doubled_json else pa.int32()
    is_nullable = parse is not doubled_avro
    wanted: pa.DataType = pa.struct([pa.field("x", integer, parse is doubled_json or parse is doubled_protobuf)])
    for _ in range(3):
        wanted = pa.struct([pa.field("b", wanted, is_nullable)])
    wanted = pa.struct([pa.field("f3", wanted, is_nullable)])
    tracemalloc.start()
    start = time.process_time()
    found = schema.projection(wanted)
    decoder = schema.decoder(None, wanted)
    seconds, most = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 1
    assert most < 100e6
    assert [field.name for field in found] == [f"f{i}" for i in range(DOUBLINGS)]
    assert [field.type == NOT_WANTED for field in found] == [i != 3 for i in range(DOUBLINGS)]
    assert not list(projection_problems("value", wanted, found))
    assert decoder.decode(pa.array([None], pa.binary())).column.type == wanted
    missing = pa.struct([("g", pa.int32())])
    assert "there is no field value.g; there are f0, f1, f2" in next(
        projection_problems("value", missing, schema.projection(missing))
    )


@DOUBLED
def test_too_many_wanted_fields(parse: Callable[[], Schema]) -> None:
    """The fields that a frame asks for are limited, too."""
    wanted: pa.DataType = pa.struct([])
    for _ in range(14):
        wanted = pa.struct([("a", wanted), ("b", wanted)])
    with pytest.raises(OptionError, match=r"more than 20000 fields"):
        parse().projection(pa.struct([(f"f{DOUBLINGS - 1}", wanted)]))


@DOUBLED
def test_another_wanted_type(parse: Callable[[], Schema]) -> None:
    """A frame that declares another type than the schema's is told the names of the fields, of which there are few."""
    declared = pa.struct([("f3", pa.struct([("b", pa.int32())])), (f"f{DOUBLINGS - 1}", pa.list_(pa.int32()))])
    text = "the schema has struct<a, b>; declare this type, with the fields that you need"
    assert list(projection_problems("value", declared, parse().projection(declared))) == [
        f"value.f3.b cannot be int; {text}",
        f"value.f{DOUBLINGS - 1} cannot be array<int>; {text}",
    ]


@pytest.mark.parametrize("keyword", ["allOf", "oneOf", "anyOf"])
def test_exponential_variants(keyword: str) -> None:
    """Variants of a JSON Schema count like fields."""
    definitions: dict[str, object] = {"R0": {}}
    for i in range(1, DOUBLINGS):
        definitions[f"R{i}"] = {keyword: [{"$ref": f"#/definitions/R{i - 1}"}] * 2}
    properties = {"n": {"type": "integer"}, "r": {"$ref": f"#/definitions/R{DOUBLINGS - 1}"}}
    schema = json_format.parse(json.dumps({"type": "object", "properties": properties, "definitions": definitions}), {})
    with pytest.raises(OptionError, match="more than 20000 fields"):
        _ = schema.type
    wanted = pa.struct([("n", pa.int64())])
    assert schema.decoder(None, wanted).decode(pa.array([b'{"n": 5, "r": 1}'])).column.to_pylist() == [{"n": 5}]


def test_exponential_defaults() -> None:
    """A default of a few bytes that expands to nested defaults is refused if a frame asks for its field."""
    inner = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int", "default": 1}]}
    fields: list[dict[str, object]] = [{"name": "f0", "type": inner, "default": {}}]
    for i in range(1, DOUBLINGS):
        twice = [{"name": name, "type": f"R{i - 1}", "default": {}} for name in "ab"]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"R{i}", "fields": twice}, "default": {}})
    schema = avro.parse(json.dumps({"type": "record", "name": "top", "fields": fields}))
    writer = avro.parse('{"type": "record", "name": "top", "fields": []}')
    one = pa.struct([pa.field("x", pa.int32(), False)])
    decoded = schema.decoder(writer, pa.struct([pa.field("f0", one, False)])).decode(pa.array([b""], pa.binary()))
    assert decoded.column.to_pylist() == [{"f0": {"x": 1}}]
    last = pa.struct([pa.field(f"f{DOUBLINGS - 1}", pa.struct([]), False)])
    with pytest.raises(
        OptionError, match=r"the Avro field f39 has more than 20000 values, .*\. Leave the field out of a frame"
    ):
        schema.decoder(writer, last)
    many = {"name": "f", "type": [{"type": "array", "items": "int"}, "null"], "default": [0] * 20_000}
    with pytest.raises(OptionError, match=r"the Avro field f has more than 20000 values, .* or add it to a frame to write"):
        avro.parse(json.dumps({"type": "record", "name": "top", "fields": [many]})).encoder(pa.struct([]))


def test_recursion_as_deep_as_the_frame() -> None:
    """A frame may ask for any number of levels of a record or message that contains itself; deeper levels are skipped."""
    type = pa.struct(
        [("v", pa.int32()), ("next", pa.struct([("v", pa.int32()), ("next", pa.struct([("v", pa.int32())]))]))]
    )
    proto = protobuf.parse('syntax = "proto3"; message A { int32 v = 1; A next = 2; }')
    fields = '[{"name": "v", "type": ["null", "int"]}, {"name": "next", "type": ["null", "A"]}]'
    schemas: dict[Schema, bytes] = {
        proto: bytes.fromhex("0801120a08021206080312020804"),
        avro.parse(f'{{"type": "record", "name": "A", "fields": {fields}}}'): bytes.fromhex("020202020402020602020800"),
    }
    for schema, payload in schemas.items():
        assert not list(projection_problems("value", type, schema.projection(type)))
        decoded = schema.decoder(None, type).decode(pa.array([payload]))
        assert not decoded.malformed
        assert decoded.column.to_pylist() == [{"v": 1, "next": {"v": 2, "next": {"v": 3}}}]


def test_frames() -> None:
    """A frame can read declared fields of a schema above the limits; without a declaration, the error names the option."""
    definitions = json.loads(doubled_json().text)  # type: ignore[attr-defined]
    options = {"kafka.bootstrap.servers": "k:9092", "subscribe": "t", "value.format": "json"}
    pinned = pin_formats(parse_read({**options, "value.schema": json.dumps(definitions)}))
    assert pinned is not None
    value = pa.struct([("f0", pa.struct([("x", pa.int64())]))])
    declared = pa.schema([("value", value), ("offset", pa.int64())])
    require_projection(declared, pinned.projected(declared))
    assert BatchDecoder(pinned, declared).raw.field("value").type == pa.binary()
    with pytest.raises(OptionError, match=r"\] value\.schema cannot be used: The schema has more than 20000 fields"):
        decoded_schema(pinned, include_headers=False)


def test_long_ddl() -> None:
    """A frame can read a few fields of a DDL above the limits, in time proportional to its length."""
    fields = ", ".join(f"f{i} int" for i in range(30_000))
    start = time.process_time()
    schema = json_format.parse(f"{fields}, deep {'array<' * 100}int{'>' * 100}")
    wanted = pa.struct([("f29999", pa.int32())])
    assert not list(projection_problems("value", wanted, schema.projection(wanted)))
    decoded = schema.decoder(None, wanted).decode(pa.array([b'{"f29999": 5}']))
    assert decoded.column.to_pylist() == [{"f29999": 5}]
    assert time.process_time() - start < 5
    with pytest.raises(OptionError, match="more than 20000 fields"):
        _ = schema.type


def test_long_chains_of_messages() -> None:
    """A chain of messages too deep for Google's runtime is refused; a frame can read a shorter one."""

    def chain(levels: int) -> Schema:
        inner = " ".join(f"message R{i} {{ R{i - 1} r = 1; }}" for i in range(1, levels))
        return protobuf.parse(
            f'syntax = "proto3"; message A {{ int32 n = 1; R{levels - 1} r = 2; }} {inner} message R0 {{}}'
        )

    wanted = pa.struct([("n", pa.int32())])
    short = chain(100)
    assert short.projection(wanted)[0] == wanted[0]
    assert short.decoder(None, wanted).decode(pa.array([b"\x08\5"])).column.to_pylist() == [{"n": 5}]
    with pytest.raises(OptionError, match="nested too deeply for Google"):
        chain(3000).projection(wanted)


@pytest.mark.parametrize(
    ("parse", "inner"),
    [
        (lambda levels: avro.parse('{"type":"array","items":' * levels + '"int"' + "}" * levels).type, 62),
        (deep_json, 62),
        (lambda levels: json_format.parse("a " + "array<" * levels + "int" + ">" * levels, {}).type, 61),
    ],
    ids=["avro", "json", "ddl"],
)
def test_deep_types(parse: Callable[[int], object], inner: int) -> None:
    """Types of 63 levels are read, column included; deeper ones are refused, whether or not their text can be parsed."""
    parse(inner)
    for levels in (inner + 1, 500, 20_000):
        with pytest.raises(OptionError, match=r"INVALID_SCHEMA.*(63 levels deep|nested too deeply)"):
            parse(levels)


DEEP_MESSAGES = " ".join(f"message M{i} {{ repeated M{i - 1} a = 1; }}" for i in range(1, 32))
DEEP_SCHEMAS = {
    "avro": '{"type":"map","values":' * 32 + '"int"' + "}" * 32,
    "json": '{"type":"object","additionalProperties":' * 32 + '{"type":"integer"}' + "}" * 32,
    "protobuf": f'syntax = "proto3"; message M {{ repeated M31 a = 1; }} {DEEP_MESSAGES} message M0 {{ int32 x = 1; }}',
}


@pytest.mark.parametrize("name", DEEP_SCHEMAS)
def test_levels_in_arrow(name: str) -> None:
    """Maps and repeated messages have two levels in Arrow: with more than 63 levels, the driver refuses the schema."""
    formats = {"value.format": name, "value.schema": DEEP_SCHEMAS[name]}
    pinned = pin_formats(parse_read({"kafka.bootstrap.servers": "k:9092", "subscribe": "t", **formats}))
    assert pinned is not None
    with pytest.raises(OptionError, match=r"INVALID_SCHEMA\] value\.schema cannot be used: .* more than 63 levels deep"):
        decoded_schema(pinned, include_headers=False)
