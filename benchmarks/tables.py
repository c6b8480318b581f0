"""Figures as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.table import Table

from benchmarks.engines import ENGINES
from benchmarks.results import PEERS, Round, Summary, cases, summaries

_HEADINGS = (
    "engine",
    "settings",
    "s",
    "records/s",
    "CPU s/M",
    "brokers",
    "worker MiB",
    "JVM MiB",
    "others",
    "JVM",
    "tuned",
    "idem.",
)


def show(rounds: Iterable[Round], console: Console) -> None:
    """Print one table for each case."""
    for case, found in cases(rounds).items():
        console.print(_table(f"{case.work} {case.shape}, {case.records:,} records, {case.master}", found))


def _table(title: str, rounds: list[Round]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if number > 1 else "left", no_wrap=True)
    for summary in summaries(rounds):
        table.add_row(*_cells(summary))
    return table


def _cells(found: Summary) -> list[str]:
    return [
        ENGINES[found.contender.engine].label,
        found.contender.settings,
        f"{found.seconds:.2f}",
        f"{found.records_per_s:,.0f}",
        f"{found.spark_cpu_s_per_million:.2f}",
        f"{found.broker_cpu_s_per_million:.2f}",
        f"{found.worker_peak_mb:,.0f}",
        f"{found.jvm_peak_mb:,.0f}",
        f"{found.others_share:.2f}",
        *(f"{found.ratios[peer]:.2f}" if peer in found.ratios else "" for peer in PEERS),
    ]


def show_figures(figures: dict[str, list[dict]], console: Console) -> None:
    """Print other figures: one table for each list, with columns named by the first row's keys."""
    for title, rows in figures.items():
        for _, group in groupby(rows, key=lambda row: tuple(row)):
            alike = list(group)
            table = Table(*alike[0], title=title, title_justify="left")
            for row in alike:
                table.add_row(*(f"{value:,.3f}" if isinstance(value, float) else str(value) for value in row.values()))
            console.print(table)
