"""Runs schedules: ``python -m tests.simulation 10000``, or one again: ``python -m tests.simulation --seed 7``."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.group import shortest, simulate


def main() -> int:
    """The exit status: 1 if a schedule fails, with the shortest beginning of it that does."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("schedules", nargs="?", type=int, default=2_000)
    parser.add_argument("--seed", type=int, help="run this one alone, with the planners' log")
    given = parser.parse_args()
    seeds = range(given.schedules) if given.seed is None else [given.seed]
    logging.basicConfig(level=logging.CRITICAL if given.seed is None else logging.INFO, stream=sys.stdout)
    failures = [one for seed in seeds for pattern in (False, True) if (one := simulate(seed, by_pattern=pattern))]
    for failure in failures[:10]:
        found = shortest(failure)
        by = "pattern" if found.by_pattern else "name"
        sys.stdout.write(f"seed {found.seed}, by {by}: {found.error}\n  after {', '.join(found.events)}\n")
    sys.stdout.write(f"{2 * len(seeds)} schedules, {len(failures)} failures\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
