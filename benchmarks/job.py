"""All cases of one master, in a process of their own: one Spark session, engines in turns, every result checked."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import topics
from benchmarks.cluster import BenchCluster, running
from benchmarks.engines import ENGINES, Engine
from benchmarks.results import Round
from benchmarks.session import Bench, opened
from benchmarks.usage import Meter
from benchmarks.works import Read, ReadGroups, ReadValues, Stream, Work
from benchmarks.writes import Write

TINY_RECORDS = 500
"""How many records each of the tiny micro-batches reads."""
_STREAM_BATCHES = 20

console = Console()


@dataclass(frozen=True)
class Case:
    """What is compared: a work on a shape at a scale, by engines, in so many rounds, after some that are not timed."""

    work: str
    shape: str
    scale: float
    engines: list[str]
    rounds: int
    warm_up: int = 2


@dataclass(frozen=True)
class Job:
    """The cases of a master."""

    master: str
    cases: list[Case]
    unix_sockets: bool = True

    def to_json(self) -> str:
        """For the process that runs it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """What `to_json` gave."""
        found = json.loads(text)
        return cls(**{**found, "cases": [Case(**case) for case in found["cases"]]})


def run(job: Job, cluster: BenchCluster) -> Iterator[Round]:
    """All rounds of all cases."""
    with opened(job.master, cluster, unix_sockets=job.unix_sockets) as bench:
        for case in job.cases:
            with opened_work(bench, case) as work:
                yield from _rounds(job.master, case, work)


def _rounds(master: str, case: Case, work: Work) -> Iterator[Round]:
    engines = [ENGINES[name] for name in case.engines if case.work in ENGINES[name].works]
    for engine in engines:
        work.check(engine)
    for engine in engines * case.warm_up:
        _warm_up(engine, work)
    shuffled = random.Random(f"{master} {case}")
    for number in range(case.rounds):
        # What an engine leaves behind, e.g. in the JVMs' heaps, another bears; so it must not always be the same one.
        turns = shuffled.sample(engines, len(engines))
        found = {engine.name: _timed(master, case, work, engine, number) for engine in turns}
        in_order = [found[engine.name] for engine in engines]
        said = "  ".join(f"{one.engine} {one.records / one.seconds:,.0f}/s" for one in in_order)
        where = f"{master} {case.work} {case.shape} {number + 1}/{case.rounds}"
        console.print(f"{where}: {said}", highlight=False, soft_wrap=True)
        yield from in_order


def _warm_up(engine: Engine, work: Work) -> None:
    work.begin()
    work.verify(engine, work.act(engine))


def _timed(master: str, case: Case, work: Work, engine: Engine, number: int) -> Round:
    meter = Meter(work.bench.cluster.pid)
    work.begin()
    meter.wait_for_quiet_brokers()
    meter.start()
    begin = time.perf_counter()
    found = work.act(engine)
    seconds = time.perf_counter() - begin
    usage = meter.stop()
    extra = work.verify(engine, found)
    where = (master, case.work, case.shape, engine.name, number)
    return Round(*where, seconds, work.records, work.payload_bytes, usage, extra)


@contextmanager
def opened_work(bench: Bench, case: Case) -> Iterator[Work]:
    """The work of a case, with its topic filled and what it needs at hand, for a ``with`` block."""
    topic = topics.filled(bench.cluster, case.shape, case.scale)
    per_trigger = TINY_RECORDS if case.work == "stream200" else -(-topic.facts.records // _STREAM_BATCHES)
    work = {
        "read": lambda: Read(bench, topic),
        "value": lambda: ReadValues(bench, topic),
        "group": lambda: ReadGroups(bench, topic),
        "stream20": lambda: Stream(bench, topic, per_trigger=per_trigger),
        "stream200": lambda: Stream(bench, topic, per_trigger=per_trigger),
        "write": lambda: Write(bench, topic),
        "write-nokey": lambda: Write(bench, topic, keys=False),
    }[case.work]()
    work.open()
    with closing(work):
        yield work


def main(specification: str, output: str) -> None:
    """Run a job on the cluster that is up; write its rounds as JSON lines."""
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    with Path(output).open("w", encoding="utf-8") as lines:
        for one in run(Job.from_json(specification), cluster):
            lines.write(json.dumps(asdict(one)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
