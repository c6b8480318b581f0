"""The commands: ``all`` measures everything, ``run`` compares what is asked for, ``up`` and ``down`` keep the cluster."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import apart, cluster, extras, matrix, plots, results, tables, topics
from benchmarks.engines import ENGINES, READS, STREAMS, WRITES
from benchmarks.job import Case, Job
from benchmarks.session import ROOT
from benchmarks.shapes import SHAPES

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

WORKS = (*sorted(READS), *sorted(STREAMS), *sorted(WRITES))
PLOTS = ROOT / "docs" / "benchmarks"
_WIDTH = 124
_FULL_SCALE, _QUICK_SCALE = 0.5, 0.05
_Scale = Annotated[float, typer.Option(help="How many records: 1 is 4 M small ones, 1 M of the others.")]
_Sockets = Annotated[bool, typer.Option(help="Between the JVM and the Python workers.")]


@app.command()
def up(scale: _Scale = 0.0) -> None:
    """Start the cluster, which stays until `down`, and fill its topics at a scale (none at 0)."""
    found = cluster.up()
    for shape in SHAPES if scale else ():
        topics.filled(found, shape, scale)
    Console().print(f"{found.zookeeper_connect} {found.bootstrap_servers}", highlight=False, soft_wrap=True)


@app.command()
def down() -> None:
    """End the cluster, and drop its topics."""
    cluster.down()


@app.command()
def run(
    only: Annotated[str, typer.Option(help=f"Works: {', '.join((*WORKS, *extras.NAMES))}.")] = "read,write",
    records: Annotated[str, typer.Option(help=f"Shapes: {', '.join(SHAPES)}.")] = "small,big",
    engines: Annotated[str, typer.Option(help=f"Engines: {', '.join(ENGINES)}.")] = ",".join(matrix.COMPARED),
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    master: Annotated[str, typer.Option(help="local[n] or standalone; several with + between them.")] = "local[2]",
    scale: _Scale = 1.0,
    unix_sockets: _Sockets = True,
    quick: Annotated[bool, typer.Option(help="Shortly, what is no comparison of works.")] = False,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = ROOT / "build" / "run.json",
) -> None:
    """Compare what is asked for, on the cluster that is up, or on one that ends with the command."""
    wanted, names = _names(only, (*WORKS, *extras.NAMES)), _names(engines, ENGINES)
    works = [work for work in wanted if work in WORKS and any(work in ENGINES[name].works for name in names)]
    cases = [Case(work, shape, scale, names, rounds) for work in works for shape in _names(records, SHAPES)]
    tiny = [matrix.tiny(200, names, rounds)] if "stream200" in works else []
    cases = [case for case in cases if case.work != "stream200"] + tiny
    jobs = [Job(one, cases, unix_sockets) for one in master.split("+")] if cases else []
    others = [name for name in wanted if name in extras.NAMES]
    size = matrix.QUICK if quick else matrix.FULL
    _measure(jobs, others, size, output, scale=scale, rounds=rounds, unix_sockets=unix_sockets)


@app.command("all")
def measure_all(
    quick: Annotated[bool, typer.Option(help="A little of everything, to see that it works.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="5, or 1 if quick.")] = None,
    scale: Annotated[float | None, typer.Option(help="1 is 4 M small records; 0.5, or 0.05 if quick.")] = None,
    unix_sockets: _Sockets = True,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = ROOT / "build" / "bench.json",
    plot: Annotated[bool | None, typer.Option(help="Draw into docs/benchmarks/; by default unless quick.")] = None,
) -> None:
    """Measure everything, show it, save it and draw it."""
    scale = scale or (_QUICK_SCALE if quick else _FULL_SCALE)
    rounds = rounds or (1 if quick else 5)
    jobs = (matrix.quick if quick else matrix.full)(scale, rounds, unix_sockets=unix_sockets)
    size = matrix.QUICK if quick else matrix.FULL
    _measure(jobs, list(extras.NAMES), size, output, scale=scale, rounds=rounds, unix_sockets=unix_sockets)
    if plot or (plot is None and not quick):
        draw(output)


@app.command("plot")
def draw(
    figures: Annotated[Path, typer.Argument(help="What a run has saved.")] = ROOT / "build" / "bench.json",
    folder: Annotated[Path, typer.Option(help="Where the drawings go.")] = PLOTS,
) -> None:
    """Draw what was measured before."""
    for path in plots.draw(results.load(figures), folder):
        Console().print(path, highlight=False)


@app.command()
def show(figures: Annotated[Path, typer.Argument(help="What a run has saved.")] = ROOT / "build" / "bench.json") -> None:
    """Show what was measured before."""
    _show(results.load(figures))


def _measure(jobs: list[Job], others: list[str], size: matrix.Extras, output: Path, **settings: Any) -> None:
    """Measure, save and show; what fails, or gives a wrong result, fails the command when all else is measured."""
    document = {"environment": results.environment(results.command_line(), **settings), "rounds": [], "figures": {}}
    failures: list[apart.MeasurementFailed] = []

    def add_job(job: Job) -> None:
        document["rounds"] += apart.measure(job)

    def add_extra(name: str) -> None:
        document["figures"] |= apart.measure_extra(name, size, unix_sockets=settings["unix_sockets"])

    steps = [*(partial(add_job, job) for job in jobs), *(partial(add_extra, name) for name in others)]
    try:
        with cluster.borrowed():
            for step in steps:
                try:
                    step()
                except apart.MeasurementFailed as error:
                    failures.append(error)
                results.save(output, document)
    finally:
        _show(document)
    if failures:
        typer.echo("\n".join(map(str, failures)), err=True)
        raise typer.Exit(1)


def _show(document: dict[str, Any]) -> None:
    console = Console()
    console.width = max(console.width, _WIDTH)
    tables.show(document["rounds"], console)
    tables.show_figures(document["figures"], console)


def _names(given: str, known: Collection[str]) -> list[str]:
    names = [name.strip() for name in given.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}; there are {', '.join(known)}")
    return names
