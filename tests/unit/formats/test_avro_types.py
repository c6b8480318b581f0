"""Avro schemas: parsing, and conversion to and from Spark's types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats.avro import parse, schema_of
from pyspark_zkafka.formats.avro_types import evolving_schema_of
from tests.support.avro_schemas import record


def type_of(schema: Any, **references: Any) -> pa.DataType:
    return parse(json.dumps(schema), {name: json.dumps(text) for name, text in references.items()}).type


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "its text is not JSON"),
        ('"strin"', 'the type "strin" is not defined'),
        ("5", "5 is not a type"),
        ('{"name": "R"}', "is not a type"),
        ('{"type": "record", "fields": []}', "a type of kind record has no name"),
        ('{"type": "record", "name": "R"}', "the record R has no list of named fields"),
        (json.dumps(record(("a", "int"), ("a", "int"))), "the record R has two fields of one name"),
        (json.dumps(record(("a", record(("b", "X"), name="Q")))), 'in field a.b, the type "X" is not defined'),
        (json.dumps(record(("a", record(name="R")))), "in field a, the type R is defined twice"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the size of F is -1"),
        ('{"type": "fixed", "name": "F"}', "the size of F is null"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the enum E repeats a symbol"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "its default is none of its symbols"),
        ('{"type": "enum", "name": "E", "symbols": "A"}', "the symbols of E are not a list of names"),
        ('["int", ["null"]]', "the union of int, union has a union or repeats a type"),
        ('["int", "int"]', "repeats a type"),
        ('{"type": "array"}', "null is not a type"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        (r'{"type": "enum", "name": "E", "symbols": ["\ud800"]}', "surrogates not allowed"),
    ],
)
def test_refused_text(text: str, problem: str) -> None:
    """An invalid schema is refused with its field and the reason."""
    with pytest.raises(OptionError, match=r"\[INVALID_SCHEMA\] The Avro schema cannot be used: ") as refused:
        parse(text)
    assert problem in str(refused.value)


def test_comments() -> None:
    """A schema may have comments, as for Avro's own parser; a text that looks like one is kept."""
    (field,) = parse(
        '/* "Licence\n */ {"type": "record", "name": "R", // "\n "fields": [{"name": "a", "type": "string", '
        '"default": "//\\"/* a */"}]} //'
    ).root.fields
    assert field.default == '//"/* a */'


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (record(("next", ["null", "R"])), "in field next, the record R is in itself; declare the frame's schema without"),
        (record(("a", {"type": "array", "items": record(("b", "R"), name="Q")})), "in field a.element.b, the record R"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 39},
            "a decimal has 39 digits, and Spark's have at most 38; dec",
        ),
    ],
)
def test_no_such_type_in_spark(schema: Any, problem: str) -> None:
    """A schema that is valid for a writer is refused as the type of a column."""
    parsed = parse(json.dumps(schema))
    with pytest.raises(OptionError, match=problem):
        _ = parsed.type


def test_names() -> None:
    """Names are looked up in the enclosing namespace, then without a namespace."""
    inner = record(("x", "Kind"), ("y", ".Kind"), ("z", "q.F"), name="Inner", namespace="a.b")
    schema = record(
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A"]}),
        ("fixed", {"type": "fixed", "name": "F", "namespace": "q", "size": 1}),
        ("inner", inner),
        ("again", "a.b.Inner"),
    )
    parsed = parse(json.dumps(schema)).root
    assert [f.type.name for f in parsed.fields] == ["Kind", "q.F", "a.b.Inner", "a.b.Inner"]
    assert [f.type.name for f in parsed.fields[2].type.fields] == ["Kind", "Kind", "q.F"]


def test_references() -> None:
    """A reference is found by the name of its type, even in a file of another name, and references may use each other."""
    found = type_of(
        record(("one", "a.One"), ("two", "Two")),
        **{"a.One": record(("x", "Two"), name="One", namespace="a"), "file.avsc": record(("y", "int"), name="Two")},
    )
    two = pa.struct([pa.field("y", pa.int32(), False)])
    assert found == pa.struct([pa.field("one", pa.struct([pa.field("x", two, False)]), False), pa.field("two", two, False)])
    with pytest.raises(OptionError, match=r"the reference a.One is not JSON"):
        parse('"a.One"', {"a.One": "{"})


def test_nullability() -> None:
    """A field, item or map value is nullable if null is one of its types."""
    found = type_of(record(("a", ["int", "null"]), ("b", "int"), ("c", {"type": "array", "items": ["null", "int"]})))
    assert [f.nullable for f in found] == [True, False, False]
    assert found.field("c").type.value_field.nullable


def test_schema_of_a_column() -> None:
    """Names that repeat in a frame get different namespaces, as in to_avro."""
    price = pa.decimal128(5, 1)
    made = json.loads(schema_of(pa.struct([("a", price), pa.field("b", pa.struct([("a", price)]), False)])))
    assert made["name"] == "topLevelRecord"
    fixed = {"type": "fixed", "name": "fixed", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 1}
    assert made["fields"][0] == {"name": "a", "type": [fixed | {"namespace": "topLevelRecord.a"}, "null"]}
    assert made["fields"][1]["type"]["fields"][0]["type"][0] == fixed | {"namespace": "topLevelRecord.b.a"}
    assert json.loads(schema_of(pa.string())) == "string"


def test_schema_of_a_column_for_a_registry() -> None:
    """Nullable fields have null as their default, at any depth; elements and values are not fields."""
    inner = pa.struct([("x", pa.int64()), pa.field("y", pa.int32(), False)])
    made = json.loads(
        evolving_schema_of(pa.struct([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))]))
    )
    x = {"name": "x", "type": ["null", "long"], "default": None}
    y = {"name": "y", "type": "int"}
    record, items, values = (column["type"][1] for column in made["fields"])
    assert [column["default"] for column in made["fields"]] == [None] * 3
    assert record["fields"] == [x, y]
    assert [member["fields"] for member in (items["items"][0], values["values"][0])] == [[x, y]] * 2
    assert items["items"][1] == values["values"][1] == "null"
    parse(json.dumps(made))


def test_column_without_schema() -> None:
    """One error lists all fields that Avro cannot represent."""
    with pytest.raises(OptionError) as refused:
        schema_of(pa.struct([("a b", pa.int8()), ("c", pa.map_(pa.int32(), pa.int32())), ("d", pa.time32("ms"))]))
    for problem in (
        "the name 'a b'",
        "topLevelRecord.c has the type map<int,int>",
        "topLevelRecord.d has the type time32",
    ):
        assert problem in str(refused.value)
