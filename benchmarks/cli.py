"""Commands: ``all`` measures everything or parts, ``run`` single works; ``markdown``, ``plot``, ``show`` show figures."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import apart, cluster, extras, markdown, matrix, plots, results, tables, topics
from benchmarks.engines import COPIES, ENGINES, READS, STREAMS, WRITES
from benchmarks.job import Case, Job
from benchmarks.session import ROOT, SETTINGS
from benchmarks.shapes import SHAPES

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

WORKS = (*sorted(READS), *sorted(STREAMS), *sorted(WRITES), *sorted(COPIES))
PLOTS = ROOT / "build" / "plots"
_WIDTH = 150
_PARTS = (*matrix.PARTS, *extras.NAMES)
_OF_FEW_RECORDS = {"stream-tiny": 100, "stream-wide": 20, "copy": 25}
_BOTH = ",".join(SETTINGS)
_OTHERS = f"{extras.NAMES[0]} and the names after it have their own."
_SIZES = "How many records: 1 is 4 M small records, 100 M tiny, 2,000 huge, 1 M of the others"
_Scale = Annotated[float, typer.Option(help=f"{_SIZES}; {_OTHERS}")]
_Settings = Annotated[str, typer.Option(help=f"Spark's settings: {', '.join(SETTINGS)}.")]
_Figures = Annotated[list[Path], typer.Argument(help="What runs have saved.")]


@app.command()
def up(scale: _Scale = 0.0) -> None:
    """Start the cluster, which runs until `down`, and fill its topics at a scale (none at 0)."""
    found = cluster.up()
    for shape in SHAPES if scale else ():
        topics.filled(found, shape, scale)
    Console().print(f"{found.zookeeper_connect} {found.bootstrap_servers}", highlight=False, soft_wrap=True)


@app.command()
def down() -> None:
    """Stop the cluster and drop its topics."""
    cluster.down()


@app.command()
def run(
    only: Annotated[str, typer.Option(help=f"Works: {', '.join((*WORKS, *extras.NAMES))}.")] = "read,write",
    records: Annotated[str, typer.Option(help=f"Shapes: {', '.join(SHAPES)}.")] = "small,big",
    engines: Annotated[str, typer.Option(help=f"Engines: {', '.join(ENGINES)}.")] = ",".join(matrix.MAIN),
    rounds: Annotated[int, typer.Option(min=1, help=f"How often; {_OTHERS}")] = 5,
    master: Annotated[str, typer.Option(help=r"local\[n] or standalone; several with + between them.")] = "local[2]",
    scale: _Scale = 1.0,
    settings: _Settings = _BOTH,
    quick: Annotated[bool, typer.Option(help="Less of what is measured as well as throughput.")] = False,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = ROOT / "build" / "run.json",
) -> None:
    """Compare the given works, on the running cluster or on a temporary one."""
    wanted, names = _names(only, (*WORKS, *extras.NAMES)), _names(engines, ENGINES)
    works = [work for work in wanted if work in WORKS and any(work in ENGINES[name].works for name in names)]
    cases = [Case(work, shape, scale, names, rounds) for work in works for shape in _names(records, SHAPES)]
    cases = [case for case in cases if case.work not in _OF_FEW_RECORDS]
    cases += [matrix.tiny(work, number, names, rounds) for work, number in _OF_FEW_RECORDS.items() if work in works]
    under = tuple(_names(settings, SETTINGS))
    jobs = [Job(one, cases, under) for one in master.split("+")] if cases else []
    others = [(name, one) for name in wanted if name in extras.NAMES for one in extras.settings_of(name, under)]
    _measure(jobs, others, matrix.QUICK if quick else matrix.FULL, output, scale=scale, rounds=rounds, settings=settings)


@app.command("all")
def measure_all(
    parts: Annotated[list[str] | None, typer.Argument(help=f"Some of {', '.join(_PARTS)}.")] = None,
    quick: Annotated[bool, typer.Option(help="Three rounds; without parts, only what most users do.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"5, or 3 if quick; some parts take at most three, or two if quick; {_OTHERS}")
    ] = None,
    scale: _Scale = 0.5,
    output: Annotated[Path | None, typer.Option(help="By default build/bench.json, or build/bench-PART.json.")] = None,
) -> None:
    """Measure all parts, some of them, or with --quick the most important; show the figures and save them."""
    rounds = rounds or (3 if quick else 5)
    wanted = _names(",".join(parts), _PARTS) if parts else [] if quick else list(_PARTS)
    jobs = [job for part in wanted if part in matrix.PARTS for job in matrix.PARTS[part](scale, rounds)]
    jobs = jobs if wanted else matrix.quick(scale, rounds)
    others = [(part, one) for part in wanted if part in extras.NAMES for one in extras.settings_of(part, SETTINGS)]
    output = output or ROOT / "build" / f"{'-'.join(['bench', *(parts or ())])}.json"
    _measure(jobs, others, matrix.QUICK if quick else matrix.FULL, output, scale=scale, rounds=rounds)


@app.command("markdown")
def print_markdown(
    figures: _Figures,
    update: Annotated[bool, typer.Option(help="Also replace the tables in docs/.")] = False,
) -> None:
    """Print the tables of the documentation from saved figures."""
    found = markdown.tables(results.load(figures))
    for name, table in found.items():
        typer.echo(f"<!-- figures: {name} -->\n{table}\n")
    for page in markdown.PAGES if update else ():
        page.write_text(markdown.replaced(page.read_text(encoding="utf-8"), found), encoding="utf-8")


@app.command("plot")
def draw(
    figures: _Figures,
    folder: Annotated[Path, typer.Option(help="Where the drawings go.")] = PLOTS,
) -> None:
    """Draw saved figures."""
    for path in plots.draw(results.load(figures), folder):
        Console().print(path, highlight=False)


@app.command()
def show(figures: _Figures) -> None:
    """Show saved figures."""
    _show(results.load(figures))


def _measure(jobs: list[Job], others: list[tuple[str, str]], size: matrix.Extras, output: Path, **given: Any) -> None:
    """Measure, save and show. The command fails at the end if a measurement failed or gave a wrong result.

    `others` are names of `extras`, each with Spark's settings.
    """
    document = {"environment": results.environment(results.command_line(), **given), "rounds": [], "figures": {}}
    failures: list[apart.MeasurementFailed] = []

    def add_job(job: Job) -> None:
        for rounds in apart.measure(job):
            document["rounds"] += rounds
            results.save(output, document)

    def add_extra(name: str, under: str) -> None:
        document["figures"].setdefault(name, []).extend(apart.measure_extra(name, size, under))

    steps = [partial(add_job, job) for job in jobs] + [partial(add_extra, name, under) for name, under in others]
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
