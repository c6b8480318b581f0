"""Writes with formats: schemas, ids and the bytes of rows."""

from __future__ import annotations

import base64
import json
import pickle
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from pyspark_zkafka.conditions import UNKNOWN_SUBJECT
from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.formats import encoding, protobuf
from pyspark_zkafka.formats.encoding import EncodingPlan, plan_encoding, row_encoder
from pyspark_zkafka.formats.registry import StoredSchema
from pyspark_zkafka.model.rows import Encode, outgoing
from pyspark_zkafka.options.batch import parse_write
from tests.support import fake_format

WRITE = {"kafka.bootstrap.servers": "k:9092"}
CONFLUENT = {"value.format": "avro-confluent", "schema.registry.url": "http://registry:8081"}
STRUCT = pa.struct([("x", pa.int64())])
FRAME = pa.schema([("key", pa.string()), ("value", STRUCT), ("topic", pa.string())])


class Subjects:
    """A registry that records the requests, and counts ids from 1."""

    unknown = False  # whether schemas must be registered before they are looked up
    latest: StoredSchema | None = None

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []

    def register(self, subject: str, schema: StoredSchema, *, auto: bool, normalize: bool) -> int:
        """Return the number of the request."""
        self.requests.append((subject, schema.text, schema.kind, auto, normalize))
        if self.unknown and not auto:
            raise UNKNOWN_SUBJECT(subject)
        return len(self.requests)

    def subject(self, subject: str, version: int | None = None) -> StoredSchema:
        """Return the latest version of any subject."""
        self.requests.append((subject, "latest"))
        return self.latest or StoredSchema("x", "AVRO", id=256 + len(self.requests))


@pytest.fixture
def subjects(monkeypatch: pytest.MonkeyPatch) -> Subjects:
    """A registry, for the real formats."""
    found = Subjects()
    monkeypatch.setattr(encoding, "open_registry", lambda options: found)
    return found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, subjects: Subjects) -> Subjects:
    """A registry behind the fake format."""
    fake_format.use(monkeypatch)
    return subjects


def plan(frame: pa.Schema = FRAME, **options: str) -> EncodingPlan:
    given = {name.replace("_", "."): value for name, value in options.items()}
    found = plan_encoding(parse_write({**WRITE, **given}), frame)
    assert found is not None
    return pickle.loads(pickle.dumps(found))  # type: ignore[no-any-return]


def real_plan(frame: pa.Schema, name: str, **more: str) -> EncodingPlan | None:
    """Return the plan of a write to one topic with a real format, and with a registry if the format needs one."""
    address = {"schema.registry.url": "http://registry:8081"} if name.endswith("confluent") else {}
    given = {option.replace("_", "."): value for option, value in more.items()}
    return plan_encoding(parse_write({**WRITE, **address, "value.format": name, "topic": "t", **given}), frame)


def encoded_values(found: EncodingPlan | None, column: pa.Array) -> list[bytes | None]:
    """Return the payloads of a column for one topic."""
    (part,) = outgoing(pa.record_batch([column], ["value"]), "t", row_encoder(found))
    payloads: list[bytes | None] = part.value.to_pylist()
    return payloads


def sent(
    found: EncodingPlan,
    *rows: tuple[str | None, int | None, str],
    topic: str | None = None,
    encode: Encode | None = None,
) -> list[Any]:
    """Return topic, key and value of rows as they are sent, from rows of key, number and topic.

    Each call is a task of its own, unless the encoder of a task is given.
    """
    keys, numbers, topics = zip(*rows, strict=True)
    values = pa.array([None if number is None else {"x": number} for number in numbers], STRUCT)
    batch = pa.record_batch([pa.array(keys, pa.string()), values, pa.array(topics)], ["key", "value", "topic"])
    parts = outgoing(batch, topic, encode or row_encoder(found))
    return [(p.topic, *pair) for p in parts for pair in zip(p.key.to_pylist(), p.value.to_pylist(), strict=True)]  # type: ignore[union-attr]


def test_no_formats() -> None:
    """Without formats, rows are not encoded."""
    assert plan_encoding(parse_write(WRITE), FRAME) is None
    assert row_encoder(None) is None


def test_without_registry(registry: Subjects) -> None:
    """A plain format adds no prefix, and null stays null."""
    found = plan(value_format="avro", topic="t", key_format="string")
    assert sent(found, ("é", 1, "u"), (None, None, "u"), topic="t") == [("t", "é".encode(), b"1"), ("t", None, None)]
    assert registry.requests == []


def test_registration(registry: Subjects) -> None:
    """The driver registers the schema once, and tasks write its id before each value."""
    found = plan(**{n.replace(".", "_"): v for n, v in CONFLUENT.items()}, topic="t", normalize_schemas="true")
    for _ in range(2):
        assert sent(found, ("a", 5, "-"), topic="t") == [("t", b"a", b"\0\0\0\0\x015")]
    assert registry.requests == [("t-value", "x", "AVRO", True, True)]


def options(**more: str) -> dict[str, str]:
    return {**{name.replace(".", "_"): value for name, value in CONFLUENT.items()}, **more}


