"""Protobuf schemas: texts, descriptors, references, messages, Spark's types, and texts made from types."""

from __future__ import annotations

import base64
import pickle
import subprocess

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats import protobuf
from pyspark_zkafka.formats.protobuf import parse, schema_of
from pyspark_zkafka.model.records import projection_problems

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "common/money.proto";
message Order { int64 id = 1; google.protobuf.Timestamp at = 2; common.Money price = 3; }
message Other { message Inner { bool b = 1; } enum E { A = 0; } message Second { int32 i = 1; } int32 x = 1; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { string currency = 1; sint64 cents = 2; }'
REFERENCES = {"common/money.proto": MONEY}


def test_references() -> None:
    """A schema imports its references by name, needs none for well-known types, and is small when pickled."""
    schema = parse(ORDER, REFERENCES)
    money = pa.struct([("currency", pa.string()), ("cents", pa.int64())])
    assert schema.type == pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("price", money)])
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert len(pickle.dumps(schema)) < 1000


def test_maps_that_java_has_registered() -> None:
    """Java's serializer has registered maps as repeated entries, a form that protoc refuses."""
    entry = "message TagsEntry { option map_entry = true; string key = 1; int32 value = 2; }"
    registered = parse(f'syntax = "proto3"; message Order {{ repeated .Order.TagsEntry tags = 1; {entry} }}')
    assert registered == parse('syntax = "proto3"; message Order { map<string, int32> tags = 1; }')
    option = "option no_standard_descriptor_accessor = true;"  # is legal, and marks nothing
    nested = parse(f'syntax = "proto3"; message M {{ N f = 1; message N {{ {option} int32 i = 1; }} }}', message="M.N")
    assert nested.type == pa.struct([("i", pa.int32())])


def test_reference_with_the_name_of_the_main_file() -> None:
    """A reference may have any name."""
    other = 'syntax = "proto3"; message Inner { int32 i = 1; }'
    schema = parse('syntax = "proto3"; import "schema.proto"; message M { Inner f = 1; }', {"schema.proto": other})
    assert schema.type == pa.struct([("f", pa.struct([("i", pa.int32())]))])


def test_protoc_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that was killed has not judged the schema."""
    killed = subprocess.CompletedProcess([], -9, "", "")
    monkeypatch.setattr(protobuf.subprocess, "run", lambda *arguments, **options: killed)
    with pytest.raises(OptionError, match=r"PROTOC_STOPPED\] protoc was ended by signal 9"):
        parse('syntax = "proto3"; message M { int32 i = 1; }')


def test_protoc_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without processor time has not judged the schema."""

    def run(command: list[str], *, timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(protobuf.subprocess, "run", run)
    with pytest.raises(OptionError, match=r"PROTOC_STOPPED\] protoc did not end within 60 s"):
        parse('syntax = "proto3"; message M { int32 i = 2; }')


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
        ("confluent/types/decimal.proto", "confluent.type.Decimal"),
        ("confluent/type/variant.proto", "confluent.type.Variant"),
        ("google/type/date.proto", "google.type.Date"),
        ("google/type/datetime.proto", "google.type.DateTime"),
        ("google/type/timeofday.proto", "google.type.TimeOfDay"),
        ("google/protobuf/api.proto", "google.protobuf.Mixin"),
        ("google/protobuf/type.proto", "google.protobuf.EnumValue"),
        ("google/protobuf/source_context.proto", "google.protobuf.SourceContext"),
    ],
)
def test_builtin_files(file: str, message: str) -> None:
    """Files that Confluent's serializers import without a reference are known, for text and for descriptors."""
    schema = parse(f'syntax = "proto3"; import "{file}"; message M {{ {message} f = 1; }}')
    assert schema.type.field("f").type.num_fields
    own = FileDescriptorSet.FromString(schema.files).file[-1]
    assert parse(base64.b64encode(own.SerializeToString()).decode()).type == schema.type


