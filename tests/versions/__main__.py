"""Each version of the brokers with each engine: ``python -m tests.versions`` fills the table of docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.spec import version_tuple
from tests.support.documentation import ROOT
from tests.support.fill import fill
from tests.support.older_pyspark import with_pyspark
from tests.versions.works import PARTITIONS, RECORDS, WORKS, Place

BROKERS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.3.1")
ENGINES = ("4.0.5", "4.1.4", "4.2.1", "4.3", "sail")
"""Versions of Spark, and Sail. Spark 4.3 is installed; the older versions are fetched."""
NOT_APPLICABLE = "-"
_LIMIT_S = 300


def refusal(work: str, kafka: str, engine: str) -> str | None:
    """Return the condition that must refuse a kind of work, or None if it must work."""
    if work == "exactly once" and engine == "sail":
        return "UNSUPPORTED_ENGINE"
    if work == "exactly once" and version_tuple(kafka) < (0, 11):
        return "BROKERS_TOO_OLD"
    return "NO_COORDINATORS" if work == "group in Kafka" and version_tuple(kafka) < (0, 9) else None


def is_applicable(work: str, kafka: str, engine: str) -> bool:
    """Return whether the brokers and the engine have what a kind of work is about."""
    if work == "group in ZooKeeper" and version_tuple(kafka) >= (4,):
        return False
    return engine != "sail" or not work.startswith("group")


def run(kafka: str, engines: list[str]) -> list[dict[str, str]]:
    """Start a broker of a version, and let each engine do all works on topics of its own."""
    rows = []
    with LocalCluster(brokers=1, kafka_version=kafka) as cluster:
        for engine in engines:
            name = engine.replace(".", "-")
            topics = {kind: f"{kind}-{name}" for kind in ("source", "plain_target", "exact_target")}
            for topic in topics.values():
                cluster.create_topic(topic, PARTITIONS)
            fill(cluster, topics["source"], RECORDS, range(PARTITIONS))
            old = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
            place = Place(
                engine=engine,
                bootstrap_servers=cluster.bootstrap_servers,
                zookeeper_connect=None if cluster.is_kraft else cluster.zookeeper_connect,
                client_config=old if version_tuple(kafka) < (0, 10) else {},
                **topics,
            )
            rows += [{"kafka": kafka, "engine": engine, **row} for row in _outcomes(place, kafka)]
    return rows


def _outcomes(place: Place, kafka: str) -> list[dict[str, str]]:
    asked = [work for work in WORKS if is_applicable(work, kafka, place.engine)]
    command = [sys.executable, "-m", "tests.versions.works", json.dumps(vars(place)), *asked]
    try:
        done = subprocess.run(
            command, env=_environment(place.engine), cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        output, log = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        output, log = (error.stdout or b"").decode(), f"more than {_LIMIT_S} s"
    found = {row["work"]: row for row in map(json.loads, filter(lambda line: line.startswith("{"), output.splitlines()))}
    rows = []
    for work in WORKS:
        if work not in asked:
            row = {"work": work, "outcome": NOT_APPLICABLE, "detail": ""}
        else:
            row = found.get(work) or {"work": work, "outcome": "failed", "detail": log[-2000:]}
            expected = refusal(work, kafka, place.engine)
            is_right = row["detail"] == expected if expected else row["outcome"] == "works"
            row = {**row, "right": "yes" if is_right else "no"}
        sys.stdout.write(f"{kafka}, {place.engine}, {work}: {row['outcome']} {row['detail']}\n")
        sys.stdout.flush()
        rows.append(row)
    return rows


def _environment(engine: str) -> dict[str, str]:
    if engine == "sail":
        return {**os.environ, "PYTHONPATH": f"{Path(sys.prefix, 'sail')}{os.pathsep}{ROOT}"}
    if version("pyspark").startswith(engine):
        return {**os.environ, "PYTHONPATH": str(ROOT)}
    return with_pyspark(engine)


def table(rows: list[dict[str, str]]) -> str:
    """Return a table in Markdown: brokers by engine, in each cell what works."""
    cells = {(row["kafka"], row["engine"], row["work"]): row for row in rows}
    lines = ["| brokers | work | " + " | ".join(e if e == "sail" else f"Spark {e}" for e in ENGINES) + " |"]
    lines.append("|---" * (len(ENGINES) + 2) + "|")
    shown_brokers = [kafka for kafka in BROKERS if any(row["kafka"] == kafka for row in rows)]
    for kafka in shown_brokers:
        for work in WORKS:
            found = [cells.get((kafka, engine, work)) for engine in ENGINES]
            shown = ["" if row is None else _shown(row) for row in found]
            lines.append(f"| {kafka} | {work} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _shown(row: dict[str, str]) -> str:
    return f"`{row['detail']}`" if row["outcome"] == "refused" else row["outcome"]


def main() -> int:
    """Run the versions that the arguments name; the exit status is 1 if an outcome is not the expected one."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions")
    parser.add_argument("--kafka", action="append", choices=BROKERS, help="repeatable; by default all")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="repeatable; by default all")
    parser.add_argument("--file", type=Path, help="adds the outcomes to this file, and shows the table of all in it")
    given = parser.parse_args()
    rows = [row for kafka in given.kafka or BROKERS for row in run(kafka, given.engine or list(ENGINES))]
    wrong = [row for row in rows if row.get("right") == "no"]
    if given.file is not None:
        earlier = json.loads(given.file.read_text()) if given.file.exists() else []
        known = {(row["kafka"], row["engine"], row["work"]): row for row in [*earlier, *rows]}
        rows = list(known.values())
        given.file.write_text(json.dumps(rows, indent=1))
    sys.stdout.write(f"{table(rows)}\n{len(wrong)} outcomes are not the expected ones\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
