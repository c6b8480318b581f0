"""Record batches through the decoder, and Python's rows of the same records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import COLUMNS, build_batch
from pyspark_zkafka.records.native.library import FedBatches
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from tests.support.message_sets import MessageSet
from tests.support.record_batches import CONTROL, LOG_APPEND_TIME, Batch, Row

__all__ = [
    "ALL",
    "PARTITION",
    "Limits",
    "Message",
    "assert_same",
    "decoded",
    "encode",
    "expected",
    "messages",
    "polled",
    "taken",
]

PARTITION = TopicPartition("orders", 3)
ALL = pa.schema([(name, kinds[0]) for name, kinds in COLUMNS.items()])

CREATE_TIME = 1
APPEND_TIME = 2


@dataclass(frozen=True)
class Message:
    """A row in the form that `build_batch` takes."""

    row: Row
    time: tuple[int, int]

    def key(self) -> bytes | None:
        return self.row.key

    def value(self) -> bytes | None:
        return self.row.value

    def topic(self) -> str:
        return PARTITION.topic

    def partition(self) -> int:
        return PARTITION.partition

    def offset(self) -> int:
        return self.row.offset

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return [(key.decode(), value) for key, value in self.row.headers] or None


@dataclass(frozen=True)
class Limits:
    """The most that a poll may return, and the end of the range."""

    records: int = 1000
    size_bytes: int = 1 << 20
    until: int = 2**62


def messages(batches: Iterable[Batch | MessageSet], start: int = 0, until: int = 2**62) -> list[Message]:
    """Return the records of batches in a range of offsets."""
    return [
        Message(row, batch.time(row) if isinstance(batch, MessageSet) else _time(batch, row))
        for batch in batches
        if isinstance(batch, MessageSet) or not batch.flags & CONTROL
        for row in batch.rows
        if start <= row.offset < until
    ]


def _time(batch: Batch, row: Row) -> tuple[int, int]:
    is_append = batch.flags & LOG_APPEND_TIME
    return (APPEND_TIME, batch.max_timestamp_ms) if is_append else (CREATE_TIME, row.timestamp_ms)


def expected(batches: Iterable[Batch | MessageSet], schema: pa.Schema = ALL, start: int = 0, until: int = 2**62) -> Any:
    """Return the batch of Python's code, or the text of its error; None for no records."""
    found = messages(batches, start, until)
    try:
        return build_batch(found, schema) if found else None
    except ZKafkaError as error:
        return str(error)


def taken(decoder: RecordDecoder) -> Any:
    """Take the batch, or return the error's text."""
    try:
        batch = decoder.take()
    except ZKafkaError as error:
        return str(error)
    batch.validate(full=True)
    return batch


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, pa.RecordBatch):
        assert isinstance(found, pa.RecordBatch), found
        assert found.num_rows == expected.num_rows
        assert found.schema == expected.schema
        assert [c.null_count for c in found.columns] == [c.null_count for c in expected.columns]
        assert found.equals(expected), f"{found.to_pylist()} != {expected.to_pylist()}"
    else:
        assert found == expected


def encode(batches: Iterable[Batch | MessageSet]) -> bytes:
    return b"".join(batch.encode() for batch in batches)


def decoded(
    fed: bytes,
    schema: pa.Schema = ALL,
    start: int = 0,
    limits: Limits | None = None,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> tuple[Any, int]:
    """Decode a whole response; returns its batch, the text of its error, or None, and the position after it."""
    with RecordDecoder(PARTITION, schema) as decoder:
        decoder.seek(start)
        decoder.feed(fed, aborted)
        rows = polled(decoder, limits or Limits())
        return (taken(decoder) if rows else None), decoder.position


def polled(decoder: RecordDecoder, limits: Limits) -> int:
    """Poll until nothing moves; returns the number of records."""
    rows, before = 0, decoder.position
    while True:
        poll = decoder.poll(limits.records, limits.size_bytes, limits.until)
        assert poll.ordered
        assert poll.records <= limits.records
        if poll.first is None or poll.last is None:
            assert poll.records == 0
            assert decoder.position == before
            return rows
        assert before <= poll.first <= poll.last == decoder.position - 1
        rows, before = rows + poll.records, decoder.position


def fields(fed: FedBatches) -> tuple[int, int, int, int, bool, bool]:
    """Return the fields of a struct in their order."""
    return fed.size, fed.first_offset, fed.next_offset, fed.last_epoch, bool(fed.malformed), bool(fed.exhausted)
