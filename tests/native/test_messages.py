"""Decoder of message formats 0 and 1, which brokers before 0.11 store, compared with an encoder for tests."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.wire.protocol import Unsupported
from tests.native.decoding import ALL, PARTITION, Limits, assert_same, decoded, encode, expected, fields, polled, taken
from tests.support.message_sets import MessageSet, message
from tests.support.record_batches import CODECS, Batch, Row
from tests.support.tiers import repetitions

KNOWN = ["none", "gzip", "snappy", "xerial", "lz4"]
GZIP = CODECS["gzip"][0]
ROWS = (
    Row(10, b"k", b"value", 1_700_000_000_000),
    Row(11, None, b"", 1_700_000_000_500),
    Row(14, b"", None, 1_699_999_999_000),
    Row(15, b"\xff\x00", b"x" * 1000, 0),
)


def numbered(start: int, rows: int, **fields: Any) -> MessageSet:
    """Return messages of consecutive offsets."""
    return MessageSet(tuple(Row(n, None, b"%d" % n, n) for n in range(start, start + rows)), **fields)


def gzipped(data: bytes) -> bytes:
    return CODECS["gzip"][1](data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", KNOWN)
def test_all_kinds_of_messages(magic: int, codec: str) -> None:
    """Nulls, empty values, gaps and times are decoded from messages of every codec, also next to other sets."""
    sets = [MessageSet(ROWS, magic, codec), numbered(16, 3, magic=magic), numbered(19, 5, magic=magic, codec=codec)]
    found, position = decoded(encode(sets), start=10)
    assert_same(found, expected(sets))
    assert position == 24


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_times(codec: str) -> None:
    """Format 0 has no times; format 1 has the producer's, or the broker's for all messages of a set."""
    for magic, append_ms, kind, first in ((0, None, -1, -1), (1, None, 0, ROWS[0].timestamp_ms), (1, 5_000, 1, 5_000)):
        found, _ = decoded(MessageSet(ROWS, magic, codec, append_ms).encode(), start=10)
        assert found.column("timestampType").to_pylist() == [kind] * 4
        assert found.column("timestamp").cast("int64").to_pylist()[0] == first * 1000


def test_formats_of_all_times() -> None:
    """A log of both message formats and record batches is read completely."""
    log = [numbered(0, 3, magic=0), numbered(3, 3, magic=0, codec="lz4"), numbered(6, 3), numbered(9, 3, codec="snappy")]
    rows = tuple(Row(n, None, b"%d" % n, n) for n in range(12, 15))
    found, position = decoded(encode([*log, Batch(rows)]))
    assert_same(found, expected([*log, Batch(rows)]))
    assert position == 15


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("start", [0, 3, 7, 9])
@pytest.mark.parametrize("until", [5, 8, 20])
def test_ranges(magic: int, codec: str, start: int, until: int) -> None:
    """Messages before the position and beyond the range are skipped, also within a set."""
    sets = [numbered(0, 5, magic=magic, codec=codec), numbered(5, 5, magic=magic, codec=codec)]
    found, position = decoded(encode(sets), start=start, limits=Limits(until=until))
    assert_same(found, expected(sets, start=start, until=until))
    assert position == max(min(until, 10), start)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_limits(codec: str) -> None:
    """Polls stop at their limits within a set, and continue from there."""
    with RecordDecoder(PARTITION, ALL) as decoder:
        decoder.seek(0)
        decoder.feed(encode([numbered(0, 50, codec=codec), numbered(50, 50, codec=codec)]))
        assert [decoder.poll(10, 1000, 100).records, decoder.poll(100, 25, 100).records] == [10, 13]
        assert decoder.poll(100, 1000, 40).records == 17
        assert not decoder.is_exhausted
        assert decoder.poll(100, 1000, 100).records == 60
        assert decoder.is_exhausted
        assert taken(decoder).column("offset").to_pylist() == [*range(100)]


def test_whole_messages() -> None:
    """Headers give the extent of the fed messages, which have no leader epoch."""
    first, second = numbered(5, 1).encode(), numbered(6, 4, codec="gzip").encode()
    with RecordDecoder(PARTITION, ALL) as decoder:
        assert fields(decoder.feed(first + second))[:4] == (len(first + second), 5, 10, -1)
        for end in range(len(second)):
            assert fields(decoder.feed(first + second[:end]))[:4] == (len(first), 5, 6, -1)
        for end in range(len(first)):
            assert fields(decoder.feed(first[:end])) == (0, -1, -1, -1, False, True)
        for length in (-1, 0, 21):
            assert decoder.feed(first[:8] + length.to_bytes(4, "big", signed=True) + first[12:]).malformed


def test_gaps_of_compaction() -> None:
    """In a set that lost its first messages, each message keeps its offset; the set's offset is the last one's."""
    inner = message(3, None, b"d") + message(5, None, b"f")
    found, position = decoded(message(105, None, gzipped(inner), attributes=GZIP), start=100)
    assert found.column("offset").to_pylist() == [103, 105]
    assert position == 106


def with_bad_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        pytest.param(with_bad_crc(message(0, None, b"v")), "do not have its CRC", id="checksum"),
        pytest.param(
            message(0, None, gzipped(with_bad_crc(message(0, None, b"v"))), attributes=GZIP),
            "do not have its CRC",
            id="inner checksum",
        ),
        pytest.param(message(0, None, b"nothing", attributes=GZIP), "cannot be decompressed", id="not compressed"),
        pytest.param(message(0, None, None, attributes=GZIP), "do not fit its bytes", id="null set"),
        pytest.param(message(0, None, gzipped(message(0, None, b"v")[:-1]), attributes=GZIP), "do not fit", id="cut off"),
        pytest.param(message(1, None, gzipped(message(2, None, b"v")), attributes=GZIP), "do not fit", id="offsets"),
        pytest.param(message(0, None, gzipped(message(0, None, b"v", 0)), attributes=GZIP), "do not fit", id="formats"),
        pytest.param(
            message(0, None, gzipped(message(0, None, gzipped(message(0, None, b"v")), attributes=GZIP)), attributes=GZIP),
            "do not fit",
            id="set in a set",
        ),
        pytest.param(message(-1, None, b"v"), "do not fit", id="negative offset"),
    ],
)
def test_corrupt(data: bytes, flaw: str) -> None:
    """Messages that are damaged or contradict each other raise an error."""
    with RecordDecoder(PARTITION, ALL) as decoder:
        decoder.seek(0)
        decoder.feed(data)
        with pytest.raises(ClusterStateError, match=flaw):
            decoder.poll(10, 1000, 100)


def test_unknown_codec() -> None:
    """An unknown compression is left to librdkafka."""
    with RecordDecoder(PARTITION, ALL) as decoder:
        decoder.seek(0)
        decoder.feed(message(0, None, b"v", attributes=4))
        with pytest.raises(Unsupported, match="unknown compression"):
            decoder.poll(10, 1000, 100)


def swallow(data: bytes) -> None:
    """Decode bytes as far as possible."""
    with RecordDecoder(PARTITION, ALL) as decoder, suppress(ClusterStateError, Unsupported):
        decoder.seek(0)
        decoder.feed(data)
        polled(decoder, Limits())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "lz4", "xerial"])
def test_damage(magic: int, codec: str) -> None:
    """A changed or missing byte leads to an error or to other records, nothing else."""
    data = MessageSet((Row(0, b"k", b"v", 1), Row(1, None, b"w", 2)), magic, codec).encode()
    for at in range(len(data)):
        swallow(data[:at])
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            swallow(data[:at] + bytes([byte]) + data[at + 1 :])


DATA = st.none() | st.binary(max_size=40)
SETS = st.builds(
    MessageSet,
    st.lists(st.builds(Row, st.integers(1, 3), DATA, DATA, st.integers(-1, 2**43)), min_size=1, max_size=8),
    st.sampled_from([0, 1]),
    st.sampled_from(KNOWN),
    st.none() | st.integers(0, 2**43),
)


@settings(max_examples=repetitions(200))
@given(
    st.lists(SETS, max_size=6),
    st.builds(Limits, st.integers(1, 20), st.integers(1, 200), st.integers(1, 60) | st.just(2**62)),
    st.integers(0, 40),
)
def test_round_trip(sets: list[MessageSet], limits: Limits, start: int) -> None:
    """Messages of any kind, in any portions, decode to Python's rows."""
    log, at = [], -1
    for each_set in sets:
        rows = [replace(row, offset=(at := at + row.offset)) for row in each_set.rows]
        log.append(replace(each_set, rows=rows, append_ms=each_set.append_ms if each_set.magic else None))
    found, _ = decoded(encode(log), ALL, start, limits)
    assert_same(found, expected(log, ALL, start, limits.until))
