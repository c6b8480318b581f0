"""``python -m tests.faults.harness``: workloads under random faults, or one kind each; exit status 1 on a violation.

A run that injects no fault fails, too: it shows nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from tests.faults.harness.checker import figures
from tests.faults.harness.history import Fault
from tests.faults.harness.nemesis import kinds, schedule
from tests.faults.harness.report import ANY_FAULT, SHOWN, Row
from tests.faults.harness.run import Result, Scenario, run
from tests.faults.harness.summary import Episode, next_number, next_run, recorded
from tests.faults.harness.workloads import ENGINES, KINDS, TRANSPORTS, Workload, kinds_of, workload

_EPISODE_S = 240.0
_EACH_EPISODE_S = 30.0
_AT_ONCE = 2
_QUIET_S = ((2.0, 8.0), (5.0, 20.0), (20.0, 60.0))
"""Ranges of the time between two faults; in the longest, a fault's effects are over before the next one."""
_EACH_QUIET_S = (3.0, 6.0)
_EACH = ("stream-zookeeper", "sink-exactly-once")


def main() -> int:
    """Run the episodes and return the exit status."""
    given = _arguments()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # also ends the applications
    if not given.append:
        for earlier in given.folder.glob("episode-*"):  # their checkpoints belong to other clusters
            shutil.rmtree(earlier)
    this, failed, injected = next_run(given.folder, given.seed, None if given.each else given.minutes), False, False
    scenarios = _each(given) if given.each else _at_random(given)
    for number, (faults, scenario) in enumerate(scenarios, next_number(given.folder)):
        names = tuple(one.name for one in scenario.workloads)
        _say(f"episode {number}, seed {scenario.seed}, {scenario.duration_s:.0f} s, {faults}: {', '.join(names)}")
        episode = Episode(
            run=this, number=number, seed=scenario.seed, duration_s=scenario.duration_s, faults=faults, workloads=names
        )
        with recorded(given.folder, episode) as rows:
            for result in run(scenario, given.folder / f"episode-{number}"):
                _say(_line(result))
                failed |= result.failed
                injected |= bool(result.history.of(Fault))
                rows.append(_row(faults, result))
    if not injected:
        _say("no fault was injected")
    _say("failed" if failed or not injected else f"no violation; reports are in {given.folder}")
    return int(failed or not injected)


def _at_random(given: argparse.Namespace) -> Iterator[tuple[str, Scenario]]:
    """Yield episodes and their faults until the minutes are over."""
    end, random, is_first = time.monotonic() + given.minutes * 60, Random(given.seed), True
    while is_first or time.monotonic() < end:
        is_first, seed, left_s = False, random.randrange(2**31), end - time.monotonic()
        workloads = _parsed(given.workload, given.kafka) or _choice(Random(seed), given.kafka)
        duration_s = max(20.0, min(given.episode or _EPISODE_S, left_s))
        quiet_s = tuple(given.quiet) if given.quiet else Random(seed).choice(_QUIET_S)
        yield ANY_FAULT, Scenario(workloads=workloads, seed=seed, duration_s=duration_s, quiet_s=quiet_s, rate=given.rate)


