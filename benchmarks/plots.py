"""Bar charts of figures as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engines import ENGINES
from benchmarks.matrix import MAIN_MASTER
from benchmarks.results import EITHER, CaseName, Contender, Round, Summary, cases, summaries
from benchmarks.shapes import SHAPES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE_ENGINES = ("ours", "jvm", "jvm-tuned", "jvm-idempotent")
_COLOURS = {
    "ours": "#1b7f5c",
    "ours-librdkafka": "#7cc4a8",
    "ours-joined": "#4aa383",
    "ours-noidem": "#4aa383",
    "ours-once": "#4aa383",
    "jvm": "#b0563a",
    "jvm-tuned": "#dd9b7c",
    "jvm-idempotent": "#dd9b7c",
    "mapinarrow": "#8c8c8c",
    "librdkafka": "#cfcfcf",
    "arrow": "#cfcfcf",
}
_TITLES = {
    "read": "Read, all columns",
    "value": "Read, value alone",
    "group": "Read and group",
    "stream20": "Stream, 20 micro-batches",
    "stream-tiny": "Stream, tiny micro-batches",
    "stream-wide": "Stream, 500 partitions of 100 records",
    "copy": "Topic to topic, small micro-batches",
    "write": "Write with keys",
    "write-nokey": "Write without keys",
}


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the charts; return their files."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and equal figures give equal files.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zkafka", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    rounds: list[Round] = document["rounds"]
    drawn = [_read_write(rounds, folder / "read-write.svg", _caption(document))]
    works = dict.fromkeys(one.work for one in rounds)
    drawn += [_work(rounds, work, folder / f"{work}.svg", _caption(document)) for work in works]
    drawn += [_resources(rounds, folder / "cpu.svg", _caption(document))]
    return [path for path in drawn if path is not None]


def _read_write(rounds: list[Round], path: Path, caption: str) -> Path | None:
    """Draw records per second of zkafka, and of the JVM connector with defaults and tuned."""
    panels = [(f"{_TITLES[case.work]}, {_sized(case)}", found) for case, found in _main_cases(rounds)]
    return _figure(panels, FIGURE_ENGINES, path, caption) if panels else None


def _work(rounds: list[Round], work: str, path: Path, caption: str) -> Path | None:
    """Draw all engines, shapes and masters of a work."""
    found = {case: some for case, some in cases(rounds).items() if case.work == work}
    panels = [(f"{_TITLES[work]}, {_sized(case)}, {case.master}", some) for case, some in found.items()]
    return _figure(panels, tuple(ENGINES), path, caption)


def _main_cases(rounds: list[Round]) -> list[tuple[CaseName, list[Round]]]:
    """Return reads and writes of small and big records, each with the number of records measured first."""
    found: dict[tuple[str, str], tuple[CaseName, list[Round]]] = {}
    for case, some in cases(rounds).items():
        if case.master == MAIN_MASTER and case.work in ("read", "write") and case.shape in ("small", "big"):
            found.setdefault((case.work, case.shape), (case, some))
    return list(found.values())


def _sized(case: CaseName) -> str:
    return f"{SHAPES[case.shape].label}, {case.records / 1e6:g} M"


def _figure(panels: Sequence[tuple[str, list[Round]]], engines: Sequence[str], path: Path, caption: str) -> Path:
    from matplotlib.figure import Figure

    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    most = max(len({one.contender for one in rounds if one.engine in engines}) for _, rounds in panels)
    figure = Figure(figsize=(5.2 * columns, (0.75 + 0.27 * most) * lines + 0.3), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for axis, (title, rounds) in zip(axes, panels, strict=False):
        _bars(axis, title, [one for one in summaries(rounds) if one.contender.engine in engines])
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.supxlabel(caption, fontsize=7, color="#555555")
    figure.savefig(path, metadata={"Date": None})
    return path


def _bars(axis: Axes, title: str, found: Sequence[Summary]) -> None:
    """Draw million records per second, each bar labelled with it and with its ratio to the JVM connector's defaults."""
    speeds = [one.records_per_s / 1e6 for one in found]
    bars = axis.barh(range(len(found)), speeds, color=[_COLOURS[one.contender.engine] for one in found], height=0.72)
    axis.bar_label(bars, [_label(one) for one in found], padding=3, fontsize=8)
    axis.set_yticks(range(len(found)), [_name(one.contender) for one in found])
    axis.invert_yaxis()
    axis.set_title(f"{title} (M records/s)", loc="left", fontsize=9, fontweight="bold")
    _strip(axis, max(speeds) * 1.35)


def _label(found: Summary) -> str:
    speed = f"{found.records_per_s / 1e6:.3g}"
    is_peer = found.contender.engine == "jvm" or "jvm" not in found.ratios
    return speed if is_peer else f"{speed}  ({found.ratios['jvm']:.2f}x)"


def _name(contender: Contender) -> str:
    name = ENGINES[contender.engine].label
    return name if contender.settings == EITHER else f"{name} ({contender.settings})"


def _resources(rounds: list[Round], path: Path, caption: str) -> Path | None:
    """Draw CPU seconds per million records, of Spark and of the brokers."""
    from matplotlib.figure import Figure

    panels = [(case, summaries(found)) for case, found in _main_cases(rounds)]
    if not panels:
        return None
    figure = Figure(figsize=(10.4, 2.6 * -(-len(panels) // 2) + 0.3), layout="constrained")
    axes = figure.subplots(-(-len(panels) // 2), 2, squeeze=False).flatten()
    for axis, (case, found) in zip(axes, panels, strict=False):
        _stacked(axis, f"{_TITLES[case.work]}, {_sized(case)}", found)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.supxlabel(f"Spark + brokers; {caption}", fontsize=7, color="#555555")
    figure.savefig(path, metadata={"Date": None})
    return path


def _stacked(axis: Axes, title: str, found: Sequence[Summary]) -> None:
    spark = [one.spark_cpu_s_per_million for one in found]
    brokers = [one.broker_cpu_s_per_million for one in found]
    places = range(len(found))
    axis.barh(places, spark, color=[_COLOURS[one.contender.engine] for one in found], height=0.72)
    rest = axis.barh(places, brokers, left=spark, color="#f0d58c", height=0.72)
    axis.bar_label(rest, [f"{a:.2f} + {b:.2f}" for a, b in zip(spark, brokers, strict=True)], padding=3, fontsize=8)
    axis.set_yticks(places, [_name(one.contender) for one in found])
    axis.invert_yaxis()
    axis.set_title(f"{title} (CPU s per M records)", loc="left", fontsize=9, fontweight="bold")
    _strip(axis, max(a + b for a, b in zip(spark, brokers, strict=True)) * 1.35)


def _strip(axis: Axes, limit: float) -> None:
    axis.set_xlim(0, limit)
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.tick_params(axis="x", bottom=False, labelbottom=False)
    axis.tick_params(axis="y", length=0)


def _caption(document: dict[str, Any]) -> str:
    found = document["environment"]
    return (
        f"{found['cores']} cores, brokers on the same machine ({found['brokers']}), pyspark {found['pyspark']}, "
        f"{found['date'][:10]}; medians, and (x) medians of the ratios to the JVM connector's defaults within rounds"
    )
