"""Recorder of admin.json: output of Kafka 1.1.1's administration tools, and the znodes that they write.

The tools work on a chroot with the registrations of six brokers that do not run. The znodes stay, because no broker acts on
them.

    python tests/vectors/cli/admin/record.py 127.0.0.1:2181
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import run_kafka_tool

VERSION = "1.1.1"
CHROOT = "/recorded"
RACKS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
TOPICS = {"orders": "0:1,1:2,2:3", "totals": "4:5:0"}
TOPIC, REASSIGN = "kafka.admin.TopicCommand", "kafka.admin.ReassignPartitionsCommand"
ELECT, CONFIG = "kafka.admin.PreferredReplicaLeaderElectionCommand", "kafka.admin.ConfigCommand"
WRITTEN = ("/admin/reassign_partitions", "/admin/preferred_replica_election", "/config/topics/orders")
MOVE = {"version": 1, "partitions": [{"topic": "orders", "partition": 1, "replicas": [3, 4]},
                                     {"topic": "totals", "partition": 0, "replicas": [1, 2, 3]}]}  # fmt: skip
ELECTED = {"partitions": [{"topic": "totals", "partition": 0}, {"topic": "orders", "partition": 2}]}
CHOSEN = {"topics": [{"topic": "orders"}, {"topic": "totals"}], "version": 1}


def register(client: KazooClient, racks: bool) -> None:
    """Register the brokers."""
    for broker, rack in RACKS.items():
        fields: dict[str, Any] = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://127.0.0.1:{19090 + broker}"],
            "jmx_port": -1,
            "host": "127.0.0.1",
            "timestamp": "1795228865441",
            "port": 19090 + broker,
            "version": 4,
        }
        path, data = f"{CHROOT}/brokers/ids/{broker}", json.dumps({**fields, **({"rack": rack} if racks else {})})
        client.ensure_path(path)
        client.set(path, data.encode())


def run(hosts: str, main: str, *arguments: str) -> str:
    """Return the output of a tool, or its error."""
    try:
        return run_kafka_tool(VERSION, main, "--zookeeper", hosts + CHROOT, *arguments, timeout_s=200)
    except LocalClusterError as error:
        return str(error)


def written(client: KazooClient) -> dict[str, str | None]:
    """Return the znodes that a tool has written, by path."""
    paths = [*WRITTEN]
    for parent in ("/admin/delete_topics", "/config/changes"):
        if client.exists(CHROOT + parent):
            paths += [f"{parent}/{name}" for name in client.get_children(CHROOT + parent)]
    found = {path: client.get(CHROOT + path)[0] for path in paths if client.exists(CHROOT + path)}
    return {path: None if data is None else data.decode() for path, data in found.items()}


def record(hosts: str, folder: Path) -> list[dict[str, Any]]:
    """Return each call of a tool with its output and the znodes that it wrote or changed."""
    client = KazooClient(hosts=hosts)
    client.start()
    client.delete(CHROOT, recursive=True)
    client.ensure_path(f"{CHROOT}/brokers/topics")
    register(client, racks=True)
    files = {}
    for name, value in {"move": MOVE, "elected": ELECTED, "topics": CHOSEN}.items():
        files[name] = str(folder / f"{name}.json")
        Path(files[name]).write_text(json.dumps(value))
    calls: list[dict[str, Any]] = []

    def call(main: str, *arguments: str) -> None:
        before = written(client)
        output = run(hosts, main, *arguments)
        after = {path: data for path, data in written(client).items() if path not in before or before[path] != data}
        shown = [a.replace(f"{folder}/", "") for a in arguments]
        calls.append({"tool": main, "arguments": shown, "output": output, "znodes": after})

    for topic, replicas in TOPICS.items():
        call(TOPIC, "--create", "--topic", topic, "--replica-assignment", replicas)
    call(TOPIC, "--describe")
    call(TOPIC, "--list")
    generate = ("--topics-to-move-json-file", files["topics"], "--broker-list", "0,1,2,3,4,5", "--generate")
    for _ in range(3):
        call(REASSIGN, *generate)
    call(REASSIGN, "--topics-to-move-json-file", files["topics"], "--broker-list", "1,2,4", "--generate")
    call(REASSIGN, *generate, "--disable-rack-aware")
    call(REASSIGN, "--reassignment-json-file", files["move"], "--verify")
    call(REASSIGN, "--reassignment-json-file", files["move"], "--execute")
    call(REASSIGN, "--reassignment-json-file", files["move"], "--verify")
    call(REASSIGN, "--reassignment-json-file", files["move"], "--execute")
    client.delete(f"{CHROOT}/admin/reassign_partitions")
    call(ELECT, "--path-to-json-file", files["elected"])
    call(ELECT, "--path-to-json-file", files["elected"])
    of_orders = ("--entity-type", "topics", "--entity-name", "orders")
    call(CONFIG, *of_orders, "--alter", "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete]")
    call(CONFIG, *of_orders, "--describe")
    call(CONFIG, *of_orders, "--alter", "--add-config", "retention.ms=1000")
    call(CONFIG, *of_orders, "--alter", "--delete-config", "retention.ms")
    call(CONFIG, *of_orders, "--alter", "--delete-config", "retention.ms")
    call(CONFIG, *of_orders, "--alter", "--add-config", "retention.msec=5")
    call(CONFIG, *of_orders, "--alter", "--add-config", "retention.ms=soon")
    call(TOPIC, "--delete", "--topic", "totals")
    call(TOPIC, "--delete", "--topic", "totals")
    client.delete(CHROOT, recursive=True)
    client.stop()
    return calls


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        calls = record(sys.argv[1], Path(folder))
    made = {"kafka": VERSION, "racks": RACKS, "topics": TOPICS, "calls": calls}
    (Path(__file__).parent / "admin.json").write_text(json.dumps(made, indent=1) + "\n")
