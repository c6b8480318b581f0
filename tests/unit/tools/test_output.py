"""Output of commands."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.tools.command import exit_status
from pyspark_zkafka.tools.output import Column, Output, columns, iso_time, table

ROWS = [
    {"topic": "orders", "partition": 0, "current_offset": 12, "isr": [1, 2], "offline": False},
    {"topic": "orders", "partition": 11, "current_offset": None, "isr": [], "offline": True},
]
COLUMNS = (*columns("topic partition current_offset", right="partition current_offset"), Column("isr"), Column("offline"))


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is one list of objects with the columns in order, and null, lists and Booleans keep their types."""
    Output(as_json=True).rows([dict(reversed(row.items())) for row in ROWS], COLUMNS)
    found = json.loads(capsys.readouterr().out)
    assert found == ROWS
    assert [list(row) for row in found] == [[column.name for column in COLUMNS]] * 2


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Without rows, JSON is an empty list, and a table is a note on standard error."""
    Output(as_json=True).rows([], COLUMNS, "Nothing.")
    Output().rows([], COLUMNS, "Nothing.")
    assert capsys.readouterr() == ("[]\n", "Nothing.\n")


def test_piped_table(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe, each row is one line of any length, with Kafka's headings, "-" for null and joined lists."""
    long = "x" * 20_000
    Output().rows([*ROWS, {"topic": long}], COLUMNS)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["TOPIC", "PARTITION", "CURRENT-OFFSET", "ISR", "OFFLINE"]
    assert lines[2:] == [
        ["orders", "0", "12", "1,2", "no"],
        ["orders", "11", "-", "yes"],
        [long, "-", "-", "-", "-"],
    ]


HOSTILE = "a\x1b[2J\x1b]0;owned\x07\r\n\x9b1m\u202e\ud800b"
ESCAPED = r"a\x1b[2J\x1b]0;owned\x07\r\n\x9b1m\u202e\ud800b"


def test_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters from any source are escaped in text, and JSON escapes them itself."""
    output = Output()
    output.rows([{"topic": HOSTILE, "isr": [HOSTILE], "offline": {HOSTILE: HOSTILE}}], COLUMNS)
    output.rows([], COLUMNS, HOSTILE)
    output.lines(HOSTILE, "second")
    output.note(HOSTILE)
    assert exit_status(ClusterStateError("UNREADABLE", HOSTILE)) == 1
    shown = capsys.readouterr()
    assert shown.out.count(ESCAPED) == 5
    assert shown.err.count(ESCAPED) == 2
    assert ClusterStateError("UNREADABLE", HOSTILE).message == HOSTILE
    assert set(filter(lambda c: not c.isprintable(), shown.out + shown.err)) == {"\n"}
    Output(as_json=True).rows([{"topic": HOSTILE}], COLUMNS)
    assert json.loads(capsys.readouterr().out)[0]["topic"] == HOSTILE


def test_narrow_terminal() -> None:
    """A narrow terminal folds long cells and truncates nothing."""
    console = Console(width=40, record=True, file=io.StringIO())
    console.print(table([{"topic": "t" * 60, "partition": 1}], COLUMNS[:2]))
    assert console.export_text().count("t") == 60


def test_wide_table_on_a_terminal() -> None:
    """Headings of a table that is too wide are broken after hyphens, and those of a table that fits stay."""
    output = Output()
    shown = columns("topic current_offset log_end_offset")
    rows = [{"topic": "t" * 30, "current_offset": 1, "log_end_offset": 2}]
    output.console = Console(width=60, file=io.StringIO())
    assert [column.header for column in output.fitted(rows, shown).columns] == [
        "TOPIC",
        "CURRENT-\nOFFSET",
        "LOG-\nEND-\nOFFSET",
    ]
    assert not output.fits(rows, shown)
    output.console = Console(width=140, file=io.StringIO())
    assert [column.header for column in output.fitted(rows, shown).columns] == ["TOPIC", "CURRENT-OFFSET", "LOG-END-OFFSET"]
    assert output.fits(rows, shown)


def test_columns_that_fit() -> None:
    """The first of several choices of columns that fits the terminal is shown."""
    output, full = Output(), columns("topic topic_id configs")
    narrower = [full[:2], full[:1]]
    rows = [{"topic": "t" * 10, "topic_id": "i" * 22, "configs": "c" * 60}]
    for width, shown in ((120, 3), (60, 2), (30, 1), (5, 1)):
        output.console = Console(width=width, file=io.StringIO())
        assert len(output.fitted(rows, full, *narrower).columns) == shown


def test_what_is_folded() -> None:
    """In a table that is too wide, numbers are not broken, and lists are folded between their items."""
    output, file = Output(), io.StringIO()
    output.console = Console(width=50, file=file)
    row = {"topic": "t" * 40, "offset": 12345678901, "configs": {"retention.ms": 1, "segment.bytes": 2}}
    output.rows([row], columns("topic offset configs", right="offset"))
    text = file.getvalue()
    assert "12345678901" in text
    assert all(word in text.split() for word in ("retention.ms=1,", "segment.bytes=2"))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_bar(is_terminal: bool) -> None:
    """A bar is drawn only on a terminal."""
    output, file = Output(), io.StringIO()
    output.errors = Console(file=file, force_terminal=is_terminal, width=100)
    with output.progress("replicas in sync", 4) as set_done:
        set_done(3)
    assert ("replicas in sync" in file.getvalue()) is is_terminal


def test_distant_times() -> None:
    """Times of any year are exact to the millisecond."""
    assert iso_time(253_402_300_799_999_999) == "9999-12-31T23:59:59.999Z"
    assert iso_time(10_000_000_000_001_000) == "2286-11-20T17:46:40.001Z"
    assert iso_time(-1) == "1969-12-31T23:59:59.999Z"
