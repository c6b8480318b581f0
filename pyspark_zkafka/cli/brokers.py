"""``zkafka brokers`` and ``zkafka controller``: who the brokers are, and which one controls the cluster."""

from __future__ import annotations

import typer

from pyspark_zkafka.cli.command import Target, reads_cluster
from pyspark_zkafka.cli.output import columns, iso_time

__all__ = ["add_to"]

_BROKERS = columns("id host port rack version registered endpoints", right="id port version")
_NARROW = columns("id rack version registered endpoints", right="id version")
_CONTROLLER = columns("controller epoch elected cluster_id", right="controller epoch")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("brokers")(brokers)
    app.command("controller")(controller)


@reads_cluster
def brokers(target: Target) -> None:
    """List the live brokers.

    Example: zkafka brokers --zookeeper zk1:2181/kafka
    """
    rows = [{**row, "registered": iso_time(row.get("timestamp"))} for row in target.view("brokers")]
    target.rows(rows, _BROKERS, "No broker is registered.", _NARROW)


@reads_cluster
def controller(target: Target) -> None:
    """Show the active controller, its epoch and the cluster's id.

    Example: zkafka controller --zookeeper zk1:2181/kafka
    """
    rows = [
        {**row, "controller": row.get("broker"), "elected": iso_time(row.get("timestamp"))}
        for row in target.view("controller")
    ]
    target.rows(rows, _CONTROLLER)
    if "zookeeper.connect" not in target.options and not any(row["controller"] is not None for row in rows):
        target.output.note("In KRaft mode, use Kafka's kafka-metadata-quorum --bootstrap-server ... describe --status.")