def test_a_reference_replaces_a_builtin_file() -> None:
    """A reference takes precedence over a built-in file of its name."""
    date = 'syntax = "proto3"; package google.type; message Date { string text = 1; }'
    text = 'syntax = "proto3"; import "google/type/date.proto"; message M { google.type.Date f = 1; }'
    assert parse(text, {"google/type/date.proto": date}).type.field("f").type == pa.struct([("text", pa.string())])


@pytest.mark.parametrize(
    ("message", "full_name", "indexes"),
    [
        (None, "shop.Order", b"\0"),
        ("Order", "shop.Order", b"\0"),
        ("shop.Other", "shop.Other", b"\x02\x02"),
        ("Other.Inner", "shop.Other.Inner", b"\x04\x02\0"),
        ("shop.Other.Second", "shop.Other.Second", b"\x04\x02\x02"),
    ],
)
def test_messages(message: str | None, full_name: str, indexes: bytes) -> None:
    """A message is named with or without the package, and its indexes are encoded as Confluent encodes them."""
    schema = parse(ORDER, REFERENCES, message)
    assert schema.message == full_name
    assert schema.message_indexes == indexes


def test_descriptors() -> None:
    """Descriptors, in base64 or as text, and with references, are read like the text of the schema."""
    schema = parse(ORDER, REFERENCES)
    assert parse(base64.b64encode(schema.files).decode()) == schema
    small = parse('syntax = "proto3"; message M { int32 i = 1; }')
    assert parse(small.files.decode()) == small
    files = {
        file.name: base64.b64encode(file.SerializeToString()).decode()
        for file in FileDescriptorSet.FromString(schema.files).file
    }
    references = {"common/money.proto": files["common/money.proto"]}
    assert parse(files["schema.proto"], references, "Order").type == schema.type
    with pytest.raises(OptionError, match=r"imports common/money.proto, which is not given"):
        parse(files["schema.proto"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('syntax = "proto3"; message A { B b = 1; }', r'schema.proto:1:32: "B" is not defined.; correct'),
        ('syntax = "proto3"; import "x.proto"; message A { int32 b = 1; }', "x.proto: File not found"),
        ('syntax = "proto3";', "has no message;"),
        ("{", "protoc cannot compile"),
        ("no-such-file.desc", "neither .proto text nor base64"),
        ("AAAA", "has no descriptors"),
        ("", "has no descriptors"),
    ],
)
def test_bad_schemas(text: str, says: str) -> None:
    """An error says what is wrong with a schema, without the path where protoc ran."""
    with pytest.raises(OptionError, match=says) as caught:
        parse(text)
    assert caught.value.condition == "INVALID_SCHEMA"
    assert "/tmp" not in caught.value.message


def test_unknown_message() -> None:
    """An error names the most similar message."""
    with pytest.raises(OptionError, match=r"no message shop.order; use shop.Order"):
        parse(ORDER, REFERENCES, "shop.order")


def test_reference_outside() -> None:
    """A reference cannot write outside protoc's folder."""
    with pytest.raises(OptionError, match="no relative path"):
        parse(ORDER, {"../../x.proto": MONEY})


