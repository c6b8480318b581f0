"""``zkafka groups describe --watch``: lag, rates and the time to catch up, observed again and again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby

from rich.console import Group
from rich.live import Live
from rich.text import Text

from pyspark_zkafka.cli.output import Column, Output, Row, columns, duration_text, printable
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.operations.catching_up import Observation, Progress, progress, total
from pyspark_zkafka.operations.group_reads import Described
from pyspark_zkafka.operations.group_state import PartitionDescription

__all__ = ["watch_groups"]

Read = Callable[[], Described]
Draw = Callable[[Sequence[Row], Sequence[str]], None]

_WINDOW_S = 60.0  # consumers of the old kind commit once a minute by default
_RATES = (
    Column("consumed_per_s", "CONSUMED/S", right=True),
    Column("produced_per_s", "PRODUCED/S", right=True),
    Column("catch_up_s", "CATCH-UP", right=True),
)
_OFFSETS = "partition current_offset log_end_offset lag"
_COLUMNS = (*columns(f"group topic {_OFFSETS}", right=_OFFSETS), *_RATES, *columns("consumer_id"))
_NARROW = (*columns("group topic partition lag", right=_OFFSETS), *_RATES)


def watch_groups(output: Output, read: Read, interval_s: float) -> None:
    """Show what `read` returns, and the rates of the last minute, every `interval_s`; returns on Ctrl-C.

    On a terminal the table is drawn in place; into a pipe or a file a table is written each time, and with ``--json`` a
    list on a line of its own. Each group with several partitions ends with a row of totals, without topic and partition.
    After an error that may pass, the next table follows as usual.
    """
    seen: deque[Observation] = deque()
    try:
        with _drawing(output) as draw:
            while True:
                due = time.monotonic() + interval_s
                draw(*_observe(read, seen))
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return


def _observe(read: Read, seen: deque[Observation]) -> tuple[list[Row], Sequence[str]]:
    try:
        described = read()
    except ZKafkaError as error:
        if not error.retriable:
            raise
        return [], [str(error)]
    now = Observation(
        time.monotonic(), tuple(row for rows in described.groups.values() for row in rows if row.topic is not None)
    )
    while len(seen) > 1 and seen[1].time_s <= now.time_s - _WINDOW_S:
        seen.popleft()
    seen.append(now)
    return list(_rows(zip(now.rows, progress(seen[0], now), strict=True))), described.problems


def _rows(found: Iterable[tuple[PartitionDescription, Progress]]) -> Iterator[Row]:
    for group, pairs in groupby(found, key=lambda pair: pair[0].group):
        partitions = list(pairs)
        for description, step in partitions:
            yield {**{c.name: getattr(description, c.name, None) for c in _COLUMNS}, **_rates(step)}
        if len(partitions) > 1:
            yield {"group": group, **_rates(total(step for row, step in partitions if row.current_offset is not None))}


def _rates(step: Progress) -> Row:
    rates = {column.name: getattr(step, column.name) for column in _RATES}
    return {"lag": step.lag, **{name: None if rate is None else round(rate, 1) for name, rate in rates.items()}}


@contextmanager
def _drawing(output: Output) -> Iterator[Draw]:
    if output.as_json:
        yield partial(_write_json, output)
    elif output.console.is_terminal:
        with Live(console=output.console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda rows, problems: live.update(_page(output, rows, problems), refresh=True)
    else:
        yield lambda rows, problems: output.console.print(_page(output, rows, problems))


def _write_json(output: Output, rows: Sequence[Row], problems: Sequence[str]) -> None:
    output.rows(rows, _COLUMNS)
    for text in problems:
        output.note(text)


def _page(output: Output, rows: Sequence[Row], problems: Sequence[str]) -> Group:
    readable = [{**row, "catch_up_s": duration_text(row["catch_up_s"])} for row in rows]
    found = [output.fitted(readable, _COLUMNS, _NARROW)] if rows else []
    return Group(Text(time.strftime("%Y-%m-%d %H:%M:%S")), *found, *(Text(printable(text)) for text in problems), "")