def test_subjects(registry: Subjects) -> None:
    """The strategy or an option names the subject."""
    plan(**options(topic="t", value_subject="mine"))
    plan(**options(value_subject_name_strategy="RecordNameStrategy"))
    plan(**options(topic="t", value_subject_name_strategy="TopicRecordNameStrategy", auto_register_schemas="false"))
    assert [request[0] for request in registry.requests] == ["mine", "shop.x", "t-shop.x"]
    assert [request[3] for request in registry.requests] == [True, True, False]


def test_topics_of_rows(registry: Subjects) -> None:
    """With a column topic, a task looks up the subject of each topic once."""
    found = plan(**options())
    assert registry.requests == []
    encode = row_encoder(found)
    for _ in range(2):
        rows = sent(found, ("a", 1, "t"), ("b", 2, "u"), ("c", 3, "t"), encode=encode)
        assert rows == [("t", b"a", b"\0\0\0\0\x011"), ("t", b"c", b"\0\0\0\0\x013"), ("u", b"b", b"\0\0\0\0\x022")]
    assert [request[0] for request in registry.requests] == ["t-value", "u-value"]


def test_latest_version(registry: Subjects) -> None:
    """With use.latest.version, rows are written with the subject's latest schema."""
    found = plan(**options(topic="t", use_latest_version="true"))
    assert sent(found, ("a", 5, "-"), topic="t") == [("t", b"a", b"\0\0\0\x01\x015")]
    assert registry.requests == [("t-value", "latest")]


def test_a_column_that_does_not_fit(registry: Subjects) -> None:
    """A column that the schema does not accept is refused on the driver before anything is registered."""
    expected = r"INVALID_SCHEMA\] The column value cannot be written with value\.format=avro: it is struct<x: int64>"
    for more in ({"topic": "t"}, {}):
        with pytest.raises(OptionError, match=expected):
            plan(value_format="avro", value_schema="other", **more)
    with pytest.raises(OptionError, match=expected.replace("avro", "avro-confluent")):
        plan(**options(topic="t", value_schema="other"))
    assert registry.requests == []


def test_a_row_that_cannot_be_encoded(registry: Subjects) -> None:
    """A row that cannot be encoded is an error that names column, topic and row."""
    found = plan(value_format="avro", topic="t")
    expected = r"INVALID_VALUE\] The column value of rows for topic t cannot be encoded: Row 1 of a batch has a negative"
    with pytest.raises(InvalidRow, match=expected):
        sent(found, ("a", 1, "-"), ("b", -2, "-"), topic="t")


def test_types_of_the_session(registry: Subjects) -> None:
    """Values with the session's time zone in their type are cast to UTC, as in the plan, before they are encoded."""
    struct = pa.struct([("x", pa.timestamp("us", "UTC"))])
    calls: list[pa.DataType] = []

    class Schema:
        type = struct

        def encoder(self, kind: pa.DataType, *, confluent: bool = False) -> Any:
            return self

        def encode(self, column: pa.Array) -> pa.Array:
            calls.append(column.type)
            return pa.array([b"x"] * len(column))

    found = plan(value_format="avro", topic="t")
    own = EncodingPlan(found.options, {"value": struct}, {("value", ""): encoding.WriterSchema(Schema(), None)})  # type: ignore[arg-type]
    assert encoded_values(own, pa.array([{"x": 0}], pa.struct([("x", pa.timestamp("us", "Asia/Tokyo"))]))) == [b"x"]
    assert calls == [struct]


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_null_structs_of_another_zone(name: str) -> None:
    """A null struct whose fields are not nullable is encoded alike in every time zone of the session."""

    def encoded(zone: str) -> list[bytes | None]:
        number = pa.field("a", pa.int64(), nullable=False)
        children = [pa.array([1, None], pa.int64())]
        null = pa.StructArray.from_arrays(children, fields=[number], mask=pa.array([False, True]))
        element = pa.field("element", pa.struct([("s", null.type)]), nullable=False)
        elements = pa.StructArray.from_arrays([null], ["s"])
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), elements, type=pa.list_(element))
        kind = pa.map_(pa.string(), element.with_name("value"))
        maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["x", "y"]), elements, kind)
        times = pa.array([0, -1], pa.timestamp("us", zone))
        column = pa.StructArray.from_arrays([null, lists, maps, times], ["s", "l", "m", "t"])
        planned = pa.struct([*list(column.type)[:3], ("t", pa.timestamp("us", "UTC"))])
        return encoded_values(real_plan(pa.schema([("value", planned)]), name), column)

    assert encoded("America/New_York") == encoded("UTC")


@pytest.mark.parametrize("name", ["avro", "json"])
def test_a_column_that_is_too_deep(name: str) -> None:
    """A column with more levels than Arrow sends to Python is refused on the driver."""
    kind: pa.DataType = pa.int64()
    for _ in range(62):
        kind = pa.struct([("f", kind)])
    assert real_plan(pa.schema([("value", kind)]), name) is not None
    with pytest.raises(OptionError, match=r"INVALID_SCHEMA\] The column value has 64 levels.*at most 63 to Python"):
        real_plan(pa.schema([("value", pa.struct([("f", kind)]))]), name)


