"""Columns of records, built from messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.engines import arrow_schema, struct_type
from pyspark_zkafka.errors import OptionError, UnreadableRecord
from pyspark_zkafka.model.records import COLUMNS, RAW_HEADERS, build_batch, frame_schema, read_headers, require_projection
from tests.support.spark_types import spark_schema

MAX_MS = (2**63 - 1) // 1000


@dataclass
class FakeMessage:
    """A message with the interface of confluent_kafka.Message."""

    at: int
    k: bytes | None = b"k"
    v: bytes | None = b"v"
    time: tuple[int, int] = (1, 1_700_000_000_123)
    heads: list[tuple[str, bytes | None]] | None = None

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.heads


def column(messages: Sequence[FakeMessage], ddl: str) -> list[Any]:
    """Return the only column of a batch as Python values, after a full validation of the batch."""
    batch = build_batch(messages, spark_schema(ddl))
    batch.validate(full=True)
    return batch.column(0).to_pylist()


def problems(schema: pa.Schema) -> str:
    """Return the problems of a refused schema."""
    with pytest.raises(OptionError) as caught:
        require_projection(schema)
    return caught.value.message.removeprefix("The schema cannot be read: ")


# --- schemas


@pytest.mark.parametrize("headers", [False, True])
def test_schema_equals_sparks(headers: bool) -> None:
    """The columns keep their types in Spark, which passes a reader's schema back."""
    schema = frame_schema(headers)
    assert schema.names == [name for name in COLUMNS if headers or name != "headers"]
    assert arrow_schema(struct_type(schema)) == schema
    require_projection(schema)


def test_schema_is_that_of_sparks_own_source() -> None:
    """Names and types are those of Spark's Kafka source."""
    assert struct_type(frame_schema(include_headers=True)).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


@pytest.mark.parametrize(
    "ddl",
    [
        "value string",
        "value string, key string",
        "offset bigint, key binary",
        "headers array<struct<key:string,value:binary>>",
        "timestampType int, timestamp timestamp, topic string",
    ],
)
def test_any_subset_in_any_order_can_be_read(ddl: str) -> None:
    """A projection may leave out and reorder columns, and declare key and value as text."""
    require_projection(spark_schema(ddl))
    batch = build_batch([FakeMessage(1, heads=[("h", b"x")]), FakeMessage(2)], spark_schema(ddl))
    batch.validate(full=True)
    assert batch.schema == spark_schema(ddl)
    assert batch.num_rows == 2


@pytest.mark.parametrize("name", ["key", "value", "headers"])
def test_columns_that_may_be_null(name: str) -> None:
    """Key, value and headers cannot be NOT NULL, since Kafka has records without them, but other columns can."""
    schema = pa.schema([pa.field(n, COLUMNS[n][0], nullable=False) for n in (name, "offset")])
    assert problems(schema) == f"{name} cannot be NOT NULL: Kafka has records without one"


def test_values_of_headers_that_may_be_null() -> None:
    """The value of a header cannot be NOT NULL."""
    header = pa.struct([("key", pa.string()), pa.field("value", pa.binary(), nullable=False)])
    headers = pa.schema([("headers", pa.list_(header))])
    assert problems(headers) == "value of headers cannot be NOT NULL: headers may have none"


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("body string", f"there is no column 'body'; there are {', '.join(COLUMNS)}"),
        ("Value string", f"there is no column 'Value'; there are {', '.join(COLUMNS)}"),
        ("value int", "value cannot be int; declare it binary or string"),
        ("value struct<a:int>", "value cannot be struct<a:int>; declare it binary or string, or set value.format"),
        ("key array<int>", "key cannot be array<int>; declare it binary or string, or set key.format"),
        ("topic binary", "topic cannot be binary; declare it string"),
        ("partition bigint", "partition cannot be bigint; declare it int"),
        ("offset int", "offset cannot be int; declare it bigint"),
        ("offset string", "offset cannot be string; declare it bigint"),
        ("timestamp timestamp_ntz", "timestamp cannot be timestamp_ntz; declare it timestamp_ltz"),
        ("timestamp bigint", "timestamp cannot be bigint; declare it timestamp_ltz"),
        ("timestampType string", "timestampType cannot be string; declare it int"),
        ("topic array<string>", "topic cannot be array<string>; declare it string"),
        *(
            (f"headers {kind}", f"headers cannot be {kind}; declare it array<struct<key:string,value:binary>>")
            for kind in (
                "map<string,binary>",
                "array<string>",
                "array<struct<value:binary,key:string>>",
                "array<struct<key:string,value:string>>",
            )
        ),
    ],
)
def test_projections_that_cannot_be_read(ddl: str, problem: str) -> None:
    """The error names an unknown column, or a column of another type, and says what is allowed."""
    assert problems(spark_schema(ddl)) == problem


