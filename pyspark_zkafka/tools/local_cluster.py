"""``zkafka cluster``: real brokers, with ZooKeeper or in KRaft mode, on this machine, to try things out."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pyspark_zkafka.testing.detached import DetachedCluster, bring_down, bring_up, running_clusters
from pyspark_zkafka.testing.spec import tested_version, version_tuple
from pyspark_zkafka.tools.command import parse_pairs

app = typer.Typer(no_args_is_help=True, help="Start, stop and show local clusters (brokers, and ZooKeeper or KRaft).")

_Name = Annotated[str, typer.Option(help="The cluster's name; clusters of different names are independent.")]
_Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
_CONNECT_TIMEOUT_S = 1.0


@app.command()
def up(
    brokers: Annotated[int, typer.Option(min=1, help="Number of brokers.")] = 3,
    kafka_version: Annotated[
        str, typer.Option("--kafka-version", "--kafka", help="Kafka's version, from 0.8.2.2 to 4.3.1; 4 means 4.3.1.")
    ] = "3.9.1",
    kraft: Annotated[
        bool, typer.Option("--kraft", help="KRaft instead of ZooKeeper, from Kafka 3.3 on; Kafka 4 always has it.")
    ] = False,
    controllers: Annotated[
        int | None, typer.Option(min=1, help="Number of separate KRaft controllers.", show_default="the brokers")
    ] = None,
    broker_config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A property of the brokers; repeatable.")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Add a listener with TLS and password login, and print its client properties.")
    ] = False,
    name: _Name = "default",
    as_json: _Json = False,
) -> None:
    """Start a cluster that runs until `zkafka cluster down`. It is ready when the command returns.

    Example: zkafka cluster up --brokers 1 --kafka-version 1.1.1
    """
    config = dict(parse_pairs(broker_config, "--config"))
    options = {"brokers": brokers, "kafka_version": tested_version(kafka_version), "broker_config": config}
    options |= {"kraft": kraft, "controllers": controllers, "secure": secure}
    cluster = bring_up(name, options)
    _show([cluster], as_json)
    if not as_json:  # what to try; later commands take the addresses from the environment
        if cluster.command_config is not None:
            typer.echo()
            for property_name, value in cluster.client_properties().items():
                typer.echo(f"{property_name}={value}")
            typer.echo(f"\nexport ZKAFKA_COMMAND_CONFIG={shlex.quote(cluster.command_config)}")
        elif cluster.zookeeper_connect is not None:
            typer.echo(f"\nexport ZKAFKA_ZOOKEEPER={cluster.zookeeper_connect}")
        else:
            typer.echo(f"\nexport ZKAFKA_BOOTSTRAP_SERVER={cluster.bootstrap_servers}")
        if version_tuple(cluster.kafka_version) >= (0, 10, 2):  # older brokers take no request to create one
            typer.echo("zkafka topics create orders --partitions 6 --replication-factor 1 --yes")
            typer.echo("zkafka topics produce orders --key-separator :")
        typer.echo("zkafka cluster down" if name == "default" else f"zkafka cluster down --name {name}")


@app.command()
def down(name: _Name = "default", as_json: _Json = False) -> None:
    """Stop a cluster, and delete its data.

    Example: zkafka cluster down
    """
    bring_down(name)
    if as_json:
        typer.echo(json.dumps({"name": name, "up": False}))
    else:
        Console().print(f"Cluster {name} is down.")


@app.command()
def status(as_json: _Json = False) -> None:
    """Show the clusters that are up, and the servers that listen.

    Example: zkafka cluster status --json
    """
    clusters = running_clusters()
    if not clusters and not as_json:
        Console().print("No local cluster is up; `zkafka cluster up` starts one.")
        return
    _show(clusters, as_json)


def _show(clusters: Iterable[DetachedCluster], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{**asdict(c), "listening": _listening(c)} for c in clusters]))
        return
    for cluster in clusters:
        title = f"{cluster.name}: Kafka {cluster.kafka_version}"
        table = Table("server", "port", "state", title=title, title_justify="left")
        for server, listens in _listening(cluster).items():
            state = "[green]listens[/]" if listens else "[red]does not listen[/]"
            table.add_row(server, str(cluster.servers[server]), state)
        Console().print(table)
        # Plain lines: a table would truncate text that is to be copied.
        if cluster.zookeeper_connect is not None:
            typer.echo(f"zookeeper.connect       = {cluster.zookeeper_connect}")
        typer.echo(f"kafka.bootstrap.servers = {cluster.bootstrap_servers}")
        if cluster.command_config is not None:
            typer.echo(f"client properties       = {cluster.command_config}")
        typer.echo(f"data and logs           = {cluster.folder}")


def _listening(cluster: DetachedCluster) -> dict[str, bool]:
    """Return whether each server accepts connections."""
    found = {}
    for server, port in cluster.servers.items():
        with socket.socket() as probe:
            probe.settimeout(_CONNECT_TIMEOUT_S)
            found[server] = probe.connect_ex(("127.0.0.1", port)) == 0
    return found
