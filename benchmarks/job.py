"""The cases to compare, and the process that measures them under some of Spark's settings.

Run as a module: ``python -m benchmarks.job MASTER SETTINGS`` reads one JSON request per line, and answers each with a line.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import topics
from benchmarks.cluster import BenchCluster, running
from benchmarks.engines import ENGINES, Engine
from benchmarks.results import EITHER, Round
from benchmarks.session import SETTINGS, Bench, opened
from benchmarks.shapes import EVEN, PARTITIONS, WIDE
from benchmarks.usage import Meter
from benchmarks.works import Read, ReadGroups, ReadValues, Stream, Work
from benchmarks.writes import Copy, Write

TINY_RECORDS = 500
"""Records per micro-batch of `stream-tiny`, and rows per task of `copy`."""
_STREAM_BATCHES = 20
WIDE_RECORDS = 100
"""Records per micro-batch and partition of `stream-wide`."""
_PER_TRIGGER = {
    "stream-tiny": TINY_RECORDS,
    "stream-wide": WIDE_RECORDS * WIDE.partitions,
    "copy": TINY_RECORDS * PARTITIONS,
}


@dataclass(frozen=True)
class Case:
    """A work on a shape at a scale, by several engines, in several rounds after a warm-up."""

    work: str
    shape: str
    scale: float
    engines: list[str]
    rounds: int
    warm_up: int = 2

    @property
    def compared(self) -> list[Engine]:
        """The engines that support the work."""
        return [ENGINES[name] for name in self.engines if self.work in ENGINES[name].works]


@dataclass(frozen=True)
class Job:
    """The cases of a master, each under several of Spark's settings."""

    master: str
    cases: list[Case]
    settings: tuple[str, ...] = tuple(SETTINGS)


@dataclass(frozen=True)
class Turn:
    """One timing of an engine, in the session with these settings."""

    engine: str
    settings: str


def turns(engines: Sequence[Engine], settings: Sequence[str], number: int, source: random.Random) -> list[Turn]:
    """Return the turns of a round, in random order.

    An engine without Python has one turn per round, alternately in each session.
    """
    found = [Turn(one.name, each) for one in engines if one.uses_python for each in settings]
    found += [Turn(one.name, settings[number % len(settings)]) for one in engines if not one.uses_python]
    # The order must change: what an engine leaves behind, such as garbage in JVM heaps, slows down the next one.
    return source.sample(found, len(found))


@contextmanager
def opened_work(bench: Bench, case: Case) -> Iterator[Work]:
    """Open the work of a case for a ``with`` block, with its topic filled."""
    layout = WIDE if case.work == "stream-wide" else EVEN
    topic = topics.filled(bench.cluster, case.shape, case.scale, layout)
    per_trigger = _PER_TRIGGER.get(case.work, -(-topic.facts.records // _STREAM_BATCHES))
    work = {
        "read": lambda: Read(bench, topic),
        "value": lambda: ReadValues(bench, topic),
        "group": lambda: ReadGroups(bench, topic),
        "stream20": lambda: Stream(bench, topic, per_trigger=per_trigger),
        "stream-tiny": lambda: Stream(bench, topic, per_trigger=per_trigger),
        "stream-wide": lambda: Stream(bench, topic, per_trigger=per_trigger),
        "copy": lambda: Copy(bench, topic, per_trigger=per_trigger),
        "write": lambda: Write(bench, topic),
        "write-nokey": lambda: Write(bench, topic, keys=False),
    }[case.work]()
    work.open()
    with closing(work):
        yield work


class Session:
    """A Spark session that handles requests."""

    def __init__(self, bench: Bench, master: str, settings: str) -> None:
        self._bench, self._master, self._settings = bench, master, settings
        self._opened = ExitStack()

    def open(self, case: dict[str, Any]) -> None:
        """Prepare a case, after closing the one before."""
        self._opened.close()
        self._case = Case(**case)
        self._work = self._opened.enter_context(opened_work(self._bench, self._case))

    def check(self, engine: str) -> None:
        """Do the work once, and compare everything that can be compared."""
        self._work.check(ENGINES[engine])

    def warm_up(self, engine: str) -> None:
        """Do the work once, untimed."""
        self._work.begin()
        self._work.verify(ENGINES[engine], self._work.act(ENGINES[engine]))

    def time(self, engine: str, number: int) -> dict[str, Any]:
        """Do the work once, timed, and return the round."""
        mine, work, meter = ENGINES[engine], self._work, Meter(self._bench.cluster.pid)
        if mine.uses_python:
            work.touch(mine)
        work.begin()
        meter.wait_for_quiet()
        meter.start()
        begin = time.perf_counter()
        found = work.act(mine)
        seconds = time.perf_counter() - begin
        usage = meter.stop()
        extra = work.verify(mine, found)
        settings = self._settings if mine.uses_python else EITHER
        where = (self._master, self._case.work, self._case.shape, engine, settings, number)
        return asdict(Round(*where, seconds, work.records, work.payload_bytes, usage, extra))

    def close(self) -> None:
        """Close the case."""
        self._opened.close()


def main(master: str, settings: str) -> None:
    """Answer requests on the running cluster until the input ends."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # keeps the JVM's output out of the answers
        _serve(_running(), master, settings, answers)


def _serve(cluster: BenchCluster, master: str, settings: str, answers: Any) -> None:
    with opened(master, cluster, settings) as bench, closing(Session(bench, master, settings)) as session:
        for line in sys.stdin:
            request = json.loads(line)
            answers.write(json.dumps(getattr(session, request.pop("do"))(**request)) + "\n")
            answers.flush()


def _running() -> BenchCluster:
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    return cluster


if __name__ == "__main__":
    main(*sys.argv[1:])