def test_a_column_can_be_asked_for_once() -> None:
    """Two columns with the same name, which Spark allows in a schema, are refused."""
    schema = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("offset", pa.int64())])
    assert problems(schema) == "there are several columns offset"


def test_all_problems_of_a_schema_are_in_one_error() -> None:
    """The error lists every invalid column and no valid one."""
    with pytest.raises(OptionError) as caught:
        require_projection(spark_schema("key string, valu string, offset int"))
    assert caught.value.condition == "INVALID_SCHEMA"
    assert "no column 'valu'" in str(caught.value)
    assert "; offset cannot be int;" in str(caught.value)
    assert "key cannot" not in str(caught.value)


# --- columns


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("kind", "expected"), [("binary", [b"", None, b"gr\xc3\xbcn"]), ("string", ["", None, "gr\u00fcn"])]
)
def test_keys_and_values(name: str, kind: str, expected: list[Any]) -> None:
    """Null and empty values differ, as bytes and as text."""
    data = [b"", None, b"gr\xc3\xbcn"]
    messages = [FakeMessage(n, **{name[0]: d}) for n, d in enumerate(data)]  # type: ignore[arg-type]
    assert column(messages, f"{name} {kind}") == expected


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_all_values_may_be_null(kind: str) -> None:
    """A batch of tombstones gives a column of nulls."""
    assert column([FakeMessage(0, v=None), FakeMessage(1, v=None)], f"value {kind}") == [None, None]


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize("bad", [b"\xff", b"ok\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_invalid_utf8_names_the_record(name: str, bad: bytes) -> None:
    """Invalid UTF-8 in a column declared as string is an error with column, topic, partition and offset."""
    messages = [FakeMessage(40), FakeMessage(41, **{name[0]: bad}), FakeMessage(42)]  # type: ignore[arg-type]
    with pytest.raises(UnreadableRecord) as caught:
        column(messages, f"{name} string")
    assert caught.value.condition == "MALFORMED_UTF8"
    assert f"The {name} of orders-3 at offset 41 is not UTF-8; declare {name} as binary" in str(caught.value)
    assert column(messages, f"{name} binary")[1] == bad


def test_topic_and_partition() -> None:
    """Topic and partition are the same in every row."""
    messages = [FakeMessage(0), FakeMessage(1)]
    assert column(messages, "topic string") == ["orders", "orders"]
    assert column(messages, "partition int") == [3, 3]


@pytest.mark.parametrize("offsets", [[7], [0, 1, 2], [5, 6, 9], [5, 8, 9], [2**62, 2**62 + 1], [2**63 - 1], [0, 2**63 - 1]])
def test_offsets(offsets: list[int]) -> None:
    """Offsets are the messages' own, with and without gaps, up to the largest."""
    assert column([FakeMessage(o) for o in offsets], "offset bigint") == offsets


@pytest.mark.parametrize(
    ("time", "micros", "kind"),
    [
        ((1, 1_700_000_000_123), 1_700_000_000_123_000, 0),
        ((2, 1_700_000_000_123), 1_700_000_000_123_000, 1),
        ((1, 0), 0, 0),
        ((1, -1), -1000, 0),
        ((0, 0), -1000, -1),
        ((0, -1), -1000, -1),
        ((1, MAX_MS), MAX_MS * 1000, 0),
        ((1, -MAX_MS), -MAX_MS * 1000, 0),
    ],
)
def test_timestamps_and_their_types(time: tuple[int, int], micros: int, kind: int) -> None:
    """Timestamps are Spark's microseconds, with Java's numbers as types; a missing timestamp is -1 ms with type -1."""
    messages = [FakeMessage(0), FakeMessage(1, time=time)]
    batch = build_batch(messages, spark_schema("timestamp timestamp, timestampType int"))
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, micros]
    assert batch.column(1).to_pylist() == [0, kind]


@pytest.mark.parametrize("milliseconds", [MAX_MS + 1, 2**63 - 1, -MAX_MS - 1, -(2**63)])
def test_timestamps_beyond_spark_are_an_error(milliseconds: int) -> None:
    """A timestamp out of Spark's range is an error that names the record, and the other columns can still be read."""
    messages = [FakeMessage(40), FakeMessage(41, time=(1, milliseconds)), FakeMessage(42)]
    with pytest.raises(UnreadableRecord) as caught:
        column(messages, "timestamp timestamp")
    assert caught.value.condition == "MALFORMED_TIMESTAMP"
    assert f"The timestamp of orders-3 at offset 41 is {milliseconds} ms" in str(caught.value)
    assert column(messages, "timestampType int") == [0, 0, 0]


def test_headers() -> None:
    """Headers keep their order and repetitions, values may be null or empty, and a record without headers has null."""
    heads = [None, [("a", b"1"), ("b", None), ("a", b"")], [], [("\u00e4", b"\xff")]]
    messages = [FakeMessage(n, heads=h) for n, h in enumerate(heads)]  # type: ignore[arg-type]
    assert column(messages, "headers array<struct<key:string,value:binary>>") == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b""}],
        [],
        [{"key": "\u00e4", "value": b"\xff"}],
    ]


