"""Truncated and damaged responses, at every byte."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.wire.protocol import Unsupported
from tests.native.decoding import ALL, PARTITION, Limits, assert_same, expected, polled, taken
from tests.support.record_batches import ABORT, CODECS, TRANSACTIONAL, Batch, Row, marker, with_checksum
from tests.support.tiers import seldom

CODEC_NAMES = [name for name in CODECS if name != "unknown"]
ROWS = tuple(Row(n, b"key%d" % n, b"value" * n, 1000 + n, ((b"h", b"%d" % n), (b"none", None))) for n in range(1, 6))
ABORTED = [(7, 6)]
NOT_SUMMED = 21
"""The number of a batch's bytes before those that its checksum covers."""


def log(codec: str) -> list[Batch]:
    return [
        Batch(ROWS, codec=codec),
        Batch((Row(6, None, b"aborted"),), flags=TRANSACTIONAL, producer_id=7),
        marker(7, 7, ABORT),
        Batch((Row(8, None, b""), Row(12, b"", None)), base_offset=8, last_offset=15, codec=codec),
    ]


def visible(batches: list[Batch]) -> list[Batch]:
    return [batch for batch in batches if not batch.flags & TRANSACTIONAL]


def read(fed: bytes) -> tuple[Any, int, bool]:
    """Return a response's rows up to the first unreadable batch, the position, and whether there was such a batch.

    The rows are the text of their error if they cannot be built, and None if there are none.
    """
    with RecordDecoder(PARTITION, ALL) as decoder:
        decoder.seek(0)
        decoder.feed(fed, ABORTED)
        rows, failed = 0, False
        try:
            while (more := decoder.poll(2, 1 << 20, 2**62)).first is not None:
                rows += more.records
        except (ClusterStateError, Unsupported):
            failed = True
        if not rows:
            return None, decoder.position, failed
        batch = taken(decoder)
        assert isinstance(batch, str) or batch.num_rows == rows
        return batch, decoder.position, failed


def assert_read(found: Any, batches: list[Batch]) -> None:
    wanted = expected(visible(batches))
    if wanted is None:
        assert found is None
    else:
        assert_same(found, wanted)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_cut_off(codec: str) -> None:
    """A response truncated at any byte yields its complete batches, and the position after them."""
    batches = log(codec)
    parts = [batch.encode() for batch in batches]
    ends = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    fed = b"".join(parts)
    for cut in range(len(fed) + 1):
        whole = batches[: max(n for n, end in enumerate(ends) if end <= cut)]
        found, position, failed = read(fed[:cut])
        assert_read(found, whole)
        assert position == (whole[-1].last + 1 if whole else 0)
        assert not failed


@pytest.mark.parametrize(
    "codec", ["none", "gzip", *seldom(*(name for name in CODEC_NAMES if name not in ("none", "gzip")))]
)
def test_flipped_bits(codec: str) -> None:
    """A flipped bit under the checksum ends the read before its batch; any other flipped bit never changes a value."""
    batches = log(codec)
    parts = [batch.encode() for batch in batches]
    fed = b"".join(parts)
    for n, part in enumerate(parts):
        begin = sum(map(len, parts[:n]))
        for at in range(len(part)):
            for bit in range(8):
                damaged = bytearray(fed)
                damaged[begin + at] ^= 1 << bit
                found, _, failed = read(bytes(damaged))
                if at >= NOT_SUMMED:
                    assert failed
                    assert_read(found, batches[:n])
                elif found is not None:
                    rows = expected(visible(batches)).select(["key", "value", "timestamp", "headers"]).to_pylist()
                    assert all(row in rows for row in found.select(["key", "value", "timestamp", "headers"]).to_pylist())


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_damage_with_a_right_checksum(codec: str) -> None:
    """Random damage with a valid checksum leads to errors or to other rows in a valid batch, never to a crash."""
    chance, parts = random.Random(codec), [batch.encode() for batch in log(codec)]
    for _ in range(3000):
        damaged = [with_checksum(damage(chance, part)) if chance.random() < 0.5 else part for part in parts]
        read(b"".join(damaged))


def damage(chance: random.Random, part: bytes) -> bytes:
    changed = bytearray(part)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(NOT_SUMMED, len(changed))
        changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return bytes(changed)


FIELDS = {
    "base offset": (0, 8),
    "length": (8, 4),
    "last offset delta": (23, 4),
    "base timestamp": (27, 8),
    "max timestamp": (35, 8),
    "producer id": (43, 8),
    "count": (57, 4),
}
"""Position and size of the numbers in a batch's header."""


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_fields_at_their_limits(name: str, codec: str) -> None:
    """A number of a batch's header at or near its limits, with a valid checksum, causes no crash."""
    (at, size), part = FIELDS[name], log(codec)[0].encode()
    for bits in (8 * size - 1, 31, 15, 7):
        for value in (2**bits - 1, 2**bits - 2, -(2**bits), -(2**bits) + 1, 0, 1, -1):
            data = (value % 2 ** (8 * size)).to_bytes(size, "big")
            changed = part[:at] + data + part[at + size :]
            read(with_checksum(changed))


def test_wrong_checksums_of_skipped_batches() -> None:
    """The checksums of markers, of aborted batches and of batches before the position are checked, too."""
    parts = [batch.encode() for batch in log("none")]
    for n, start in (1, 6), (2, 6), (0, 7):
        damaged = [*parts[:n], parts[n][:-1] + bytes([parts[n][-1] ^ 1]), *parts[n + 1 :]]
        with RecordDecoder(PARTITION, ALL) as decoder:
            decoder.seek(start)
            decoder.feed(b"".join(damaged[min(n, 1) :]), ABORTED)
            with pytest.raises(ClusterStateError, match="CRC"):
                polled(decoder, Limits())
