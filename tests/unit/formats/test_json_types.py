"""Types of JSON documents: JSON Schema and Spark's DDL."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.json import parse
from pyspark_zkafka.formats.json_types import has_constraints, validator

P = {"type": "object", "properties": {"x": {"type": "integer"}}}
STRUCT = pa.struct([("x", pa.int64())])
NESTED = {"properties": {"s": {"type": "string", "format": "date-time"}, "c": {"type": "string"}}}
P_CONST = {"properties": {"x": {"const": 1}}}
ITEMS = {"type": "array", "items": {"properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}}
TAGS = {"type": "array", "items": {"type": "string"}}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}
NUMBER = pa.struct([("n", pa.float64())])
WITH_KIND = pa.struct([("x", pa.int64()), ("k", pa.string())])
WITH_KIND_FIRST = pa.struct([("k", pa.string()), ("x", pa.int64())])


def of_property(schema: Any, **definitions: Any) -> pa.DataType:
    text = json.dumps({"type": "object", "properties": {"f": schema}, "definitions": definitions})
    return parse(text).type.field("f").type


def elements(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": "string"}, pa.string()),
        ({"type": "string", "format": "date-time"}, pa.timestamp("us", "UTC")),
        ({"type": "string", "format": "date-time-local"}, pa.timestamp("us")),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "string", "format": "uuid"}, pa.string()),
        ({"type": "string", "format": ["date"]}, pa.string()),
        ({"type": "string", "contentEncoding": "base64"}, pa.binary()),
        ({"type": ["integer", "null"]}, pa.int64()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"enum": ["a", "b"]}, pa.string()),
        ({"enum": [1, 2, None]}, pa.int64()),
        ({"const": True}, pa.bool_()),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.field("element", pa.int64()))),
        (P, STRUCT),
        ({"properties": {"x": {"type": "integer"}}}, STRUCT),
        ({"type": "object", "additionalProperties": {"type": "number"}}, pa.map_(pa.string(), pa.float64())),
        ({**MAP, "patternProperties": {}}, pa.map_(pa.string(), pa.int64())),
        ({"oneOf": [{"type": "null"}, {"$ref": "#/definitions/P"}]}, STRUCT),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64()),
        ({"allOf": [{"$ref": "#/definitions/P"}], "description": "x"}, STRUCT),
        (
            {"allOf": [{"$ref": "#/definitions/P"}, {"properties": {"y": {"type": "string"}}}]},
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
        ),
        ({"allOf": [{"$ref": "#/definitions/P"}, {"properties": {"x": {"minimum": 1}}}]}, STRUCT),
        ({"properties": {"x": {"minimum": 1}}, "allOf": [{"$ref": "#/definitions/P"}]}, STRUCT),
        ({"anyOf": [{"required": ["x"]}], **P}, STRUCT),
        ({"oneOf": [{"required": ["x"]}, {"required": ["y"]}], **P}, STRUCT),
        ({"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, pa.string()),
        ({**P, "oneOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"k": {"const": "b"}}}]}, WITH_KIND),
        ({**P, "anyOf": [{"properties": {"k": {"type": "string"}}}]}, WITH_KIND),
        (
            {"properties": {"a": NESTED}, "anyOf": [{"properties": {"a": {"properties": {"c": {"const": "x"}}}}}]},
            pa.struct([("a", pa.struct([("s", pa.timestamp("us", "UTC")), ("c", pa.string())]))]),
        ),
        (
            {"properties": {"d": {"type": "string", "format": "date"}}, "oneOf": [{"properties": {"d": {"const": "x"}}}]},
            pa.struct([("d", pa.date32())]),
        ),
        (
            {"properties": {"i": ITEMS}, "anyOf": [{"properties": {"i": {"type": "array", "items": P_CONST}}}]},
            pa.struct([("i", elements(pa.struct([("x", pa.int64()), ("y", pa.string())])))]),
        ),
        (
            {"properties": {"t": TAGS}, "anyOf": [{"properties": {"t": {"type": "array"}}}]},
            pa.struct([("t", elements(pa.string()))]),
        ),
        ({"allOf": [{"type": "string"}, {"type": "string", "minLength": 1}]}, pa.string()),
        ({**TAGS, "anyOf": [{"type": "array", "minItems": 1}]}, elements(pa.string())),
        ({"type": "number", "oneOf": [{"const": 1}, {"const": 2}]}, pa.float64()),
        (
            {"allOf": [{"properties": {"m": MAP}}, {"properties": {"m": {"properties": {"a": {"const": 1}}}}}]},
            pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
        ),
        ({"properties": {"n": {"type": "number"}}, "oneOf": [{"properties": {"n": {"const": 1}}}]}, NUMBER),
        (
            {"properties": {"m": MAP}, "oneOf": [{"properties": {"m": {"properties": {"a": {"const": 1}}}}}]},
            pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
        ),
        ({**P, "allOf": [{"anyOf": [{"properties": {"k": {"const": "a"}}}]}]}, WITH_KIND_FIRST),
    ],
)
def test_types(schema: Any, kind: pa.DataType) -> None:
    """Each schema has a type in Spark."""
    assert of_property(schema, P=P) == kind


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "integer"]},
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {**MAP, "patternProperties": {"^a": {"type": "string"}}},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"oneOf": [{"type": "string"}, {"minimum": 5}]},
        {"properties": {"x": {}}, "oneOf": [P, {"properties": {"y": {"type": "integer"}}}]},
        {"enum": ["a", 1]},
        {"$ref": "#"},
    ],
)
def test_types_of_any_json(schema: Any) -> None:
    """A schema that allows several types or contains itself becomes a string of JSON text."""
    assert of_property(schema) == pa.string()


def test_elements_of_any_json() -> None:
    """An array without a single type of elements becomes an array of strings."""
    assert of_property({"type": "array"}) == elements(pa.string())
    assert of_property({"type": "array", "items": [{"type": "integer"}]}) == elements(pa.string())
    tuple_and_more = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    assert of_property(tuple_and_more) == elements(pa.string())


def test_references() -> None:
    """Other documents are found by name, by id, and relative to the schema's id."""
    other = json.dumps({"$id": "http://x/other.json", "definitions": {"P": P, "Q": {"$ref": "#/definitions/P"}}})
    for reference in ("other.json#/definitions/Q", "http://x/other.json#/definitions/P"):
        for own in ({}, {"$id": "http://y/own.json"}):
            text = json.dumps({**own, "type": "object", "properties": {"f": {"$ref": reference}}})
            assert parse(text, {"other.json": other}).type == pa.struct([("f", STRUCT)])