@pytest.mark.parametrize("heads", [None, [], [("a", b"1"), ("b", None), ("a", b"")]])
def test_headers_of_one_message(heads: list[tuple[str, bytes | None]] | None) -> None:
    """The headers of one message keep their order, and a message without headers has an empty list."""
    assert read_headers(FakeMessage(7, heads=heads)) == (heads or [])


def test_header_names_that_are_not_utf8() -> None:
    """A name that is not UTF-8 is an error, unless headers are read only for ids: its message then has none."""

    class Unreadable(FakeMessage):
        def headers(self) -> list[tuple[str, bytes | None]] | None:
            if self.heads is None:
                raise SystemError
            return self.heads

    messages = [Unreadable(5), Unreadable(6, heads=[("h", b"x")]), Unreadable(7), Unreadable(8), Unreadable(9, heads=[])]
    found = build_batch(messages, pa.schema([("headers", RAW_HEADERS), ("offset", pa.int64())]))
    found.validate(full=True)
    assert found.column("headers").to_pylist() == [None, [{"key": b"h", "value": b"x"}], None, None, []]
    with pytest.raises(UnreadableRecord, match="The name of a header of orders-3 at offset 7 is not UTF-8"):
        build_batch(messages[1:], pa.schema([("headers", COLUMNS["headers"][0])]))


def test_all_columns_at_once() -> None:
    """The full schema gives every column of a record."""
    batch = build_batch([FakeMessage(9, heads=[("h", b"x")])], frame_schema(include_headers=True))
    batch.validate(full=True)
    assert batch.to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "orders",
            "partition": 3,
            "offset": 9,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc),
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"x"}],
        }
    ]


def test_columns_that_are_not_asked_for_are_never_read() -> None:
    """A projection calls only the methods that it needs."""

    class Offsets(FakeMessage):
        def value(self) -> bytes | None:
            raise AssertionError("value was read")

        key = timestamp = headers = value  # type: ignore[assignment]

    assert column([Offsets(1), Offsets(2)], "offset bigint") == [1, 2]


def test_empty_projection_keeps_the_count_of_rows() -> None:
    """A batch without columns, as for count(), still has its number of rows."""
    batch = build_batch([FakeMessage(n) for n in range(5)], pa.schema([]))
    assert batch.num_rows == 5
    assert batch.num_columns == 0