def test_own_schema_without_nulls() -> None:
    """A schema made from a column allows NaN also in tasks, whose types allow nulls in arrays."""
    elements = pa.list_(pa.field("element", pa.int32(), nullable=False))
    struct = pa.struct([("x", pa.float64()), ("all", elements)])
    found = real_plan(pa.schema([("value", struct)]), "json")
    rows = pa.array([{"x": float("nan"), "all": [1]}], pa.struct([("x", pa.float64()), ("all", pa.list_(pa.int32()))]))
    assert encoded_values(pickle.loads(pickle.dumps(found)), rows) == [b'{"x":"NaN","all":[1]}']


@pytest.mark.usefixtures("subjects")
@pytest.mark.parametrize(("name", "expected"), [("avro-confluent", b"\0\0\0\0\1ab"), ("avro", b"\4ab")])
def test_bytes(name: str, expected: bytes) -> None:
    """Bytes are written without their length after an id, and with it in bare Avro."""
    found = real_plan(pa.schema([("value", pa.binary())]), name)
    assert encoded_values(found, pa.array([b"ab", None])) == [expected, None]


def test_headers_with_the_id_of_another_schema(registry: Subjects) -> None:
    """A header with a schema's id, which readers prefer, is refused next to an encoded column."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    found = plan(value_format="avro-confluent", topic="t", schema_registry_url="http://r:8081")
    values = pa.array([{"x": 1}], STRUCT)
    for name, is_refused in (("__value_schema_id", True), ("__key_schema_id", False)):
        headers = pa.array([[{"key": name, "value": b"x"}]], kind)
        batch = pa.record_batch([values, headers], ["value", "headers"])
        with pytest.raises(InvalidRow, match="have a header __value_schema_id") if is_refused else nullcontext():
            list(outgoing(batch, "t", row_encoder(found)))


def test_ddl_is_registered_as_a_json_schema(subjects: Subjects) -> None:
    """Spark's DDL gives the JSON Schema to register, which other clients understand."""
    for schema in ("x bigint", '{"type": "object"}'):
        real_plan(FRAME, "json-confluent", value_schema=schema)
    of_ddl, given = (json.loads(request[1]) for request in subjects.requests)
    assert of_ddl["type"] == "object"
    assert list(of_ddl["properties"]) == ["x"]
    assert given == {"type": "object"}


@pytest.mark.parametrize(
    ("columns", "moved"),
    [
        ("ab", None), ("abc", None), ("b", "b = 1"), ("ba", "b = 1, a = 2"), ("acb", "c = 2, b = 3"), ("a", None),
    ],
)  # fmt: skip
def test_fields_that_would_move(subjects: Subjects, columns: str, moved: str | None) -> None:
    """A Protobuf schema made from a column keeps the numbers of the latest version, or the write is refused."""
    latest = """syntax = "proto3"; message O { string b = 1; }
        message topLevelRecord { optional int64 a = 1; optional S b = 2; message S { int64 x = 1; } }"""
    subjects.latest, subjects.unknown = StoredSchema(latest, "PROTOBUF", id=1), True
    kinds = {"a": pa.int64(), "b": pa.struct([("x", pa.int64())]), "c": pa.string()}
    frame = pa.schema([("value", pa.struct([(name, kinds[name]) for name in columns]))])
    refused = pytest.raises(OptionError, match=rf"latest version of subject t-value: {moved}\. Add new columns at the end")
    with refused if moved else nullcontext():
        real_plan(frame, "protobuf-confluent")
    registrations = [request[3] for request in subjects.requests if request[1] != "latest"]
    assert registrations == ([False] if moved else [False, True])
    subjects.unknown = False  # another version than the latest
    real_plan(frame, "protobuf-confluent")


def test_moved_fields_of_structs() -> None:
    """Fields of structs may not move either."""
    before, now = (
        protobuf.parse(f'syntax = "proto3"; message M {{ S s = 1; message S {{ int64 x = {x}; int64 y = {y}; }} }}')
        for x, y in ((1, 2), (2, 3))
    )
    assert now.moved_fields(before) == ["s.x = 2", "s.y = 3"]
    assert before.moved_fields(before) == []


def test_descriptors_are_registered_one_by_one(subjects: Subjects) -> None:
    """The descriptor of a file is registered as it is, and a set, which registries misread, is refused."""
    files = FileDescriptorSet.FromString(protobuf.parse('syntax = "proto3"; message M { int32 x = 1; }').files)
    own = base64.b64encode(files.file[-1].SerializeToString()).decode()
    real_plan(FRAME, "protobuf-confluent", value_schema=own)
    assert subjects.requests == [("t-value", own, "PROTOBUF", True, False)]
    whole = base64.b64encode(files.SerializeToString()).decode()
    with pytest.raises(OptionError, match="A descriptor set cannot be registered"):
        real_plan(FRAME, "protobuf-confluent", value_schema=whole)
