"""Columns of a frame to write, checked and converted to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError
from pyspark_zkafka.model import rows as row_module
from pyspark_zkafka.model.rows import OutgoingBatch, Rows, check_columns, gathered, outgoing

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MICROS = pa.timestamp("us", tz="UTC")


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def at(*microseconds: int | None) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(MICROS)


def values(*data: Any) -> pa.Array:
    return pa.array(data, pa.binary())


def only(found: pa.RecordBatch, topic: str | None = "t") -> OutgoingBatch:
    (part,) = outgoing(found, topic)
    return part


# --- check_columns


@pytest.mark.parametrize(
    "columns",
    [
        {"value": pa.string()},
        {"value": pa.binary()},
        {"value": pa.large_string(), "key": pa.large_binary()},
        {"value": pa.binary(), "key": pa.string(), "topic": pa.string(), "partition": pa.int32()},
        {"value": pa.binary(), "timestamp": MICROS},
        {"value": pa.binary(), "timestamp": pa.timestamp("ns", tz="Europe/Berlin")},
        {"value": pa.binary(), "headers": HEADERS},
        {"value": pa.binary(), "headers": pa.large_list(HEADERS.value_type)},
        {"value": pa.binary(), "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))},
        {"value": pa.binary(), "offset": pa.int64(), "else": pa.float64()},
    ],
)
def test_columns_that_can_be_written(columns: dict[str, pa.DataType]) -> None:
    """Text, bytes and the types of Spark's columns are accepted, and other columns are ignored."""
    check_columns(pa.schema(list(columns.items())), "t")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"key": pa.binary()}, "there is no column value; there are key"),
        ({}, "there is no column value; there are none"),
        ({"Value": pa.binary()}, "there is no column value; there are Value"),
        ({"value": pa.int64()}, "column value must be string or binary, it is bigint"),
        (
            {"value": pa.struct([("a", pa.int32())])},
            "column value must be string or binary, it is struct<a:int>; set value.format to encode it",
        ),
        (
            {"value": pa.list_(pa.struct([("at", pa.timestamp("us")), ("price", pa.decimal128(9, 2))]))},
            "column value must be string or binary, it is array<struct<at:timestamp_ntz,price:decimal(9,2)>>; "
            "set value.format to encode it",
        ),
        (
            {"value": pa.binary(), "key": pa.map_(pa.string(), pa.int8())},
            "column key must be string or binary, it is map<string,tinyint>; set key.format to encode it",
        ),
        ({"value": pa.null()}, "column value must be string or binary, it is void"),
        (
            {"value": pa.binary(), "headers": pa.list_(pa.string())},
            "column headers must be array<struct<key:string,value:binary>>, it is array<string>",
        ),
        ({"value": pa.binary(), "key": pa.float64()}, "column key must be string or binary, it is double"),
        ({"value": pa.binary(), "topic": pa.binary()}, "column topic must be string, it is binary"),
        ({"value": pa.binary(), "partition": pa.int64()}, "column partition must be int, it is bigint"),
        ({"value": pa.binary(), "partition": pa.string()}, "column partition must be int, it is string"),
        (
            {"value": pa.binary(), "timestamp": pa.timestamp("us")},
            "column timestamp must be timestamp, it is timestamp_ntz, a time in no zone; cast it to timestamp_ltz",
        ),
        ({"value": pa.binary(), "timestamp": pa.int64()}, "column timestamp must be timestamp, it is bigint"),
        (
            {"value": pa.binary(), "headers": pa.string()},
            "column headers must be array<struct<key:string,value:binary>>, it is string",
        ),
        (
            {"value": pa.binary(), "headers": pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))},
            "column headers must be array<struct<key:string,value:binary>>, it is array<struct<value:binary,key:string>>",
        ),
        (
            {"value": pa.binary(), "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))},
            "column headers must be array<struct<key:string,value:binary>>, it is array<struct<key:string,value:int>>",
        ),
    ],
)
def test_columns_that_cannot_be_written(columns: dict[str, pa.DataType], says: str) -> None:
    """A missing value or a column of another type is an error with the expected and the actual type."""
    with pytest.raises(OptionError) as caught:
        check_columns(pa.schema(list(columns.items())), None if "topic" in columns else "t")
    assert caught.value.condition == "INVALID_SCHEMA"
    assert caught.value.message == f"The frame cannot be written: {says}"


