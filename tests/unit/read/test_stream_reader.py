"""Spark's calls of a streaming reader without a connection."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_reader import ZKafkaStreamReader


def reader(**options: str) -> ZKafkaStreamReader:
    """Return a reader that has not planned yet."""
    given = {"kafka.bootstrap.servers": "broker1:9092", "subscribe": "t", **options}
    return ZKafkaStreamReader(parse_stream(given), pa.schema([pa.field("value", pa.binary())]))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "500"}, ReadMaxRows(500)),
        ({"maxOffsetsPerTrigger": "9223372036854775807"}, ReadMaxRows(2**63 - 1)),
        ({"maxBytesPerTrigger": "1000"}, ReadMaxRows(2**63 - 1)),
        ({"minOffsetsPerTrigger": "500"}, ReadMaxRows(2**63 - 1)),
    ],
)
def test_default_limit(options: dict[str, str], limit: ReadLimit) -> None:
    """Any limit makes Spark request limited micro-batches; a limit of records is also passed to Spark."""
    assert reader(**options).getDefaultReadLimit() == limit


def test_before_planning() -> None:
    """Before it has planned, a reader reports nothing, plans an empty micro-batch, and stops at once."""
    found = reader()
    assert found.reportLatestOffset() is None
    assert found.partitions({"version": 1}, {"version": 1}) == []
    found.stop()


def test_pickle() -> None:
    """A reader survives pickling, since Spark sends it to the planning process."""
    assert pickle.loads(pickle.dumps(reader())).getDefaultReadLimit() == ReadAllAvailable()
