"""Schedules of use: ``python -m tests.faults.use 100`` runs 100 of each kind, ``--seed 7 --kind member`` repeats one."""

from __future__ import annotations

import argparse
import sys
import time

from pyspark_zkafka.testing import LocalCluster
from tests.faults.use import streams, writes
from tests.faults.use.plants import PLANTS
from tests.faults.use.steps import KINDS
from tests.faults.use.topics import BROKER_CONFIG


def main() -> int:
    """Run the schedules; the exit status is 1 if one violates an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.use")
    parser.add_argument("schedules", nargs="?", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--kind", choices=[*KINDS, *writes.KINDS], action="append")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="with this fault, in the kinds that find it")
    parser.add_argument("--shrink", action="store_true", help="show each violation after as few steps as possible")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.schedules) if given.seed is None else [given.seed]
    finding = PLANTS[given.plant].kinds if given.plant else ()
    failures, kinds = 0, given.kind or finding or [*KINDS, *writes.KINDS]
    with LocalCluster(brokers=1, broker_config=BROKER_CONFIG) as cluster:
        begin = time.monotonic()
        for seed in seeds:
            for kind in kinds:
                find = writes.find if kind in writes.KINDS else streams.find
                found = find(cluster, seed, kind, given.plant)
                if found is not None and given.shrink and find is streams.find:
                    found = streams.shortest(cluster, seed, kind, given.plant)
                if found is not None:
                    failures += 1
                    print(found, flush=True)  # noqa: T201
        count = len(seeds) * len(kinds)
    print(f"{count} schedules, {failures} failures, {time.monotonic() - begin:.0f} s")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
