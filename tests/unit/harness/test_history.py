"""Histories: events as lines of JSON, and merged journals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.drivers.harness_member import Member
from tests.faults.harness.history import Committed, Interrupted, Life, line, merged, parse
from tests.support.right_histories import right_history, right_sink


@given(st.integers(0, 1000))
def test_round_trip(seed: int) -> None:
    """Each event is the same after it was written as a line and parsed."""
    events = *right_history(seed).events, *right_sink(seed, exactly_once=True).events, Interrupted(1.5, "member-0", seed, 2)
    for event in events:
        assert parse(line(event)) == event


@pytest.mark.parametrize("text", ["{}", "[]", '["unknown", 1]', '["committed", 1]', "3"])
def test_foreign_lines(text: str) -> None:
    """Text that is no event is refused."""
    with pytest.raises(ValueError, match="event"):
        parse(text)


def test_merged_journals(tmp_path: Path) -> None:
    """Journals are merged in the order of time, without the torn last line of a killed process."""
    first, second = Committed(2.0, "t", 0, 5), Life(1.0, "member-0", 0, "killed")
    (tmp_path / "a").write_text(line(first) + "\n" + line(second)[:9])
    (tmp_path / "b").write_text(line(second) + "\n")
    assert merged([tmp_path / "a", tmp_path / "b"]).events == (second, first)


def test_journal_of_a_killed_run(tmp_path: Path) -> None:
    """A member's next run removes a torn line, so that only the torn event is lost; a whole line stays as it is."""
    torn, whole = tmp_path / "torn", tmp_path / "whole"
    torn.write_text(line(Life(1.0, "m", 0, "fenced"))[:9])
    whole.write_text(line(Life(1.0, "m", 0, "fenced")) + "\n")
    event = Life(2.0, "m", 1, "fenced")
    for path in (torn, whole):
        member = Member(None, {"name": "m", "run": 1, "journal": str(path)})  # type: ignore[arg-type]
        for _ in range(2):
            member.drop_torn_line()
        member.journal([event])
    assert merged([torn]).events == (event,)
    assert len(merged([whole]).events) == 2
    assert whole.read_text().count("\n") == 2
