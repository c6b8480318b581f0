"""Decompression of the records of a batch, by pyarrow, and by zlib for gzip."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from pyspark_zkafka.records.direct.wire import Unsupported

_LEAST_BOUND_BYTES = 64 * 1024 * 1024
_MOST_BYTES = 2**31 - 1
_LARGEST_RATIO = 256
_CHUNK_BYTES = 256 * 1024
_LARGEST_CHUNK_BYTES = 8 * 1024 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # the magic, a version, and the oldest version that can read it
_LENGTH_BYTES = 4
_LZ4, _LZ4_DESCRIPTOR = 3, 4  # the codec, and the place of the descriptor in a frame
_WORD = 0xFFFFFFFF
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_GZIP_CHUNK = 16 * 1024


class CorruptRecords(ValueError):
    """Damaged compressed bytes."""


def most_decompressed_bytes(compressed_bytes: int) -> int:
    """The limit on the decompressed size of a batch: 64 MiB, or 256 times its compressed size if that is more.

    Producers limit a batch before compression (batch.size, or 1 MiB for a single record), brokers after it
    (message.max.bytes). A batch beyond this limit is rare, or an attack.

    >>> most_decompressed_bytes(1_000)
    67108864
    >>> most_decompressed_bytes(1_000_000)
    256000000
    """
    return min(max(_LEAST_BOUND_BYTES, _LARGEST_RATIO * compressed_bytes), _MOST_BYTES)


def decompress(codec: int, data: pa.Buffer, magic: int = 2) -> pa.Buffer:
    """The records of a batch. `codec` is the number in its attributes: 1 gzip, 2 snappy, 3 lz4, 4 zstd.

    Raises CorruptRecords, and Unsupported beyond `most_decompressed_bytes`.
    """
    try:
        if magic == 0 and codec == _LZ4:
            data = _mended_lz4(data)
        records = _DECOMPRESSORS[codec](data, most_decompressed_bytes(data.size))
    except (OSError, pa.ArrowInvalid, zlib.error) as error:
        raise CorruptRecords(str(error)) from error
    if not records.size:
        raise CorruptRecords("there is nothing in them")
    return records


def _stream(name: str, data: pa.Buffer, bound: int) -> pa.Buffer:
    chunks: list[bytes] = []
    size, ask = 0, min(max(4 * data.size, _CHUNK_BYTES), _LARGEST_CHUNK_BYTES)
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        while chunk := stream.read(ask):
            size += len(chunk)
            _require_bound(size, bound)
            chunks.append(chunk)
    return _joined(chunks)


def _joined(chunks: list[bytes]) -> pa.Buffer:
    return pa.py_buffer(chunks[0] if len(chunks) == 1 else b"".join(chunks))


def _gzip(data: pa.Buffer, bound: int) -> pa.Buffer:
    """Inflate all members, and ignore bytes after the last member, as librdkafka and Java do."""
    inflated: list[bytes] = []
    left, rest = bound, memoryview(data).cast("B")
    while not inflated or rest[:2] == _GZIP_MAGIC:
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        while not inflater.eof:
            if not rest:
                raise CorruptRecords("their end is missing")
            chunk = rest[:_GZIP_CHUNK]  # zlib copies the bytes after a member: few, even if there are many members
            inflated.append(inflater.decompress(chunk, left + 1))
            left -= len(inflated[-1])
            _require_bound(bound - left, bound)
            rest = rest[len(chunk) - len(inflater.unused_data) :]
    return _joined(inflated)


def _mended_lz4(data: pa.Buffer) -> pa.Buffer:
    """Correct the header checksum of a frame: messages of format 0 have a wrong one (KAFKA-3160)."""
    frame = bytearray(data)
    if len(frame) <= _LZ4_DESCRIPTOR:
        raise CorruptRecords("an LZ4 frame without a header")
    flags = frame[_LZ4_DESCRIPTOR]
    end = _LZ4_DESCRIPTOR + 2 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)  # flags, block size, content size, dictionary
    if end >= len(frame):
        raise CorruptRecords("an LZ4 frame without a header")
    frame[end] = _xxh32(frame[_LZ4_DESCRIPTOR:end]) >> 8 & 0xFF
    return pa.py_buffer(bytes(frame))


def _xxh32(data: bytes | bytearray) -> int:
    """XXH32 with seed 0, of fewer than 16 bytes."""
    first, second, third, fourth, fifth = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    found = fifth + len(data)
    for at in range(0, len(data) - 3, 4):
        found = _rotated(found + int.from_bytes(data[at : at + 4], "little") * third, 17) * fourth
    for byte in data[len(data) & ~3 :]:
        found = _rotated(found + byte * fifth, 11) * first
    found &= _WORD
    found = (found ^ found >> 15) * second & _WORD
    found = (found ^ found >> 13) * third & _WORD
    return found ^ found >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _WORD
    return value << bits | value >> (32 - bits)


def _require_bound(size: int, bound: int) -> None:
    if size > bound:
        raise Unsupported(f"a record batch of more than {bound} bytes after decompression")


def _snappy(data: pa.Buffer, bound: int) -> pa.Buffer:
    view = memoryview(data).cast("B")  # pyarrow calls its bytes signed
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(view, bound)
    blocks, left = [], bound
    for block in _xerial_blocks(view):
        blocks.append(_snappy_block(block, left))
        left -= blocks[-1].size
    return blocks[0] if len(blocks) == 1 else pa.py_buffer(b"".join(blocks))


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """The blocks of the stream that Java's producers write (snappy-java), each after its length."""
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big", signed=True)
        at += _LENGTH_BYTES
        if not 0 < length <= len(data) - at:
            raise CorruptRecords(f"a snappy block of {length} bytes, with {max(len(data) - at, 0)} left")
        yield data[at : at + length]
        at += length


def _snappy_block(data: memoryview, bound: int) -> pa.Buffer:
    """Decompress a block, which starts with its decompressed size as a varint."""
    size = 0
    for n, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            _require_bound(size, bound)
            return pa.Codec("snappy").decompress(data, decompressed_size=size)
    raise CorruptRecords("a snappy block without its size")


_DECOMPRESSORS: dict[int, Callable[[pa.Buffer, int], pa.Buffer]] = {
    1: _gzip,
    2: _snappy,
    3: partial(_stream, "lz4"),
    4: partial(_stream, "zstd"),
}
