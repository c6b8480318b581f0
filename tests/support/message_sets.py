"""An encoder of messages of formats 0 and 1, valid and invalid, written from Kafka's description.

Reference: https://kafka.apache.org/documentation/#messageset
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.record_batches import CODECS, LOG_APPEND_TIME, Row

__all__ = ["MessageSet", "message"]

_LZ4_HEADER_CHECKSUM = 6


def message(
    offset: int, key: bytes | None, value: bytes | None, magic: int = 1, timestamp_ms: int = 0, attributes: int = 0
) -> bytes:
    """Return a message with its offset, size and checksum."""
    time = struct.pack(">q", timestamp_ms) if magic else b""
    body = struct.pack(">bb", magic, attributes) + time + _data(key) + _data(value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def _data(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


@dataclass(frozen=True)
class MessageSet:
    """Rows as messages of one format: in sequence, or compressed in one message. `append_ms` is the broker's time."""

    rows: Sequence[Row]
    magic: int = 1
    codec: str = "none"
    append_ms: int | None = None

    def encode(self) -> bytes:
        """Return the messages. LZ4 frames of format 0 have the wrong header checksum of Kafka's old clients."""
        number, compress = CODECS[self.codec]
        flags = 0 if self.append_ms is None else LOG_APPEND_TIME
        if not number:
            return b"".join(self._message(row, row.offset, flags) for row in self.rows)
        # In format 1, offsets of compressed messages are relative to the first.
        base = self.rows[0].offset if self.magic else 0
        frame = bytearray(compress(b"".join(self._message(row, row.offset - base, 0) for row in self.rows)))
        if self.magic == 0 and self.codec == "lz4":
            frame[_LZ4_HEADER_CHECKSUM] ^= 0x5A
        latest = max(row.timestamp_ms for row in self.rows)
        time = latest if self.append_ms is None else self.append_ms
        return message(self.rows[-1].offset, None, bytes(frame), self.magic, time, number | flags)

    def _message(self, row: Row, offset: int, flags: int) -> bytes:
        time = self.append_ms if flags and self.append_ms is not None else row.timestamp_ms
        return message(offset, row.key, row.value, self.magic, time, flags)

    def time(self, row: Row) -> tuple[int, int]:
        """Return the type and time of a row, as librdkafka reports them."""
        if self.magic == 0:
            return 0, 0
        return (1, row.timestamp_ms) if self.append_ms is None else (2, self.append_ms)
