"""Columns that C builds: which ones, and the batch of them."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int32

import pyarrow as pa

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.records import COLUMNS, malformed_timestamp, malformed_utf8
from pyspark_zkafka.transport.native.arrays import CArray
from pyspark_zkafka.transport.native.library import Flaws

__all__ = ["project", "take_batch"]

_NUMBERS = {name: number for number, name in enumerate(COLUMNS)}
_UTF8_FLAWS: dict[str, Callable[[Flaws], int]] = {
    "key": lambda flaws: flaws.key_not_utf8,
    "value": lambda flaws: flaws.value_not_utf8,
    "headers": lambda flaws: flaws.header_not_utf8,
}


def project(set_columns: Callable[..., bool], handle: int, schema: pa.Schema) -> None:
    """Set the columns of a consumer or decoder by its function ``*_project``; ValueError if C has no such columns."""
    count = len(schema)
    numbers = (c_int32 * count)(*(_NUMBERS[field.name] for field in schema))
    texts = (c_int32 * count)(*(field.type == pa.string() for field in schema))
    if not set_columns(handle, numbers, texts, count):
        raise ValueError(f"not a projection of Kafka's columns: {schema}")


def take_batch(take: Callable[..., bool], handle: int, schema: pa.Schema, partition: TopicPartition) -> pa.RecordBatch:
    """The batch gathered by a consumer or decoder, by its function ``*_take``; raises as `build_batch`."""
    array, flaws = CArray(), Flaws()
    if not take(handle, array.address, byref(flaws)):
        raise MemoryError(f"no memory for a batch of {partition}")
    batch = array.batch(schema)
    _require_readable(flaws, schema, partition)
    return batch


def _require_readable(flaws: Flaws, schema: pa.Schema, partition: TopicPartition) -> None:
    """Raise for the first column, in the schema's order, with a value that Spark cannot represent."""
    for field in schema:
        if field.name == "timestamp" and flaws.timestamp_too_large >= 0:
            raise malformed_timestamp(partition, flaws.timestamp_too_large, flaws.timestamp_ms)
        offset = _UTF8_FLAWS[field.name](flaws) if field.name in _UTF8_FLAWS else -1
        if offset >= 0:
            raise malformed_utf8(field.name, partition, offset)
