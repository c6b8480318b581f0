"""Plots of views."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import OptionError, ZKafkaError, printable
from pyspark_zkafka.plot import assignment_map, lag_over_time, leader_balance

if TYPE_CHECKING:
    # Not imported at runtime, since each process that collects tests would wait for it.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = datetime(2026, 11, 22, 15, 30)
OWNED, UNOWNED, EMPTY = "#0072b2", "#d55e00", "#eeeeee"


def observation(second: float, lag: int | None, partition: int = 0, group: str = "billing", **more: Any) -> dict[str, Any]:
    """Return a row of the view `offsets` with its time."""
    time = START + timedelta(seconds=second)
    return {"time": time, "group": group, "topic": "orders", "partition": partition, "lag": lag, **more}


def claim(partition: int, consumer: str | None, group: str = "billing", topic: str = "orders") -> dict[str, Any]:
    """Return a row of the view `owners`."""
    return {"group": group, "topic": topic, "partition": partition, "consumer": consumer}


def existing(*counts: tuple[str, int]) -> list[dict[str, Any]]:
    """Return rows of the view `partitions`, with a number of partitions of each topic."""
    return [{"topic": topic, "partition": partition} for topic, count in counts for partition in range(count)]


def led(leader: int | None, *replicas: int) -> dict[str, Any]:
    """Return a row of the view `partitions` with its leader and replicas."""
    return {"leader": leader, "replicas": list(replicas)}


def drawn(figure: Figure) -> Axes:
    """Return the figure's axes after rendering, so that errors and warnings of the layout show."""
    figure.savefig("/dev/null", format="png")
    return figure.axes[0]


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each labelled line."""
    handles, labels = axes.get_legend_handles_labels()
    return {
        label: [(float(x), float(y)) for x, y in line.get_xydata()] for line, label in zip(handles, labels, strict=True)
    }


def texts(figure: Figure) -> list[str]:
    """Return the texts inside the axes and the legend."""
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return [text.get_text().strip() for text in figure.axes[0].texts] + legends


def cells(axes: Axes, colour: str) -> dict[str, list[int]]:
    """Return the columns of the cells of one colour, by the label of their row."""
    from matplotlib.colors import to_hex

    labels = {round(tick): text.get_text() for tick, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
    found: dict[str, list[int]] = {}
    for bars in axes.collections:
        if to_hex(bars.get_facecolor()[0]) == colour:
            boxes = [path.get_extents() for path in bars.get_paths()]
            found[labels[round((boxes[0].y0 + boxes[0].y1) / 2)]] = [round((box.x0 + box.x1) / 2) for box in boxes]
    return found


def ticks(labels: Iterable[Any]) -> list[str]:
    """Return the labels of an axis."""
    return [label.get_text() for label in labels]


class TestLag:
    """Lag over time."""

    def test_sum_by_group(self) -> None:
        """A line sums the lags of its group's partitions at each time, in order of time."""
        rows = [observation(second, 10 * second + p, p) for second in (2, 0, 1) for p in (0, 1)]
        rows += [observation(1, 7, group="audit")]
        figure = lag_over_time(rows)
        axes = drawn(figure)
        assert lines(axes) == {"audit": [(1, 7)], "billing": [(0, 1), (1, 21), (2, 41)]}
        assert texts(figure) == ["audit", "billing"]
        assert axes.get_ylabel() == "lag (records)"
        assert axes.get_xlabel() == "time since 2026-11-22 15:30:00 (s)"
        assert axes.get_ylim()[0] == 0

    def test_lone_group(self) -> None:
        """A single line has no legend, but its group is named at the axis."""
        figure = lag_over_time([observation(0, 5), observation(1, 3)])
        assert drawn(figure).get_ylabel() == "lag of group billing (records)"
        assert figure.legends == []

    @pytest.mark.parametrize(
        ("by", "labels"), [("topic", {"orders", "clicks"}), ("partition", {"orders-0", "clicks-0", "clicks-1"})]
    )
    def test_lines(self, by: Any, labels: set[str]) -> None:
        """Topics and partitions have their own lines, named without the group if there is only one."""
        rows = [observation(0, 1), observation(0, 2, topic="clicks"), observation(0, 3, 1, topic="clicks")]
        assert set(lines(drawn(lag_over_time(rows, by=by)))) == labels

    def test_unreadable_partition(self) -> None:
        """A row of a malformed znode, which has no partition, is left out of the lines by partition."""
        rows = [observation(0, 1), {**observation(0, 1), "partition": None}]
        assert lines(drawn(lag_over_time(rows, by="partition"))) == {"orders-0": [(0, 1)]}

    def test_many_lines(self) -> None:
        """Twenty lines all look different."""
        figure = lag_over_time([observation(s, p, p) for s in (0, 1) for p in range(20)], by="partition")
        assert len({(line.get_color(), line.get_linestyle()) for line in drawn(figure).lines}) == 20

    def test_unknown_lag(self) -> None:
        """A line has a gap where the lag of one of its partitions is unknown."""
        rows = [observation(0, 1), observation(0, 1, 1), observation(1, 1), observation(1, None, 1)]
        points = lines(drawn(lag_over_time(rows)))["billing"]
        assert points[0] == (0, 2)
        assert math.isnan(points[1][1])

    def test_negative_lag(self) -> None:
        """A committed offset beyond the end of the log is visible."""
        assert drawn(lag_over_time([observation(0, 5), observation(1, -5)])).get_ylim()[0] < -4

    @pytest.mark.parametrize(
        ("seconds", "last", "unit"), [(100, 100, "s"), (600, 10, "min"), (6 * 3600, 6, "h"), (10 * 86400, 10, "d")]
    )
    def test_units(self, seconds: int, last: float, unit: str) -> None:
        """The unit of time suits the span."""
        axes = drawn(lag_over_time([observation(0, 1), observation(seconds, 1)]))
        assert axes.get_xlim() == (0, last)
        assert axes.get_xlabel().endswith(f"({unit})")

    def test_times_in_seconds(self) -> None:
        """Times may be numbers of seconds."""
        axes = drawn(lag_over_time([observation(0, 9, time=100.0), observation(0, 4, time=102.5)]))
        assert lines(axes) == {"billing": [(0, 9), (2.5, 4)]}
        assert axes.get_xlabel() == "time since the first observation (s)"

    def test_events(self) -> None:
        """Each event is a line with text at its time, and earlier texts are higher, so that they do not overlap."""
        events = {START + timedelta(seconds=5): "b joins", START + timedelta(seconds=1): "a joins"}
        figure = lag_over_time([observation(s, 1) for s in range(9)], events=events)
        found = {text.get_text().strip(): text.get_position() for text in drawn(figure).texts}
        assert {name: x for name, (x, _) in found.items()} == {"a joins": 1, "b joins": 5}
        assert found["a joins"][1] > found["b joins"][1] > 1


