"""Summaries of episodes, and the report of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.harness.checker import Figures
from tests.faults.harness.report import SHOWN, Row
from tests.faults.harness.summary import (
    Episode,
    Run,
    episodes,
    fault_totals,
    folder_page,
    next_number,
    next_run,
    parse,
    recorded,
    text,
)

_FIGURES = Figures(
    faults={"broker killed": 4, "worker killed": 1},
    acknowledged=1_000,
    unacknowledged=1,
    batches=9,
    lost=0,
    duplicated=56,
    runs=2,
    failures=1,
    recovery_s=3.25,
)
_BATCH, _SINK = Row("any fault", "batch-direct", _FIGURES), Row("any fault", "sink-direct", _FIGURES)
_RUN = Run(1, 1_700_000_000.0, 7, 20, "0123456789abcdef", False)
_EPISODE = Episode(
    run=_RUN,
    number=0,
    seed=70,
    duration_s=240,
    faults="any fault",
    workloads=("batch-direct", "sink-direct"),
    rows=(_BATCH, _SINK),
)
_SECOND = Run(2, 1_700_003_600.0, 8, 5, "012345", True)


def test_sum_of_figures() -> None:
    """Sums add the counts and keep the longest time until rest; "never" exceeds any time."""
    other = replace(_FIGURES, faults={"broker killed": 1}, acknowledged=5, recovery_s=60.0)
    total = _FIGURES + other
    assert total.faults == {"broker killed": 5, "worker killed": 1}
    assert total.acknowledged == 1_005
    assert total.unacknowledged == 2
    assert total.duplicated == 112
    assert total.recovery_s == 60.0
    assert (total + replace(other, recovery_s=None)).recovery_s is None


@pytest.mark.parametrize(
    "episode",
    [
        _EPISODE,
        replace(_EPISODE, rows=None, ended_by="KeyboardInterrupt()"),
        replace(_EPISODE, rows=(replace(_SINK, violations=("I1 orders-0: lost",), leaks=("planner: rss_mb grew",)),)),
    ],
)
def test_text_of_an_episode(episode: Episode) -> None:
    """An episode is the same after it was stored and read."""
    assert parse(text(episode)) == episode


def test_page_of_right_runs() -> None:
    """The page has a row for each run, a row for each workload, and totals."""
    second = replace(_EPISODE, run=_SECOND, number=1, duration_s=120, rows=(_SINK,))
    lines = folder_page([_EPISODE, second]).splitlines()
    assert lines[2:4] == [
        "No run violated an invariant, and nothing leaked.",
        "Finished episodes: 2, with 6.0 min of faults. Unfinished: 0.",
    ]
    for line in (
        "| 1 | 2023-11-14 22:13 | 7 | 0123456789ab | 20 min | 4.0 min | 1 | 0 | 10 | 2,000 | 0 | 112 | 4 | 3.2 s | 0 | 0 |",
        "| 2 | 2023-11-14 23:13 | 8 | 012345, changed | 5 min | 2.0 min | 1 | 0 | 5 | 1,000 | 0 | 56 | 2 | 3.2 s | 0 | 0 |",
        "| all |  |  |  |  | 6.0 min | 2 | 0 | 15 | 3,000 | 0 | 168 | 6 | 3.2 s | 0 | 0 |",
        "| `batch-direct` | 1 | 5 | 1,000 | 0 | 56 | 2 | 3.2 s | 0 |",
        "| `sink-direct` | 2 | 10 | 2,000 | 0 | 112 | 4 | 3.2 s | 0 |",
    ):
        assert line in lines
    assert not any(line.startswith(("## Violations", "## Unfinished")) for line in lines)


def test_page_with_violations() -> None:
    """The page first names the runs with violations, and lists some violations of each workload."""
    wrong = replace(_SINK, violations=tuple(f"I1 t-0: {n}" for n in range(SHOWN + 2)), leaks=("planner: threads grew",))
    page = folder_page([replace(_EPISODE, rows=(_BATCH, wrong)), replace(_EPISODE, run=_SECOND, number=1)])
    assert page.splitlines()[2] == f"**Violations: {SHOWN + 2}, leaks: 1**, in runs: 1."
    assert "- run 1, episode 0, any fault, `sink-direct`: I1 t-0: 0\n" in page
    assert f"I1 t-0: {SHOWN}\n" not in page
    assert "- run 1, episode 0, any fault, `sink-direct`: 2 more violations\n" in page
    assert "- run 1, episode 0, any fault, `sink-direct`: planner: threads grew\n" in page


def test_page_with_an_unfinished_episode() -> None:
    """An unfinished episode is listed with its cause, and does not count as passed."""
    ended = replace(_EPISODE, rows=None, ended_by="KeyboardInterrupt()")
    page = folder_page([ended])
    assert page.splitlines()[2] == "No episode has finished."
    place = "- run 1, episode 0, seed 70, any fault, `batch-direct`, `sink-direct`"
    assert f"{place}: ended by KeyboardInterrupt()\n" in page
    page = folder_page([_EPISODE, replace(ended, run=_SECOND, number=1, ended_by="")])
    assert "Finished episodes: 1, with 4.0 min of faults. Unfinished: 1." in page
    assert "| 2 | 2023-11-14 23:13 | 8 | 012345, changed | 5 min | 0.0 min | 0 | 1 |  |  |  |  |  |  |  |  |" in page
    assert "episode 1, seed 70, any fault, `batch-direct`, `sink-direct`: killed, or still running\n" in page


def test_totals_of_faults() -> None:
    """Runs of single kinds of faults are added up by fault and workload; random runs are left out."""
    killed = replace(_SINK, faults="broker killed", violations=("I1",))
    each = replace(_EPISODE, run=replace(_RUN, minutes=None), rows=(killed,))
    found = fault_totals([each, _EPISODE, replace(each, number=2, rows=(killed, replace(killed, faults="worker killed")))])
    assert [(row.faults, row.figures.acknowledged, len(row.violations)) for row in found] == [
        ("broker killed", 2_000, 2),
        ("worker killed", 1_000, 1),
    ]


def test_recorded_episodes(tmp_path: Path) -> None:
    """An episode is unfinished until it ends without an error, and runs and episodes are numbered consecutively."""
    run = next_run(tmp_path, 7, 20)
    assert run.number == 1
    assert next_number(tmp_path) == 0
    begun = replace(_EPISODE, run=run, rows=None)
    with recorded(tmp_path, begun) as rows:
        rows.append(_BATCH)
        assert episodes(tmp_path) == [begun]
    assert episodes(tmp_path) == [replace(begun, rows=(_BATCH,))]
    with pytest.raises(KeyboardInterrupt), recorded(tmp_path, replace(begun, number=1)):
        raise KeyboardInterrupt
    assert [episode.rows is None for episode in episodes(tmp_path)] == [False, True]
    assert (tmp_path / "report.md").read_text() == folder_page(episodes(tmp_path))
    assert next_run(tmp_path, 7, 20).number == 2
    assert next_number(tmp_path) == 2


def test_table_of_an_earlier_folder(tmp_path: Path) -> None:
    """The table of faults disappears with the runs that it summed up."""
    (tmp_path / "faults.md").write_text("of a run whose episodes were removed")
    with recorded(tmp_path, replace(_EPISODE, rows=None)) as rows:
        rows.append(_BATCH)
    assert not (tmp_path / "faults.md").exists()
