"""The report of a run."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from tests.faults.harness.checker import Figures, check
from tests.faults.harness.health import Growth
from tests.faults.harness.history import Committed, History, Rest, Sent
from tests.faults.harness.report import Row, fault_table, lag_series, page, write_report
from tests.support.right_histories import right_history


def test_page(tmp_path: Path) -> None:
    """The page of a correct run says so, names each fault, and comes with a picture."""
    history = right_history(3)
    write_report(history, check(history), [], tmp_path, "orders, seed 3")
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# orders, seed 3\n\nNo invariant was violated.\n")
    assert "| records lost | 0 |" in text
    assert "<svg" in (tmp_path / "timeline.svg").read_text()


def test_page_of_a_failure() -> None:
    """Violations and leaks are listed first."""
    history = History(tuple(takewhile(lambda event: not isinstance(event, Rest), right_history(3).events)))
    text = page(history, check(history), [Growth("planner", "rss_mb", 100, 300, False)], "t")
    assert "violations**" in text
    assert "I10 lag: there was something left to read until the end" in text
    assert "planner: rss_mb grew from 100 to 300" in text


def test_lag() -> None:
    """The lag at a sample is the number of records acknowledged before it but not committed."""
    sent = [Sent(10.0 + n, "t", 0, n, "k", f"d{n}", True) for n in range(4)]
    history = History((*sent[:3], Committed(12.5, "t", 0, 1), sent[3], Committed(14.0, "t", 0, 4)))
    assert lag_series(history) == ([2.5, 4.0], [2.0, 0.0])


def test_nothing_happened(tmp_path: Path) -> None:
    """A history without events has a page, too."""
    write_report(History(), [], [], tmp_path, "nothing")
    assert (tmp_path / "timeline.svg").exists()


def test_table_of_faults() -> None:
    """The table has a line for each kind of fault and workload."""
    found = Figures(
        faults={"broker killed": 4},
        acknowledged=1_234,
        unacknowledged=0,
        batches=9,
        lost=0,
        duplicated=56,
        runs=2,
        failures=1,
        recovery_s=3.25,
    )
    rows = [
        Row("broker killed", "batch-direct", found),
        Row("broker killed", "sink", replace(found, recovery_s=None), ("I1", "I10")),
    ]
    assert fault_table(rows).splitlines()[2:] == [
        "| broker killed | `batch-direct` | 4 | 1,234 | 0 | 56 | 2 | 3.2 s | 0 |",
        "| broker killed | `sink` | 4 | 1,234 | 0 | 56 | 2 | never | 2 |",
    ]
