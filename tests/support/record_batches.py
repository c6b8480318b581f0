"""An encoder of record batches of format 2, valid and invalid, written from Kafka's description.

Reference: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

__all__ = [
    "ABORT",
    "CODECS",
    "COMMIT",
    "CONTROL",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "TRANSACTIONAL",
    "Batch",
    "Row",
    "crc32c",
    "marker",
    "varint",
    "with_checksum",
    "xerial",
]

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x8, 0x10, 0x20
ABORT, COMMIT = 0, 1
HEADER_BYTES = 61
_CRC_AT, _CRC_END = 17, 21


@dataclass(frozen=True)
class Row:
    """A record: offset, key, value, CreateTime, and headers with bytes as names."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True)
class Batch:
    """A batch of rows; fields that are None are computed from them.

    `codec` is a name of `CODECS`. `count` and `records` may contradict the rows.
    """

    rows: tuple[Row, ...] = ()
    base_offset: int | None = None
    last_offset: int | None = None
    codec: str = "none"
    flags: int = 0
    base_timestamp_ms: int | None = None
    max_timestamp_ms: int = -1
    producer_id: int = -1
    count: int | None = None
    records: bytes | None = None
    leader_epoch: int = 0
    magic: int = 2

    @property
    def base(self) -> int:
        return self.rows[0].offset if self.base_offset is None else self.base_offset

    @property
    def last(self) -> int:
        return self.rows[-1].offset if self.last_offset is None else self.last_offset

    def encode(self) -> bytes:
        """Return the batch with its checksum."""
        base_ms = self.base_timestamp_ms
        if base_ms is None:
            base_ms = self.rows[0].timestamp_ms if self.rows else -1
        raw = b"".join(record(row, self.base, base_ms) for row in self.rows) if self.records is None else self.records
        number, compress = CODECS[self.codec]
        body = struct.pack(
            ">hiqqqhii",
            self.flags | number,
            self.last - self.base,
            base_ms,
            self.max_timestamp_ms,
            self.producer_id,
            -1,
            -1,
            len(self.rows) if self.count is None else self.count,
        ) + compress(raw)
        head = struct.pack(">qiibI", self.base, len(body) + _CRC_END - 12, self.leader_epoch, self.magic, crc32c(body))
        return head + body


def marker(offset: int, producer_id: int, kind: int) -> Batch:
    """Return the marker that commits or aborts a producer's transaction."""
    row = Row(offset, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Batch((row,), flags=CONTROL | TRANSACTIONAL, producer_id=producer_id)


def record(row: Row, base_offset: int, base_ms: int) -> bytes:
    """Return a record preceded by its length."""
    delta_ms = (row.timestamp_ms - base_ms + 2**63) % 2**64 - 2**63
    headers = b"".join(data(key) + data(value) for key, value in row.headers)
    body = b"\0" + varint(delta_ms) + varint(row.offset - base_offset) + data(row.key) + data(row.value)
    body += varint(len(row.headers)) + headers
    return varint(len(body)) + body


def data(value: bytes | None) -> bytes:
    """Return bytes preceded by their length, or length -1 for None."""
    return varint(-1) if value is None else varint(len(value)) + value


def varint(value: int) -> bytes:
    """Return a zigzag varint: seven bits per byte, lowest first."""
    left, found = value << 1 ^ value >> 63, bytearray()
    left &= 2**64 - 1
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(found) + bytes([left])


def with_checksum(batch: bytes) -> bytes:
    """Return the bytes of a batch with the correct checksum."""
    return batch[:_CRC_AT] + struct.pack(">I", crc32c(batch[_CRC_END:])) + batch[_CRC_END:]


def crc32c(data: bytes) -> int:
    """Return CRC-32C, computed byte by byte."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[crc & 0xFF ^ byte]
    return crc ^ 0xFFFFFFFF


@cache
def _crc_table() -> Sequence[int]:
    def entry(byte: int) -> int:
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        return byte

    return tuple(map(entry, range(256)))


def xerial(raw: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """Return snappy-java's stream, which Java producers write: a header, then blocks preceded by their lengths."""
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(_xerial_blocks(raw, block_bytes))


def _xerial_blocks(raw: bytes, block_bytes: int) -> Iterator[bytes]:
    for at in range(0, len(raw), block_bytes):
        block = _snappy(raw[at : at + block_bytes])
        yield struct.pack(">i", len(block)) + block


def _snappy(raw: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(raw, asbytes=True))


def _stream(name: str) -> Callable[[bytes], bytes]:
    def compress(raw: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(raw)
        return bytes(sink.getvalue())

    return compress


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, lambda raw: raw),
    "gzip": (1, _stream("gzip")),
    "snappy": (2, _snappy),
    "xerial": (2, xerial),
    "lz4": (3, _stream("lz4")),
    "zstd": (4, _stream("zstd")),
    "unknown": (5, lambda raw: raw),
}
