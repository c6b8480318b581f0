"""Report of a run: a page of Markdown, and a picture of faults, throughput and lag over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.checker import Figures, Violation, figures
from tests.faults.harness.health import Growth
from tests.faults.harness.history import Committed, Fault, Finished, History, Life, Sent, Terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ANY_FAULT",
    "CELLS",
    "SHOWN",
    "Row",
    "fault_table",
    "lag_series",
    "page",
    "rate_series",
    "table",
    "write_report",
]

_BLUE, _VERMILION, _GREEN = "#0072B2", "#D55E00", "#009E73"
_SIZE_IN = (10, 6.5)
ANY_FAULT = "any fault"
"""The fault of a row with randomly chosen faults."""
SHOWN = 20
"""Most violations of one workload on a page."""


@dataclass(frozen=True)
class Row:
    """Figures of a workload under some kind of fault, with its violations and leaks as text."""

    faults: str
    workload: str
    figures: Figures
    violations: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a table, under `CELLS`."""
        found = self.figures
        counts = (sum(found.faults.values()), found.acknowledged, found.lost, found.duplicated, found.runs)
        rest = "never" if found.recovery_s is None else f"{found.recovery_s:.1f} s"
        return (*(f"{count:,}" for count in counts), rest, str(len(self.violations)))


CELLS = ("faults", "records", "lost", "delivered again", "runs of members", "at rest after", "violations")


def write_report(
    history: History, violations: Sequence[Violation], grown: Sequence[Growth], folder: Path, title: str
) -> None:
    """Write ``report.md`` and ``timeline.svg`` into a folder."""
    (folder / "report.md").write_text(page(history, violations, grown, title), encoding="utf-8")
    _draw(history, folder / "timeline.svg", title)


def page(history: History, violations: Sequence[Violation], grown: Sequence[Growth], title: str) -> str:
    """Return the page."""
    return "\n".join(
        [
            f"# {title}",
            "",
            _verdict(violations, grown),
            "",
            "![Faults, records per second and lag over time](timeline.svg)",
            "",
            *_figures(figures(history)),
            *_faults(history),
            *_growths(grown),
        ]
    )


def table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, ["---"] * len(names), *lines))


def fault_table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    return table(("fault", "workload", *CELLS), [(row.faults, f"`{row.workload}`", *row.cells) for row in rows])


def _verdict(violations: Sequence[Violation], grown: Sequence[Growth]) -> str:
    leaks = [f"- {growth}" for growth in grown if not growth.flat]
    if not violations and not leaks:
        return "No invariant was violated."
    shown = [f"- {violation}" for violation in violations[:SHOWN]]
    more = [f"- and {len(violations) - SHOWN} more"] if len(violations) > SHOWN else []
    return "\n".join([f"**{len(violations)} violations**", "", *shown, *more, *leaks])


def _figures(found: Figures) -> list[str]:
    recovery = "never" if found.recovery_s is None else f"{found.recovery_s:.1f} s"
    rows = {
        "faults": sum(found.faults.values()),
        "records acknowledged": found.acknowledged,
        "records not acknowledged": found.unacknowledged,
        "batches completed": found.batches,
        "records lost": found.lost,
        "records delivered again, where that is allowed": found.duplicated,
        "runs of members": found.runs,
        "runs that failed with an error": found.failures,
        "runs that ended with a part of their micro-batch written exactly once": found.interrupted,
        "time from the last fault until nothing was left": recovery,
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), ""]


def _faults(history: History) -> list[str]:
    begin = _begin(history)
    rows = (f"| {f.at - begin:.1f} | {f.end - f.at:.1f} | {f.kind} | {f.target} |" for f in history.of(Fault))
    return ["| at s | for s | fault | target |", "|---|---|---|---|", *rows, ""]


def _growths(grown: Sequence[Growth]) -> list[str]:
    rows = (f"| {g.subject} | {g.figure} | {g.first:g} | {g.last:g} | {'yes' if g.flat else 'no'} |" for g in grown)
    return ["| process | figure | first third | last third | flat |", "|---|---|---|---|---|", *rows, ""] if grown else []


def rate_series(events: Sequence[tuple[float, int]], begin: float, step_s: float = 1.0) -> tuple[list[float], list[float]]:
    """Return the records per second of ``(time, records)`` events, for each step from the start.

    >>> rate_series([(10.5, 2), (10.9, 4), (12.1, 3)], 10)
    ([0.0, 1.0, 2.0], [6.0, 0.0, 3.0])
    """
    counts: dict[int, int] = {}
    for at, records in events:
        number = int((at - begin) // step_s)
        counts[number] = counts.get(number, 0) + records
    steps = range(max(counts, default=-1) + 1)
    return [number * step_s for number in steps], [counts.get(number, 0) / step_s for number in steps]


def lag_series(history: History) -> tuple[list[float], list[float]]:
    """Return the records that were acknowledged but not committed, at each sample."""
    begin, sent = _begin(history), sorted(one.at for one in history.of(Sent) if one.acknowledged)
    counts, times, committed, lags = list(accumulate(1 for _ in sent)), [], {}, []
    number = 0
    for sample in history.of(Committed):
        committed[sample.topic, sample.partition] = sample.offset
        while number < len(counts) and sent[number] <= sample.at:
            number += 1
        if times and times[-1] == sample.at - begin:
            lags[-1] = max(0.0, float(number - sum(committed.values())))
        else:
            times.append(sample.at - begin)
            lags.append(max(0.0, float(number - sum(committed.values()))))
    return times, lags


def _begin(history: History) -> float:
    return next((event.at for event in history.events if not isinstance(event, Terms)), 0.0)


def _draw(history: History, path: Path, title: str) -> None:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=_SIZE_IN, layout="constrained")
    faults, rates, lag = picture.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    _draw_faults(faults, history)
    begin = _begin(history)
    done = [(f.at, sum(until - start for *_, start, until in f.ranges)) for f in history.of(Finished)]
    sent = [(one.at, 1) for one in history.of(Sent) if one.acknowledged]
    for events, colour, label in ((sent, _BLUE, "acknowledged"), (done, _GREEN, "in completed batches")):
        rates.plot(*rate_series(events, begin), color=colour, label=label, linewidth=1)
    rates.set_ylabel("records/s")
    rates.legend(loc="upper right", fontsize=8)
    lag.plot(*lag_series(history), color=_VERMILION, linewidth=1)
    lag.set_ylabel("lag, records")
    lag.set_xlabel("seconds")
    picture.suptitle(title)
    picture.savefig(path)


def _draw_faults(axes: Axes, history: History) -> None:
    begin, faults = _begin(history), history.of(Fault)
    names = sorted({fault.kind for fault in faults})
    for fault in faults:
        width = max(fault.end - fault.at, 0.5)
        axes.barh(names.index(fault.kind), width, left=fault.at - begin, color=_VERMILION, height=0.7)
    ends = [life.at - begin for life in history.of(Life) if life.stage in ("killed", "failed")]
    axes.vlines(ends, -0.5, max(len(names), 1) - 0.5, colors=_BLUE, linewidth=0.5, linestyles=":")
    axes.set_yticks(range(len(names)), names, fontsize=7)
