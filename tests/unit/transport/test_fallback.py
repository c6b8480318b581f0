"""The change from one consumer to another."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from pyspark_zkafka.batch.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.consumer import Poll
from pyspark_zkafka.transport.direct_errors import UnsupportedRecords
from pyspark_zkafka.transport.fallback import FallbackConsumer
from tests.support.cases import each

TP = TopicPartition("t", 0)
PATIENT = ReadPolicy()
SCHEMA = pa.schema([("offset", pa.int64()), ("by", pa.string())])


class Numbers:
    """A consumer of a log of 20 records, which returns some in each poll; it fails from an offset on, or not."""

    def __init__(self, name: str, fails_at: int = 20, each: int = 4, surplus: int = 0) -> None:
        self.sought: list[int] = []
        self._name = name
        self._fails_at = fails_at
        self._each = each
        self._surplus = surplus
        self._gathered: list[int] = []

    def seek(self, offset: int) -> None:
        self.sought.append(offset)
        self._position = offset

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        if self._position >= self._fails_at:
            self._gathered += range(self._position, self._position + self._surplus)
            raise UnsupportedRecords("magic")
        found = range(self._position, min(self._position + min(self._each, most_records), until, self._fails_at))
        self._gathered += found
        self._position = found.stop
        return Poll(len(found), 0, found.start, found.stop - 1)

    def take(self) -> pa.RecordBatch:
        taken, self._gathered = self._gathered, []
        return pa.RecordBatch.from_pydict({"offset": taken, "by": [self._name] * len(taken)}, schema=SCHEMA)

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        if self._fails_at < 20:
            raise UnsupportedRecords("no ListOffsets")
        return 0, 20


class Opened:
    """A consumer with the number of times that it was opened and closed."""

    def __init__(self, consumer: Numbers) -> None:
        self._consumer = consumer
        self.opened = self.closed = 0

    @contextmanager
    def __call__(self) -> Iterator[Numbers]:
        self.opened += 1
        yield self._consumer
        self.closed += 1


def read(first: Numbers, second: Opened, policy: ReadPolicy = PATIENT) -> tuple[Sequence[int], Sequence[str], int]:
    """The offsets, who read them, and how often the first one was left."""
    left: list[str] = []
    with FallbackConsumer(TP, first, second, lambda why: left.append(str(why)), logging.WARNING) as consumer:
        split = Split(TP, 0, 20, 0, 0, (0,), ())
        table = pa.Table.from_batches(SplitReader(split, consumer, policy, lambda: "same").batches(), SCHEMA)
    return table["offset"].to_pylist(), table["by"].to_pylist(), len(left)


def test_no_change() -> None:
    """A consumer that reads all is the only one, and the other is never opened."""
    second = Opened(Numbers("second"))
    assert read(Numbers("first"), second) == (list(range(20)), ["first"] * 20, 0)
    assert second.opened == 0


@each("fails_at", [0, 1, 7, 8, 19])
@each("surplus", [0, 2])
@each("most", [3, 4, 10_000])
def test_change(fails_at: int, surplus: int, most: int, caplog: pytest.LogCaptureFixture) -> None:
    """Each record is read once, wherever the first one ends, and whatever its last poll has left half done."""
    second = Opened(other := Numbers("second"))
    first = Numbers("first", fails_at, surplus=surplus)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = read(first, second, ReadPolicy(max_records=most))
    assert found == (list(range(20)), ["first"] * fails_at + ["second"] * (20 - fails_at), 1)
    assert other.sought == [fails_at]
    assert (second.opened, second.closed) == (1, 1)
    assert caplog.messages == [f"t-0: librdkafka continues at offset {fails_at}: magic"]


def test_ends_of_the_log() -> None:
    """The ends of a log are asked of the one that can say them; the position is kept."""
    second = Opened(Numbers("second"))
    with FallbackConsumer(TP, Numbers("first", 7), second, lambda why: None) as consumer:
        consumer.seek(5)
        assert consumer.watermarks(1) == (0, 20)
        assert consumer.poll(10, 10, 20, 0).first == 5
    assert second.opened == 2
    with FallbackConsumer(TP, Numbers("first"), second, lambda why: None) as consumer:
        assert consumer.watermarks(1) == (0, 20)
    assert second.opened == 2
