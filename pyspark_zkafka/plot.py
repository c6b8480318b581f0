"""Pictures of views: lag over time, the assignment map of groups, and the balance of leaders.

Each function draws a `matplotlib.figure.Figure` from the rows of views: a Spark or pandas frame, mappings, or Spark's `Row`
objects. The functions do not use pyplot. A notebook shows a figure that is the value of a cell. `savefig` writes the figure
to a file.

matplotlib is an extra, ``pip install 'pyspark-zkafka[plot]'``, and imported by the first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from math import nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_SCHEMA, MATPLOTLIB_MISSING
from pyspark_zkafka.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["assignment_map", "lag_over_time", "leader_balance"]

# The palette of Okabe and Ito for colour blindness, without its yellow, which is faint on white.
_BLUE, _VERMILION, _BLACK = "#0072B2", "#D55E00", "#000000"
_LINES = (_BLUE, _VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", _BLACK)
_DASHES = ("-", "--", ":")
_EMPTY_CELL = "#EEEEEE"
_NO_LEADER = -1  # as Kafka writes it
_SMALL = 8
_CELL_IN = 0.28
_WIDTHS_IN = (6.0, 14.0)
_TICKS_AT_MOST = 40
_UNITS = ((180, 1, "s"), (3 * 3600, 60, "min"), (3 * 86400, 3600, "h"), (float("inf"), 86400, "d"))
"""Units of time: the largest span in seconds, the unit's seconds, and its symbol."""
_SERIES = {"group": ("group",), "topic": ("group", "topic"), "partition": ("group", "topic", "partition")}


@runtime_checkable
class _SparkFrame(Protocol):
    def collect(self) -> Sequence[Any]: ...


@runtime_checkable
class _PandasFrame(Protocol):
    def to_dict(self, orient: str) -> Sequence[Mapping[str, Any]]: ...


Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "_SparkFrame | _PandasFrame | Iterable[Any]"


def lag_over_time(
    observations: Rows, *, by: Literal["group", "topic", "partition"] = "group", events: Mapping[Any, str] | None = None
) -> Figure:
    """Draw lag over time, with a line for each group, topic or partition.

    Parameters
    ----------
    observations
        Rows of the view `offsets`, read repeatedly, with the columns `time`, `group`, `topic`, `partition` and `lag`.
        The rows of one reading share their time: a datetime, or seconds.
    by
        The lines to draw. A line is the sum of its partitions' lags, with a gap where a lag is null.
    events
        Texts by time, each next to a vertical line.

    Raises
    ------
    ZKafkaError
        ``MATPLOTLIB_MISSING``; ``INVALID_SCHEMA`` if the rows lack columns. The other functions raise these as well.
    """
    columns = ("time", "group", "topic", "partition", "lag")
    rows = _read("lag_over_time", observations, columns)
    figure, axes = _axes(8.0, 3.6)
    if not rows:
        return _nothing(figure, axes, "no observations")
    clock, label_of_time = _clock([row["time"] for row in rows])
    groups = {row["group"] for row in rows}
    for position, (label, points) in enumerate(_sums(rows, by, lone_group=len(groups) == 1)):
        colour, dash = _LINES[position % len(_LINES)], _DASHES[position // len(_LINES) % len(_DASHES)]
        times, lags = zip(*points, strict=True)
        axes.plot(list(map(clock, times)), lags, color=colour, linestyle=dash, linewidth=1.6, label=_shown(label))
    _draw_events(axes, {clock(time): text for time, text in (events or {}).items()})
    axes.set_xlabel(label_of_time)
    axes.set_ylabel(f"lag of group {_shown(groups.pop())} (records)" if len(groups) == 1 else "lag (records)")
    axes.set_xlim(0, max(clock(row["time"]) for row in rows) or 1)
    if not any(_lag(row) < 0 for row in rows):
        axes.set_ylim(bottom=0)
    _whole_numbers(axes)
    if len(axes.get_legend_handles_labels()[1]) > 1:
        figure.legend(loc="outside right upper", frameon=False, fontsize=_SMALL)
    return figure


def assignment_map(owners: Rows, partitions: Rows) -> Figure:
    """Draw a matrix of consumers and partitions, with a filled cell if the consumer owns the partition.

    If a group owns some partitions of a topic, its row `no owner` has the other partitions. Topics without owners are left
    out.

    Parameters
    ----------
    owners
        Rows of the view `owners`, with `group`, `topic`, `partition` and `consumer`.
    partitions
        Rows of the view `partitions`, with `topic` and `partition`.
    """
    claims = _read("assignment_map", owners, ("group", "topic", "partition", "consumer"))
    owned_topics = {claim["topic"] for claim in claims}
    existing = _read("assignment_map", partitions, ("topic", "partition"))
    claims = [claim for claim in claims if not _is_null(claim["partition"])]  # the names of claims may be malformed
    cells = {(r["topic"], int(r["partition"])) for r in (*existing, *claims) if r["topic"] in owned_topics}
    columns = {cell: position for position, cell in enumerate(sorted(cells))}
    lines = _matrix(claims, columns)
    width = min(max(_CELL_IN * len(columns) + 2.0, _WIDTHS_IN[0]), _WIDTHS_IN[1])
    figure, axes = _axes(width, max(_CELL_IN * len(lines) + 1.4, 2.4))
    if not claims:
        return _nothing(figure, axes, "no partition has an owner")
    for height, line in enumerate(lines):
        _draw_cells(axes, line.possible, height, _EMPTY_CELL)
        _draw_cells(axes, line.filled, height, _BLUE if line.consumer else _VERMILION)
    _label_matrix(axes, lines, columns, (width - 2.0) / len(columns))
    return figure


def leader_balance(partitions: Rows, brokers: Rows) -> Figure:
    """Draw how many partitions each broker leads (bar), and how many it leads when all preferred leaders do (line).

    A broker without a row in `brokers` is shown as down. Partitions without a leader have their own bar.

    Parameters
    ----------
    partitions
        Rows of the view `partitions`, with `leader` and `replicas`.
    brokers
        Rows of the view `brokers`, with `id`.
    """
    rows = _read("leader_balance", partitions, ("leader", "replicas"))
    live = {int(row["id"]) for row in _read("leader_balance", brokers, ("id",))}
    leaders = Counter(_NO_LEADER if _is_null(row["leader"]) or row["leader"] < 0 else int(row["leader"]) for row in rows)
    replicas = [[] if _is_null(row["replicas"]) else list(map(int, row["replicas"])) for row in rows]
    preferred = Counter(found[0] for found in replicas if found)
    ids = sorted(live.union(*replicas, leaders.keys() - {_NO_LEADER}))
    names = [str(broker) if broker in live else f"{broker}\n(down)" for broker in ids] + ["no\nleader"] * (
        _NO_LEADER in leaders
    )
    figure, axes = _axes(max(4.5, 0.6 * len(names) + 2.0), 3.2)
    if not names:
        return _nothing(figure, axes, "no brokers and no partitions")
    _draw_bars(axes, 0, [leaders[broker] for broker in ids], _BLUE, "leads")
    ends = [x - 0.4 for x in range(len(ids))], [x + 0.4 for x in range(len(ids))]
    axes.hlines([preferred[broker] for broker in ids], *ends, _BLACK, label="preferred leader of")
    if _NO_LEADER in leaders:
        _draw_bars(axes, len(ids), [leaders[_NO_LEADER]], _VERMILION)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("broker")
    axes.set_ylabel("partitions")
    _whole_numbers(axes)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=_SMALL)
    return figure


