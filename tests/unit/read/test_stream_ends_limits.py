"""Limits of a micro-batch over time: the wait for enough records, and measured sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_ends import StreamLimits
from tests.support.clock import Clock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGES = {T0: OffsetRange(T0, 0, 100)}


class Session:
    """Logs of records of ten bytes; `measured` has the partitions of each sample."""

    def __init__(self) -> None:
        self.measured: list[list[TopicPartition]] = []

    def record_bytes(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, float]:
        self.measured.append([found.partition for found in ranges])
        return dict.fromkeys(self.measured[-1], 10.0)


def limits(session: Any, clock: Clock, **options: str) -> StreamLimits:
    """Return the limits for some options."""
    return StreamLimits(
        parse_stream({"kafka.bootstrap.servers": "broker1:9092", "subscribe": "t", **options}), session, clock
    )


def test_no_limits() -> None:
    """Without a limit the ranges stay as they are, and nothing is measured."""
    session = Session()
    assert limits(session, Clock(1_000.0)).apply(RANGES, may_wait=True) == RANGES
    assert not session.measured


def test_wait_for_records() -> None:
    """Too few records make the stream wait for more or for the delay; the first planning call never waits."""
    clock = Clock(1_000.0)
    found = limits(Session(), clock, minOffsetsPerTrigger="500", maxTriggerDelay="1m")
    assert found.apply(RANGES, may_wait=True) == RANGES
    clock.now += 59
    assert found.apply(RANGES, may_wait=True) == {}
    assert found.apply(RANGES, may_wait=False) == RANGES
    clock.now += 1
    assert found.apply(RANGES, may_wait=True) == RANGES


def test_wait_after_an_idle_start() -> None:
    """The delay starts at the first planning call, and again when it is over, with or without records, as in Spark."""
    clock = Clock(1_000.0)
    found = limits(Session(), clock, minOffsetsPerTrigger="500", maxTriggerDelay="1m")
    idle = {T0: OffsetRange(T0, 5, 5)}
    assert found.apply(idle, may_wait=True) == idle
    clock.now += 5
    assert found.apply(RANGES, may_wait=True) == {}
    assert found.apply({T0: OffsetRange(T0, 0, 500)}, may_wait=True) != {}
    clock.now += 60
    assert found.apply(idle, may_wait=True) == idle
    clock.now += 30
    assert found.apply(RANGES, may_wait=True) == {}
    clock.now += 30
    assert found.apply(RANGES, may_wait=True) == RANGES


def test_bytes() -> None:
    """A limit in bytes shortens ranges according to the mean size of records."""
    found = limits(Session(), Clock(1_000.0), maxBytesPerTrigger="200").apply(RANGES, may_wait=True)
    assert found == {T0: OffsetRange(T0, 0, 20)}


def test_measurements() -> None:
    """Sizes are measured once a minute, and at once in new partitions, but only with records to read."""
    session, clock = Session(), Clock(1_000.0)
    found = limits(session, clock, maxBytesPerTrigger="200")
    found.apply({T0: OffsetRange(T0, 5, 5)}, may_wait=True)
    assert session.measured == []
    found.apply({**RANGES, T1: OffsetRange(T1, 5, 5)}, may_wait=True)
    clock.now += 60
    found.apply(RANGES, may_wait=True)
    assert session.measured == [[T0]]
    found.apply({**RANGES, T1: OffsetRange(T1, 5, 6)}, may_wait=True)
    assert session.measured == [[T0], [T1]]
    clock.now += 1
    found.apply({**RANGES, T1: OffsetRange(T1, 5, 6)}, may_wait=True)
    assert session.measured == [[T0], [T1], [T0, T1]]
