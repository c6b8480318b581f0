"""Decoder of record batches, compared with an encoder for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.records import COLUMNS, RAW_HEADERS
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.wire.protocol import Unsupported
from tests.native.decoding import ALL, PARTITION, Limits, assert_same, decoded, encode, expected, fields, polled
from tests.support.record_batches import (
    ABORT,
    CODECS,
    COMMIT,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    Row,
    marker,
    varint,
)

KNOWN_CODECS = [name for name in CODECS if name != "unknown"]
MIXED = (
    Row(10, b"k", b"value", 1_700_000_000_000, ((b"h", b"1"), (b"h", None), (b"", b""))),
    Row(11, None, b"", 1_700_000_000_500),
    Row(12, b"", None, 1_699_999_999_000),
    Row(13, b"\xff\x00", b"x" * 1000, 0),
)


def numbered(start: int, rows: int, **fields: Any) -> Batch:
    """Return a batch of consecutive offsets."""
    return Batch(tuple(Row(n, None, b"%d" % n, n) for n in range(start, start + rows)), **fields)


def offsets_of(batch: pa.RecordBatch | None) -> list[int]:
    return [] if batch is None else batch.column("offset").to_pylist()


class TestRecords:
    """Batches without transactions."""

    @pytest.mark.parametrize("codec", KNOWN_CODECS)
    def test_all_kinds_of_records(self, codec: str) -> None:
        """Nulls, empty values, headers and times in any order are decoded from batches of every codec."""
        batches = [Batch(MIXED, codec=codec), numbered(14, 3), numbered(17, 5, codec=codec)]
        found, position = decoded(encode(batches), start=10)
        assert_same(found, expected(batches))
        assert position == 22

    @pytest.mark.parametrize("name", COLUMNS)
    def test_each_column_alone(self, name: str) -> None:
        """A column decodes to the same values without the others."""
        schema = pa.schema([(name, COLUMNS[name][0])])
        found, _ = decoded(encode([Batch(MIXED)]), schema, 10)
        assert_same(found, expected([Batch(MIXED)], schema))

    def test_no_columns(self) -> None:
        """Records are counted without any column."""
        found, _ = decoded(encode([Batch(MIXED)]), pa.schema([]), 10)
        assert found.num_rows == 4

    def test_log_append_time(self) -> None:
        """Every record of a batch with the broker's time has this time."""
        batches = [Batch(MIXED, flags=LOG_APPEND_TIME, max_timestamp_ms=5_000)]
        found, _ = decoded(encode(batches), start=10)
        assert found.column("timestampType").to_pylist() == [1] * 4
        assert_same(found, expected(batches))

    def test_sizes_of_records(self) -> None:
        """The size of a poll counts keys, values and headers, including empty ones, only if they are requested."""
        for names, size in ([*COLUMNS], 1008 + 3 + 3 * 8), (["offset"], 1008):
            with RecordDecoder(PARTITION, pa.schema([ALL.field(name) for name in names])) as decoder:
                decoder.seek(10)
                decoder.feed(encode([Batch(MIXED)]), None)
                assert decoder.poll(100, 1 << 20, 100).size_bytes == size

    def test_records_before_the_position(self) -> None:
        """Records and batches before the position are skipped."""
        batches = [numbered(0, 5), numbered(5, 5), numbered(10, 5, codec="lz4")]
        found, position = decoded(encode(batches), start=7)
        assert offsets_of(found) == [*range(7, 15)]
        assert position == 15

    def test_gaps_of_compaction(self) -> None:
        """Gaps within a batch, at its ends and between batches advance the position without rows."""
        batches = [
            Batch((Row(12), Row(15)), base_offset=10, last_offset=19),
            Batch((), base_offset=20, last_offset=29),
            Batch((Row(41),), base_offset=40, last_offset=49),
        ]
        found, position = decoded(encode(batches), start=10)
        assert offsets_of(found) == [12, 15, 41]
        assert position == 50

    def test_gap_at_the_end_of_a_range(self) -> None:
        """A gap at the end of the range moves the position to the range's end; a batch's end moves it past the batch."""
        batches = [Batch((Row(12), Row(25)), base_offset=10, last_offset=29), numbered(30, 2)]
        for until in 13, 20, 25:
            found, position = decoded(encode(batches), start=10, limits=Limits(until=until))
            assert offsets_of(found) == [12]
            assert position == until
        found, position = decoded(encode(batches), start=10, limits=Limits(until=28))
        assert offsets_of(found) == [12, 25]
        assert position == 30
        found, position = decoded(encode(batches[1:]), start=10, limits=Limits(until=20))
        assert offsets_of(found) == []
        assert position == 20

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_limits(self, codec: str) -> None:
        """Polls stop at their limits within a batch, and continue from there."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([numbered(0, 50, codec=codec), numbered(50, 50, codec=codec)]), None)
            assert decoder.poll(10, 1000, 100).records == 10
            assert decoder.poll(100, 25, 100).records == 13
            assert decoder.poll(100, 1000, 40).records == 17
            assert decoder.poll(100, 1000, 40).first is None
            assert not decoder.is_exhausted
            assert decoder.poll(100, 1000, 100).records == 60
            assert decoder.is_exhausted
            assert offsets_of(decoder.take()) == [*range(100)]

    def test_later_range(self) -> None:
        """A batch in which a range ended can be continued with the next range."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([Batch((Row(2), Row(8)), base_offset=0, last_offset=9)]), None)
            assert polled(decoder, Limits(until=5)) == 1
            assert polled(decoder, Limits(until=20)) == 1
            assert decoder.position == 10

    def test_values_that_are_not_utf8(self) -> None:
        """A column of strings names the first record that is not UTF-8, as Python's code does."""
        texts = pa.schema([("value", pa.string()), ("key", pa.string())])
        for name, rows in (("value", (Row(1, b"k", b"v"), Row(2, b"\xff", b"\xff"))), ("key", (Row(1, b"\xff", b"v"),))):
            found, _ = decoded(encode([Batch(rows)]), texts)
            assert found == expected([Batch(rows)], texts)
            assert f"The {name} of {PARTITION} at offset" in found

    def test_headers_that_are_not_utf8(self) -> None:
        """A header key that is not UTF-8 is an error only if headers are requested, and not only for ids."""
        batches = [Batch((Row(1, None, b"v", 0, ((b"\xff", b"1"),)),))]
        found, _ = decoded(encode(batches))
        assert found == expected(batches)
        found, _ = decoded(encode(batches), pa.schema([ALL.field("value")]))
        assert found.num_rows == 1
        found, _ = decoded(encode(batches), pa.schema([("headers", RAW_HEADERS)]))
        assert found.to_pylist() == [{"headers": [{"key": b"\xff", "value": b"1"}]}]

    def test_time_beyond_microseconds(self) -> None:
        """A time beyond Spark's timestamps is an error that names its record."""
        batches = [Batch((Row(1, timestamp_ms=5), Row(2, timestamp_ms=2**62)))]
        found, _ = decoded(encode(batches))
        assert found == expected(batches)
        assert "at offset 2 is 4611686018427387904 ms" in found


