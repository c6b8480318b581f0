"""Schemas of a hostile registry: deep ones, and short ones whose types are exponentially large."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats import avro, protobuf
from pyspark_zkafka.formats import json as json_format

DOUBLINGS = 40


def doubled_avro() -> object:
    fields = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}}]
    for i in range(1, DOUBLINGS):
        twice = [{"name": name, "type": f"R{i - 1}"} for name in "ab"]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"R{i}", "fields": twice}})
    return avro.parse(json.dumps({"type": "record", "name": "top", "fields": fields})).type


def doubled_json() -> object:
    definitions: dict[str, object] = {"R0": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for i in range(1, DOUBLINGS):
        inner = {"$ref": f"#/definitions/R{i - 1}"}
        definitions[f"R{i}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    return json_format.parse(json.dumps({"$ref": f"#/definitions/R{DOUBLINGS - 1}", "definitions": definitions}), {}).type


def doubled_protobuf() -> object:
    messages = [f"message R{i} {{ R{i - 1} a = 1; R{i - 1} b = 2; }}" for i in range(DOUBLINGS - 1, 0, -1)]
    return protobuf.parse('syntax = "proto3"; ' + " ".join([*messages, "message R0 { int32 x = 1; }"])).type


def deep_json(levels: int) -> object:
    return json_format.parse('{"type":"object","properties":{"f":' * levels + "{}" + "}}" * levels, {}).type


@pytest.mark.parametrize("parse", [doubled_avro, doubled_json, doubled_protobuf])
def test_exponential_types(parse: Callable[[], object]) -> None:
    """A schema of a few kilobytes whose type has 2^40 fields is refused."""
    with pytest.raises(OptionError, match=r"INVALID_SCHEMA.*more than 20000 fields"):
        parse()


@pytest.mark.parametrize(
    "parse",
    [
        lambda levels: avro.parse('{"type":"array","items":' * levels + '"int"' + "}" * levels).type,
        deep_json,
        lambda levels: json_format.parse("a " + "array<" * levels + "int" + ">" * levels, {}).type,
    ],
    ids=["avro", "json", "ddl"],
)
def test_deep_types(parse: Callable[[int], object]) -> None:
    """Types of 60 levels are read; deeper ones are refused, whether their text can be parsed or not."""
    parse(60)
    for levels in (70, 500, 20_000):
        with pytest.raises(OptionError, match=r"INVALID_SCHEMA.*(64 levels deep|nested too deeply)"):
            parse(levels)
