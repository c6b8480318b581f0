"""Summaries of episodes, one file each, and the report of a folder, which is made from them alone.

A summary is stored before its episode starts and replaced at the end. However a run ends, its last episode is therefore
listed as unfinished, and counts neither as passed nor as failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from tests.faults.harness.checker import Figures
from tests.faults.harness.report import CELLS, SHOWN, Row, fault_table, table

__all__ = [
    "Episode",
    "Run",
    "episodes",
    "fault_totals",
    "folder_page",
    "next_number",
    "next_run",
    "parse",
    "recorded",
    "text",
]

_FILE = "summary.json"
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Run:
    """One call of a soak.

    Parameters
    ----------
    number : int
        Counted from 1 in a folder.
    started_at : float
        Seconds since the epoch.
    minutes : float or None
        The minutes asked for; None for one episode of each kind of fault.
    commit : str
        The commit that was checked out; empty outside a checkout.
    is_changed : bool
        Whether files under version control differed from the commit.
    """

    number: int
    started_at: float
    seed: int
    minutes: float | None
    commit: str
    is_changed: bool


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One episode of a run.

    Parameters
    ----------
    number : int
        The number in the name of its folder.
    duration_s : float
        The time in which faults are injected.
    rows : tuple of Row or None
        One per workload; None until the episode has finished.
    ended_by : str
        The exception that ended an unfinished episode; empty if it still runs or its process was killed.
    """

    run: Run
    number: int
    seed: int
    duration_s: float
    faults: str
    workloads: tuple[str, ...]
    rows: tuple[Row, ...] | None = None
    ended_by: str = ""


def next_run(folder: Path, seed: int, minutes: float | None) -> Run:
    """Return a run that starts now, numbered after the earlier runs in the folder."""
    number = max((episode.run.number for episode in episodes(folder)), default=0) + 1
    # Untracked files do not count: the folder of the soak may be one of them.
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    return Run(number, time.time(), seed, minutes, commit, bool(changes))


def next_number(folder: Path) -> int:
    """Return the number after the last episode in the folder."""
    names = [path.name.removeprefix("episode-") for path in folder.glob("episode-*")]
    return max((int(name) for name in names if name.isdigit()), default=-1) + 1


@contextmanager
def recorded(folder: Path, episode: Episode) -> Iterator[list[Row]]:
    """Store an episode as unfinished, then with the rows added to the list; rebuild the folder's pages each time."""
    _store(folder, episode)
    rows: list[Row] = []
    try:
        yield rows
    except BaseException as exc:
        _store(folder, replace(episode, ended_by=repr(exc)))
        raise
    _store(folder, replace(episode, rows=tuple(rows)))


def episodes(folder: Path) -> list[Episode]:
    """Read the summaries in a folder, in the order of their numbers."""
    found = (parse(path.read_text(encoding="utf-8")) for path in folder.glob(f"episode-*/{_FILE}"))
    return sorted(found, key=lambda episode: episode.number)


def text(episode: Episode) -> str:
    """Return an episode as JSON."""
    return json.dumps(asdict(episode), indent=1)


def parse(found: str) -> Episode:
    """Return the episode that `text` wrote."""
    values = json.loads(found)
    rows = None if values["rows"] is None else tuple(map(_row, values["rows"]))
    return Episode(**{**values, "run": Run(**values["run"]), "workloads": tuple(values["workloads"]), "rows": rows})


def folder_page(found: Sequence[Episode]) -> str:
    """Return the report of all runs in a folder."""
    runs = {episode.run: [one for one in found if one.run == episode.run] for episode in found}
    names = (
        "run",
        "started, UTC",
        "seed",
        "commit",
        "asked for",
        "under faults",
        "finished",
        "unfinished",
        *CELLS,
        "leaks",
    )
    lines = [(*_run_cells(run), *_total_cells(its)) for run, its in runs.items()]
    lines.append(("all", "", "", "", "", *_total_cells(found)))
    workloads = _by(_rows(found), lambda row: row.workload)
    unfinished = [episode for episode in found if episode.rows is None]
    return "\n".join(
        [
            "# Soak",
            "",
            *_verdict(found),
            "## Runs",
            "",
            "A fault that concerns two workloads counts twice. `at rest after` is the longest time.",
            "",
            table(names, lines),
            "## Workloads",
            "",
            table(
                ("workload", "finished", *CELLS),
                [(f"`{name}`", str(len(rows)), *_total(rows).cells) for name, rows in sorted(workloads.items())],
            ),
            *_listed("Violations and leaks", [line for episode in found for line in _broken(episode)]),
            *_listed("Unfinished, not counted", map(_unfinished, unfinished)),
        ]
    )