def _each(given: argparse.Namespace) -> Iterator[tuple[str, Scenario]]:
    """Yield one episode per kind of fault that concerns a workload, with the workloads that it concerns."""
    workloads = _parsed(given.workload or _EACH, given.kafka)
    duration_s, quiet_s = given.episode or _EACH_EPISODE_S, tuple(given.quiet or _EACH_QUIET_S)
    all_kinds = {kind.name: kind for kind in kinds(set().union(*(one.traits for one in workloads)))}
    if unknown := set(given.fault) - set(all_kinds):
        raise SystemExit(f"no fault {', '.join(sorted(unknown))}; NAME is one of {', '.join(all_kinds)}")
    for kind in map(all_kinds.__getitem__, given.fault or all_kinds):
        choice = [all_kinds[name] for name in (kind.after, kind.name) if name]
        yield (
            ", ".join(one.name for one in choice),
            Scenario(
                workloads=tuple(one for one in workloads if kind.concerns & one.traits),
                seed=given.seed,
                duration_s=duration_s,
                rate=given.rate,
                faults=schedule(given.seed, duration_s, choice, quiet_s),
            ),
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.harness")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None, help="chooses workloads and faults; by default the time does")
    parser.add_argument("--episode", type=float, help="the seconds of faults in one episode")
    parser.add_argument("--each", action="store_true", help="an episode for each kind of fault, and a table of them")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="with --each, only this; repeatable")
    parser.add_argument("--quiet", type=float, nargs=2, metavar=("LEAST", "MOST"), help="the seconds between two faults")
    parser.add_argument("--rate", type=int, default=100, help="records per second of a workload")
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        help="KIND:TRANSPORT:ENGINE, instead of a random choice; repeatable. ENGINE may be a version of pyspark",
    )
    parser.add_argument("--kafka", default="", metavar="VERSION", help="the version of the brokers, from 0.10.2 on")
    parser.add_argument("--folder", type=Path, default=Path("soak"), help="for histories and reports")
    parser.add_argument(
        "--append", action="store_true", help="keep the episodes in the folder, and report on all of its runs"
    )
    given = parser.parse_args()
    given.seed = int(time.time()) if given.seed is None else given.seed
    given.folder = given.folder.resolve()
    return given


def _parsed(texts: Iterable[str], kafka: str) -> tuple[Workload, ...]:
    return tuple(_workload(text, kafka) for text in texts)


def _workload(text: str, kafka: str) -> Workload:
    kind, _, rest = text.partition(":")
    transport, _, engine = rest.partition(":")
    transport, engine = transport or TRANSPORTS[0], engine or ENGINES[0]
    is_engine = engine in ENGINES or re.fullmatch(r"\d+\.\d+(\.\d+)?", engine)
    if kind not in KINDS or transport not in TRANSPORTS or not is_engine:
        names = f"KIND is {', '.join(KINDS)}, TRANSPORT {', '.join(TRANSPORTS)}, ENGINE {', '.join(ENGINES)} or a version"
        raise SystemExit(f"no workload {text}; {names}")
    if engine == "sail" and kind != "batch":
        raise SystemExit(f"no workload {text}; Sail runs only batches")
    if kind not in kinds_of(kafka):
        raise SystemExit(f"no workload {text}; Kafka {kafka} has {', '.join(kinds_of(kafka))}")
    return workload(kind, transport, engine, kafka)


def _choice(random: Random, kafka: str) -> tuple[Workload, ...]:
    chosen = random.sample(kinds_of(kafka), _AT_ONCE)
    return tuple(workload(kind, random.choice(TRANSPORTS), kafka=kafka) for kind in chosen)


def _line(result: Result) -> str:
    found = figures(result.history)
    interrupted = f" ({found.interrupted} ended with a part of a micro-batch written once)" if found.interrupted else ""
    recovered = "not at rest" if found.recovery_s is None else f"at rest after {found.recovery_s:.1f} s"
    line = (
        f"  {result.workload.name}: {sum(found.faults.values())} faults, {found.acknowledged} records acknowledged, "
        f"{found.lost} lost, {found.duplicated} delivered again, {found.runs} runs{interrupted}, {recovered}, "
        f"{len(result.violations)} violations"
    )
    leaks = [f"    {growth}" for growth in result.growths if not growth.flat]
    return "\n".join([line, *(f"    {violation}" for violation in result.violations[:SHOWN]), *leaks])


def _row(faults: str, result: Result) -> Row:
    leaks = tuple(str(growth) for growth in result.growths if not growth.flat)
    return Row(faults, result.workload.name, figures(result.history), tuple(map(str, result.violations)), leaks)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
