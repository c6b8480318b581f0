"""Avro compared with fastavro, with random schemas that evolve."""

from __future__ import annotations

import io
import json
import math
import struct
from itertools import count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.formats import avro
from pyspark_zkafka.formats.codec import Decoded
from tests.support.tiers import repetitions

_INTS = st.integers(-(2**31), 2**31 - 1)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": _INTS,
    "long": st.integers(-(2**63), 2**63 - 1) | _INTS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=12),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
}
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
}
_PRIMITIVES = list(_VALUES)


@st.composite
def schemas(draw: st.DrawFn, names: count[int], depth: int, unions: bool = True) -> Any:
    """Draw a type in JSON; records have one to five fields."""
    kinds = ["primitive"] * 3 + ["enum", "fixed"] + (["array", "map", "record", "record"] if depth else [])
    kind = draw(st.sampled_from(kinds + (["union", "nullable"] if unions else [])))
    inner = schemas(names, depth - 1)
    if kind == "primitive":
        return draw(st.sampled_from(_PRIMITIVES))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=4, unique=True))
        return {"type": "enum", "name": f"n{next(names)}", "symbols": symbols}
    if kind == "fixed":
        return {"type": "fixed", "name": f"n{next(names)}", "size": draw(st.integers(0, 5))}
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "map":
        return {"type": "map", "values": draw(inner)}
    if kind == "record":
        return draw(records(names, depth))
    if kind == "nullable":
        branches = ["null", draw(schemas(names, depth, False).filter(lambda found: found != "null"))]
        return draw(st.permutations(branches))
    branches = draw(st.lists(schemas(names, max(depth - 1, 0), False), min_size=1, max_size=3))
    by_kind = {branch if isinstance(branch, str) else branch.get("name", branch["type"]): branch for branch in branches}
    if "string" in by_kind:
        by_kind.pop("bytes", None)  # fastavro reads both as whichever comes first
    return list(by_kind.values())


@st.composite
def records(draw: st.DrawFn, names: count[int], depth: int = 3) -> Any:
    fields = [
        {"name": f"f{next(names)}", "type": t} for t in draw(st.lists(schemas(names, depth - 1), min_size=1, max_size=5))
    ]
    return {"type": "record", "name": f"n{next(names)}", "fields": fields}


@st.composite
def values(draw: st.DrawFn, schema: Any) -> Any:
    """Draw a value; for a union, the number of the branch and its value."""
    if isinstance(schema, list):
        number = draw(st.integers(0, len(schema) - 1))
        return number, draw(values(schema[number]))
    if isinstance(schema, str):
        return draw(_VALUES[schema])
    if schema["type"] == "enum":
        return draw(st.sampled_from(schema["symbols"]))
    if schema["type"] == "fixed":
        return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
    if schema["type"] == "array":
        return draw(st.lists(values(schema["items"]), max_size=3))
    if schema["type"] == "map":
        return draw(st.dictionaries(_VALUES["string"], values(schema["values"]), max_size=3))
    return {f["name"]: draw(values(f["type"])) for f in schema["fields"]}


_DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": -3,
    "long": 2**40,
    "float": 0.5,
    "double": -1.25,
    "bytes": "\xff",
    "string": "ö",
}


def default_of(schema: Any) -> Any:
    """Return a default in JSON."""
    if isinstance(schema, list):
        return default_of(schema[0])
    if isinstance(schema, str):
        return _DEFAULTS[schema]
    kind = schema["type"]
    if kind == "enum":
        return schema["symbols"][-1]
    if kind == "fixed":
        return "\x80" * schema["size"]
    if kind == "array":
        return [default_of(schema["items"])] * 2
    if kind == "map":
        return {"k": default_of(schema["values"])}
    return {f["name"]: default_of(f["type"]) for f in schema["fields"]}


