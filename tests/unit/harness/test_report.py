"""The report of a run."""

from __future__ import annotations

from pathlib import Path

from tests.faults.harness.checker import check
from tests.faults.harness.health import Growth
from tests.faults.harness.history import Committed, History, Sent
from tests.faults.harness.report import lag_series, page, write_report
from tests.support.right_histories import right_history


def test_page(tmp_path: Path) -> None:
    """A right run's page says so, names each fault, and has its picture beside it."""
    history = right_history(3)
    write_report(history, check(history), [], tmp_path, "orders, seed 3")
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# orders, seed 3\n\nNo invariant was violated.\n")
    assert "| records lost | 0 |" in text
    assert "<svg" in (tmp_path / "timeline.svg").read_text()


def test_page_of_a_failure() -> None:
    """Violations and leaks are listed first."""
    history = History(right_history(3).events[:-9])
    text = page(history, check(history), [Growth("planner", "rss_mb", 100, 300, False)], "t")
    assert "violations**" in text
    assert "I10 lag: there was something left to read until the end" in text
    assert "planner: rss_mb grew from 100 to 300" in text


def test_lag() -> None:
    """The lag at a sample is what was acknowledged before and is not committed."""
    sent = [Sent(10.0 + n, "t", 0, n, "k", f"d{n}", True) for n in range(4)]
    history = History((*sent[:3], Committed(12.5, "t", 0, 1), sent[3], Committed(14.0, "t", 0, 4)))
    assert lag_series(history) == ([2.5, 4.0], [2.0, 0.0])


def test_nothing_happened(tmp_path: Path) -> None:
    """A history without events has a page, too."""
    write_report(History(), [], [], tmp_path, "nothing")
    assert (tmp_path / "timeline.svg").exists()
