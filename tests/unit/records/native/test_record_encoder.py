"""The encoder of record batches, checked with the decoder of brokers' batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import Batch, ProducerId
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.records.native.record_encoder import Compression, RecordEncoder

NOW_MS = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, int | None, list[tuple[str, bytes | None]]]


BINARY = pa.binary()


def outgoing(rows: list[Row], kind: pa.DataType = BINARY) -> OutgoingBatch:
    values, keys, times, headers = (list(column) for column in zip(*rows, strict=True))
    entries = [[{"key": k, "value": v} for k, v in row] for row in headers]
    return OutgoingBatch(
        "t",
        pa.array(values, kind),
        pa.array(keys, kind),
        None,
        pa.array(times, pa.int64()),
        pa.array(entries, HEADERS),
    )


def encoder(batch_bytes: int = 1_000_000, batch_records: int = 2**31 - 1, codec: str = "none") -> RecordEncoder:
    return RecordEncoder(batch_bytes, batch_records, Compression(codec), now_ms=lambda: NOW_MS)


SCHEMA = pa.schema(
    [("key", BINARY), ("value", BINARY), ("timestamp", pa.timestamp("us", "UTC")), ("headers", HEADERS)],
)


def decoded(batch: Batch) -> list[Row]:
    with RecordDecoder(batch.partition, SCHEMA) as decoder:
        data = batch.data.sealed(ProducerId(7, 3), 11)
        decoder.seek(0)
        assert decoder.feed(data).size == len(data)
        assert decoder.poll(2**30, 2**40, 2**60).records == batch.records
        found = decoder.take().to_pylist()
    return [
        (
            row["value"],
            row["key"],
            (row["timestamp"] - EPOCH) // timedelta(milliseconds=1),
            [(entry["key"], entry["value"]) for entry in row["headers"] or ()],
        )
        for row in found
    ]


def expected(rows: list[Row]) -> list[Row]:
    return [(value, key, NOW_MS if time is None else time, headers) for value, key, time, headers in rows]


BYTES = st.one_of(st.none(), st.binary(max_size=40))
ROWS = st.lists(
    st.tuples(
        BYTES,
        BYTES,
        st.one_of(st.none(), st.integers(1, 2**42)),
        st.lists(st.tuples(st.text("aé€", max_size=3), BYTES), max_size=3),
    ),
    min_size=1,
    max_size=60,
)


@settings(deadline=None)
@given(
    rows=ROWS,
    batch_bytes=st.integers(62, 600),
    batch_records=st.integers(1, 20),
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    data=st.data(),
)
def test_any_rows(rows: list[Row], batch_bytes: int, batch_records: int, codec: str, data: st.DataObject) -> None:
    """Rows of any kind, in any partitions and batches, are decoded unchanged and in order."""
    partitions = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=np.int32)
    encode = encoder(batch_bytes, batch_records, codec)
    half = len(rows) // 2
    batches = [
        *(encode.add(outgoing(rows[:half]), partitions[:half]) if half else ()),
        *encode.add(outgoing(rows[half:]), partitions[half:]),
        *encode.close_all(),
    ]
    assert encode.open_bytes == 0
    found: dict[int, list[Row]] = {}
    for batch in batches:
        assert batch.records <= batch_records
        assert codec != "none" or batch.size_bytes <= batch_bytes or batch.records == 1
        found.setdefault(batch.partition.partition, []).extend(decoded(batch))
    for number in range(4):
        mine = [row for row, partition in zip(rows, partitions, strict=True) if partition == number]
        assert found.get(number, []) == expected(mine)


@settings(deadline=None)
@given(rows=ROWS.filter(lambda rows: len(rows) > 1), codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_halves(rows: list[Row], codec: str) -> None:
    """The halves of a batch have its records; later batches of its topic have at most half of its bytes."""
    encode = encoder(codec=codec)
    one_partition = np.zeros(len(rows), dtype=np.int32)
    assert not [*encode.add(outgoing(rows), one_partition)]
    (batch,) = encode.close_all()
    halves = encode.halves(batch)
    assert [half.records for half in halves] == [len(rows) // 2, len(rows) - len(rows) // 2]
    assert [row for half in halves for row in decoded(half)] == expected(rows)
    for later in (*encode.add(outgoing(rows), one_partition), *encode.close_all()):
        assert later.records == 1 or later.data.plain_bytes <= batch.data.plain_bytes // 2


def test_halves_of_halves() -> None:
    """Splitting a topic's batch limits the topic's later batches until the next task, but not those of other topics."""
    encode = encoder()
    rows: list[Row] = [(bytes(90), None, 1, [])] * 100
    assert not [*encode.add(outgoing(rows), np.zeros(100, dtype=np.int32))]
    (batch,) = encode.close_all()
    encode.halves(encode.halves(batch)[1])
    one_partition = np.zeros(100, dtype=np.int32)
    sizes = [
        {b.records for b in (*encode.add(replace(outgoing(rows), topic=topic), one_partition), *encode.close_all())}
        for topic in "tu"
    ]
    assert sizes == [{25}, {100}]
    encode.begin()
    assert [b.records for b in (*encode.add(outgoing(rows), one_partition), *encode.close_all())] == [100]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_slices(kind: pa.DataType) -> None:
    """Slices of arrays with 32-bit or 64-bit offsets are encoded correctly."""
    rows: list[Row] = [(b"%d" % n, None if n % 3 else b"k", n + 1, [("h", None)] * (n % 2)) for n in range(50)]
    whole = outgoing(rows, kind)
    value, key, times, headers = (a[13:37] for a in (whole.value, whole.key, whole.timestamp_ms, whole.headers))
    part = OutgoingBatch("t", value, key, None, times, headers)
    encode = encoder()
    assert list(encode.add(part, np.zeros(24, dtype=np.int32))) == []
    (batch,) = encode.close_all()
    assert decoded(batch) == expected(rows[13:37])


def test_header_of_a_batch() -> None:
    """The header has the fields that idempotence relies on."""
    encode = encoder()
    list(encode.add(outgoing([(b"v", None, 5, []), (b"w", None, 3, [])]), np.zeros(2, dtype=np.int32)))
    (batch,) = encode.close_all()
    data = batch.data.sealed(ProducerId(2**40, 9), 2**31 - 1)
    number = lambda start, stop: int.from_bytes(data[start:stop], "big", signed=True)  # noqa: E731
    assert batch.partition == TopicPartition("t", 0)
    assert batch.records == 2
    assert batch.size_bytes == len(data)
    assert number(0, 8) == 0
    assert number(8, 12) == len(data) - 12
    assert number(12, 16) == -1
    assert data[16] == 2
    assert number(23, 27) == 1
    assert number(27, 35) == 5
    assert number(35, 43) == 5
    assert number(43, 51) == 2**40
    assert number(51, 53) == 9
    assert number(53, 57) == 2**31 - 1
    assert number(57, 61) == 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_large_batches(codec: str) -> None:
    """Batches of many blocks are decoded unchanged, whether or not they compress well."""
    noise = np.random.default_rng(1).bytes(200_000)
    rows: list[Row] = [(noise[n * 1000 : n * 1000 + 1000], None, 1, []) for n in range(200)]
    rows += [(bytes(1_000), None, 1, []) for _ in range(200)]
    encode = encoder(codec=codec)
    batches = [*encode.add(outgoing(rows), np.zeros(400, dtype=np.int32)), *encode.close_all()]
    assert [row for batch in batches for row in decoded(batch)] == expected(rows)


def test_blocks_of_lz4_are_independent() -> None:
    """LZ4 blocks are independent and checksums valid: Java's consumers refuse frames with dependent blocks."""
    encode = encoder(codec="lz4")
    list(encode.add(outgoing([(bytes(200_000), None, 1, [])]), np.zeros(1, dtype=np.int32)))
    (batch,) = encode.close_all()
    frame = bytes(batch.data.data[61:])
    assert frame[:7] == bytes(pa.Codec("lz4").compress(b""))[:7]
    assert frame[4] & 0x20
    assert len(pa.Codec("lz4").decompress(frame, 200_100, asbytes=True)) > 200_000


@pytest.mark.parametrize("rows", [1, 3, 100, 400, 600, 770, 800, 899, 950])
def test_memory_of_closed_batches(rows: int) -> None:
    """A closed batch uses hardly more memory than its size, which limits the queue."""
    encode = encoder()
    list(encode.add(outgoing([(bytes(1_000), None, 1, [])] * rows), np.zeros(rows, dtype=np.int32)))
    (batch,) = encode.close_all()
    assert 9 * len(batch.data.data.obj) <= 10 * batch.size_bytes
