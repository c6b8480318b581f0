"""The column headers of a frame to write: keys as text, values as bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.rows import OutgoingBatch, outgoing

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(data: pa.Array, headers: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": data, "headers": headers})


def values(*data: Any) -> pa.Array:
    return pa.array(data, pa.binary())


def only(found: pa.RecordBatch) -> OutgoingBatch:
    (part,) = outgoing(found, "t")
    return part


@pytest.mark.parametrize("headers", [[[(None, b"x")]], [None, [("a", b"1"), (None, None)]], [[None]]])
def test_headers_need_keys(headers: list[Any]) -> None:
    """A header without a key, or a null instead of a header, is an error."""
    found = batch(values(*[b"v"] * len(headers)), pa.array(headers, HEADERS))
    with pytest.raises(ZKafkaError, match=r"\[INVALID_HEADERS\] A header in the column headers has a null key"):
        only(found)


@pytest.mark.parametrize("key", ["a\0b", "\0"])
def test_keys_of_headers_hold_no_zero_byte(key: str) -> None:
    """A key that librdkafka would cut at a zero byte is an error."""
    found = batch(values(b"1", b"2"), pa.array([[("a", b"1")], [("b", None), (key, b"x")]], HEADERS))
    with pytest.raises(ZKafkaError, match=r"\[INVALID_HEADERS\] A header in the column headers has a zero byte in its key"):
        only(found)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"a\xff", r"b'a\\xff'"),
        (b"\xff" * 60, "b'" + r"\\xff" * 60 + "'"),
        (b"\xff" * 61, "b'" + r"\\xff" * 60 + r"'\.\.\."),
    ],
    ids=["short", "longest", "too long"],
)
def test_keys_of_headers_are_utf8(key: bytes, shown: str, kind: pa.DataType) -> None:
    """A key that is not UTF-8, which no reader could represent as a string, is an error that quotes its beginning."""
    bytes_kind = pa.large_binary() if kind == pa.large_string() else pa.binary()
    keys = pa.Array.from_buffers(kind, 3, pa.array([b"a", b"\xc3\xa4", key], bytes_kind).buffers())
    entries = pa.StructArray.from_arrays([keys, values(b"1", b"2", b"3")], ["key", "value"])
    found = batch(values(b"1", b"2"), pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), entries))
    with pytest.raises(ZKafkaError, match=rf"\[INVALID_HEADERS\] A header .* has a key that is not UTF-8: {shown};"):
        only(found)
    assert only(found.slice(0, 1)).headers is not None


@pytest.mark.parametrize("texts", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("lists", [pa.ListArray, pa.LargeListArray], ids=lambda kind: kind.__name__)
def test_values_of_headers_are_bytes(lists: Any, texts: pa.DataType) -> None:
    """A value declared as string may hold any bytes, which reach the producer unchanged, and large arrays stay large."""
    bytes_kind = pa.large_binary() if texts == pa.large_string() else pa.binary()
    raw = [b"1", b"\xff\xfe", None, b"\xc3\xa4"]
    entries = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c", "d"]), pa.Array.from_buffers(texts, 4, pa.array(raw, bytes_kind).buffers())],
        ["key", "value"],
    )
    found = batch(values(b"1", b"2", b"3"), lists.from_arrays([0, 1, 3, 4], entries))
    kind = only(found).headers.type  # type: ignore[union-attr]
    assert pa.types.is_large_list(kind) == (lists is pa.LargeListArray)
    assert kind.value_type.field("value").type == bytes_kind
    for part, heads in ((only(found), raw), (only(found.slice(1)), raw[1:])):
        rows = part.rows(0, len(part.value))
        assert [value for other in rows.others or () for _, value in other["headers"]] == heads
        assert part.sizes().sum() == len(part.value) + len(heads) + sum(len(value or b"") for value in heads)
