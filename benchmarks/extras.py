"""What is measured beside throughput: latency, memory, layouts, starts, plans, rebalances, exactly-once.

Run as a module, in a process of its own: ``python -m benchmarks.extras NAME SIZE UNIX_SOCKETS OUTPUT``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchCluster, running
from benchmarks.exactly_once import micro_batches
from benchmarks.groups import rebalances
from benchmarks.large_plan import large_plans
from benchmarks.latency import latencies
from benchmarks.layouts import layouts
from benchmarks.matrix import Extras
from benchmarks.memory import task_memory
from benchmarks.plan_times import plan_times
from benchmarks.session import opened
from benchmarks.starts import starts

NAMES = ("latency", "memory", "layouts", "starts", "planning", "large-plan", "rebalance", "exactly-once")
_MASTER = "local[2]"
_MASTERS = (_MASTER, "local[8]")
_Rows = list[dict[str, Any]]


def measure(name: str, size: Extras, cluster: BenchCluster, *, unix_sockets: bool) -> _Rows:
    """Rows of figures."""
    if name == "planning":
        return plan_times(size.plan_sizes, size.plan_rounds)
    if name == "large-plan":
        return large_plans(size.large_sizes, size.plan_rounds)
    if name == "memory":
        return task_memory(cluster, size.memory_scale, unix_sockets=unix_sockets)
    if name == "rebalance":
        return rebalances(cluster, size.group_sizes, size.group_rounds)
    if name == "exactly-once":
        return [row for master in _MASTERS for row in _micro_batches(master, size, cluster, unix_sockets=unix_sockets)]
    with opened(_MASTER, cluster, unix_sockets=unix_sockets) as bench:
        if name == "layouts":
            return layouts(bench, size.layout_scale, size.many_partitions, size.layout_rounds)
        return latencies(bench, size.latency_s) if name == "latency" else starts(bench, size.start_rounds, size.idle_s)


def _micro_batches(master: str, size: Extras, cluster: BenchCluster, *, unix_sockets: bool) -> _Rows:
    with opened(master, cluster, unix_sockets=unix_sockets) as bench:
        return micro_batches(bench, size.once_batches, size.once_rounds)


def main(name: str, size: str, unix_sockets: str, output: str) -> None:
    """Measure on the cluster that is up; write the rows as JSON."""
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    found = measure(name, Extras(**json.loads(size)), cluster, unix_sockets=unix_sockets == "True")
    Path(output).write_text(json.dumps({name: found}), encoding="utf-8")


def arguments(name: str, size: Extras, unix_sockets: bool, output: Path) -> list[str]:
    """What `main` takes."""
    return [name, json.dumps(asdict(size)), str(unix_sockets), str(output)]


if __name__ == "__main__":
    main(*sys.argv[1:])