STRUCT = pa.struct(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("id", pa.int64()),
        ("ratio", pa.float32()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("took", pa.duration("us")),
        ("tags", pa.list_(pa.string())),
        ("lines", pa.list_(pa.struct([("item", pa.string())]))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("address", pa.struct([("street", pa.string()), ("place", pa.struct([("zip", pa.int32())]))])),
    ]
)


def test_schema_of() -> None:
    """The text made from a type compiles to a schema that accepts the type; smaller integers become 32 bits wide."""
    schema = parse(schema_of(STRUCT))
    assert schema.message == "topLevelRecord"
    schema.encoder(STRUCT)
    assert [f.name for f in schema.type] == [f.name for f in STRUCT]
    assert schema.type.field("address").type == STRUCT.field("address").type
    assert schema.type.field("tiny").type == pa.int32()


def test_schema_of_names_that_collide() -> None:
    """Structs whose messages would have the same name, or a field's name, get messages of their own."""
    lower, upper = pa.struct([("x", pa.int32())]), pa.struct([("y", pa.string())])
    schema = parse(
        schema_of(pa.struct([("a", lower), ("A", upper), ("bValue", pa.int32()), ("BValue", pa.int32()), ("b", lower)]))
    )
    assert [[f.name for f in field.type] for field in schema.type if pa.types.is_struct(field.type)] == [
        ["x"],
        ["y"],
        ["x"],
    ]


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("a_b", "aB", "JSON name aB"), ("_a", "A", "JSON name A"), ("a", "a__", "JSON name a"), ("_", "__", "JSON name "),
        ("FooBarEntry", "map:foo_bar", "message name FooBarEntry"), ("map:a", "map:A", "message name AEntry"),
    ],
)  # fmt: skip
def test_schema_of_names_that_protoc_joins(name: str, other: str, same: str) -> None:
    """Fields with equal derived names are refused with their own names."""
    types = {"": pa.int32(), "map:": pa.map_(pa.string(), pa.int32())}
    names = [text.removeprefix("map:") for text in (name, other)]
    kind = pa.struct([(own, types[text.removesuffix(own)]) for own, text in zip(names, (name, other), strict=True)])
    with pytest.raises(
        OptionError, match=rf"no Protobuf schema: s.{names[1]} and {names[0]} have the same {same}; cast or rena"
    ):
        schema_of(pa.struct([("s", kind)]))


def test_schema_of_unfit_types() -> None:
    """One error lists every field that Protobuf cannot represent."""
    kind = pa.struct(
        [
            ("d", pa.decimal128(10, 2)),
            ("with space", pa.int32()),
            ("n", pa.list_(pa.list_(pa.int32()))),
            ("m", pa.map_(pa.float64(), pa.int32())),
            ("s", pa.struct([("t", pa.timestamp("us"))])),
        ]
    )
    with pytest.raises(
        OptionError, match=r"d is decimal\(10,2\); with space is no name .*; n.element is array<.*; m.key is .*; s.t is "
    ):
        schema_of(kind)
    with pytest.raises(OptionError, match="needs a struct"):
        schema_of(pa.int32())


@pytest.mark.parametrize(
    ("fields", "says", "wanted"),
    [
        ("int32 n = 1; A a = 2;", r"A is recursive \(A > A\)", pa.struct([("n", pa.int32())])),
        (
            "B b = 1; } message B { int32 n = 1; repeated A a = 2;",
            r"\(A > B > A\)",
            pa.struct([("b", pa.struct([("n", pa.int32())]))]),
        ),
        (
            "google.protobuf.ListValue l = 1; int32 n = 2;",
            "google.protobuf.Value is recursive",
            pa.struct([("n", pa.int32())]),
        ),
    ],
)
def test_recursive_messages(fields: str, says: str, wanted: pa.DataType) -> None:
    """A message that contains itself has no type, except for the fields that a frame asks for."""
    schema = parse(f'syntax = "proto3"; import "google/protobuf/struct.proto"; message A {{ {fields} }}')
    with pytest.raises(OptionError, match=rf"{says}.*; declare the frame's schema without this field"):
        _ = schema.type
    assert not list(projection_problems("value", wanted, schema.projection(wanted)))


@pytest.mark.parametrize("fields", ["", "B b = 1; } message B {"])
def test_messages_without_fields(fields: str) -> None:
    """A message that would be a struct without fields has no type, but a writer may use it."""
    schema = parse(f'syntax = "proto3"; message A {{ {fields} }}')
    with pytest.raises(OptionError, match="A has no fields that Spark has a type for; choose another message"):
        _ = schema.type
