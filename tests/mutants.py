"""Mutation tests of the pure modules: ``python -m tests.mutants`` plants thousands of small faults, one at a time.

mutmut changes an operator, a constant or an argument, and runs the tests that reach the changed function. The exit status
is 1 if the tests of a module find fewer of its faults than `LEAST_PERCENT` says. ``mutmut show NAME`` shows a fault that no
test found. Most of these change the text of an error, or nothing that a caller can see.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

LEAST_PERCENT = {
    "pyspark_zkafka.group.assignment": 96,
    "pyspark_zkafka.model.assignors": 95,
    "pyspark_zkafka.model.checkpoint": 92,
    "pyspark_zkafka.model.error_codes": 100,
    "pyspark_zkafka.model.exactly_once": 90,
    "pyspark_zkafka.model.ledger": 95,
    "pyspark_zkafka.model.nouns": 99,
    "pyspark_zkafka.model.offsets": 97,
    "pyspark_zkafka.model.partitioners": 94,
    "pyspark_zkafka.model.planning": 96,
    "pyspark_zkafka.model.producing": 96,
    "pyspark_zkafka.model.pushdown": 99,
    "pyspark_zkafka.model.query_lag": 98,
    "pyspark_zkafka.model.records": 94,
    "pyspark_zkafka.model.resumption": 98,
    "pyspark_zkafka.model.rows": 94,
    "pyspark_zkafka.model.spark_types": 100,
    "pyspark_zkafka.model.topic_names": 83,
    "pyspark_zkafka.model.view_tables": 99,
    "pyspark_zkafka.model.znodes.cluster": 97,
    "pyspark_zkafka.model.znodes.codec": 95,
    "pyspark_zkafka.model.znodes.groups": 97,
    "pyspark_zkafka.read.stream_planner": 97,
}
"""Modules with the share of their faults that the tests find, in percent."""

_NOT_FOUND = {0, 5, 33, 34, 35, None}
"""mutmut's codes for faults with which all tests passed, or that were not tried."""


def main() -> int:
    """Run the modules of a shard, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("modules", nargs="*", help="by default, all modules of the shard")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="only the Kth of N parts")
    given = parser.parse_args()
    part, parts = map(int, given.shard.split("/"))
    modules = given.modules or sorted(LEAST_PERCENT)[part - 1 :: parts]
    if unknown := set(modules) - LEAST_PERCENT.keys():
        parser.error(f"no module {', '.join(sorted(unknown))}; they are {', '.join(LEAST_PERCENT)}")
    children = str(len(os.sched_getaffinity(0)))
    faults = [f"{module}.*" for module in modules]
    subprocess.run([sys.executable, "-m", "mutmut", "run", "--max-children", children, *faults], check=True)
    return max([_report(module) for module in modules])


def _report(module: str) -> int:
    """Print a module's figures and the names of the faults that no test found. Returns 1 if they are too many."""
    found = json.loads(Path("mutants", *module.split(".")).with_suffix(".py.meta").read_text())["exit_code_by_key"]
    survived = sorted(name for name, code in found.items() if code in _NOT_FOUND)
    percent = 100 * (len(found) - len(survived)) / len(found)
    is_low = percent < LEAST_PERCENT[module]
    least = f", {LEAST_PERCENT[module]} % are required" if is_low else ""
    print(f"{module}: {len(found)} faults, {percent:.1f} % found{least}", *survived, sep="\n  ")  # noqa: T201
    return int(is_low)


if __name__ == "__main__":
    sys.exit(main())
