"""The kinds of records in benchmarks, and facts for checking results."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

POOL = 10_000
PARTITIONS = 8
Headers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Record:
    """A record of a pool."""

    key: bytes
    value: bytes
    headers: Headers | None = None


@dataclass(frozen=True)
class Shape:
    """A kind of records: number at scale 1, compression, and generator."""

    name: str
    label: str
    full_records: int
    codec: str
    make: Callable[[random.Random, int], Record]
    pool_records: int = POOL

    @property
    def has_headers(self) -> bool:
        """Whether the records have headers."""
        return self.make is _event

    def records(self, scale: float) -> int:
        """Return the number of records at a scale, a multiple of the pool."""
        return max(round(self.full_records * scale / self.pool_records), 1) * self.pool_records

    def pool(self) -> list[Record]:
        """Return the records that fill a topic by repetition; they are the same in each call."""
        source = random.Random(self.name)
        return [self.make(source, number) for number in range(self.pool_records)]


@dataclass(frozen=True)
class Layout:
    """The partition of each record of a pool: `turns` in rotation, or the partitioner's choice if empty."""

    name: str
    turns: tuple[int, ...] = ()

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic."""
        return max(self.turns) + 1 if self.turns else PARTITIONS


EVEN = Layout("even")
WIDE = Layout("500-partitions", tuple(range(500)))


@dataclass(frozen=True)
class Facts:
    """Sums over all records of a topic."""

    records: int
    key_bytes: int
    value_bytes: int
    key_crcs: int
    value_crcs: int
    headers: int
    header_bytes: int

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes


def facts(pool: list[Record], times: int) -> Facts:
    """Return the facts of a pool written this many times."""
    headers = [header for record in pool for header in record.headers or ()]
    return Facts(
        records=len(pool) * times,
        key_bytes=sum(len(r.key) for r in pool) * times,
        value_bytes=sum(len(r.value) for r in pool) * times,
        key_crcs=sum(crc32(r.key) for r in pool) * times,
        value_crcs=sum(crc32(r.value) for r in pool) * times,
        headers=len(headers) * times,
        header_bytes=sum(len(name) + len(value) for name, value in headers) * times,
    )


def _small(source: random.Random, number: int) -> Record:
    return Record(b"k%09d" % number, source.randbytes(100))


def _big(source: random.Random, number: int) -> Record:
    return Record(b"k%09d" % number, source.randbytes(1024))


def _tiny(source: random.Random, number: int) -> Record:
    return Record(b"%d" % number, source.randbytes(10))


def _huge(source: random.Random, number: int) -> Record:
    return Record(b"k%09d" % number, source.randbytes(999_000))


def _event(source: random.Random, number: int) -> Record:
    """Return an order of a web shop as JSON, with headers for tracing and schemas."""
    items = [
        {"sku": f"SKU-{source.randrange(50_000):05}", "quantity": source.randint(1, 5), "price": source.randint(99, 99_999)}
        for _ in range(source.randint(1, 4))
    ]
    order = {
        "event": source.choice(("order.created", "order.paid", "order.shipped", "order.cancelled")),
        "id": f"{source.getrandbits(128):032x}",
        "customer": {"id": source.randrange(10**9), "country": source.choice(("DE", "FR", "PL", "US", "JP"))},
        "items": items,
        "total": sum(item["quantity"] * item["price"] for item in items),
        "note": "".join(source.choices(string.ascii_lowercase + " ", k=source.randint(0, 80))),
        "at": f"2026-03-{source.randint(1, 28):02}T{source.randrange(24):02}:{source.randrange(60):02}:00.000Z",
    }
    headers = [
        ("traceparent", f"00-{source.getrandbits(128):032x}-01".encode()),
        ("schema", b"order-v3"),
        ("source", b"web"),
    ]
    return Record(f"customer-{number}".encode(), json.dumps(order, separators=(",", ":")).encode(), headers)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("small", "100 B", 4_000_000, "none", _small),
        Shape("big", "1 KB", 1_000_000, "none", _big),
        Shape("tiny", "10 B", 100_000_000, "none", _tiny),
        Shape("huge", "1 MB", 2_000, "none", _huge, pool_records=100),
        Shape("events-lz4", "JSON, lz4", 1_000_000, "lz4", _event),
        Shape("events-zstd", "JSON, zstd", 1_000_000, "zstd", _event),
        Shape("events-snappy", "JSON, snappy", 1_000_000, "snappy", _event),
        Shape("events-gzip", "JSON, gzip", 1_000_000, "gzip", _event),
    )
}