def test_a_column_that_is_there_twice_is_refused() -> None:
    """Two columns with the same name are refused."""
    with pytest.raises(OptionError, match="there are several columns value"):
        check_columns(pa.schema([("value", pa.binary()), ("value", pa.string())]), "t")


def test_all_problems_of_a_frame_are_in_one_error() -> None:
    """One error lists every invalid column and all that is missing."""
    with pytest.raises(OptionError) as caught:
        check_columns(pa.schema([("key", pa.int8()), ("partition", pa.int64())]), None)
    assert caught.value.message.removeprefix("The frame cannot be written: ").split("; ") == [
        "column key must be string or binary, it is tinyint",
        "column partition must be int, it is bigint",
        "there is no column value",
        "there are key, partition",
        "there is neither the option topic nor a column topic",
    ]


def test_columns_that_are_encoded() -> None:
    """An encoded column may have any type, and must exist."""
    check_columns(pa.schema([("value", pa.int64()), ("key", pa.list_(pa.int8()))]), "t", ["value", "key"])
    with pytest.raises(OptionError) as caught:
        check_columns(pa.schema([("key", pa.int64())]), "t", ["value", "key"])
    assert caught.value.message == "The frame cannot be written: there is no column value, which value.format encodes"


def test_gathered_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are joined up to a number of rows or bytes; large ones are passed on, and the order stays."""
    monkeypatch.setattr(row_module, "_GATHERED_ROWS", 10)
    monkeypatch.setattr(row_module, "_GATHERED_BYTES", 1000)
    sizes, found = [4, 0, 5, 1, 12, 5, 5, 9, 2, 2], 0
    batches = []
    for size in sizes:
        batches.append(pa.record_batch({"value": pa.array(map(str, range(found, found + size)), pa.string())}))
        found += size
    joined = list(gathered(iter(batches)))
    assert [batch.num_rows for batch in joined] == [10, 12, 10, 11, 2]
    assert [value for batch in joined for value in batch.column(0).to_pylist()] == [str(n) for n in range(found)]
    assert list(gathered([])) == []
    large, smaller, tiny = (pa.record_batch({"value": ["x" * size]}) for size in (1000, 999, 1))
    monkeypatch.setattr(row_module, "_GATHERED_BYTES", large.nbytes)
    assert [batch.num_rows for batch in gathered([large, large, smaller, tiny])] == [1, 1, 2]


def test_topic_comes_from_option_or_column() -> None:
    """The topic comes from the option or from a column, and one of them is enough."""
    value = ("value", pa.binary())
    check_columns(pa.schema([value]), "t")
    check_columns(pa.schema([value, ("topic", pa.string())]), None)
    check_columns(pa.schema([value, ("topic", pa.int32())]), "t")
    with pytest.raises(OptionError, match="neither the option topic nor a column topic"):
        check_columns(pa.schema([value]), None)


# --- outgoing


def test_option_topic_takes_the_whole_batch() -> None:
    """With the option topic, there is one part, and the column topic is ignored."""
    part = only(batch(value=values(b"1", b"2"), topic=pa.array([None, "x"])), "t")
    assert part.topic == "t"
    assert part.value.to_pylist() == [b"1", b"2"]
    assert [part.key, part.partition, part.timestamp_ms, part.headers] == [None] * 4


def test_rows_go_to_the_topics_of_their_column() -> None:
    """Each topic gets its rows in order, with all columns, and topics are in the order of their first rows."""
    found = batch(
        topic=pa.array(["b", "a", "b"]),
        value=values(b"1", b"2", None),
        key=pa.array(["k1", None, "k3"]),
        partition=pa.array([None, 2, 3], pa.int32()),
        timestamp=at(1_000, 2_000, None),
        headers=pa.array([None, [("h", b"x")], []], HEADERS),
    )
    parts = list(outgoing(found, None))
    assert [part.topic for part in parts] == ["b", "a"]
    assert [part.value.to_pylist() for part in parts] == [[b"1", None], [b"2"]]
    assert [part.key.to_pylist() for part in parts] == [[b"k1", b"k3"], [None]]  # type: ignore[union-attr]
    assert [part.partition.to_pylist() for part in parts] == [[None, 3], [2]]  # type: ignore[union-attr]
    assert [part.timestamp_ms.to_pylist() for part in parts] == [[1, None], [2]]  # type: ignore[union-attr]
    assert [part.headers.to_pylist() for part in parts] == [  # type: ignore[union-attr]
        [None, []],
        [[{"key": "h", "value": b"x"}]],
    ]


def test_null_topic_is_an_error() -> None:
    """A row without a topic fails the batch before any part is returned."""
    found = outgoing(batch(topic=pa.array(["a", "a", None]), value=values(b"1", b"2", b"3")), None)
    with pytest.raises(InvalidRow, match=r"\[NULL_TOPIC\] The column topic is null in row 2 of a batch"):
        next(found)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\0b", r"'a\\x00b'"),
        (b"x" * 600, f"'{'x' * 60}'... \\(600 characters\\)"),
        (b"", "''"),
        (b"..", "'\\.\\.'"),
        (b"a/\xff", r"'a/\\udcff'"),
        ("\u00e4".encode(), "'\u00e4'"),
    ],
)
def test_topics_that_kafka_does_not_allow(name: bytes, shown: str, kind: pa.DataType) -> None:
    """A row with an invalid topic fails the batch before any part is returned."""
    topics = pa.array([b"a", b"b", name, b"b", name], pa.large_binary() if kind == pa.large_string() else pa.binary())
    topics = pa.Array.from_buffers(kind, 5, topics.buffers())
    found = outgoing(batch(topic=topics, value=values(*[b"v"] * 5)), None)
    with pytest.raises(
        InvalidRow, match=rf"\[INVALID_TOPIC\] The column topic is {shown} in row 2 of a batch; Kafka allows"
    ):
        next(found)


def test_topics_of_a_slice() -> None:
    """In a sliced batch, only the topics of its own rows are checked."""
    whole = batch(topic=pa.array(["a/b", "a", None]), value=values(b"1", b"2", b"3"))
    assert [part.topic for part in outgoing(whole.slice(1, 1), None)] == ["a"]


@pytest.mark.parametrize("topic", [None, "t"])
def test_empty_batch_has_no_parts(topic: str | None) -> None:
    """A batch without rows has no parts."""
    empty = batch(topic=pa.array([], pa.string()), value=values(), timestamp=at(), headers=pa.array([], HEADERS))
    assert list(outgoing(empty, topic)) == []


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pa.binary(), pa.binary()),
        (pa.string(), pa.binary()),
        (pa.large_binary(), pa.large_binary()),
        (pa.large_string(), pa.large_binary()),
    ],
    ids=str,
)
def test_text_and_large_columns_become_bytes(given: pa.DataType, kind: pa.DataType) -> None:
    """Text is written as UTF-8, and a large column stays large, so that offsets do not overflow."""
    data = ["gr\u00fcn", None, ""] if given in (pa.string(), pa.large_string()) else ["gr\u00fcn".encode(), None, b""]
    part = only(batch(value=pa.array(data, given), key=pa.array(data, given)))
    for column in (part.value, part.key):
        assert column.type == kind
        assert column.to_pylist() == [b"gr\xc3\xbcn", None, b""]


@pytest.mark.parametrize(
    ("microseconds", "milliseconds"),
    [
        (1_000, 1),
        (1_999, 1),
        (2_000, 2),
        (1_700_000_000_123_456, 1_700_000_000_123),
        (1_698_539_400_123_456, 1_698_539_400_123),  # 02:30 in Berlin, for the first time that night
        (1_698_543_000_123_456, 1_698_543_000_123),  # 02:30 for the second time
        (253_402_300_799_999_999, 253_402_300_799_999),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "GMT+05:00", "UTC+3", "PST", "Z", "No/Such"])
def test_timestamps_floor_to_milliseconds(microseconds: int, milliseconds: int, zone: str) -> None:
    """Microseconds are cut off as in Java, in any time zone, even one unknown to Arrow, and null stays null."""
    column = at(microseconds, None).cast(pa.timestamp("us", tz=zone))
    timestamp_ms = only(batch(value=values(b"1", b"2"), timestamp=column)).timestamp_ms
    assert timestamp_ms is not None
    assert timestamp_ms.type == pa.int64()
    assert timestamp_ms.to_pylist() == [milliseconds, None]


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (999, "1970-01-01T00:00:00.000999Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-999, "1969-12-31T23:59:59.999001Z"),
        (-1_001, "1969-12-31T23:59:59.998999Z"),
        (-2_000, "1969-12-31T23:59:59.998000Z"),
        (-1_000_000_000, "1969-12-31T23:43:20.000000Z"),
        (-62_135_596_800_000_001, "0000-12-31T23:59:59.999999Z"),
        (-(2**63) + 1, "-290308-12-21T19:59:05.224193Z"),
        (-(2**63), "-9223372036854775808 us since 1970"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "GMT+05:00"])
def test_timestamps_that_kafka_cannot_hold_are_refused(microseconds: int, shown: str, zone: str) -> None:
    """A timestamp that floors to 0 ms or less is an error that shows it, since 0 would mean "now" to the client."""
    column = at(None, 5_000, microseconds).cast(pa.timestamp("us", tz=zone))
    found = batch(value=values(b"1", b"2", b"3"), timestamp=column)
    with pytest.raises(
        InvalidRow, match=r"in row 2 of a batch; Kafka stores none before 1970-01-01T00:00:00\.001Z"
    ) as caught:
        only(found)
    assert caught.value.condition == "INVALID_TIMESTAMP"
    assert f"timestamp is {shown} in row 2" in str(caught.value)


@pytest.mark.parametrize("row", [0, 1])
def test_the_row_of_a_refused_timestamp(row: int) -> None:
    """A refused timestamp is found in any row, even the first."""
    column = at(*[0 if n == row else 5_000 for n in range(2)])
    with pytest.raises(
        InvalidRow, match=rf"00:00:00\.000000Z in row {row} of a batch; .*Leave it null to let the producer"
    ):
        only(batch(value=values(b"1", b"2"), timestamp=column))


@pytest.mark.parametrize("unit", ["us", "ms", "ns"])
def test_null_timestamps_are_left_to_the_producer(unit: str) -> None:
    """Null timestamps are no error, nor are those with which records without a timestamp are read."""
    column = at(None, -1_000, 5_000).cast(pa.timestamp(unit, tz="UTC"))
    timestamp_ms = only(batch(value=values(b"1", b"2", b"3"), timestamp=column)).timestamp_ms
    assert timestamp_ms is not None
    assert timestamp_ms.to_pylist() == [None, None, 5]


def test_headers_outside_of_a_slice_do_not_matter() -> None:
    """In a sliced batch, only the headers and timestamps of its own rows are checked."""
    found = batch(
        value=values(b"1", b"2", b"3"),
        headers=pa.array([[(None, b"x")], [("a", b"1")], [("\0", b"y")]], HEADERS),
        timestamp=at(-1, 5_000, -1),
    )
    part = only(found.slice(1, 1))
    assert part.rows(0, 1) == Rows([b"2"], [None], [{"timestamp": 5, "headers": [("a", b"1")]}])


# --- rows


def test_rows_as_a_producer_takes_them() -> None:
    """A row has a value, a key, its timestamp if not null, and a list of headers if there is such a column."""
    part = only(
        batch(
            value=values(b"1", None, b"3"),
            key=pa.array([None, "k", ""]),
            timestamp=at(7_000, None, 9_000),
            headers=pa.array([None, [("a", b"1"), ("a", None)], []], HEADERS),
        )
    )
    values_, keys = [b"1", None, b"3"], [None, b"k", b""]
    others = [
        {"timestamp": 7, "headers": []},
        {"headers": [("a", b"1"), ("a", None)]},
        {"timestamp": 9, "headers": []},
    ]
    assert part.rows(0, 3) == Rows(values_, keys, others)
    assert part.rows(1, 2) == Rows(values_[1:2], keys[1:2], others[1:2])


def test_plain_rows_have_key_and_value_only() -> None:
    """Without the columns timestamp and headers, rows have neither."""
    part = only(batch(value=values(b"1"), partition=pa.array([4], pa.int32())))
    assert part.rows(0, 1) == Rows([b"1"], [None], None)
    assert only(batch(value=values(b"1"), timestamp=at(5_000))).rows(0, 1).others == [{"timestamp": 5}]
    assert only(batch(value=values(b"1"), headers=pa.array([None], HEADERS))).rows(0, 1).others == [{"headers": []}]


def test_take_reorders_every_column() -> None:
    """Taking positions returns those complete rows in that order."""
    part = only(
        batch(
            value=values(b"0", b"1", b"2"),
            key=values(b"k0", None, b"k2"),
            partition=pa.array([5, 6, None], pa.int32()),
            timestamp=at(1_000, None, 3_000),
            headers=pa.array([None, [("h", b"1")], []], HEADERS),
        )
    )
    order = [2, 0, 1]
    taken = part.take(np.array(order))
    before, after = part.rows(0, 3), taken.rows(0, 3)
    assert before.others is not None
    assert after.values == [before.values[n] for n in order]
    assert after.keys == [before.keys[n] for n in order]
    assert after.others == [before.others[n] for n in order]
    assert taken.topic == part.topic
    assert taken.partition is not None
    assert taken.partition.to_pylist() == [None, 5, 6]


# --- sizes


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_sizes_count_all_that_is_sent(kind: pa.DataType) -> None:
    """A row's size is that of its value, key and headers without nulls, and a slice has the sizes of its own rows."""
    heads = [[("a", b"123"), ("bc", None)], None, [], [("\u00e4", b"")], [("d", b"4")]]
    part = only(
        batch(
            value=pa.array([b"v", None, b"", b"xyz", b"x" * 100], kind),
            key=pa.array([None, b"key", b"", b"k", b"x" * 100], kind),
            headers=pa.array(heads, HEADERS),
        ).slice(1, 3)
    )
    assert part.sizes().tolist() == [3, 0, 6]
    without_headers = only(batch(value=pa.array([b"v", None], kind))).sizes()
    assert without_headers.tolist() == [1, 0]
    assert without_headers.dtype == np.int64, "the size of a row may exceed 32 bits"


def test_sizes_of_many_headers() -> None:
    """Each row's size includes only its own headers."""
    heads = [[("k", bytes(n))] * n for n in range(5)]
    part = only(batch(value=values(*[b"v"] * 5), headers=pa.array([*heads[:2], None, *heads[3:]], HEADERS)))
    assert part.sizes().tolist() == [1, 3, 1, 13, 21]
    assert part.take(np.array([4, 0, 2])).sizes().tolist() == [21, 1, 1]
