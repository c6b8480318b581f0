"""Tables that are shown again and again, for ``--watch``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
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


def watch(
    output: Output,
    observe: Callable[[], Observed],
    interval_s: float,
    *layouts: Sequence[Column],
    empty: str = "",
    readable: Callable[[Row], Row] = dict,
) -> None:
    """Show what `observe` returns, every `interval_s`; returns on Ctrl-C.

    On a terminal the table is drawn in place; into a pipe or a file a table is written each time, and with ``--json`` a
    list on a line of its own. After an error that may pass, the next table follows as usual. `layouts` are as for
    `Output.fitted`, `empty` is the note without rows, and `readable` makes the form of a row for people.
    """

    def page(rows: Sequence[Row], notes: Sequence[str]) -> Group:
        table = [output.fitted(list(map(readable, rows)), *layouts)] if rows else []
        lines = notes if rows or notes or not empty else [empty]
        return Group(Text(time.strftime("%Y-%m-%d %H:%M:%S")), *table, *(Text(printable(text)) for text in lines), "")

    live = Live(console=output.console, auto_refresh=False, vertical_overflow="crop")
    in_place = output.console.is_terminal and not output.as_json
    try:
        with live if in_place else nullcontext():
            while True:
                due = time.monotonic() + interval_s
                try:
                    rows, notes = observe()
                except ZKafkaError as error:
                    if not error.retriable:
                        raise
                    rows, notes = [], [str(error)]
                if output.as_json:
                    output.rows(rows, layouts[0])
                    for text in notes:
                        output.note(text)
                elif in_place:
                    live.update(page(rows, notes), refresh=True)
                else:
                    output.console.print(page(rows, notes))
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return
