"""The ``zkafka`` command: exit status 0, 1 (failed) or 2 (usage)."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from pyspark_zkafka._version import __version__
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.tools import exporter, plan, views
from pyspark_zkafka.tools.admin import app as admin_app
from pyspark_zkafka.tools.command import exit_status
from pyspark_zkafka.tools.groups import app as groups_app
from pyspark_zkafka.tools.ledger import app as ledger_app
from pyspark_zkafka.tools.local_cluster import app as cluster_app
from pyspark_zkafka.tools.output import LogFormatter

__all__ = ["app", "main"]

app = typer.Typer(name="zkafka", no_args_is_help=True, pretty_exceptions_enable=False)
views.add_to(app)
plan.add_to(app)
exporter.add_to(app)
app.add_typer(groups_app, name="groups")
app.add_typer(ledger_app, name="ledger")
app.add_typer(admin_app, name="admin")
app.add_typer(cluster_app, name="cluster")


def _show_version(wanted: bool) -> None:
    if wanted:
        from pyspark_zkafka.records.native.library import describe

        typer.echo(f"zkafka {__version__}: {describe()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kafka for Spark in Python, for clusters that ZooKeeper coordinates."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1, help="Number of rows to write and read.")] = 1_000_000,
    cores: Annotated[int, typer.Option(min=1, help="Number of cores that Spark may use.")] = 2,
    kafka_version: Annotated[
        str, typer.Option("--kafka-version", "--kafka", help="3.9.1 with ZooKeeper, or 4.3.1 in KRaft mode.")
    ] = "3.9.1",
) -> None:
    """Write, read, commit and stop a broker on a real cluster that is started for it.

    Example: zkafka demo --rows 100000
    """
    from pyspark_zkafka.tools.demo import run

    run(rows, cores, kafka_version)


def main() -> None:
    """Run the command; a ZKafkaError is written as one line to standard error."""
    if logging.lastResort is not None:  # the handler of commands, which configure no logging
        logging.lastResort.setFormatter(LogFormatter())
    try:
        app()
    except ZKafkaError as error:
        sys.exit(exit_status(error))
