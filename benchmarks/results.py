"""The figures of all rounds, and what they say together: medians, and medians of ratios within rounds."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.usage import Usage


class CaseName(NamedTuple):
    """A work on so many records of a shape, with a master; rounds of the same case are compared with each other."""

    master: str
    work: str
    shape: str
    records: int


@dataclass(frozen=True)
class Round:
    """One timed action of one engine."""

    master: str
    work: str
    shape: str
    engine: str
    number: int
    seconds: float
    records: int
    payload_bytes: int
    usage: Usage
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def case(self) -> CaseName:
        """The case that it belongs to."""
        return CaseName(self.master, self.work, self.shape, self.records)


@dataclass(frozen=True)
class Summary:
    """What the rounds of an engine say; `ratios` are of speed, to the engines named, above 1 where this one is faster."""

    engine: str
    rounds: int
    records_per_s: float
    mb_per_s: float
    seconds: float
    spark_cpu_s_per_million: float
    broker_cpu_s_per_million: float
    worker_peak_mb: float
    jvm_peak_mb: float
    ratios: dict[str, float]


PEERS = ("jvm", "jvm-tuned")


def cases(rounds: Iterable[Round]) -> dict[CaseName, list[Round]]:
    """The rounds by case, in the order in which they came."""
    found: dict[CaseName, list[Round]] = {}
    for one in rounds:
        found.setdefault(one.case, []).append(one)
    return found


def summaries(rounds: list[Round]) -> list[Summary]:
    """The summary of each engine of a case, in the order in which they are in the registry."""
    return [_summary(engine, rounds) for engine in dict.fromkeys(one.engine for one in rounds)]


def ratio(rounds: Iterable[Round], engine: str, peer: str) -> float | None:
    """How many times as fast as its peer an engine is: the median of the ratios within the rounds."""
    times = {(one.engine, one.number): one.seconds for one in rounds}
    pairs = [times[peer, n] / s for (name, n), s in times.items() if name == engine and (peer, n) in times]
    return median(pairs) if pairs else None


def _summary(engine: str, rounds: list[Round]) -> Summary:
    mine = [one for one in rounds if one.engine == engine]

    def middle(of: Callable[[Round], float]) -> float:
        return median(map(of, mine))

    return Summary(
        engine=engine,
        rounds=len(mine),
        records_per_s=middle(lambda one: one.records / one.seconds),
        mb_per_s=middle(lambda one: one.payload_bytes / one.seconds / 1e6),
        seconds=middle(lambda one: one.seconds),
        spark_cpu_s_per_million=middle(lambda one: one.usage.spark_cpu_s / one.records * 1e6),
        broker_cpu_s_per_million=middle(lambda one: one.usage.broker_cpu_s / one.records * 1e6),
        worker_peak_mb=middle(lambda one: one.usage.worker_peak_mb),
        jvm_peak_mb=middle(lambda one: one.usage.jvm_peak_mb),
        ratios={peer: found for peer in PEERS if (found := ratio(rounds, engine, peer)) is not None},
    )


def environment(command_line: list[str], **settings: Any) -> dict[str, Any]:
    """Where and how it was measured."""
    from benchmarks.cluster import KAFKA
    from benchmarks.session import CONNECTOR

    packages = ("pyspark-zkafka", "pyspark", "pyarrow", "confluent-kafka", "numpy", "kazoo")
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command_line": command_line,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": _java(),
        "brokers": f"3 x Kafka {KAFKA}",
        "connector": list(CONNECTOR),
        **{name: version(name) for name in packages},
        **settings,
    }


def _java() -> str:
    from pyspark_zkafka.testing.jars import find_java

    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    return (said.stderr or said.stdout).splitlines()[0]


def save(path: Path, document: dict[str, Any]) -> None:
    """Write a document of figures; rounds as dicts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {**document, "rounds": [asdict(one) for one in document["rounds"]]}
    path.write_text(json.dumps(plain, indent=1), encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """A document of figures as `save` wrote it."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return {**found, "rounds": [parse_round(one) for one in found["rounds"]]}


def parse_round(found: dict[str, Any]) -> Round:
    """A round from a dict."""
    return Round(**{**found, "usage": Usage(**found["usage"])})


def command_line() -> list[str]:
    """What was called, without folders."""
    return [Path(sys.argv[0]).parent.name, *sys.argv[1:]]
