"""Recorded responses of real brokers, compared with librdkafka's reads of the same logs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from tests.native.decoding import ALL, PARTITION, Limits, decoded, polled
from tests.support.record_batches import HEADER_BYTES
from tests.support.recorded_responses import RecordedLog, recorded_logs

LOGS = {log.topic: log for log in recorded_logs()}
each_log = pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
    rest = batch.drop_columns(["timestamp", "topic", "partition"])
    return [{**row, "timestamp_ms": time} for row, time in zip(rest.to_pylist(), times.to_pylist(), strict=True)]


def offset_after(records: bytes) -> int:
    """Return the offset after the complete batches of a response, or 0."""
    found = 0
    while len(records) >= HEADER_BYTES and len(records) >= (size := 12 + int.from_bytes(records[8:12], "big")):
        found = int.from_bytes(records[:8], "big") + int.from_bytes(records[23:27], "big") + 1
        records = records[size:]
    return found


@each_log
def test_all_records(log: RecordedLog) -> None:
    """Every record is decoded as librdkafka reads it, and the position is beyond the last record."""
    found, position = decoded(log.records)
    assert rows_of(found) == log.rows
    assert position > log.rows[-1]["offset"]


@each_log
def test_committed_records(log: RecordedLog) -> None:
    """With its aborted transactions, a response yields the records that librdkafka reads as committed."""
    found, _ = decoded(log.records, aborted=log.aborted)
    assert rows_of(found) == [row for row in log.rows if row["offset"] in log.committed_offsets]


@each_log
def test_every_start(log: RecordedLog) -> None:
    """A response yields the same rows from any starting offset and in portions of any size."""
    for start in range(0, log.rows[-1]["offset"] + 2, 3):
        wanted = [row for row in log.rows if row["offset"] >= start]
        found, _ = decoded(log.records, start=start, limits=Limits(1 + start % 7, 1 + 97 * (start % 3)))
        assert (rows_of(found) if wanted else found) == (wanted or None)


@each_log
def test_cut_off(log: RecordedLog) -> None:
    """A truncated response yields the rows of its complete batches."""
    counts = set()
    for cut in range(0, len(log.records), 7):
        wanted = [row for row in log.rows if row["offset"] < offset_after(log.records[:cut])]
        counts.add(len(wanted))
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(log.records[:cut])
            rows = polled(decoder, Limits())
            assert (rows_of(decoder.take()) if rows else []) == wanted
    assert len(counts) > 1


def test_corpus_is_varied() -> None:
    """The recorded logs have all codecs, transactions, gaps and broker times."""
    assert {int.from_bytes(log.records[21:23], "big") & 7 for log in LOGS.values()} == {0, 1, 2, 3, 4}
    transactions = LOGS["transactions"]
    assert len(transactions.aborted) > 1
    assert len(transactions.rows) > len(transactions.committed_offsets) > 10
    compacted = [row["offset"] for row in LOGS["compacted"].rows]
    assert compacted[-1] - compacted[0] >= len(compacted)
    assert {row["timestampType"] for row in LOGS["append-time"].rows} == {1}
    assert any(row["headers"] for row in LOGS["java-snappy"].rows)
