"""The records that writes by both transports produce."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from tests.support.both_paths_writes import HEADERS, Write, frame, moments, timeless

WHEN_MS = 1_700_000_000_123


class TestWritten:
    """Records written from all kinds of rows."""

    def test_keys_and_values(self, write: Write) -> None:
        """Null keys and values stay distinct from empty ones, and each row is in its partition."""
        batch = frame(key=[b"k", None, b"", b"\x00\xff"], value=[b"v", b"", None, b"\xff" * 500_000])
        acknowledged, found = write([(batch, [0, 1, 0, 2])], partitions=4)
        assert acknowledged == 4
        assert [[row[:2] for row in found[p]] for p in range(4)] == [
            [(b"k", b"v"), (b"", None)],
            [(None, b"")],
            [(b"\x00\xff", b"\xff" * 500_000)],
            [],
        ]

    def test_without_keys(self, write: Write) -> None:
        """A frame without the column key writes null keys."""
        found = write([(frame(value=[b"v", None]), [0, 0])])[1]
        assert [row[:2] for row in found[0]] == [(None, b"v"), (None, None)]

    def test_headers(self, write: Write) -> None:
        """Headers keep their order, repetitions, nulls and empty values; a row with null or empty headers has none."""
        heads = [[("a", b"1"), ("a", None), ("", b"")], None, [], [("\u00e4\U0001f600", b"\xff")]]
        column = pa.array(heads, HEADERS)
        acknowledged, found = write([(frame(value=[b"0", b"1", None, b"3"], headers=column), [0] * 4)])
        assert acknowledged == 4
        assert [row[2] for row in found[0]] == [heads[0], None, None, heads[3]]

    @pytest.mark.parametrize(
        "kind",
        [
            pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
            pa.large_list(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        ],
        ids=str,
    )
    def test_other_types_of_headers(self, write: Write, kind: pa.DataType) -> None:
        """Headers of large or string types produce the same records."""
        column = pa.array([[("a", b"1"), ("b", None)], None, [("c", b"")]], HEADERS).cast(kind)
        found = write([(frame(value=[b"0", b"1", b"2"], headers=column), [0] * 3)])[1]
        assert [row[2] for row in found[0]] == [[("a", b"1"), ("b", None)], None, [("c", b"")]]

    def test_timestamps(self, write: Write) -> None:
        """Timestamps arrive as given; a missing one, as null or as records without one are read, becomes the present."""
        batch = frame(value=[b"0", b"1", b"2", b"3"], timestamp=moments(WHEN_MS, None, 1, -1))
        found = timeless(write([(batch, [0] * 4)])[1])
        assert [row[3] for row in found[0]] == [WHEN_MS, "now", 1, "now"]

    @pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str)
    def test_types(self, write: Write, kind: pa.DataType) -> None:
        """Strings and bytes with 32-bit or 64-bit offsets produce the same records, even from slices of arrays."""
        texts = [None, "a", "", "gr\u00fcn", None, "x" * 1000]
        column = pa.array(texts, pa.string()).cast(kind)
        pieces = [(frame(key=column[n:], value=column[n:]), [0] * (6 - n)) for n in range(6)]
        data = [None if text is None else text.encode() for text in texts]
        found = write(pieces)[1]
        assert [row[:2] for row in found[0]] == [(d, d) for n in range(6) for d in data[n:]]

    def test_slices_of_all_columns(self, write: Write) -> None:
        """A slice of a frame writes only its own rows."""
        rows = range(100)
        whole = frame(
            key=[b"k%d" % n if n % 3 else None for n in rows],
            value=[b"v%d" % n if n % 5 else None for n in rows],
            headers=pa.array([[(f"h{n}", b"%d" % n)] * (n % 4) or None for n in rows], HEADERS),
            timestamp=moments(*(WHEN_MS + n if n % 7 else None for n in rows)),
        )
        pieces = [(whole.slice(start, count), [0] * count) for start, count in ((9, 1), (10, 30), (41, 0), (63, 37))]
        found = timeless(write(pieces)[1])
        assert found[0] == [
            (
                b"k%d" % n if n % 3 else None,
                b"v%d" % n if n % 5 else None,
                [(f"h{n}", b"%d" % n)] * (n % 4) or None,
                WHEN_MS + n if n % 7 else "now",
            )
            for n in [9, *range(10, 40), *range(63, 100)]
        ]

    def test_empty_batches(self, write: Write) -> None:
        """Empty batches write nothing, even between other batches."""
        none, some = frame(value=[]), frame(value=[b"v"])
        acknowledged, found = write([(none, []), (some, [0]), (none, []), (some, [0]), (none, [])])
        assert acknowledged == 2
        assert len(found[0]) == 2
        assert write([(none, [])])[0] == 0

    @pytest.mark.parametrize("plain", [True, False], ids=["plain", "headers"])
    def test_order(self, write: Write, plain: bool) -> None:
        """Rows of a partition keep their order over many batches; none is lost or duplicated."""
        per_batch, batches = 2000, []
        for n in range(6):
            values = [b"%d" % (n * per_batch + i) for i in range(per_batch)]
            headers = {} if plain else {"headers": pa.array([[("h", v)] for v in values], HEADERS)}
            batches.append((frame(value=values, **headers), [(7 * i) % 5 for i in range(per_batch)]))
        acknowledged, found = write(batches, partitions=5)
        assert acknowledged == 12_000
        numbers = {p: [int(row[1]) for row in rows] for p, rows in found.items()}
        assert numbers == {p: [n for n in range(12_000) if 7 * (n % per_batch) % 5 == p] for p in range(5)}

    @pytest.mark.parametrize(
        "limit",
        [{"queue.buffering.max.messages": 5}, {"queue.buffering.max.messages": 0}, {"queue.buffering.max.kbytes": 1}],
        ids=str,
    )
    def test_queue_limits(self, write: Write, limit: dict[str, int]) -> None:
        """All rows are delivered in order with any limit of the queue, even 0, which means no limit."""
        values = [b"%d" % n + b"." * 400 for n in range(3000)]
        acknowledged, found = write([(frame(value=values), [0] * 3000)], **limit, **{"linger.ms": 0})
        assert acknowledged == 3000
        assert [row[1] for row in found[0]] == values

    def test_queue_full_of_small_batches(self, write: Write) -> None:
        """A queue that is full while every batch is small is sent at once, without waiting for linger.ms."""
        values = [b"%d" % n for n in range(3000)]
        begin = time.monotonic()
        limits = {"queue.buffering.max.messages": 500, "linger.ms": 60_000}
        acknowledged, found = write([(frame(value=values), [n % 5 for n in range(3000)])], partitions=5, **limits)
        assert acknowledged == 3000
        assert [len(found[partition]) for partition in range(5)] == [600] * 5
        assert time.monotonic() - begin < 60

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_codecs(self, write: Write, codec: str) -> None:
        """Rows compressed with each codec arrive unchanged."""
        values = [b"%d " % n * 20 for n in range(500)]
        assert [row[1] for row in write([(frame(value=values), [0] * 500)], **{"compression.type": codec})[1][0]] == values
