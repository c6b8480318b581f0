"""Decompression by the decoder of record batches. tests/native tests its decoding."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pyarrow as pa
import pytest

from pyspark_zkafka.records.native.record_decoder import CorruptRecords, decompress, most_decompressed_bytes
from pyspark_zkafka.wire.protocol import Unsupported
from tests.support.record_batches import CODECS, xerial

NAMES = [name for name in CODECS if name not in ("none", "unknown")]
TEXT = b"".join(b"record %d, " % n for n in range(20_000))
BOMB_BYTES = 65 * 1024 * 1024


def unpacked(name: str, data: bytes) -> bytes:
    return bytes(decompress(CODECS[name][0], pa.py_buffer(data)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 1000, len(TEXT)])
def test_codecs(name: str, size: int) -> None:
    """Records of any size are decompressed with every codec."""
    assert unpacked(name, CODECS[name][1](TEXT[:size])) == TEXT[:size]


@pytest.mark.parametrize("name", NAMES)
def test_large_records(name: str) -> None:
    """Records larger than one decompression step are decompressed completely."""
    large = random.Random(1).randbytes(300_000) * 40
    assert unpacked(name, CODECS[name][1](large)) == large


@pytest.mark.parametrize("name", NAMES)
def test_bombs(name: str) -> None:
    """Records that exceed the bound are refused."""
    bomb = CODECS[name][1](bytes(BOMB_BYTES))
    if len(bomb) * 256 < BOMB_BYTES:
        with pytest.raises(Unsupported, match="more than 67108864 bytes after decompression"):
            unpacked(name, bomb)
    else:
        assert len(unpacked(name, bomb)) == BOMB_BYTES


def test_bomb_of_snappy_sizes() -> None:
    """A size that a snappy block falsely claims is refused before memory is allocated for it."""
    bomb = b"\xff\xff\xff\xff\x07abc"
    for name, records in [("snappy", bomb), ("xerial", xerial(TEXT) + struct.pack(">i", len(bomb)) + bomb)]:
        with pytest.raises(Unsupported, match="more than 67108864 bytes"):
            unpacked(name, records)


def test_bound() -> None:
    """The bound grows with the compressed bytes, up to the maximum of Kafka's length fields."""
    assert [most_decompressed_bytes(size) for size in (0, 2**20, 2**30)] == [2**26, 2**28, 2**31 - 1]


@pytest.mark.parametrize("name", NAMES)
def test_corrupt_data(name: str) -> None:
    """Empty, foreign, truncated and damaged data is refused, or yields bytes within the bound."""
    chance, data = random.Random(name), CODECS[name][1](TEXT)
    for bad in (b"", b"garbage that is none of these formats"):
        with pytest.raises((CorruptRecords, Unsupported)):
            unpacked(name, bad)
    for _ in range(200):
        damaged = bytearray(data[: chance.randrange(len(data))] if chance.random() < 0.5 else data)
        if damaged:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        with suppress(CorruptRecords, Unsupported):
            assert len(unpacked(name, bytes(damaged))) <= most_decompressed_bytes(len(damaged))


@pytest.mark.parametrize("after", [b"\0", b"trailing bytes", b"\x1f", CODECS["gzip"][1](b"more")])
def test_bytes_after_gzip(after: bytes) -> None:
    """Bytes after the end of gzip data are ignored unless they are another member; data without its end is corrupt."""
    data = CODECS["gzip"][1](TEXT)
    assert unpacked("gzip", data + after) == TEXT + (b"more" if len(after) > 20 else b"")
    for cut in 1, 4, 8, 20:
        with pytest.raises(CorruptRecords):
            unpacked("gzip", data[:-cut])


@pytest.mark.parametrize("length", [-1, 0, 4, 2**31 - 1])
def test_lengths_of_xerial_blocks(length: int) -> None:
    """A block longer than the remaining bytes, or too short, is corrupt."""
    header = xerial(b"")
    with pytest.raises(CorruptRecords):
        unpacked("xerial", header + struct.pack(">i", length) + b"abc")


def test_several_xerial_blocks() -> None:
    """Several blocks are concatenated; a header without blocks is corrupt."""
    assert unpacked("xerial", xerial(TEXT, 100)) == TEXT
    with pytest.raises(CorruptRecords, match="nothing in them"):
        unpacked("xerial", xerial(b""))
    with pytest.raises(CorruptRecords):
        unpacked("xerial", xerial(b"") + b"\0\0")


def test_several_xerial_streams() -> None:
    """Streams may follow each other, also without blocks, and up to three stray bytes are ignored, as snappy-java does."""
    header, more = xerial(b""), b"more"
    for streams in (
        xerial(TEXT) + xerial(more),
        xerial(TEXT) + header + xerial(more) + header,
        header + xerial(TEXT, 100) + xerial(more) + b"\0\0\0",
    ):
        assert unpacked("xerial", streams) == TEXT + more
    for cut in (header[:10], header[:4] + b"other magic!", b"\0\0\0\0"):
        with pytest.raises(CorruptRecords, match="a snappy"):
            unpacked("xerial", xerial(TEXT) + cut)