class TestAssignment:
    """The assignment map."""

    def test_cells(self) -> None:
        """A cell is filled where a consumer owns a partition, and partitions without an owner have their own row."""
        axes = drawn(
            assignment_map([claim(0, "billing_a"), claim(1, "billing_b"), claim(3, "billing_a")], existing(("orders", 5)))
        )
        assert cells(axes, OWNED) == {"a": [0, 3], "b": [1]}
        assert cells(axes, UNOWNED) == {"no owner": [2, 4]}
        assert cells(axes, EMPTY) == {row: [0, 1, 2, 3, 4] for row in ("a", "b", "no owner")}
        assert ticks(axes.get_xticklabels()) == ["0", "1", "2", "3", "4"]
        assert axes.get_xlabel() == "partition"
        assert axes.get_ylabel() == "consumer of group billing"

    def test_topics(self) -> None:
        """Topics with owners are side by side with their names, with partitions in numerical order."""
        owners = [claim(p, "billing_a", topic=topic) for topic in ("orders", "clicks") for p in range(11)]
        figure = assignment_map(owners, existing(("orders", 11), ("clicks", 11), ("idle", 50)))
        axes = drawn(figure)
        assert texts(figure) == ["clicks", "orders"]
        assert ticks(axes.get_xticklabels()) == [str(p) for p in range(11)] * 2
        assert cells(axes, UNOWNED) == {}

    def test_groups(self) -> None:
        """Each group has its own consumers and its own partitions without an owner."""
        owners = [claim(0, "billing_a"), claim(1, "billing_b"), claim(0, "audit_a", "audit")]
        axes = drawn(assignment_map(owners, existing(("orders", 2))))
        assert cells(axes, OWNED) == {"audit: a": [0], "billing: a": [0], "billing: b": [1]}
        assert cells(axes, UNOWNED) == {"audit: no owner": [1]}

    def test_odd_claims(self) -> None:
        """Unreadable claims and claims of partitions that do not exist are shown, unless their partition is unknown."""
        unreadable = {**claim(0, None), "partition": None}
        axes = drawn(assignment_map([claim(0, None), claim(7, "billing_a"), unreadable], existing(("orders", 1))))
        assert cells(axes, OWNED) == {"a": [1], "unreadable claim": [0]}
        assert ticks(axes.get_xticklabels()) == ["0", "7"]

    def test_many_partitions(self) -> None:
        """Each of hundreds of partitions has a cell, only some have a number, and the figure fits into a notebook."""
        figure = assignment_map([claim(p, f"billing_{p % 3}") for p in range(300)], existing(("orders", 300)))
        axes = drawn(figure)
        assert sum(map(len, cells(axes, OWNED).values())) == 300
        assert len(axes.get_xticklabels()) <= 41
        assert figure.get_size_inches()[0] <= 14