class TestTransactions:
    """Markers and aborted records."""

    def log(self) -> list[Batch]:
        """Return transactions of producers 7 and 8, aborted and committed, and records without a transaction."""
        of = {"flags": TRANSACTIONAL}
        return [
            numbered(0, 2, producer_id=7, **of),
            numbered(2, 2, producer_id=8, **of),
            numbered(4, 2),
            marker(6, 7, ABORT),
            numbered(7, 2, producer_id=7, **of),
            numbered(9, 1, producer_id=8, codec="gzip", **of),
            marker(10, 7, COMMIT),
            marker(11, 8, ABORT),
            numbered(12, 2, producer_id=8, **of),
            marker(14, 8, COMMIT),
        ]

    def test_read_uncommitted(self) -> None:
        """Uncommitted reads skip only markers, and the position moves past them."""
        found, position = decoded(encode(self.log()))
        assert offsets_of(found) == [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13]
        assert position == 15

    def test_read_committed(self) -> None:
        """Committed reads skip aborted transactions up to their markers, and read later ones of the same producer."""
        found, position = decoded(encode(self.log()), aborted=[(8, 2), (7, 0)])
        assert offsets_of(found) == [4, 5, 7, 8, 12, 13]
        assert position == 15

    def test_several_aborts_of_a_producer(self) -> None:
        """Each transaction of a producer is aborted or committed separately."""
        of = {"flags": TRANSACTIONAL, "producer_id": 7}
        log = [numbered(0, 2, **of), marker(2, 7, ABORT), numbered(3, 2, **of), marker(5, 7, COMMIT)]
        log += [numbered(6, 2, **of), marker(8, 7, ABORT)]
        found, position = decoded(encode(log), aborted=[(7, 0), (7, 6)])
        assert offsets_of(found) == [3, 4]
        assert position == 9

    def test_records_without_a_transaction(self) -> None:
        """Records that a producer sends outside of transactions are read although its transaction is aborted."""
        log = [numbered(0, 2, producer_id=7, flags=TRANSACTIONAL), numbered(2, 2, producer_id=7), marker(4, 7, ABORT)]
        found, _ = decoded(encode(log), aborted=[(7, 0)])
        assert offsets_of(found) == [2, 3]

    def test_nothing_visible(self) -> None:
        """A response without a visible record advances the position, and the poll reports it."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([numbered(0, 9, producer_id=7, flags=TRANSACTIONAL), marker(9, 7, ABORT)]), [(7, 0)])
            poll = decoder.poll(100, 1000, 100)
            assert poll.records == 0
            assert poll.first == 0
            assert poll.last == 9
            assert decoder.position == 10
            assert decoder.is_exhausted

    def test_position_behind_the_begin_of_a_transaction(self) -> None:
        """An aborted transaction that began before the response is skipped, too."""
        log = [numbered(5, 2, producer_id=7, flags=TRANSACTIONAL), marker(7, 7, ABORT), numbered(8, 1)]
        found, _ = decoded(encode(log), start=5, aborted=[(7, 1)])
        assert offsets_of(found) == [8]

    def test_many_transactions(self) -> None:
        """A thousand producers with open transactions are distinguished."""
        producers = [(n * 37) % 1009 for n in range(1000)]
        log = [numbered(n, 1, producer_id=producer, flags=TRANSACTIONAL) for n, producer in enumerate(producers)]
        log += [marker(1000 + n, producer, ABORT if producer % 2 else COMMIT) for n, producer in enumerate(producers)]
        aborted = [(producer, n) for n, producer in enumerate(producers) if producer % 2]
        found, position = decoded(encode(log), aborted=aborted)
        assert offsets_of(found) == [n for n, producer in enumerate(producers) if producer % 2 == 0]
        assert position == 2000


class TestResponses:
    """Consecutive responses."""

    def test_partial_batch(self) -> None:
        """A batch without its end is left for the next fetch."""
        whole, partial = encode([numbered(0, 3)]), encode([numbered(3, 3)])
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            for cut in range(len(partial)):
                decoder.feed(whole + partial[:cut], None)
                polled(decoder, Limits())
                assert decoder.position == 3
                assert decoder.is_exhausted
            decoder.feed(partial, None)
            polled(decoder, Limits())
            assert offsets_of(decoder.take()) == [*range(6)]

    def test_whole_batches(self) -> None:
        """Headers give the size and offsets of the complete batches, and the last one's epoch."""
        batches = [Batch((Row(101),), base_offset=100, last_offset=104), numbered(110, 10, leader_epoch=8, codec="lz4")]
        first, second = (batch.encode() for batch in batches)
        with RecordDecoder(PARTITION, ALL) as decoder:
            whole = (len(first + second), 100, 120, 8, False, False)
            assert fields(decoder.feed(first + second)) == whole
            for end in range(len(second)):
                assert fields(decoder.feed(first + second[:end]))[:4] == (len(first), 100, 105, 0)

    def test_no_whole_batch(self) -> None:
        """A response without a complete batch is exhausted."""
        batch = encode([numbered(0, 3)])
        with RecordDecoder(PARTITION, ALL) as decoder:
            for end in range(len(batch)):
                nothing = (0, -1, -1, -1, False, True)
                assert fields(decoder.feed(batch[:end])) == nothing
                assert decoder.is_exhausted
                assert decoder.poll(10, 1000, 100).first is None

    @pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
    def test_lengths(self, length: int) -> None:
        """A batch length smaller than a header is malformed: the decoder would never end."""
        good, bad = encode([numbered(0, 3)]), bytearray(encode([numbered(3, 3)]))
        bad[8:12] = length.to_bytes(4, "big", signed=True)
        with RecordDecoder(PARTITION, ALL) as decoder:
            assert decoder.feed(bytes(bad)).malformed
            fed = decoder.feed(good + bytes(bad))
            assert fed.size == len(good)
            assert fed.next_offset == 3
            assert fed.malformed

    @given(st.binary(max_size=400))
    def test_any_bytes(self, data: bytes) -> None:
        """Complete batches are never larger than the bytes fed."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            assert 0 <= decoder.feed(data).size <= len(data)

    def test_seek(self) -> None:
        """A seek discards the response, and keeps the records gathered."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([numbered(0, 5, codec="lz4")]), None)
            decoder.poll(2, 1000, 100)
            decoder.seek(4)
            assert decoder.position == 4
            assert decoder.is_exhausted
            assert decoder.poll(2, 1000, 100).first is None
            decoder.feed(encode([numbered(0, 5, codec="gzip")]), None)
            decoder.poll(2, 1000, 100)
            assert offsets_of(decoder.take()) == [0, 1, 4]

    @pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(b"--" + data)[2:]])
    def test_kinds_of_memory(self, kind: type) -> None:
        """Bytes, a bytearray and a part of a buffer are read in place, and released once exhausted."""
        fed = kind(encode([numbered(0, 5)]))
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(fed, None)
            polled(decoder, Limits())
            if isinstance(fed, bytearray):
                fed.clear()  # BufferError while it is in use
            assert offsets_of(decoder.take()) == [*range(5)]

    def test_used_outside_of_its_block(self) -> None:
        """Use of a decoder that is not open is a programming error."""
        with pytest.raises(RuntimeError, match="outside of its with block"):
            RecordDecoder(PARTITION, ALL).feed(b"", None)


