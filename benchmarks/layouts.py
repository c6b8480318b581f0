"""Reads of unevenly distributed records: nearly all in one partition, or a few in each of very many."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from benchmarks import topics
from benchmarks.checks import check_read
from benchmarks.cluster import Topic
from benchmarks.engines import ENGINES, SourceEngine
from benchmarks.session import Bench
from benchmarks.shapes import EVEN, Layout
from benchmarks.works import Read

ENGINE_NAMES = ("ours", "jvm-tuned")
SHAPE = "small"
_SKEWED = Layout("skewed", (0,) * 100 + tuple(range(1, 8)))


@dataclass(frozen=True)
class Reading:
    """A topic to read, and options for it."""

    label: str
    topic: Topic
    options: dict[str, str] = field(default_factory=dict)


def layouts(bench: Bench, scale: float, many_partitions: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each reading and engine: median seconds, and the median ratio to even partitions."""
    even, skewed = (topics.filled(bench.cluster, SHAPE, scale, layout) for layout in (EVEN, _SKEWED))
    compared = [
        Reading("8 even partitions", even),
        Reading("one of 8 with a hundred times the records of each other", skewed),
        Reading("the same, minPartitions=16", skewed, {"minPartitions": "16"}),
    ]
    rows = [row for name in ENGINE_NAMES for row in _compared(bench, name, compared, rounds)]
    layout = Layout(f"{many_partitions}-partitions", tuple(range(many_partitions)))
    many = Reading(f"{many_partitions:,} partitions", topics.filled(bench.cluster, SHAPE, scale, layout))
    ours = ENGINE_NAMES[0]  # the other engine would take many minutes
    check_read(_engine(ours, many).frame(bench, many.topic), many.topic, many.label)
    return [*rows, _row(ours, many, _seconds(bench, ours, many))]


def _compared(bench: Bench, name: str, readings: list[Reading], rounds: int) -> list[dict[str, Any]]:
    for reading in readings:
        check_read(_engine(name, reading).frame(bench, reading.topic), reading.topic, f"{name}: {reading.label}")
    times = [[_seconds(bench, name, reading) for reading in readings] for _ in range(rounds)]
    return [
        {**_row(name, reading, median(one[n] for one in times)), "to even": median(one[n] / one[0] for one in times)}
        for n, reading in enumerate(readings)
    ]


def _row(name: str, reading: Reading, seconds: float) -> dict[str, Any]:
    records = reading.topic.facts.records
    return {"layout": reading.label, "records": records, "engine": ENGINES[name].label, "s": seconds}


def _seconds(bench: Bench, name: str, reading: Reading) -> float:
    engine, work = _engine(name, reading), Read(bench, reading.topic)
    begin = time.perf_counter()
    found = work.act(engine)
    seconds = time.perf_counter() - begin
    work.verify(engine, found)
    return seconds


def _engine(name: str, reading: Reading) -> SourceEngine:
    engine = ENGINES[name]
    if not isinstance(engine, SourceEngine):
        raise TypeError(f"{name} takes no options")
    return replace(engine, read_options={**engine.read_options, **reading.options})
