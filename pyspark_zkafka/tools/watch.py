"""Tables that are shown again and again, for ``--watch``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from pyspark_zkafka.errors import ZKafkaError, printable
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import MOST_SECONDS
from pyspark_zkafka.tools.output import Column, Output

Interval = Annotated[
    float, typer.Option(min=0.1, max=MOST_SECONDS, metavar="S", help="Seconds between the tables of --watch.")
]
Observed = tuple[Sequence[Row], Sequence[str]]
"""Rows, and notes below their table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, from wide to narrow, its note without rows, and the form of a row for people."""

    columns: Sequence[Column]
    narrow: Sequence[Column]
    empty: str = ""
    readable: Callable[[Row], Row] = dict


def watch(output: Output, observe: Callable[[], Observed], layout: Layout, interval_s: float) -> None:
    """Show what `observe` returns, every `interval_s`; returns on Ctrl-C.

    On a terminal the table is drawn in place; into a pipe or a file a table is written each time, and with ``--json`` a
    list on a line of its own. After an error that may pass, the next table follows as usual.
    """
    try:
        with _drawing(output, layout) as draw:
            while True:
                due = time.monotonic() + interval_s
                try:
                    found = observe()
                except ZKafkaError as error:
                    if not error.retriable:
                        raise
                    found = [], [str(error)]
                draw(found)
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return


@contextmanager
def _drawing(output: Output, layout: Layout) -> Iterator[Callable[[Observed], None]]:
    if output.as_json:
        yield lambda found: _write_json(output, layout, found)
    elif output.console.is_terminal:
        with Live(console=output.console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda found: live.update(_page(output, layout, found), refresh=True)
    else:
        yield lambda found: output.console.print(_page(output, layout, found))


def _write_json(output: Output, layout: Layout, found: Observed) -> None:
    rows, notes = found
    output.rows(rows, layout.columns)
    for text in notes:
        output.note(text)


def _page(output: Output, layout: Layout, found: Observed) -> Group:
    rows, notes = found
    table = [output.fitted(list(map(layout.readable, rows)), layout.columns, layout.narrow)] if rows else []
    lines = notes if rows or notes or not layout.empty else [layout.empty]
    return Group(Text(time.strftime("%Y-%m-%d %H:%M:%S")), *table, *(Text(printable(text)) for text in lines), "")
