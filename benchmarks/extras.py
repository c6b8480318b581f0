"""Measurements other than throughput: latency, memory, layouts, starts, plans, rebalances.

Run as a module in a separate process: ``python -m benchmarks.extras NAME SIZE SETTINGS OUTPUT``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.avro import avro_speed
from benchmarks.cluster import BenchCluster, running
from benchmarks.groups import rebalances
from benchmarks.large_plan import large_plans
from benchmarks.latency import latencies
from benchmarks.layouts import layouts
from benchmarks.matrix import Extras
from benchmarks.memory import task_memory
from benchmarks.plan_times import plan_times
from benchmarks.sail import sail_speed
from benchmarks.session import opened
from benchmarks.starts import starts

WITH_SPARK = ("latency", "memory", "layouts", "starts", "avro")
"""Measurements made under each of Spark's settings. The others are made once, `sail` with the recommended ones."""
NAMES = (*WITH_SPARK, "sail", "planning", "large-plan", "rebalance")
_MASTER = "local[2]"
_Rows = list[dict[str, Any]]


def settings_of(name: str, wanted: Iterable[str]) -> Iterable[str]:
    """Return the settings of Spark to measure a part under."""
    return wanted if name in WITH_SPARK else ("recommended",)


def measure(name: str, size: Extras, cluster: BenchCluster, settings: str) -> _Rows:
    """Return rows of figures."""
    if name == "planning":
        return plan_times(size.plan_sizes, size.plan_rounds)
    if name == "large-plan":
        return large_plans(size.large_sizes, size.plan_rounds)
    if name == "memory":
        return task_memory(cluster, size.memory_scale, settings)
    if name == "rebalance":
        return rebalances(cluster, size.group_sizes, size.group_rounds)
    with opened(_MASTER, cluster, settings) as bench:
        if name == "sail":
            return sail_speed(bench, size.sail_scale, size.sail_rounds)
        if name == "avro":
            return avro_speed(bench, size.avro_records, size.avro_rounds)
        if name == "layouts":
            return layouts(bench, size.layout_scale, size.many_partitions, size.layout_rounds)
        return latencies(bench, size.latency_s) if name == "latency" else starts(bench, size.start_rounds, size.idle_s)


def main(name: str, size: str, settings: str, output: str) -> None:
    """Measure on the running cluster; write the rows as JSON."""
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    rows = measure(name, Extras(**json.loads(size)), cluster, settings)
    if name in WITH_SPARK:
        rows = [{"settings": settings, **row} for row in rows]
    Path(output).write_text(json.dumps(rows), encoding="utf-8")


def arguments(name: str, size: Extras, settings: str, output: Path) -> list[str]:
    """Return the arguments of `main`."""
    return [name, json.dumps(asdict(size)), settings, str(output)]


if __name__ == "__main__":
    main(*sys.argv[1:])