class TestUnreadable:
    """Batches for librdkafka, and corrupt batches."""

    @pytest.mark.parametrize(
        ("batch", "reason"),
        [
            (numbered(5, 1, magic=-1), "of format -1"),
            (numbered(5, 1, magic=3), "of format 3"),
            (numbered(5, 1, codec="unknown"), "unknown compression"),
            (numbered(5, 3, last_offset=6), "outside of its offsets"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_unsupported(self, batch: Batch, reason: str) -> None:
        """A batch that only librdkafka reads is refused at the reached position, after the records before it are read."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([numbered(0, 5), batch]), None)
            reached = decoder.poll(100, 1000, 100).last
            assert reached is not None
            assert reached >= 4
            for _ in range(2):
                with pytest.raises(Unsupported, match=reason):
                    decoder.poll(100, 1000, 100)
            assert decoder.position == reached + 1
            assert offsets_of(decoder.take()) == [*range(reached + 1)]

    def test_wrong_checksum(self) -> None:
        """A batch with a wrong checksum raises librdkafka's error, after the records before it are read."""
        bad = encode([numbered(5, 1)])[:-1] + b"\x01"
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([numbered(0, 5)]) + bad, None)
            assert decoder.poll(100, 1000, 100).records == 5
            for _ in range(2):
                with pytest.raises(ClusterStateError, match=r"\[KAFKA_ERROR\] .*orders-3.* offset 5: .* CRC"):
                    decoder.poll(100, 1000, 100)
            assert offsets_of(decoder.take()) == [*range(5)]

    @pytest.mark.parametrize(
        "batch",
        [
            numbered(5, 2, count=3),
            numbered(5, 2, count=1),
            numbered(5, 2, count=0, last_offset=4),
            numbered(5, 2, count=-1),
            numbered(5, 2, count=2**31 - 1),
            numbered(5, 2, codec="lz4", count=2**31 - 1),
            numbered(5, 2, codec="snappy", count=1),
            replace(numbered(5, 1), records=b"\x00"),
            replace(numbered(5, 1), records=varint(-1) + b"\0" * 9),
            replace(numbered(5, 1), records=varint(2**31 - 1) + b"\0" * 9),
            replace(numbered(5, 1), records=b"\xff" * 20),
            replace(numbered(5, 1), records=b"\x0e\0" + b"\x80" * 10 + b"\0" * 5),
            replace(numbered(5, 1), records=varint(7) + b"\0\0\0\x01\x7f\0\0"),
            replace(numbered(5, 1), records=varint(7) + b"\0\0\0\x01\x01\x01\0"),
            replace(numbered(5, 1), records=varint(7) + b"\0\0\0\x01\x01\x02\0"),
            replace(numbered(5, 1), records=varint(8) + b"\0\0\0\x01\x01\0\x01\x01"),
            replace(numbered(5, 1), codec="zstd", records=b"\x00"),
            replace(numbered(5, 1), codec="zstd", records=b""),
            Batch((Row(5),), base_offset=6, last_offset=5),
            Batch((Row(-5),)),
            Batch((Row(2**63 - 1),)),
        ],
    )
    def test_wrong_lengths_and_counts(self, batch: Batch) -> None:
        """A batch with a valid checksum raises an error if its lengths, counts or offsets contradict each other."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([batch, numbered(7, 1)]), None)
            with pytest.raises((ClusterStateError, Unsupported)):
                polled(decoder, Limits())

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
    def test_wrong_length_of_a_batch(self, length: int) -> None:
        """A batch shorter than its header is corrupt."""
        bad = bytearray(encode([numbered(5, 1)]))
        bad[8:12] = length.to_bytes(4, "big", signed=True)
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.feed(bad, None)
            with pytest.raises(ClusterStateError, match="lengths or counts"):
                decoder.poll(1, 1, 1)

    def test_unordered_offsets(self) -> None:
        """Decreasing offsets within a batch are reported."""
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(0)
            decoder.feed(encode([Batch((Row(2), Row(1)), base_offset=0, last_offset=2)]), None)
            assert not decoder.poll(100, 1000, 100).ordered


BYTES = (
    st.none() | st.binary(max_size=20) | st.text(max_size=8).map(str.encode) | st.binary(max_size=3).map(lambda b: b * 99)
)
HEADERS = st.lists(
    st.tuples(st.text(max_size=6).map(str.encode) | st.binary(max_size=3), st.none() | st.binary(max_size=9))
)
TIMES = st.integers(-1, 2**43) | st.integers(-(2**63), 2**63 - 1)
FIELDS = [st.sampled_from([pa.field(name, kind) for kind in kinds]) for name, kinds in COLUMNS.items()]
SCHEMAS = (
    st.tuples(*FIELDS)
    .flatmap(lambda fields: st.lists(st.sampled_from(fields), unique_by=lambda field: field.name, min_size=1))
    .map(pa.schema)
)
LIMITS = st.builds(Limits, st.integers(1, 30), st.integers(1, 3000), st.integers(0, 200) | st.just(2**62))


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Draw batches of every codec with gaps within, before and after them; some are markers, some empty."""
    found, at = [], draw(st.sampled_from([0, 0, 5, 2**62]))
    for steps in draw(st.lists(st.lists(st.integers(1, 3) | st.integers(1, 2**20), max_size=6), max_size=5)):
        base, rows = at + draw(st.integers(0, 2)), []
        at = base
        for gap in steps:
            at += gap
            row = Row(at - 1, draw(BYTES), draw(BYTES), draw(TIMES), tuple(draw(HEADERS)))
            rows.append(row)
        last = at + draw(st.integers(0, 3))
        flags = draw(st.sampled_from([0, 0, LOG_APPEND_TIME]))
        codec = draw(st.sampled_from(KNOWN_CODECS)) if rows else "none"
        batch = Batch(tuple(rows), base, last, codec, flags, draw(st.none() | TIMES), draw(TIMES))
        found.append(draw(st.sampled_from([batch, batch, batch, marker(base, 7, COMMIT)])))
        at = found[-1].last + 1
    return found


@given(logs(), SCHEMAS, LIMITS, st.integers(0, 100))
def test_round_trip(batches: list[Batch], schema: pa.Schema, limits: Limits, start: int) -> None:
    """Any batches decode to Python's rows, in polls of every size, up to the end of the log or the range."""
    found, position = decoded(encode(batches), schema, start, limits)
    wanted = expected(batches, schema, start, limits.until)
    if wanted is None:
        assert found is None
    else:
        assert_same(found, wanted)
    ends = [batch.last + 1 for batch in batches if batch.base < limits.until]
    assert position == max([start, *ends[-1:]]) or limits.until <= position