@st.composite
def evolved(draw: st.DrawFn, schema: Any, names: count[int]) -> Any:
    """Draw a reader's schema that accepts the values of a writer's schema."""
    if isinstance(schema, list):
        branches = [draw(evolved(branch, names)) for branch in schema]
        flat = [b for branch in branches for b in (branch if isinstance(branch, list) else [branch])]
        if len({json.dumps(b) if isinstance(b, str) else b.get("name", b["type"]) for b in flat}) < len(flat):
            return schema
        if "null" not in flat and draw(st.booleans()):
            flat.append("null")
        return draw(st.permutations(flat))
    if isinstance(schema, str):
        if schema != "null" and draw(st.integers(0, 5)) == 0:
            return [schema, "null"]
        return draw(st.sampled_from([schema, schema, *_PROMOTED.get(schema, ())]))
    kind = schema["type"]
    if kind == "enum":
        kept = draw(st.lists(st.sampled_from([*schema["symbols"], "X", "Y"]), min_size=1, unique=True))
        return {**schema, "symbols": kept, "default": kept[0]}
    if kind == "fixed":
        return schema
    if kind == "array":
        return {**schema, "items": draw(evolved(schema["items"], names))}
    if kind == "map":
        return {**schema, "values": draw(evolved(schema["values"], names))}
    fields = []
    for field in schema["fields"]:
        change = draw(st.sampled_from(["same", "same", "drop", "rename"]))
        if change != "drop":
            made = {"name": field["name"], "type": draw(evolved(field["type"], names))}
            fields.append({**made, "name": f"r{next(names)}", "aliases": [field["name"]]} if change == "rename" else made)
    for _ in range(draw(st.integers(0, 2))):
        added = draw(schemas(names, 1))
        fields.append({"name": f"a{next(names)}", "type": added, "default": default_of(added)})
    return {**schema, "fields": draw(st.permutations(fields))}


def assert_same(ours: Any, theirs: Any, schema: Any) -> None:
    """Compare a decoded value with fastavro's."""
    if isinstance(schema, list):
        choices = [branch for branch in schema if branch != "null"]
        if theirs is None or len(choices) == 1:
            assert_same(ours, theirs, "null" if theirs is None else choices[0])
        elif len(choices) == 2 and any(set(map(str, choices)) == pair for pair in ({"int", "long"}, {"float", "double"})):
            assert_same(ours, theirs, "long" if "long" in choices else "double")
        else:
            [(number, found)] = [(number, found) for number, found in enumerate(ours.values()) if found is not None]
            assert_same(found, theirs, choices[number])
        return
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "array":
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, schema["items"])
    elif kind == "map":
        assert {key for key, _ in ours} == set(theirs)
        for key, one in ours:
            assert_same(one, theirs[key], schema["values"])
    elif kind == "record":
        assert list(ours) == [field["name"] for field in schema["fields"]]
        for field in schema["fields"]:
            assert_same(ours[field["name"]], theirs[field["name"]], field["type"])
    elif kind in ("float", "double"):
        expected = float(np.float32(theirs)) if kind == "float" else float(theirs)
        assert ours == expected or (math.isnan(ours) and math.isnan(expected))
    else:
        # fastavro takes the first branch that fits, we prefer the same kind. It leaves defaults of bytes in JSON.
        if isinstance(theirs, float) and isinstance(ours, int):
            ours = float(ours)
        if isinstance(ours, bytes) and isinstance(theirs, str):
            theirs = theirs.encode("iso-8859-1")
        elif isinstance(ours, str) and isinstance(theirs, bytes):
            ours = ours.encode()
        assert ours == theirs


def encoded(schema: Any, value: Any) -> bytes:
    """Encode a value by Avro's specification, because fastavro's writer does not take the branch of each union."""
    if isinstance(schema, list):
        return varint(value[0]) + encoded(schema[value[0]], value[1])
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "null":
        return b""
    if kind == "boolean":
        return bytes([value])
    if kind in ("int", "long"):
        return varint(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind == "fixed":
        return bytes(value)
    if kind in ("bytes", "string"):
        data = value if kind == "bytes" else value.encode()
        return varint(len(data)) + data
    if kind == "enum":
        return varint(schema["symbols"].index(value))
    if kind == "record":
        return b"".join(encoded(field["type"], value[field["name"]]) for field in schema["fields"])
    if kind == "array":
        items = [encoded(schema["items"], item) for item in value]
    else:
        items = [encoded("string", key) + encoded(schema["values"], item) for key, item in value.items()]
    # The first item has its own block, with its size.
    first = varint(-1) + varint(len(items[0])) + items[0] if items else b""
    return first + (varint(len(items) - 1) + b"".join(items[1:]) if len(items) > 1 else b"") + b"\0"


def varint(number: int) -> bytes:
    rest, found = (number << 1) ^ (number >> 63), []
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any, list[bytes], list[Any]]:
    """Draw a writer's schema, a reader's schema, payloads, and the values that fastavro decodes from them."""
    names = count()
    writer = draw(records(names))
    reader = draw(evolved(writer, names))
    payloads = [encoded(writer, value) for value in draw(st.lists(values(writer), min_size=1, max_size=4))]
    return writer, reader, payloads, [fastavro.schemaless_reader(io.BytesIO(p), writer, reader) for p in payloads]