def _draw_bars(axes: Axes, start: int, heights: Sequence[int], color: str, label: str = "") -> None:
    bars = axes.bar(range(start, start + len(heights)), heights, width=0.6, color=color, label=label)
    axes.bar_label(bars, fontsize=_SMALL, padding=2)


def _read(function: str, rows: Rows, columns: Sequence[str]) -> list[Row]:
    """Read the rows as mappings; raises `INVALID_SCHEMA` if they lack columns."""
    collected: Iterable[Any]
    if isinstance(rows, _SparkFrame):
        collected = rows.collect()
    else:
        collected = rows.to_dict("records") if isinstance(rows, _PandasFrame) else rows
    found = [row if isinstance(row, Mapping) else row.asDict() for row in collected]
    missing = [name for name in columns if found and name not in found[0]]
    if missing:
        have = ", ".join(map(str, found[0]))
        raise INVALID_SCHEMA(f"{function} needs the columns {', '.join(missing)}; the rows have {have}. Select them")
    return found


def _is_null(value: Any) -> bool:
    """True for None, and for pandas' NaN and NaT."""
    return value is None or (not hasattr(value, "__len__") and value != value)


def _clock(times: Sequence[Any]) -> tuple[Callable[[Any], float], str]:
    """Return a function from times to positions on the axis, in a unit that suits the span, and the axis's label."""
    start = min(times)
    span = _seconds(max(times) - start)
    unit_s, symbol = next((seconds, symbol) for most, seconds, symbol in _UNITS if span <= most)
    since = f"{start:%Y-%m-%d %H:%M:%S}" if isinstance(start, datetime) else "the first observation"
    return lambda time: _seconds(time - start) / unit_s, f"time since {since} ({symbol})"


def _seconds(span: Any) -> float:
    return float(span.total_seconds() if hasattr(span, "total_seconds") else span)


def _sums(rows: Sequence[Row], by: str, *, lone_group: bool) -> Iterator[tuple[str, list[tuple[Any, float]]]]:
    """Yield the label of each line, and its points in order of time."""
    if by not in _SERIES:
        raise INVALID_OPTION(f"by={by!r} is not possible; use one of {', '.join(_SERIES)}")
    columns = _SERIES[by]

    def key(row: Row) -> tuple[Any, ...]:
        return (*(row[name] for name in columns), row["time"])

    readable = [row for row in rows if not any(_is_null(row[name]) for name in columns)]
    for line, points in groupby(sorted(readable, key=key), key=lambda row: key(row)[:-1]):
        sums = groupby(points, key=lambda row: row["time"])
        yield _line_label(line, lone_group=lone_group), [(time, sum(map(_lag, found))) for time, found in sums]


