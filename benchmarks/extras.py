"""What is measured beside throughput: latency, starts, planning, rebalances.

Run as a module, in a process of its own: ``python -m benchmarks.extras NAMES JSON OUTPUT``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchCluster, running
from benchmarks.groups import rebalances
from benchmarks.latency import latencies
from benchmarks.matrix import Extras
from benchmarks.plan_times import plan_times
from benchmarks.session import Bench, opened
from benchmarks.starts import starts

NAMES = ("latency", "starts", "planning", "rebalance")
_MASTER = "local[2]"
_Rows = list[dict[str, Any]]


def measure(names: Sequence[str], size: Extras, cluster: BenchCluster, *, unix_sockets: bool) -> dict[str, _Rows]:
    """Rows of figures by name."""
    with_spark: dict[str, Callable[[Bench], _Rows]] = {
        "latency": lambda bench: latencies(bench, size.latency_s),
        "starts": lambda bench: starts(bench, size.start_rounds, size.idle_s),
    }
    without: dict[str, Callable[[], _Rows]] = {
        "planning": lambda: plan_times(size.plan_sizes, size.plan_rounds),
        "rebalance": lambda: rebalances(cluster, size.group_sizes, size.group_rounds),
    }
    found: dict[str, _Rows] = {}
    if set(names) & with_spark.keys():
        with opened(_MASTER, cluster, unix_sockets=unix_sockets) as bench:
            found |= {name: action(bench) for name, action in with_spark.items() if name in names}
    return found | {name: action() for name, action in without.items() if name in names}


def main(names: str, size: str, unix_sockets: str, output: str) -> None:
    """Measure on the cluster that is up; write the rows as JSON."""
    cluster = running()
    if cluster is None:
        raise RuntimeError("no cluster is up")
    found = measure(names.split(","), Extras(**json.loads(size)), cluster, unix_sockets=unix_sockets == "True")
    Path(output).write_text(json.dumps(found), encoding="utf-8")


def arguments(names: Sequence[str], size: Extras, unix_sockets: bool, output: Path) -> list[str]:
    """What `main` takes."""
    return [",".join(names), json.dumps(asdict(size)), str(unix_sockets), str(output)]


if __name__ == "__main__":
    main(*sys.argv[1:])
