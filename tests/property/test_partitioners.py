"""Laws of the partitioners, for keys of all shapes."""

from __future__ import annotations

import zlib

import mmh3
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.partitioners import PARTITIONERS, Router, hash_keys

some_keys = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=200, max_size=300), max_size=80)
cuts = st.tuples(st.integers(0, 30), st.integers(0, 80))


def plain_murmur2(key: bytes) -> int:
    """Return murmur2 as in Kafka's Utils: one key, one word at a time."""
    m, whole = 0x5BD1E995, len(key) // 4 * 4
    h = 0x9747B28C ^ len(key)
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m % 2**32
        h = (h * m % 2**32) ^ ((k ^ k >> 24) * m % 2**32)
    if len(key) > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m % 2**32
    h = (h ^ h >> 13) * m % 2**32
    return signed(h ^ h >> 15)


def plain_fnv1a(key: bytes) -> int:
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 % 2**32
    return signed(h)


def plain_crc32(key: bytes) -> int:
    return signed(zlib.crc32(key))


def signed(h: int) -> int:
    return h - 2**32 if h >= 2**31 else h


@given(some_keys, cuts, st.sampled_from([pa.binary(), pa.large_binary()]))
def test_hashes_equal_the_plain_ones(keys: list[bytes | None], cut: tuple[int, int], kind: pa.DataType) -> None:
    """Arrays and slices hash like their single keys; null hashes to 0."""
    first, count = cut
    array, kept = pa.array(keys, kind).slice(first, count), keys[first : first + count]
    plain_hashes = {"murmur2": plain_murmur2, "fnv1a": plain_fnv1a, "murmur3": mmh3.hash, "crc32": plain_crc32}
    for name, plain in plain_hashes.items():
        assert hash_keys(name, array).tolist() == [0 if k is None else plain(k) for k in kept]


@given(st.lists(st.none() | st.text(max_size=30), max_size=60), st.integers(0, 60))
def test_chunks_do_not_matter(texts: list[str | None], at: int) -> None:
    """A chunked array of strings hashes like the same rows in one chunk."""
    whole = pa.array(texts, pa.string())
    chunked = pa.chunked_array([whole.slice(0, at), whole.slice(at)])
    assert hash_keys("murmur2", chunked).tolist() == hash_keys("murmur2", whole).tolist()


@st.composite
def batches(draw: st.DrawFn) -> tuple[Router, list[bytes | None], list[int | None], int]:
    """Draw a router, equally many keys and explicit partitions, and a counter."""
    partitions = draw(st.integers(1, 50))
    numbers = st.integers(0, partitions - 1)
    available = sorted(draw(st.sets(numbers)))
    rows = draw(st.lists(st.tuples(st.none() | st.binary(max_size=12), st.none() | numbers), max_size=80))
    router = Router("t", partitions, available, draw(st.sampled_from(PARTITIONERS)))
    return router, [k for k, _ in rows], [p for _, p in rows], draw(st.integers(0, 2**70))


@given(batches())
def test_every_row_is_routed_as_promised(batch: tuple[Router, list[bytes | None], list[int | None], int]) -> None:
    """Explicit partitions are kept, equal keys share a partition, and counts of other rows differ by at most one."""
    router, keys, explicit, start = batch
    routed, end = router.route(len(keys), pa.array(keys, pa.binary()), pa.array(explicit, pa.int32()), start)
    rows = list(zip(keys, explicit, routed.tolist(), strict=True))
    free = [(k, p) for k, asked, p in rows if asked is None]
    turns = [p for k, p in free if k is None or router.partitioner == "roundrobin"]
    hashed = {(k, p) for k, p in free if k is not None and router.partitioner != "roundrobin"}
    among = list(router.available) or list(range(router.partitions))
    counts = {p: turns.count(p) for p in among}
    assert all(0 <= p < router.partitions for _, _, p in rows)
    assert all(asked in (None, p) for _, asked, p in rows)
    assert len(hashed) == len({k for k, _ in hashed})
    assert sum(counts.values()) == len(turns) == end - start
    assert max(counts.values()) - min(counts.values()) <= 1


@given(batches(), st.integers(0, 80))
def test_two_batches_route_as_one(batch: tuple[Router, list[bytes | None], list[int | None], int], at: int) -> None:
    """Splitting a batch, with the counter passed on, changes no row's partition."""
    router, keys, explicit, start = batch
    array, asked = pa.array(keys, pa.binary()), pa.array(explicit, pa.int32())
    whole, end = router.route(len(keys), array, asked, start)
    head, counter = router.route(len(keys[:at]), array.slice(0, at), asked.slice(0, at), start)
    rest, last = router.route(len(keys[at:]), array.slice(at), asked.slice(at), counter)
    assert head.tolist() + rest.tolist() == whole.tolist()
    assert last == end
