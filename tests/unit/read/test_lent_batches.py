"""Batches for an engine that runs tasks as threads: how many are lent, and what it gets if it keeps them."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.read import lent_batches
from pyspark_zkafka.read.lent_batches import Loans, lent

SCHEMA = pa.schema([("value", pa.binary()), ("headers", pa.list_(pa.struct([("key", pa.string())])))])


def batches(count: int, rows: int = 3) -> Iterator[pa.RecordBatch]:
    """Yield batches whose values number the rows, some null."""
    for first in range(0, count * rows, rows):
        values = [None if n % 5 == 4 else str(n).encode() for n in range(first, first + rows)]
        yield pa.record_batch([pa.array(values, pa.binary()), pa.array([[{"key": "h"}]] * rows)], schema=SCHEMA)


def test_count() -> None:
    """A batch counts until the last reference to its memory is gone, in whatever thread that is."""
    with Loans() as loans:
        first, second = (loans.lend(batch, SCHEMA) for batch in batches(2))
        values = first.column(0).slice(1)
        assert loans.count == 2
        del first
        assert loans.count == 2
        del values
        assert loans.count == 1
        held = [second]
        del second
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert loans.count == 0


def test_other_time_zones() -> None:
    """The engine's schema may have other time zones, also within columns; the instants stay the same."""
    times = pa.array([0, None, 5_000_000], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"at": times, "past": pa.array([[0], None, [1, 2]], pa.list_(pa.timestamp("us", "UTC")))})
    berlin = pa.timestamp("us", "Europe/Berlin")
    wanted = pa.schema([("at", berlin), ("past", pa.list_(berlin))])
    [found] = lent(iter([batch]), wanted)
    found.validate(full=True)
    assert found.schema == wanted
    assert found.column("at").cast(pa.int64()).to_pylist() == [0, None, 5_000_000]
    assert found.column("past").flatten().cast(pa.int64()).to_pylist() == [0, 1, 2]


def test_contents() -> None:
    """A lent batch equals the original, also as a slice and without rows or columns, and outlives the counting."""
    whole = next(batches(1, rows=20))
    empty = pa.RecordBatch.from_struct_array(pa.array([{}] * 4, pa.struct([])))
    with Loans() as loans:
        for batch in (whole, whole.slice(3, 9), whole.slice(0, 0), empty):
            found = loans.lend(batch, batch.schema)
            found.validate(full=True)
            assert found == batch
            assert found.num_rows == batch.num_rows
            assert found.schema == batch.schema
        kept = loans.lend(whole, SCHEMA)
        assert pickle.loads(pickle.dumps(kept)) == whole
    del batch, found
    assert kept == whole


def taken(source: Iterator[pa.RecordBatch], keep: Callable[[int], bool], patience_s: float = 0.01) -> list[pa.RecordBatch]:
    """Take all batches, and keep those whose number `keep` selects, each until the end."""
    kept, rows = [], []
    for number, batch in enumerate(lent(source, SCHEMA, patience_s)):
        rows.append(pc.fill_null(batch.column(0), b"null").to_pylist())
        if keep(number):
            kept.append(batch)
        del batch
    expected = [(b"null" if n % 5 == 4 else str(n).encode()) for n in range(sum(map(len, rows)))]
    assert [value for part in rows for value in part] == expected
    return kept


def test_released_batches() -> None:
    """Batches that the engine releases reach it unchanged, however many there are."""
    seen = [batch.num_rows for batch in lent(batches(100), SCHEMA)]
    assert seen == [3] * 100


@pytest.mark.parametrize("count", [1, 12, 16, 17, 100, 1000])
def test_kept_batches(count: int) -> None:
    """An engine that keeps every batch never has more than its queue has room for, and gets every row in order."""
    kept = taken(batches(count), keep=lambda number: True)
    assert len(kept) <= lent_batches._ROOM
    assert sum(batch.num_rows for batch in kept) == 3 * count


def test_more_than_can_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that has too many rows to join reads no further, and fails with the remedy if the engine keeps them."""
    monkeypatch.setattr(lent_batches, "_LARGEST_BYTES", 1000)
    kept, read = [], 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches(1000):
            read += 1
            yield batch

    with pytest.raises(ZKafkaError, match=r"BATCHES_KEPT\] The engine has kept 12 batches .* set maxRecordsPerPartition"):
        kept.extend(lent(source(), SCHEMA, patience_s=0.01, give_up_s=0.1))
    assert read < 200
    kept.clear()
    found = lent(batches(1000), SCHEMA, patience_s=0.01, give_up_s=60.0)
    kept = [next(found) for _ in range(12)]
    threading.Timer(0.2, kept.clear).start()
    assert sum(batch.num_rows for batch in found) == 3 * 988


def test_slow_consumer() -> None:
    """After a late release, the task waits for the consumer again, and does not join the batches that are left."""

    def source() -> Iterator[pa.RecordBatch]:
        for batch in batches(60):
            time.sleep(0.01)
            yield batch

    found = lent(source(), SCHEMA, patience_s=0.02)
    sizes, held = [], []
    for batch in found:
        sizes.append(batch.num_rows)
        held.append(batch)
        del batch
        if len(held) == 12:
            threading.Timer(0.1, held.pop).start()
        elif len(sizes) > 12:
            held.pop()
    assert sizes == [3] * 60


def test_slow_release() -> None:
    """A task waits for an engine that is slower than it, and reads no further meanwhile."""
    read = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches(30):
            read += 1
            yield batch

    found = lent(source(), SCHEMA, patience_s=60.0)
    kept = [next(found) for _ in range(12)]
    timer = threading.Timer(0.2, kept.pop)
    timer.start()
    following = next(found)
    assert read == 13
    assert timer.finished.is_set()
    kept.clear()
    assert following.num_rows + sum(batch.num_rows for batch in found) == 3 * 18


def test_closed() -> None:
    """The source is closed when the engine stops early."""
    closed = []

    def source() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches(5)
        finally:
            closed.append(True)

    found = lent(source(), SCHEMA)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert closed == [True]
