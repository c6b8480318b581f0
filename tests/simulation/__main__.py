"""Random schedules: ``python -m tests.simulation 10000`` runs many, ``python -m tests.simulation --seed 7`` repeats one."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType

from tests.simulation import group, kafka_group, writes
from tests.simulation.schedules import shortest

_SIMULATIONS = (group, kafka_group, writes)


def main() -> int:
    """Run the schedules; the exit status is 1 if one fails, which is then shown with as few events as possible."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("schedules", nargs="?", type=int, default=2_000)
    parser.add_argument("--seed", type=int, help="run this one alone, with the planners' log")
    given = parser.parse_args()
    seeds = range(given.schedules) if given.seed is None else [given.seed]
    logging.basicConfig(level=logging.CRITICAL if given.seed is None else logging.INFO, stream=sys.stdout)
    failures = [failure for simulation in _SIMULATIONS for failure in failures_of(simulation, seeds)]
    sys.stdout.writelines(f"{failure}\n" for failure in failures)
    kinds = sum(len(simulation.KINDS) for simulation in _SIMULATIONS)
    sys.stdout.write(f"{kinds * len(seeds)} schedules, {len(failures)} failures\n")
    return 1 if failures else 0


def failures_of(simulation: ModuleType, seeds: Iterable[int]) -> Iterator[str]:
    """Yield the failures of schedules of each kind, after as few events as possible."""
    name = simulation.__name__.rpartition(".")[2]
    for failure in (simulation.simulate(seed, kind) for seed in seeds for kind in simulation.KINDS):
        if failure is not None:
            found = shortest(failure, simulation.simulate, simulation.STEPS)
            yield f"{name}, seed {found.seed}, {found.kind}: {found.error}\n  after {', '.join(found.events)}"


if __name__ == "__main__":
    sys.exit(main())
