"""``zkafka brokers`` and ``zkafka controller``: the views of the same names, as tables and JSON."""

from __future__ import annotations

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.output import columns, iso_time

__all__ = ["add_to"]

_BROKERS = columns("id host port rack version timestamp endpoints", right="id port version")
_NARROW = columns("id rack version timestamp endpoints", right="id version")
_CONTROLLER = columns("broker epoch timestamp cluster_id", right="broker epoch")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("brokers")(brokers)
    app.command("controller")(controller)


@reads_cluster
def brokers(target: Target) -> None:
    """List the live brokers, and when each registered.

    Example: zkafka brokers --zookeeper zk1:2181/kafka
    """
    rows = [{**row, "timestamp": iso_time(row.get("timestamp"))} for row in target.view("brokers")]
    target.rows(rows, _BROKERS, "No broker is registered.", _NARROW)


@reads_cluster
def controller(target: Target) -> None:
    """Show the active controller, its epoch, when it was elected, and the cluster's id.

    Example: zkafka controller --zookeeper zk1:2181/kafka
    """
    rows = [{**row, "timestamp": iso_time(row.get("timestamp"))} for row in target.view("controller")]
    target.rows(rows, _CONTROLLER)
    if "zookeeper.connect" not in target.options and not any(row.get("broker") is not None for row in rows):
        target.output.note("In KRaft mode, use Kafka's kafka-metadata-quorum --bootstrap-server ... describe --status.")
