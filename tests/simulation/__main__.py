"""Runs schedules: ``python -m tests.simulation 10000``, or one again: ``python -m tests.simulation --seed 7``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator

from tests.simulation import group, kafka_group, writes


def main() -> int:
    """The exit status: 1 if a schedule fails, with the shortest beginning of it that does."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("schedules", nargs="?", type=int, default=2_000)
    parser.add_argument("--seed", type=int, help="run this one alone, with the planners' log")
    given = parser.parse_args()
    seeds = range(given.schedules) if given.seed is None else [given.seed]
    logging.basicConfig(level=logging.CRITICAL if given.seed is None else logging.INFO, stream=sys.stdout)
    failures = [*of_groups(seeds), *of_kafka_groups(seeds), *of_writes(seeds)]
    sys.stdout.writelines(f"{failure}\n" for failure in failures)
    sys.stdout.write(f"{(3 + len(kafka_group.KINDS)) * len(seeds)} schedules, {len(failures)} failures\n")
    return 1 if failures else 0


def of_groups(seeds: Iterable[int]) -> Iterator[str]:
    """The failures of groups of queries that read, in ZooKeeper."""
    for failure in (group.simulate(seed, by_pattern=pattern) for seed in seeds for pattern in (False, True)):
        if failure is not None:
            found = group.shortest(failure)
            by = "pattern" if found.by_pattern else "name"
            yield f"seed {found.seed}, by {by}: {found.error}\n  after {', '.join(found.events)}"


def of_kafka_groups(seeds: Iterable[int]) -> Iterator[str]:
    """The failures of groups of queries that read, in Kafka."""
    for failure in (kafka_group.simulate(seed, kind) for seed in seeds for kind in kafka_group.KINDS):
        if failure is not None:
            found = kafka_group.shortest(failure)
            yield f"seed {found.seed}, in Kafka by {found.kind}: {found.error}\n  after {', '.join(found.events)}"


def of_writes(seeds: Iterable[int]) -> Iterator[str]:
    """The failures of a query that writes exactly once."""
    for failure in map(writes.simulate, seeds):
        if failure is not None:
            found = writes.shortest(failure)
            yield f"seed {found.seed}, writes: {found.error}\n  after {', '.join(found.events)}"


if __name__ == "__main__":
    sys.exit(main())
