"""Output of the ``zkafka`` command: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, track
from rich.table import Table
from rich.text import Text

from pyspark_zkafka.errors import printable
from pyspark_zkafka.model.view_tables import VIEWS, Row

T = TypeVar("T")

_PIPED_WIDTH = 10_000_000
_SHORT = 16


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in JSON, and its heading, alignment and readable values in tables.

    By default, the heading is the name in capitals, with hyphens.
    """

    name: str
    heading: str = ""
    right: bool = False
    readable: Callable[[Any], Any] = lambda value: value

    @property
    def title(self) -> str:
        """The heading.

        >>> Column("log_end_offset").title
        'LOG-END-OFFSET'
        """
        return self.heading or self.name.upper().replace("_", "-")


def columns(names: str, right: str = "") -> tuple[Column, ...]:
    """Return columns by their names, separated by blanks; the names in `right` are aligned to the right.

    >>> [column.title for column in columns("topic current_offset", right="current_offset")]
    ['TOPIC', 'CURRENT-OFFSET']
    """
    numbers = set(right.split())
    return tuple(Column(name, right=name in numbers) for name in names.split())


def view_columns(view: str, **headings: str) -> tuple[Column, ...]:
    """Return the columns of a view, some with other headings; numbers are aligned to the right.

    >>> [(column.title, column.right) for column in view_columns("configs", name="SETTING")]
    [('TOPIC', False), ('SETTING', False), ('VALUE', False)]
    """
    types = VIEWS[view].columns.items()
    return tuple(Column(name, headings.get(name, ""), right=kind in ("int", "bigint")) for name, kind in types)


def with_others(shown: Sequence[Column], names: Iterable[str]) -> list[Column]:
    """Return the shown columns, and columns of the other names, which only JSON has.

    >>> [column.name for column in with_others(columns("topic"), ["partition", "topic"])]
    ['topic', 'partition']
    """
    known = {column.name for column in shown}
    return [*shown, *(Column(name) for name in names if name not in known)]


class Output:
    """Output of a command: rows as a table, or, with ``--json``, as one JSON list of objects; notes on standard error.

    A table that is too wide for the terminal drops the columns that the command can do without, or folds its cells. In a
    pipe or a file, each row is one line.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else _PIPED_WIDTH
        self.console = Console(width=width, soft_wrap=False, highlight=False)
        self.errors = Console(stderr=True, highlight=False)

    def rows(
        self,
        rows: Iterable[Row],
        shown: Sequence[Column],
        empty: str = "",
        *narrower: Sequence[Column],
        in_json: Sequence[Column] | None = None,
    ) -> None:
        """Write rows, or the note `empty` if there are none; the layouts in `narrower` are tried as by `fitted`.

        With ``--json``, each row has the columns `in_json`; without `in_json`, the columns `shown`.
        """
        found = list(rows)
        if self.as_json:
            names = [column.name for column in in_json or shown]
            self.console.out(json.dumps([{name: row.get(name) for name in names} for row in found]), highlight=False)
        elif found:
            self.console.print(self.fitted(found, shown, *narrower))
        elif empty:
            self.note(empty)

    def fits(self, rows: Sequence[Row], shown: Sequence[Column]) -> bool:
        """Return True if each row fits on one line. In a pipe or a file, it always does."""
        if self.console.width >= _PIPED_WIDTH:
            return True
        unlimited = self.console.options.update_width(_PIPED_WIDTH)
        return self.console.measure(table(rows, shown), options=unlimited).maximum <= self.console.width

    def fitted(self, rows: Sequence[Row], *layouts: Sequence[Column]) -> Table:
        """Return a table in the first of the layouts that fits, or in the last one, compact and folded."""
        for shown in layouts:
            if self.fits(rows, shown):
                return table(rows, shown)
        return _compact(rows, layouts[-1])

    def lines(self, *texts: str) -> None:
        """Write lines that are not broken."""
        for text in texts:
            self.console.print(Text(printable(text)), soft_wrap=True)

    def note(self, *texts: str) -> None:
        """Write lines for people to standard error, also with ``--json``."""
        for text in texts:
            self.errors.print(Text(printable(text)), soft_wrap=True)

    def track(self, items: Iterable[T], doing: str) -> Iterable[T]:
        """Iterate over items, with a progress bar if standard error is a terminal and there are several."""
        found = list(items)
        is_shown = len(found) > 1 and self.errors.is_terminal
        return track(found, doing, console=self.errors, transient=True, disable=not is_shown)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar on standard error, if that is a terminal; yield the function that sets how much is done."""
        shown = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*shown, console=self.errors, transient=True, disable=not self.errors.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={value[name]}" for name in value)
    return str(value)


def table(rows: Iterable[Row], shown: Sequence[Column], cell: Callable[[Any], str] = _cell) -> Table:
    """Return a table of rows; null is ``-``, and items of lists are joined by commas, as in Kafka's tools."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in shown:
        justify = "right" if column.right else "left"
        made.add_column(column.title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*(Text(printable(cell(column.readable(row.get(column.name))))) for column in shown))
    return made


def _compact(rows: Sequence[Row], shown: Sequence[Column]) -> Table:
    """Return a narrower table: smaller gaps, headings broken after hyphens, lists folded between items, whole numbers."""
    made = table(rows, shown, _foldable)
    made.padding = (0, 1, 0, 0)
    for column, heading in zip(made.columns, shown, strict=True):
        column.no_wrap = heading.right
        longest = max((len(str(cell)) for cell in column.cells), default=0)
        if heading.right or longest < len(heading.title):
            column.header = heading.title.replace("-", "-\n")
    return made


def _foldable(value: Any) -> str:
    text = _cell(value)
    return text.replace(",", ", ") if isinstance(value, (list, tuple, dict)) and len(text) > _SHORT else text


def iso_time(timestamp_us: int | None) -> str | None:
    """Return a time in microseconds since the epoch as ISO 8601 in UTC, to the millisecond.

    >>> iso_time(1795228865441000)
    '2026-11-21T02:41:05.441Z'
    """
    if timestamp_us is None:
        return None
    time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_us // 1000)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(seconds: float | None) -> str | None:
    """Return a duration in its two largest units.

    >>> duration_text(4.2), duration_text(83), duration_text(7_260), duration_text(180_000)
    ('4s', '1m 23s', '2h 1m', '2d 2h')
    """
    if seconds is None:
        return None
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    units = [(days, "d"), (h, "h"), (m, "m"), (s, "s")]
    first = next((n for n, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in units[first : first + 2])
