"""Recorder of <version>.json: views of a cluster by Kafka's own tools and by zkafka at the same time.

    python tests/vectors/cli/topics/record.py 1.1.1 3.9.1

Each argument is the Kafka version of the brokers and the tools; tools before 2.2 connect to ZooKeeper.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pyspark_zkafka.testing import LocalCluster, run_kafka_tool
from pyspark_zkafka.tools import app

HERE = Path(__file__).parent


def kafka(cluster: LocalCluster, version: str, main: str, *arguments: str) -> str:
    """Return the output of one of Kafka's tools."""
    old = version.startswith("1.")
    package = "kafka.admin" if old or main == "BrokerApiVersionsCommand" else "org.apache.kafka.tools"
    if old and main == "TopicCommand":
        where = ("--zookeeper", cluster.zookeeper_connect)
    else:
        where = ("--bootstrap-server", cluster.bootstrap_servers)
    return run_kafka_tool(version, f"{package}.{main}", *where, *arguments, timeout_s=200)


def zkafka(cluster: LocalCluster, *arguments: str) -> Any:
    """Return zkafka's view of the cluster."""
    done = CliRunner().invoke(app, [*arguments, "--json", "--zookeeper", cluster.zookeeper_connect])
    return json.loads(done.stdout)


def registered(output: str) -> str:
    """Return the lines that name a broker, without the versions of its requests."""
    return "".join(f"{line}\n" for line in output.splitlines() if "(id: " in line)


def both(cluster: LocalCluster, version: str, command: str, *options: str) -> dict[str, Any]:
    """Return both outputs of a command for topics."""
    shown = {"kafka": kafka(cluster, version, "TopicCommand", f"--{command}", *options)}
    return {**shown, "zkafka": zkafka(cluster, "topics", command, *(o.removesuffix("-partitions") for o in options))}


def record(version: str) -> dict[str, Any]:
    """Return the outputs for a complete cluster, and for one without a broker."""
    with LocalCluster(brokers=3, kafka_version=version) as cluster:
        cluster.create_topic("orders", partitions=3, replication=2, config={"retention.ms": "86400000"})
        cluster.create_topic("totals", partitions=2, replication=3)
        cluster.create_topic("alone", partitions=3, replication=1)
        found = {
            "list": both(cluster, version, "list"),
            "describe": both(cluster, version, "describe"),
            "brokers": {
                "kafka": registered(kafka(cluster, version, "BrokerApiVersionsCommand")),
                "zkafka": zkafka(cluster, "brokers"),
            },
            "controller": {
                "kafka": run_kafka_tool(
                    version, "org.apache.zookeeper.ZooKeeperMain",
                    "-server", cluster.zookeeper_connect, "get", "/controller", timeout_s=200,
                ),
                "zkafka": zkafka(cluster, "controller"),
            },
        }  # fmt: skip
        cluster.stop(2)
        time.sleep(30)  # until the ISRs have shrunk
        for option in ("--under-replicated-partitions", "--unavailable-partitions"):
            found[f"describe {option}"] = both(cluster, version, "describe", option)
    return found


if __name__ == "__main__":
    for version in sys.argv[1:]:
        (HERE / f"{version}.json").write_text(json.dumps({"kafka": version, **record(version)}, indent=1) + "\n")