def _lag(row: Row) -> float:
    return nan if _is_null(row["lag"]) else float(row["lag"])


def _line_label(line: tuple[Any, ...], *, lone_group: bool) -> str:
    """Return the label of a line, without the group if it is the only group.

    >>> _line_label(("billing", "orders", 3), lone_group=False), _line_label(("billing", "orders", 3), lone_group=True)
    ('billing orders-3', 'orders-3')
    """
    group, *rest = line
    name = "-".join(str(int(part)) if not isinstance(part, str) else part for part in rest)
    return " ".join(([] if lone_group and name else [group]) + ([name] if name else []))


def _draw_events(axes: Axes, events: Mapping[float, str]) -> None:
    """Draw a line for each event, and its text above the axes. Earlier texts are higher, so that no line crosses a text."""
    at_top = axes.get_xaxis_transform()
    for row, (position, text) in enumerate(sorted(events.items(), reverse=True)):
        height = 1.03 + 0.07 * row
        axes.plot([position, position], [0, height], color="0.55", linewidth=0.8, transform=at_top, clip_on=False)
        axes.text(position, height, f" {_shown(text)}", transform=at_top, fontsize=_SMALL, va="center")


class _Line(NamedTuple):
    """A row of the map, with the columns of its cells. A row without a consumer has the partitions without an owner."""

    group: str
    consumer: str
    filled: tuple[int, ...]
    possible: tuple[int, ...]


def _matrix(claims: Sequence[Row], columns: Mapping[tuple[str, int], int]) -> list[_Line]:
    """Make the rows of the map: each group's consumers in order, then its partitions without an owner."""
    lines = []
    for group in sorted({claim["group"] for claim in claims}):
        owned: dict[str, set[int]] = {}
        for claim in (claim for claim in claims if claim["group"] == group):
            # Kafka prefixes a consumer's id with its group.
            consumer = claim["consumer"]
            name = "unreadable claim" if _is_null(consumer) else consumer.removeprefix(f"{group}_")
            owned.setdefault(name, set()).add(columns[claim["topic"], int(claim["partition"])])
        topics = {claim["topic"] for claim in claims if claim["group"] == group}
        possible = tuple(position for (topic, _), position in columns.items() if topic in topics)
        lines += [_Line(group, name, tuple(sorted(cells)), possible) for name, cells in sorted(owned.items())]
        free = tuple(sorted(set(possible).difference(*owned.values())))
        lines += [_Line(group, "", free, possible)] if free else []
    return lines


def _draw_cells(axes: Axes, cells: Sequence[int], height: int, colour: str) -> None:
    if cells:
        axes.broken_barh([(cell - 0.46, 0.92) for cell in cells], (height - 0.42, 0.84), facecolor=colour)


def _label_matrix(axes: Axes, lines: Sequence[_Line], columns: Mapping[tuple[str, int], int], cell_in: float) -> None:
    groups = {line.group for line in lines}
    prefix: Callable[[_Line], str] = (lambda line: "") if len(groups) == 1 else (lambda line: f"{line.group}: ")
    names = [_shown(prefix(line) + (line.consumer or "no owner")) for line in lines]
    axes.set_yticks(range(len(lines)), names, fontsize=_SMALL)
    axes.set_ylabel(f"consumer of group {_shown(groups.pop())}" if len(groups) == 1 else "group: consumer")
    shown = [cell for cell in columns if cell[1] % -(-len(columns) // _TICKS_AT_MOST) == 0]
    axes.set_xticks([columns[cell] for cell in shown], [str(partition) for _, partition in shown], fontsize=_SMALL)
    axes.set_xlabel("partition")
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for topic, cells in groupby(columns, key=lambda cell: cell[0]):
        _label_topic(axes, topic, [columns[cell] for cell in cells], cell_in)


def _label_topic(axes: Axes, topic: str, positions: Sequence[int], cell_in: float) -> None:
    """Write a topic's name above its columns, rotated if they are too narrow, and draw a line before the topic."""
    fits = 0.075 * len(topic) < cell_in * len(positions)
    centre, at_top = (positions[0] + positions[-1]) / 2, axes.get_xaxis_transform()
    text = axes.text(centre, 1.02, _shown(topic), transform=at_top, ha="center", va="bottom", fontsize=_SMALL)
    text.set_rotation(0 if fits else 90)
    if positions[0] > 0:
        axes.axvline(positions[0] - 0.5, color=_BLACK, linewidth=0.8)


def _shown(text: str) -> str:
    r"""Escape a text for matplotlib, which draws formulas between dollar signs, and leaves out labels that start with _.

    >>> print(_shown("$a"), _shown("_b"))
    \$a  _b
    """
    escaped = printable(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def _axes(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        message = "pyspark_zkafka.plot draws with matplotlib, which is not installed; pip install 'pyspark-zkafka[plot]'"
        raise MATPLOTLIB_MISSING(message) from exc
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _nothing(figure: Figure, axes: Axes, text: str) -> Figure:
    """Show a text instead of axes."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    return figure


def _whole_numbers(axes: Axes) -> None:
    """Place the ticks of the vertical axis at whole numbers, with thousands separated."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
