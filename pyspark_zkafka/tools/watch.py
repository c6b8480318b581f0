"""Tables that are shown again and again, for ``--watch``; for groups, with their lag, rates and the time to catch up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from pyspark_zkafka.errors import ZKafkaError, printable
from pyspark_zkafka.inspect.groups import GroupReports, PartitionReport, total_lag
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import MOST_SECONDS
from pyspark_zkafka.tools.output import Column, Output, columns, duration_text

Interval = Annotated[
    float, typer.Option(min=0.1, max=MOST_SECONDS, metavar="S", help="Seconds between the tables of --watch.")
]
Observed = tuple[Sequence[Row], Sequence[str]]
"""Rows, and notes below their table."""

_WINDOW_S = 60.0  # consumers of the old kind commit once a minute by default
_MIN_RATE_PER_S = 0.001  # below it, a difference of rates is noise
_RATES = (
    Column("consumed_per_s", "CONSUMED/S", right=True),
    Column("produced_per_s", "PRODUCED/S", right=True),
    Column("catch_up_s", "CATCH-UP", right=True, readable=duration_text),
)
OFFSETS = (
    Column("offset", "CURRENT-OFFSET", right=True),
    Column("latest", "LOG-END-OFFSET", right=True),
    Column("lag", right=True),
)
"""A partition's offsets, with the headings of kafka-consumer-groups."""
CONSUMER = Column("consumer", "CONSUMER-ID")
_COLUMNS = (*columns("group topic partition", right="partition"), *OFFSETS, *_RATES, CONSUMER)
_NARROW = (*columns("group topic partition lag", right="partition lag"), *_RATES)


def watch(
    output: Output,
    observe: Callable[[], Observed],
    interval_s: float,
    *layouts: Sequence[Column],
    empty: str = "",
) -> None:
    """Show what `observe` returns, every `interval_s`; returns on Ctrl-C.

    On a terminal the table is drawn in place; into a pipe or a file a table is written each time, and with ``--json`` a
    list on a line of its own. After an error that may pass, the next table follows as usual. `layouts` are as for
    `Output.fitted`, and `empty` is the note without rows.
    """

    def page(rows: Sequence[Row], notes: Sequence[str]) -> Group:
        table = [output.fitted(rows, *layouts)] if rows else []
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
                    output.note(*notes)
                elif in_place:
                    live.update(page(rows, notes), refresh=True)
                else:
                    output.console.print(page(rows, notes))
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return


def watch_groups(output: Output, read: Callable[[], GroupReports], interval_s: float) -> None:
    """Show what `read` returns, and the rates of the last minute, every `interval_s`; see `watch`.

    Each group with several partitions ends with a row of totals, without topic and partition.
    """
    seen: deque[Observation] = deque()
    watch(output, lambda: _observe(read(), seen), interval_s, _COLUMNS, _NARROW)


def _observe(reports: GroupReports, seen: deque[Observation]) -> Observed:
    rows = tuple(row for row in reports.partitions if row.topic is not None)
    now = Observation(time.monotonic(), rows)
    while len(seen) > 1 and seen[1].time_s <= now.time_s - _WINDOW_S:
        seen.popleft()
    seen.append(now)
    found = zip(rows, progress(seen[0], now), strict=True)
    return list(_rows(found, reports.has_lag)), reports.problems


@dataclass(frozen=True, slots=True)
class Observation:
    """Reports of partitions at a time, in seconds of a monotonic clock."""

    time_s: float
    rows: tuple[PartitionReport, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The rates of a partition, in records per second; None where an observation lacks the offset.

    `consumed_per_s` is negative if the offset was moved back.
    """

    lag: int | None = None
    consumed_per_s: float | None = None
    produced_per_s: float | None = None

    @property
    def catch_up_s(self) -> float | None:
        """The time until the lag is 0 at these rates; None if it does not shrink, or is unknown.

        >>> Progress(lag=900, consumed_per_s=40.0, produced_per_s=10.0).catch_up_s
        30.0
        """
        if self.lag is not None and self.lag <= 0:
            return 0.0
        if self.lag is None or self.consumed_per_s is None or self.produced_per_s is None:
            return None
        rate = self.consumed_per_s - self.produced_per_s
        return self.lag / rate if rate >= _MIN_RATE_PER_S else None


def progress(first: Observation, last: Observation) -> list[Progress]:
    """The progress of each row of the last observation, in its order, since the first one."""
    earlier = {(row.group, row.topic, row.partition): row for row in first.rows}
    elapsed_s = last.time_s - first.time_s
    found = []
    for row in last.rows:
        before = earlier.get((row.group, row.topic, row.partition))
        if before is None or elapsed_s <= 0:
            found.append(Progress(row.lag))
        else:
            consumed = _rate(before.offset, row.offset, elapsed_s)
            found.append(Progress(row.lag, consumed, _rate(before.latest, row.latest, elapsed_s)))
    return found


def _rate(before: int | None, now: int | None, elapsed_s: float) -> float | None:
    return None if before is None or now is None else (now - before) / elapsed_s


def total(partitions: Iterable[Progress]) -> Progress:
    """The sums over partitions; None where a part is unknown. An offset beyond its log does not make up for another lag.

    The time to catch up is an estimate for the whole group.
    """
    found = list(partitions)
    return Progress(
        total_lag([p.lag for p in found]), _sum(p.consumed_per_s for p in found), _sum(p.produced_per_s for p in found)
    )


def _sum(values: Iterable[float | None]) -> Any:
    found = list(values)
    return None if None in found or not found else sum(filter(None, found))


def _rows(found: Iterable[tuple[PartitionReport, Progress]], has_lag: Callable[[PartitionReport], bool]) -> Iterator[Row]:
    for group, pairs in groupby(found, key=lambda pair: pair[0].group):
        partitions = list(pairs)
        for report, step in partitions:
            yield {**{c.name: getattr(report, c.name, None) for c in _COLUMNS}, **_rates(step)}
        if len(partitions) > 1:
            yield {"group": group, **_rates(total(step for report, step in partitions if has_lag(report)))}


def _rates(step: Progress) -> Row:
    rates = {column.name: getattr(step, column.name) for column in _RATES}
    return {"lag": step.lag, **{name: None if rate is None else round(rate, 1) for name, rate in rates.items()}}
