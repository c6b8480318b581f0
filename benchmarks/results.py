"""The figures of all rounds, and summaries: medians, and medians of ratios within rounds."""

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
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from benchmarks.usage import Usage

EITHER = "either"
"""The settings of engines without Python, which run alternately in each session."""
PEERS = ("jvm", "jvm-tuned", "jvm-idempotent")


class Contender(NamedTuple):
    """An engine under some of Spark's settings."""

    engine: str
    settings: str

    def __str__(self) -> str:
        return self.engine if self.settings == EITHER else f"{self.engine}/{self.settings}"


class CaseName(NamedTuple):
    """A work on a number of records of a shape, with a master; rounds of the same case are comparable."""

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
    settings: str
    number: int
    seconds: float
    records: int
    payload_bytes: int
    usage: Usage
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def contender(self) -> Contender:
        """The engine with its settings."""
        return Contender(self.engine, self.settings)

    @property
    def case(self) -> CaseName:
        """The case of this round."""
        return CaseName(self.master, self.work, self.shape, self.records)


@dataclass(frozen=True)
class Summary:
    """Medians over the rounds of a contender.

    `ratios` are of speed, `cpu_ratios` of CPU time without brokers: medians of ratios within rounds, by peer.
    `others_share` is the average number of cores that other processes used meanwhile.
    """

    contender: Contender
    rounds: int
    records_per_s: float
    mb_per_s: float
    seconds: float
    spark_cpu_s: float
    spark_cpu_s_per_million: float
    broker_cpu_s_per_million: float
    worker_peak_mb: float
    jvm_peak_mb: float
    others_share: float
    ratios: dict[str, float]
    cpu_ratios: dict[str, float]


def cases(rounds: Iterable[Round]) -> dict[CaseName, list[Round]]:
    """Return the rounds by case, in order of appearance."""
    found: dict[CaseName, list[Round]] = {}
    for one in rounds:
        found.setdefault(one.case, []).append(one)
    return found


def summaries(rounds: list[Round]) -> list[Summary]:
    """Return the summary of each contender of a case, in order of appearance."""
    return [_summary(one, rounds) for one in dict.fromkeys(one.contender for one in rounds)]


def ratio(rounds: Iterable[Round], contender: Contender, peer: Contender, of: Callable[[Round], float]) -> float | None:
    """Return the median of ratios within rounds, the peer's value to the contender's."""
    values = {(one.contender, one.number): of(one) for one in rounds}
    pairs = [values[peer, n] / value for (name, n), value in values.items() if name == contender and (peer, n) in values]
    return median(pairs) if pairs else None


def _summary(contender: Contender, rounds: list[Round]) -> Summary:
    mine = [one for one in rounds if one.contender == contender]

    def middle(of: Callable[[Round], float]) -> float:
        return median(map(of, mine))

    def ratios(of: Callable[[Round], float]) -> dict[str, float]:
        return {
            peer: found for peer in PEERS if (found := ratio(rounds, contender, Contender(peer, EITHER), of)) is not None
        }

    return Summary(
        contender=contender,
        rounds=len(mine),
        records_per_s=middle(lambda one: one.records / one.seconds),
        mb_per_s=middle(lambda one: one.payload_bytes / one.seconds / 1e6),
        seconds=middle(lambda one: one.seconds),
        spark_cpu_s=middle(lambda one: one.usage.spark_cpu_s),
        spark_cpu_s_per_million=middle(lambda one: one.usage.spark_cpu_s / one.records * 1e6),
        broker_cpu_s_per_million=middle(lambda one: one.usage.broker_cpu_s / one.records * 1e6),
        worker_peak_mb=middle(lambda one: one.usage.worker_peak_mb),
        jvm_peak_mb=middle(lambda one: one.usage.jvm_peak_mb),
        others_share=mean(one.usage.other_cpu_s / one.seconds for one in mine),
        ratios=ratios(lambda one: one.seconds),
        cpu_ratios=ratios(lambda one: one.usage.spark_cpu_s),
    )


def environment(command_line: list[str], **settings: Any) -> dict[str, Any]:
    """Return when, where and how the figures were measured."""
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
    """Write a document of figures, with rounds as dicts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {**document, "rounds": [asdict(one) for one in document["rounds"]]}
    path.write_text(json.dumps(plain, indent=1), encoding="utf-8")


def load(paths: Iterable[Path]) -> dict[str, Any]:
    """Return several files written by `save` as one document, with the first environment.

    If several files have a case, the last one counts.
    """
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    found: dict[CaseName, list[Round]] = {}
    for document in documents:
        found |= cases(map(parse_round, document["rounds"]))
    figures = {name: rows for document in documents for name, rows in document["figures"].items()}
    return {"environment": documents[0]["environment"], "rounds": list(chain(*found.values())), "figures": figures}


def parse_round(found: dict[str, Any]) -> Round:
    """Return a round from a dict."""
    return Round(**{**found, "usage": Usage(**found["usage"])})


def command_line() -> list[str]:
    """Return the command line without folders."""
    return [Path(sys.argv[0]).parent.name, *sys.argv[1:]]