def test_constraints() -> None:
    """A schema that demands more than types is recognized by its keywords."""
    assert not has_constraints('{"properties": {"a": {"type": "integer"}}}', ())
    assert has_constraints('{"properties": {"a": {"type": "integer", "minimum": 1}}}', ())
    assert has_constraints('{"$ref": "a"}', (("a", '{"minimum": 1}'),))
    assert validator("a int", ()) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "schema is no JSON"),
        ("", "schema is no JSON"),
        ("[1]", "schema is no object"),
        ('{"type": "objec"}', "not valid at #: 'objec' is no type"),
        ('{"type": 5}', "'5' is no type"),
        ('{"properties": {"a": {"items": {"type": "x"}}}}', "at #/properties/a/items: 'x' is no type"),
        ('{"properties": {"a": 3}}', "at #/properties/a: 3 is no schema"),
        ('{"properties": 3}', "properties is no object"),
        ('{"oneOf": 3}', "oneOf is no array"),
        ('{"$ref": 3}', "leads nowhere"),
        ('{"$ref": "#/definitions/P"}', "leads nowhere"),
        ('{"$ref": "other.json"}', "leads nowhere"),
        ('{"$id": 3, "properties": {}}', r"\$id or \$schema is no string"),
        ('{"$schema": 3}', r"\$id or \$schema is no string"),
        (r'{"properties": {"\ud800": {}}}', "surrogates not allowed"),
        ("id", "at its end"),
        ("id bigin", "near 'bigin'"),
        ("a array<int", "at its end"),
        ("a int b int", "near 'b int'"),
        ("a decimal(x)", "cannot be read"),
        ("a decimal(99,2)", r"decimal\(99,2\) is no type: the precision is 1 to 38"),
        ("a decimal(0,0)", r"decimal\(0,0\) is no type: the precision is 1 to 38"),
        ("a decimal(39)", r"decimal\(39,0\) is no type: the precision is 1 to 38"),
        ("a decimal(2,3)", r"decimal\(2,3\) is no type: .* the scale at most that"),
        ("a int, b int, a string", "the field a is there twice"),
        ("m map<string,struct<a: int, a: int>>", "the field a is there twice"),
        ("a int; b", "cannot be read"),
        ("m map<int,int>", "keys of a map in JSON are strings"),
    ],
)
def test_bad_schemas(text: str, says: str) -> None:
    """An error says what is wrong with a schema, and where."""
    with pytest.raises(OptionError, match=says) as caught:
        _ = parse(text).type
    assert caught.value.condition == "INVALID_SCHEMA"


@pytest.mark.parametrize(
    ("ddl", "kind"),
    [
        ("a INT, b string", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("a: int, b: string", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("`a b` int NOT NULL COMMENT 'x, y'", pa.struct([("a b", pa.int32())])),
        ("struct<a:int,b:struct<c:double>>", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.float64())]))])),
        ("array<decimal(10, 2)>", pa.list_(pa.field("element", pa.decimal128(10, 2)))),
        ("map<string,decimal>", pa.map_(pa.string(), pa.decimal128(10, 0))),
        ("array array<int>", pa.struct([("array", pa.list_(pa.field("element", pa.int32())))])),
        ("t timestamp_ntz, l decimal(5)", pa.struct([("t", pa.timestamp("us")), ("l", pa.decimal128(5, 0))])),
    ],
)
def test_ddl(ddl: str, kind: pa.DataType) -> None:
    """DDL is read as Spark reads it, and everything may be null."""
    assert parse(ddl).type == kind
