"""The ``zkafka`` command: exit status 0, 1 (failed) or 2 (usage), and 130 after Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from pyspark_zkafka._version import __version__
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.records.native import library
from pyspark_zkafka.tools import (
    admin,
    admin_config,
    admin_reassign,
    checkpoint_show,
    exporter,
    group_delete,
    group_describe,
    group_files,
    group_migrate,
    group_reset,
    group_verify,
    ledger,
    local_cluster,
    topic_changes,
    topic_records,
    views,
)
from pyspark_zkafka.tools.command import exit_status
from pyspark_zkafka.worker import LogFormatter

_topics = typer.Typer(no_args_is_help=True, help="List, describe, change, read and write topics.")
_topics.command("list")(views.list_topics)
_topics.command("describe")(views.describe_topics)
_topics.command("create")(topic_changes.create)
_topics.command("alter")(topic_changes.alter)
_topics.command("delete")(topic_changes.delete)
_topics.command("tail")(topic_records.tail)
_topics.command("produce")(topic_records.produce)

_groups = typer.Typer(no_args_is_help=True, help="Show and change consumer groups and their offsets.")
_groups.command("list")(group_describe.list_)
_groups.command("describe")(group_describe.describe)
_groups.command("members")(group_describe.members)
_groups.command("verify")(group_verify.verify)
_groups.command("reset-offsets")(group_reset.reset_offsets)
_groups.command("export")(group_files.export_offsets)
_groups.command("import")(group_files.import_offsets)
_groups.command("delete")(group_delete.delete)
_groups.command("migrate")(group_migrate.migrate)

_config = typer.Typer(no_args_is_help=True, help="Describe, set and delete settings of topics.")
_config.command("describe")(admin_config.describe)
_config.command("set")(admin_config.set_)
_config.command("delete")(admin_config.delete)

_admin = typer.Typer(
    no_args_is_help=True, help="Through ZooKeeper: reassign partitions, elect leaders, and delete or configure topics."
)
_admin.command("show")(admin.show)
_admin.command("reassign")(admin_reassign.reassign)
_admin.command("elect")(admin.elect)
_admin.command("delete-topic")(admin.delete_topic)
_admin.add_typer(_config, name="config")

app = typer.Typer(name="zkafka", no_args_is_help=True, pretty_exceptions_enable=False)
app.command("brokers")(views.brokers)
app.command("controller")(views.controller)
app.command("plan")(views.plan)
app.command("exporter")(exporter.exporter)
app.add_typer(_topics, name="topics")
app.add_typer(_groups, name="groups")
app.add_typer(ledger.app, name="ledger")
app.add_typer(checkpoint_show.app, name="checkpoint")
app.add_typer(_admin, name="admin")
app.add_typer(local_cluster.app, name="cluster")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"zkafka {__version__}: {library.describe()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kafka for Spark in Python, with or without ZooKeeper."""


@app.command("demo")
def _demo(
    rows: Annotated[int, typer.Option(min=1, help="Number of rows to write and read.")] = 1_000_000,
    cores: Annotated[int, typer.Option(min=1, help="Number of cores that Spark may use.")] = 2,
) -> None:
    """Start local clusters, and write, read and stream on them: first with Kafka 4, then in a group in ZooKeeper.

    Example: zkafka demo --rows 100000
    """
    from pyspark_zkafka.tools.demo import run  # imports Spark's session, which takes long

    run(rows, cores)


def main() -> None:
    """Run the command; a ZKafkaError is written as one line to standard error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller; a connection would get its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open
    if logging.lastResort is not None:  # the handler of commands, which configure no logging
        logging.lastResort.setFormatter(LogFormatter())
    try:
        app()
    except ZKafkaError as error:
        sys.exit(exit_status(error))