def decode(writer: Any, reader: Any, payloads: list[bytes | None], type: pa.DataType | None = None) -> Decoded:
    ours = avro.parse(json.dumps(reader))
    decoder = ours.decoder(avro.parse(json.dumps(writer)), ours.type if type is None else type)
    done = decoder.decode(pa.array(payloads, pa.binary()))
    done.column.validate(full=True)
    return done


@settings(max_examples=repetitions(60))
@given(pairs())
def test_evolution(pair: tuple[Any, Any, list[bytes], list[Any]]) -> None:
    """Payloads decode to the same values as with fastavro, whatever the reader's schema."""
    writer, reader, payloads, expected = pair
    done = decode(writer, reader, payloads)
    assert not done.malformed
    for ours, theirs in zip(done.column.to_pylist(), expected, strict=True):
        assert_same(ours, theirs, reader)


@st.composite
def projections(draw: st.DrawFn, type: pa.DataType) -> pa.DataType:
    """Draw some of the fields, in any order, at every depth."""
    if pa.types.is_struct(type):
        kept = draw(st.lists(st.sampled_from(range(type.num_fields)), unique=True)) if type.num_fields else []
        return pa.struct([pa.field(type[i].name, draw(projections(type[i].type)), type[i].nullable) for i in kept])
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", draw(projections(type.value_type)), type.value_field.nullable))
    if pa.types.is_map(type):
        value = pa.field("value", draw(projections(type.item_type)), type.item_field.nullable)
        return pa.map_(type.key_field, value)
    return type


def projected(value: Any, type: pa.DataType) -> Any:
    """Return the part of a value that a projection keeps."""
    if value is None:
        return None
    if pa.types.is_struct(type):
        return {f.name: projected(value[f.name], f.type) for f in type}
    if pa.types.is_list(type):
        return [projected(item, type.value_type) for item in value]
    if pa.types.is_map(type):
        return [(key, projected(item, type.item_type)) for key, item in value]
    return None if value is None else repr(value)  # makes NaN equal to itself


@settings(max_examples=40)
@given(pairs(), st.data())
def test_projection(pair: tuple[Any, Any, list[bytes], list[Any]], data: st.DataObject) -> None:
    """A projection decodes to the requested part of the whole type; nulls among the payloads stay null."""
    writer, reader, payloads, _ = pair
    whole = decode(writer, reader, payloads).column
    type = data.draw(projections(whole.type))
    part = decode(writer, reader, [*payloads, None], type)
    assert part.column.type == type
    assert not part.malformed
    found = [projected(value, type) for value in part.column.to_pylist()]
    assert found == [*(projected(value, type) for value in whole.to_pylist()), None]


@settings(max_examples=40)
@given(pairs())
def test_encoded_again(pair: tuple[Any, Any, list[bytes], list[Any]]) -> None:
    """Encoding decoded values gives payloads that decode to the same values and that fastavro reads."""
    writer, reader, payloads, _ = pair
    column = decode(writer, reader, [None, *payloads]).column
    made = avro.parse(json.dumps(reader)).encoder(column.type).encode(column).to_pylist()
    again = decode(reader, reader, made)
    assert not again.malformed
    assert repr(again.column.to_pylist()) == repr(column.to_pylist())
    for ours, payload in zip(column.to_pylist()[1:], made[1:], strict=True):
        assert_same(ours, fastavro.schemaless_reader(io.BytesIO(payload), reader), reader)


@settings(max_examples=repetitions(60))
@given(pairs(), st.data())
def test_damaged(pair: tuple[Any, Any, list[bytes], list[Any]], data: st.DataObject) -> None:
    """A damaged payload decodes to null with a reason, or to another value, and does not change other rows."""
    writer, reader, payloads, _ = pair
    victim = bytearray(payloads[0])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(victim)))
        victim[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    expected = decode(writer, reader, payloads).column
    done = decode(writer, reader, [bytes(victim), *payloads, bytes(victim)])
    assert repr(done.column.slice(1, len(payloads)).to_pylist()) == repr(expected.to_pylist())
    assert set(done.malformed) <= {0, len(payloads) + 1}
    assert all(not done.column[row].is_valid for row in done.malformed)
