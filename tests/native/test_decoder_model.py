"""The decoder compared with a simple model: readable and flawed batches, in any order, polled within random limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.records.native import record_decoder
from pyspark_zkafka.records.native.record_decoder import RecordDecoder, decompress
from pyspark_zkafka.wire.protocol import Unsupported
from tests.native.decoding import ALL, PARTITION
from tests.support.record_batches import Batch, Row
from tests.support.tiers import repetitions

BOUND_BYTES = 2_000
ZSTD = 4
SCHEMA = pa.schema([ALL.field("offset"), ALL.field("value")])
CODECS = ["none", "gzip", "snappy", "xerial", "lz4", "zstd"]
FLAWS = ["", "", "", "checksum", "garbage", "too large", "too few rows"]


@dataclass(frozen=True)
class Part:
    """An encoded batch, its rows as (offset, value), and its flaw, if any."""

    data: bytes
    rows: tuple[tuple[int, bytes], ...]
    flaw: str


def part(base: int, sizes: list[int], codec: str, flaw: str) -> Part:
    """Encode a batch with values of the given sizes and with the flaw."""
    if flaw == "too large":
        sizes, codec = [*sizes, 2 * BOUND_BYTES], "gzip" if codec == "none" else codec
    rows = tuple((base + n, b"%07d" % (base + n) + b"." * size) for n, size in enumerate(sizes))
    count = len(rows) + 1 if flaw == "too few rows" else None
    batch = Batch(tuple(Row(offset, None, value) for offset, value in rows), codec=codec, count=count)
    data = batch.encode() if flaw != "garbage" else replace(batch, codec="none", flags=ZSTD, records=b"not zstd").encode()
    if flaw == "checksum":
        data = data[:-1] + bytes([data[-1] ^ 1])
    return Part(data, rows, flaw)


@st.composite
def logs(draw: st.DrawFn) -> list[Part]:
    """Draw consecutive batches."""
    found, base = [], 0
    for _ in range(draw(st.integers(1, 6))):
        sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=4))
        found.append(part(base, sizes, draw(st.sampled_from(CODECS)), draw(st.sampled_from(FLAWS))))
        base = found[-1].rows[-1][0] + 1
    return found


@settings(max_examples=repetitions(300))
@given(parts=logs(), whole=st.data())
def test_decoder(parts: list[Part], whole: st.DataObject) -> None:
    """All records before the first flaw are read, each at its own offset; then each poll reports the flaw."""
    flawed = next((n for n, each in enumerate(parts) if each.flaw), len(parts))
    rows = [row for each in parts[:flawed] for row in each.rows]
    error = Unsupported if flawed < len(parts) and parts[flawed].flaw == "too large" else ClusterStateError
    found: list[tuple[int, bytes]] = []
    with pytest.MonkeyPatch.context() as patch, RecordDecoder(PARTITION, SCHEMA) as decoder:
        patch.setattr(record_decoder, "decompress", bounded)
        decoder.seek(0)
        at = gathered = failures = 0
        while failures < 2 and not (at == len(parts) and decoder.is_exhausted):
            if decoder.is_exhausted:
                count = whole.draw(st.integers(1, len(parts) - at), label="batches in the response")
                decoder.feed(b"".join(each.data for each in parts[at : at + count]))
                at += count
            try:
                poll = decoder.poll(whole.draw(st.integers(1, 5)), whole.draw(st.integers(1, 700)), 10**9)
            except error:
                failures += 1
            else:
                assert not failures
                gathered += poll.records
            if gathered and (failures or whole.draw(st.booleans(), label="take")):
                found += taken(decoder, gathered)
                gathered = 0
        if gathered:
            found += taken(decoder, gathered)
    assert bool(failures) is (flawed < len(parts))
    most = rows + (list(parts[flawed].rows) if failures and parts[flawed].flaw == "too few rows" else [])
    assert found[: len(rows)] == rows
    assert found == most[: len(found)]


def bounded(codec: int, data: pa.Buffer, magic: int) -> pa.Buffer:
    """Decompress, with a bound that small tests can reach."""
    records = decompress(codec, data, magic)
    if records.size > BOUND_BYTES:
        raise Unsupported("too large")
    return records


def taken(decoder: RecordDecoder, gathered: int) -> list[tuple[int, bytes]]:
    """Return the rows that polls have gathered."""
    batch = decoder.take()
    assert batch.num_rows == gathered
    return list(zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True))