def fault_totals(found: Iterable[Episode]) -> list[Row]:
    """Return the totals per kind of fault and workload, from the runs with one episode for each kind."""
    rows = _rows(episode for episode in found if episode.run.minutes is None)
    return [_total(same) for same in _by(rows, lambda row: (row.faults, row.workload)).values()]


def _verdict(found: Sequence[Episode]) -> list[str]:
    finished, rows = [episode for episode in found if episode.rows is not None], _rows(found)
    violations, leaks = sum(len(row.violations) for row in rows), sum(len(row.leaks) for row in rows)
    numbers = sorted({episode.run.number for episode in found if any(_broken(episode))})
    if numbers:
        verdict = f"**Violations: {violations}, leaks: {leaks}**, in runs: {', '.join(map(str, numbers))}."
    else:
        verdict = "No run violated an invariant, and nothing leaked." if finished else "No episode has finished."
    under, left = _minutes(finished), len(found) - len(finished)
    return [verdict, f"Finished episodes: {len(finished)}, with {under} of faults. Unfinished: {left}.", ""]


def _run_cells(run: Run) -> tuple[str, ...]:
    started = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started_at))
    commit = (run.commit[:12] or "unknown") + (", changed" if run.is_changed else "")
    return str(run.number), started, str(run.seed), commit, "each fault" if run.minutes is None else f"{run.minutes:g} min"


def _total_cells(found: Sequence[Episode]) -> tuple[str, ...]:
    finished, rows = [episode for episode in found if episode.rows is not None], _rows(found)
    counts = _minutes(finished), str(len(finished)), str(len(found) - len(finished))
    if not rows:
        return (*counts, *("" for _ in CELLS), "")
    total = _total(rows)
    return (*counts, *total.cells, str(len(total.leaks)))


def _minutes(found: Iterable[Episode]) -> str:
    return f"{sum(episode.duration_s for episode in found) / 60:.1f} min"


def _broken(episode: Episode) -> Iterator[str]:
    for row in episode.rows or ():
        place = f"run {episode.run.number}, episode {episode.number}, {row.faults}, `{row.workload}`"
        yield from (f"{place}: {violation}" for violation in row.violations[:SHOWN])
        if len(row.violations) > SHOWN:
            yield f"{place}: {len(row.violations) - SHOWN} more violations"
        yield from (f"{place}: {leak}" for leak in row.leaks)


def _unfinished(episode: Episode) -> str:
    workloads = ", ".join(f"`{name}`" for name in episode.workloads)
    end = f"ended by {episode.ended_by}" if episode.ended_by else "killed, or still running"
    return f"run {episode.run.number}, episode {episode.number}, seed {episode.seed}, {episode.faults}, {workloads}: {end}"


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    items = [f"- {line}" for line in lines]
    return [f"## {title}", "", *items, ""] if items else []


def _rows(found: Iterable[Episode]) -> list[Row]:
    return [row for episode in found for row in episode.rows or ()]


def _by(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _total(rows: Sequence[Row]) -> Row:
    """Return the total of at least one row, under the names of the first."""
    return replace(
        rows[0],
        figures=reduce(Figures.__add__, (row.figures for row in rows)),
        violations=tuple(violation for row in rows for violation in row.violations),
        leaks=tuple(leak for row in rows for leak in row.leaks),
    )


def _row(values: dict[str, Any]) -> Row:
    texts = {name: tuple(values[name]) for name in ("violations", "leaks")}
    return Row(**{**values, **texts, "figures": Figures(**values["figures"])})


def _store(folder: Path, episode: Episode) -> None:
    path = folder / f"episode-{episode.number}" / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, text(episode))
    found = episodes(folder)
    _replace(folder / "report.md", folder_page(found))
    if rows := fault_totals(found):
        _replace(folder / "faults.md", fault_table(rows))
    else:
        (folder / "faults.md").unlink(missing_ok=True)


def _replace(path: Path, contents: str) -> None:
    """Write a file atomically: a process killed meanwhile leaves the old contents or the new."""
    written = path.with_name(f"{path.name}.new")
    written.write_text(contents, encoding="utf-8")
    os.replace(written, path)


def _git(*arguments: str) -> str:
    if shutil.which("git") is None:
        return ""
    return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()
