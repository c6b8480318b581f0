"""Change of a reader from the direct transport to librdkafka."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.protocol import Unsupported
from tests.support.clock import Clock

TP = TopicPartition("t", 0)
PATIENT = ReadPolicy()
SCHEMA = pa.schema([("offset", pa.int64()), ("by", pa.string())])


class Numbers:
    """A consumer of a log of 20 records, which returns some in each poll, and may fail from an offset on."""

    def __init__(self, name: str, fails_at: int = 20, each: int = 4) -> None:
        self.sought: list[int] = []
        self._name = name
        self._fails_at = fails_at
        self._each = each
        self._gathered: list[int] = []

    def seek(self, offset: int) -> None:
        self.sought.append(offset)
        self._position = offset

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        if self._position >= self._fails_at:
            raise Unsupported("magic")
        found = range(self._position, min(self._position + min(self._each, most_records), until, self._fails_at))
        self._gathered += found
        self._position = found.stop
        return Poll(len(found), 0, found.start, found.stop - 1)

    def take(self) -> pa.RecordBatch:
        taken, self._gathered = self._gathered, []
        return pa.RecordBatch.from_pydict({"offset": taken, "by": [self._name] * len(taken)}, schema=SCHEMA)

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        if self._fails_at < 20:
            raise Unsupported("no ListOffsets")
        return 0, 20


class Fallback:
    """Opens the second consumer; `left` has the reasons with offsets."""

    def __init__(self) -> None:
        self.consumer = Numbers("second")
        self.left: list[tuple[str, int]] = []

    def __call__(self, why: Unsupported, offset: int) -> Numbers:
        self.left.append((str(why), offset))
        return self.consumer


def read(first: Numbers, fallback: Fallback, policy: ReadPolicy = PATIENT) -> tuple[Sequence[int], Sequence[str]]:
    """Return the offsets, and the consumer that read each."""
    split = Split(TP, 0, 20, 0, 0, (0,), ())
    reader = SplitReader(split, first, policy, lambda: "same", fallback=fallback)
    table = pa.Table.from_batches(reader.batches(), SCHEMA)
    return table["offset"].to_pylist(), table["by"].to_pylist()


def test_no_change() -> None:
    """A consumer that reads everything is the only one; the fallback is never opened."""
    fallback = Fallback()
    assert read(Numbers("first"), fallback) == (list(range(20)), ["first"] * 20)
    assert fallback.left == []


@pytest.mark.parametrize("fails_at", [0, 1, 7, 8, 19])
@pytest.mark.parametrize("most", [3, 4, 10_000])
def test_change(fails_at: int, most: int) -> None:
    """Each record is read once, wherever the first consumer fails."""
    fallback = Fallback()
    found = read(Numbers("first", fails_at), fallback, ReadPolicy(max_records=most))
    assert found == (list(range(20)), ["first"] * fails_at + ["second"] * (20 - fails_at))
    assert fallback.left == [("magic", fails_at)]
    assert fallback.consumer.sought == [fails_at]


class Unseekable(Numbers):
    """A consumer that cannot start."""

    def seek(self, offset: int) -> None:
        raise Unsupported("no Fetch")


def test_start() -> None:
    """A consumer that cannot start is replaced when records are read."""
    fallback = Fallback()
    assert read(Unseekable("first"), fallback) == (list(range(20)), ["second"] * 20)
    assert fallback.left == [("no Fetch", 0)]


class Lost(Numbers):
    """A consumer whose position is outside the log, and which cannot look up the log's ends."""

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        return Poll(out_of_range=True)


def test_ends_of_the_log() -> None:
    """librdkafka continues if the direct transport cannot look up the ends of a log."""
    fallback = Fallback()
    assert read(Lost("first", 7), fallback) == (list(range(20)), ["second"] * 20)
    assert fallback.left == [("no ListOffsets", 0)]


class Slow(Numbers):
    """A consumer that takes time to poll, or to connect."""

    def __init__(self, name: str, clock: Clock, waits_s: float, fails_at: int = 20) -> None:
        super().__init__(name, fails_at)
        self._clock = clock
        self._waits_s = waits_s

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        self._clock.now += self._waits_s
        if self._waits_s and self._fails_at == 20:
            self._waits_s = 0
            return Poll()
        return super().poll(most_records, most_bytes, until, timeout_s)


def test_time_of_the_second_consumer() -> None:
    """The second consumer gets the whole time-out, whenever the first one fails."""
    clock, fallback = Clock(), Fallback()
    fallback.consumer = Slow("second", clock, 5.0)
    reader = SplitReader(
        Split(TP, 0, 20, 0, 0, (0,), ()), Slow("first", clock, 119.0, 0), PATIENT, lambda: "same", clock, fallback=fallback
    )
    assert sum(batch.num_rows for batch in reader.batches()) == 20


def test_without_a_fallback() -> None:
    """Without a fallback, the reason is raised after the batch read so far."""
    reader = SplitReader(Split(TP, 0, 20, 0, 0, (0,), ()), Numbers("first", 7), PATIENT, lambda: "same")
    batches = reader.batches()
    assert next(batches).num_rows == 7
    with pytest.raises(Unsupported, match="magic"):
        next(batches)