class TestLeaders:
    """The balance of leaders."""

    def test_bars(self) -> None:
        """A bar counts the partitions a broker leads, and a line marks of how many it is the preferred leader."""
        figure = leader_balance([led(0, 0, 1), led(0, 1, 0), led(1, 1, 0), led(0, 2, 0)], [{"id": 0}, {"id": 1}])
        axes = drawn(figure)
        assert [bar.get_height() for bar in axes.patches] == [3, 1, 0]
        assert [line[0][1] for line in axes.collections[0].get_segments()] == [1, 2, 1]
        assert ticks(axes.get_xticklabels()) == ["0", "1", "2\n(down)"]
        assert axes.get_xlabel() == "broker"
        assert axes.get_ylabel() == "partitions"
        assert set(texts(figure)) == {"3", "1", "0", "leads", "preferred leader of"}

    def test_no_leader(self) -> None:
        """Partitions without a leader, or in creation, have their own bar, as does a broker without partitions."""
        axes = drawn(leader_balance([led(0, 0), led(-1, 0), led(None, 0)], [{"id": 0}, {"id": 1}]))
        assert [bar.get_height() for bar in axes.patches] == [1, 0, 2]
        assert ticks(axes.get_xticklabels()) == ["0", "1", "no\nleader"]


class Frame:
    """The part of Spark's DataFrame that plots use."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = spark_rows(rows)

    def collect(self) -> list[Any]:
        return self._rows


def spark_rows(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    from pyspark.sql import Row

    return [Row(**row) for row in rows]


def pandas_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows)


@pytest.mark.parametrize("form", [list, Frame, pandas_frame, spark_rows])
def test_forms_of_rows(form: Any) -> None:
    """Rows may be mappings, Spark's rows, or a DataFrame of Spark or of pandas, which shows missing numbers as NaN."""
    figure = lag_over_time(form([observation(0, 5), observation(1, None), observation(2, 4)]))
    assert str(lines(drawn(figure))) == "{'billing': [(0.0, 5.0), (1.0, nan), (2.0, 4.0)]}"
    figure = leader_balance(form([led(0, 0, 1), led(None, 1, 0)]), form([{"id": 0}, {"id": 1}]))
    assert [bar.get_height() for bar in drawn(figure).patches] == [1, 0, 1]
    figure = assignment_map(form([claim(0, "billing_a"), claim(1, None)]), form(existing(("orders", 2))))
    assert cells(drawn(figure), OWNED) == {"a": [0], "unreadable claim": [1]}


@pytest.mark.parametrize("name", ["_internal", r"$\frac$", r"a\$b$", "a\ud800\x1b[2J"])
def test_hostile_names(name: str) -> None:
    """A name is drawn as it is, whatever it means to matplotlib. Control characters and lone surrogates are escaped."""
    named = printable(name)
    axes = drawn(lag_over_time([observation(s, 1, group=g) for s in (0, 1) for g in (name, "z")], events={START: name}))
    assert [text.replace(r"\$", "$").strip() for text in lines(axes)] == sorted([named, "z"])
    owners = drawn(assignment_map([claim(0, name, name), claim(1, "c1", "z")], existing(("orders", 2))))
    labels = [label.get_text().replace(r"\$", "$").strip() for label in owners.get_yticklabels()]
    assert f"{named}: {named}" in labels


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (lambda: lag_over_time([]), "no observations"),
        (lambda: assignment_map([], existing(("orders", 2))), "no partition has an owner"),
        (lambda: leader_balance([], []), "no brokers and no partitions"),
    ],
)
def test_nothing_to_draw(figure: Any, text: str) -> None:
    """A figure without rows says so."""
    empty = figure()
    drawn(empty)
    assert texts(empty) == [text]


def test_missing_columns() -> None:
    """Missing columns are an error that names them."""
    with pytest.raises(
        OptionError, match=r"\[INVALID_SCHEMA\] lag_over_time needs the columns time, lag; the rows have group, "
    ):
        lag_over_time([{"group": "g", "topic": "t", "partition": 0}])


def test_unknown_lines() -> None:
    """An unknown kind of lines is an error that names the valid ones."""
    with pytest.raises(OptionError, match="by='member' is not possible; use one of group, topic, partition"):
        lag_over_time([observation(0, 1)], by="member")  # type: ignore[arg-type]


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib, an error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ZKafkaError, match=r"MATPLOTLIB_MISSING.*pip install 'pyspark-zkafka\[plot\]'"):
        leader_balance([], [])
