"""Decoder of fetched record batches into Arrow batches, in compiled code. pyarrow and zlib decompress their records."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int32, c_int64
from functools import partial

import pyarrow as pa

from pyspark_zkafka.brokers.errors import broker_error
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import COLUMNS, RAW_HEADERS, malformed_timestamp, malformed_utf8
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.native.library import CArray, Decoded, FedBatches, Flaws, require, topic_argument
from pyspark_zkafka.wire.protocol import Unsupported

# From zkafka.h.
_COMPRESSED, _OTHER_FORMAT, _UNKNOWN_CODEC, _STRANGE_OFFSET, _WRONG_CHECKSUM, _MALFORMED, _NO_MEMORY = range(2, 9)

_UNSUPPORTED: dict[int, Callable[[Decoded], str]] = {
    _OTHER_FORMAT: lambda found: f"a record batch at offset {found.batch} of format {found.magic}",
    _UNKNOWN_CODEC: lambda found: f"a record batch at offset {found.batch} with an unknown compression",
    _STRANGE_OFFSET: lambda found: f"a record batch at offset {found.batch} with a record outside of its offsets",
}
_CORRUPT = {
    _WRONG_CHECKSUM: "its bytes do not have its CRC",
    _MALFORMED: "its lengths or counts do not fit its bytes",
}
_COLUMN_NUMBERS = {name: number for number, name in enumerate(COLUMNS)}

_LEAST_BOUND_BYTES = 64 * 1024 * 1024
_LARGEST_BOUND_BYTES = 2**31 - 1
_LARGEST_RATIO = 256
_LEAST_READ_BYTES = 256 * 1024
_LARGEST_READ_BYTES = 8 * 1024 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # the magic, a version, and the oldest version that can read it
_XERIAL_LENGTH_BYTES = 4
_LZ4, _LZ4_DESCRIPTOR = 3, 4  # the codec, and the place of the descriptor in a frame
_UINT32 = 0xFFFFFFFF
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_GZIP_CHUNK_BYTES = 16 * 1024


class RecordDecoder:
    """Gathers Arrow batches of one partition from fetch responses, in formats 0, 1 and 2.

    Checks every CRC, and every length except in headers that are not requested. Skips control batches and aborted
    transactions. `position` is the offset after the last batch that was read, even if its records were skipped. Open
    during its ``with`` block. Not thread-safe, not pickle-safe.
    """

    def __init__(self, partition: TopicPartition, schema: pa.Schema) -> None:
        self._native = require()
        self._partition = partition
        self._schema = schema
        self._checked: list[str] = [field.name for field in schema if field.type != RAW_HEADERS]
        self._open: int | None = None
        self._fed: pa.Buffer | None = None
        self._decompressed: pa.Buffer | None = None
        self.position = 0

    def __enter__(self) -> RecordDecoder:
        self._open = self._native.decoder_new(topic_argument(self._partition.topic), self._partition.partition)
        if self._open is None:
            raise MemoryError(f"no memory for a decoder of {self._partition}")
        count = len(self._schema)
        numbers = (c_int32 * count)(*(_COLUMN_NUMBERS[field.name] for field in self._schema))
        texts = (c_int32 * count)(*(field.type == pa.string() for field in self._schema))
        if not self._native.decoder_project(self._open, numbers, texts, count):
            self.__exit__()
            raise ValueError(f"not a projection of Kafka's columns: {self._schema}")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._native.decoder_close(self._open)
            self._open = None
        self._forget()

    def seek(self, offset: int) -> None:
        """Set the position, and forget the fed records. Keeps the gathered records."""
        self._native.decoder_seek(self._handle, offset)
        self.position = offset
        self._forget()

    def feed(self, records: bytes | bytearray | memoryview, aborted: Sequence[tuple[int, int]] | None = None) -> FedBatches:
        """Replace the fed records by the records of another response. They must not change until `is_exhausted`.

        `aborted` has the producer id and first offset of each aborted transaction in the response, in any order. It is None
        for read_uncommitted.
        """
        transactions = sorted(aborted or (), key=lambda transaction: transaction[1])
        numbers = c_int64 * len(transactions)
        producers, first_offsets = numbers(*(t[0] for t in transactions)), numbers(*(t[1] for t in transactions))
        self._fed, self._decompressed, found = pa.py_buffer(records), None, FedBatches()
        address, size = self._fed.address, self._fed.size
        if not self._native.decoder_feed(
            self._handle, address, size, producers, first_offsets, len(producers), byref(found)
        ):
            raise MemoryError(f"no memory for the aborted transactions of {self._partition}")
        if found.exhausted:
            self._forget()
        return found

    def poll(self, most_records: int, most_bytes: int, until: int) -> Poll:
        """Add fed records before offset `until` to the batch: at most `most_records`, of about `most_bytes`.

        A single record may exceed the bytes. `last` is the offset before the new position, so that markers, gaps and
        aborted records advance a reader as well. `first` is the offset of the first record, or without records the old
        position. Both are None if the position has not moved.

        Raises only if the poll starts at an unreadable batch: Unsupported, or ClusterStateError (KAFKA_ERROR) for a
        corrupt batch, which could crash librdkafka's consumer. Gathered records can still be taken.
        """
        found = Decoded(first=-1, position=self.position)
        failure = None if self._fed is None else self._decode(self._fed, found, (most_records, most_bytes, until))
        before, self.position = self.position, found.position
        if failure is not None and not found.records and self.position == before:
            raise failure
        if found.exhausted:
            self._forget()
        poll = Poll(found.records, found.bytes, ordered=not found.unordered)
        if found.records or found.position > before:
            poll.first = found.first if found.records else before
            poll.last = found.position - 1
        return poll

    @property
    def is_exhausted(self) -> bool:
        """True if the fed response has no complete batch left."""
        return self._fed is None

    def take(self) -> pa.RecordBatch:
        """Return the gathered batch, which must have at least one record, and start another. Raises like `build_batch`."""
        array, flaws = CArray(), Flaws()
        if not self._native.decoder_take(self._handle, array.address, byref(flaws)):
            raise MemoryError(f"no memory for a batch of {self._partition}")
        batch = array.batch(self._schema)
        self._require_readable(flaws)
        return batch

    def _require_readable(self, flaws: Flaws) -> None:
        """Raise for the first column of the schema that has a value that Spark cannot represent."""
        not_utf8 = {"key": flaws.key_not_utf8, "value": flaws.value_not_utf8, "headers": flaws.header_not_utf8}
        for name in self._checked:
            if name == "timestamp" and flaws.timestamp_too_large >= 0:
                raise malformed_timestamp(self._partition, flaws.timestamp_too_large, flaws.timestamp_ms)
            if (offset := not_utf8.get(name, -1)) >= 0:
                raise malformed_utf8(name, self._partition, offset)

    def _decode(self, fed: pa.Buffer, found: Decoded, limits: tuple[int, int, int]) -> Exception | None:
        """Decode up to the limits. Returns the error of the next batch if it cannot be read."""
        while True:
            records = self._decompressed
            address, size = (None, 0) if records is None else (records.address, records.size)
            status = int(
                self._native.decoder_decode(self._handle, fed.address, fed.size, address, size, *limits, byref(found))
            )
            if status == _NO_MEMORY:
                raise MemoryError(f"no memory for a batch of {self._partition}")
            if status in _UNSUPPORTED:
                return Unsupported(_UNSUPPORTED[status](found))
            if status != _COMPRESSED:
                return self._corrupt(found.batch, _CORRUPT[status]) if status in _CORRUPT else None
            self._decompressed = None  # an error must not leave the records of an earlier batch
            try:
                self._decompressed = decompress(found.codec, fed.slice(found.begin, found.end - found.begin), found.magic)
            except CorruptRecords as error:
                return self._corrupt(found.batch, f"its records cannot be decompressed: {error}")
            except Unsupported as error:
                return error

    def _corrupt(self, base_offset: int, flaw: str) -> ZKafkaError:
        """Return the error for a damaged record batch, with its offset and the damage."""
        text = f"record batch at offset {base_offset}: {flaw}"
        return broker_error(ErrorCode.CORRUPT_MESSAGE, f"reading {self._partition}", text)

    def _forget(self) -> None:
        self._fed = self._decompressed = None

    @property
    def _handle(self) -> int:
        if self._open is None:
            raise RuntimeError("RecordDecoder is used outside of its with block")
        return self._open


class CorruptRecords(ValueError):
    """Damaged compressed bytes."""


def most_decompressed_bytes(compressed_bytes: int) -> int:
    """The limit on the decompressed size of a batch: 256 times its compressed size, but at least 64 MiB and at most 2 GiB.

    Producers limit a batch before compression (batch.size, or 1 MiB for a single record), brokers after it
    (message.max.bytes). A batch beyond this limit is rare, or an attack.

    >>> most_decompressed_bytes(1_000)
    67108864
    >>> most_decompressed_bytes(1_000_000)
    256000000
    """
    return min(max(_LEAST_BOUND_BYTES, _LARGEST_RATIO * compressed_bytes), _LARGEST_BOUND_BYTES)


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


def _mended_lz4(data: pa.Buffer) -> pa.Buffer:
    """Correct the header checksum of a frame, which is wrong in messages of format 0 (KAFKA-3160)."""
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
    found &= _UINT32
    found = (found ^ found >> 15) * second & _UINT32
    found = (found ^ found >> 13) * third & _UINT32
    return found ^ found >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return value << bits | value >> (32 - bits)


def _gzip(data: pa.Buffer, bound: int) -> pa.Buffer:
    """Inflate all members, and ignore bytes after the last member, as librdkafka and Java do."""
    inflated: list[bytes] = []
    left, rest = bound, memoryview(data).cast("B")
    while not inflated or rest[:2] == _GZIP_MAGIC:
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        while not inflater.eof:
            if not rest:
                raise CorruptRecords("their end is missing")
            chunk = rest[:_GZIP_CHUNK_BYTES]  # zlib copies the bytes after a member: few, even if there are many members
            inflated.append(inflater.decompress(chunk, left + 1))
            left -= len(inflated[-1])
            _require_bound(bound - left, bound)
            rest = rest[len(chunk) - len(inflater.unused_data) :]
    return _joined(inflated)


def _snappy(data: pa.Buffer, bound: int) -> pa.Buffer:
    view = memoryview(data).cast("B")  # pyarrow calls its bytes signed
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(view, bound)
    blocks, done = [], 0
    for block in _xerial_blocks(view):
        blocks.append(_snappy_block(block, bound, done))
        done += blocks[-1].size
    return _joined(blocks)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the blocks of the streams that Java's producers write. Each block follows its length.

    A stream may follow another stream. Like SnappyInputStream of snappy-java 1.1.10, ignores up to three bytes at the end.
    """
    at = 0
    while len(data) - at >= _XERIAL_LENGTH_BYTES:
        if data[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += _XERIAL_HEADER_BYTES
            continue
        length = int.from_bytes(data[at : at + _XERIAL_LENGTH_BYTES], "big", signed=True)
        at += _XERIAL_LENGTH_BYTES
        if not 0 < length <= len(data) - at:
            raise CorruptRecords(f"a snappy block of {length} bytes, with {len(data) - at} left")
        yield data[at : at + length]
        at += length
    if at > len(data):
        raise CorruptRecords("a snappy stream without its whole header")


def _snappy_block(data: memoryview, bound: int, done: int = 0) -> pa.Buffer:
    """Decompress a block, which starts with its decompressed size as a varint. `done` bytes precede it."""
    size = 0
    for n, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            _require_bound(done + size, bound)
            return pa.Codec("snappy").decompress(data, decompressed_size=size)
    raise CorruptRecords("a snappy block without its size")


def _decompress_stream(name: str, data: pa.Buffer, bound: int) -> pa.Buffer:
    chunks: list[bytes] = []
    size, ask = 0, min(max(4 * data.size, _LEAST_READ_BYTES), _LARGEST_READ_BYTES)
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        while chunk := stream.read(ask):
            size += len(chunk)
            _require_bound(size, bound)
            chunks.append(chunk)
    return _joined(chunks)


def _joined(parts: Sequence[bytes | pa.Buffer]) -> pa.Buffer:
    return pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))


def _require_bound(size: int, bound: int) -> None:
    if size > bound:
        raise Unsupported(f"a record batch of more than {bound} bytes after decompression")


_DECOMPRESSORS: dict[int, Callable[[pa.Buffer, int], pa.Buffer]] = {
    1: _gzip,
    2: _snappy,
    3: partial(_decompress_stream, "lz4"),
    4: partial(_decompress_stream, "zstd"),
}
