"""Columns of a consumer in C, by functions written by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import UnreadableRecord
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import COLUMNS
from pyspark_zkafka.transport.native.arrays import CArray
from pyspark_zkafka.transport.native.columns import project, take_batch

HANDLE = 7
TP = TopicPartition("orders", 3)
FLAWS = ("key_not_utf8", "value_not_utf8", "timestamp_too_large", "header_not_utf8")


def schema(**texts: bool) -> pa.Schema:
    """A schema of columns, each as text or by its first type: ``schema(key=True, offset=False)``."""
    return pa.schema([(name, pa.string() if text else COLUMNS[name][0]) for name, text in texts.items()])


def filled(batch: pa.RecordBatch, **flaws: int) -> Callable[..., bool]:
    """The function of a consumer in C that takes a batch, with the offsets of records that Spark cannot represent."""
    source = CArray.of(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)))

    def take(handle: int, address: int, place: Any) -> bool:
        assert handle == HANDLE
        ctypes.memmove(address, source.address, 80)
        ctypes.memset(source.address + 64, 0, 8)  # moved: no release callback is left here
        for name in FLAWS:
            setattr(place._obj, name, flaws.get(name, -1))
        place._obj.timestamp_ms = flaws.get("timestamp_ms", 0)
        return True

    return take


def test_projection() -> None:
    """C gets the number of each column in the order of Kafka's, and whether it is to be text."""
    found: list[Any] = []

    def set_columns(handle: int, numbers: Any, texts: Any, count: int) -> bool:
        found.append((handle, list(numbers), list(texts), count))
        return True

    project(set_columns, HANDLE, schema(offset=False, value=True, key=False))
    names = list(COLUMNS)
    assert found == [(HANDLE, [names.index(name) for name in ("offset", "value", "key")], [0, 1, 0], 3)]


def test_refused_projection() -> None:
    """Columns that C does not have are a programming error, with the schema."""
    with pytest.raises(ValueError, match="not a projection of Kafka's columns: offset: int64"):
        project(lambda *arguments: False, HANDLE, schema(offset=False))


def test_batch() -> None:
    """A batch without flaws is what C has gathered."""
    batch = pa.record_batch([pa.array([5, 6], pa.int64())], schema=schema(offset=False))
    assert take_batch(filled(batch), HANDLE, batch.schema, TP).equals(batch)


def test_no_memory() -> None:
    """Where C has no memory for a batch, the partition is named."""
    with pytest.raises(MemoryError, match="no memory for a batch of orders-3"):
        take_batch(lambda *arguments: False, HANDLE, schema(offset=False), TP)


@pytest.mark.parametrize(
    ("flaws", "text"),
    [
        ({"key_not_utf8": 7}, "MALFORMED_UTF8.*The key of orders-3 at offset 7 is not UTF-8"),
        ({"value_not_utf8": 0}, "MALFORMED_UTF8.*The value of orders-3 at offset 0 is not UTF-8"),
        ({"value_not_utf8": 9, "key_not_utf8": 8}, "The value of orders-3 at offset 9"),
        (
            {"timestamp_too_large": 8, "timestamp_ms": 2**62},
            rf"MALFORMED_TIMESTAMP.*The timestamp of orders-3 at offset 8 is {2**62} ms",
        ),
    ],
)
def test_flaws(flaws: dict[str, int], text: str) -> None:
    """A value that Spark cannot represent is an error for the first such column in the schema's order."""
    columns = schema(value=True, timestamp=False, key=True)
    empty = pa.RecordBatch.from_pylist([], schema=columns)
    with pytest.raises(UnreadableRecord, match=text):
        take_batch(filled(empty, **flaws), HANDLE, columns, TP)


def test_flaws_of_other_columns() -> None:
    """Flaws of columns that are not read do not matter."""
    empty = pa.RecordBatch.from_pylist([], schema=schema(offset=False))
    flaws = dict.fromkeys(FLAWS, 3)
    assert take_batch(filled(empty, **flaws), HANDLE, empty.schema, TP).num_rows == 0
