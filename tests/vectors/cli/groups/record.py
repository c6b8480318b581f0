"""Recorder of groups in ZooKeeper, with the output of Kafka's tools and of ``zkafka groups``.

    python tests/vectors/cli/groups/record.py 3.9.1 1.1.1

starts a broker of each version, old consumers (1.1.1), and a session that writes the znodes of broken groups. It writes one
folder per version:

- ``znodes.json``: the znodes below ``/consumers``, the partitions with the bounds of their logs, and the offsets in Kafka
- ``list.txt``, ``describe-G.txt``: kafka.admin.ConsumerGroupCommand of 1.1.1 with ``--zookeeper``
- ``verify-G.txt``: kafka.tools.VerifyConsumerRebalance of 1.1.1
- ``zkafka-list.txt``, ``zkafka-describe.txt``, ``zkafka-verify.txt``: ``zkafka groups``, into a pipe
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from kazoo.client import KazooClient
from typer.testing import CliRunner

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.inspect.reads import read_groups, read_logs
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.testing.jvm_clients import run_kafka_tool
from pyspark_zkafka.testing.processes import Wait
from pyspark_zkafka.tools import app
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

TOOLS = "1.1.1"
TOPICS = {"orders": 6, "payments": 3, "single": 1}
PATIENT = {
    "rebalance.max.retries": "20",
    "rebalance.backoff.ms": "1000",
    "zookeeper.session.timeout.ms": "18000",
}
DUAL = {**PATIENT, "offsets.storage": "kafka", "dual.commit.enabled": "true"}
BROKEN = ["unowned", "zombie", "thread", "foreign", "shuffled", "garbage", "offsets"]


def main() -> None:
    """Record each version named on the command line."""
    for version in sys.argv[1:]:
        folder = Path(__file__).with_name(version)
        folder.mkdir(exist_ok=True)
        patient = {"zookeeper.session.timeout.ms": "18000", "offsets.topic.replication.factor": "1"}
        with LocalCluster(brokers=1, kafka_version=version, broker_config=patient) as cluster:
            fill(cluster)
            with ExitStack() as running:
                for consumer in consumers(cluster.zookeeper_connect):
                    running.enter_context(consumer)
                znodes = running.enter_context(cluster.zookeeper())
                break_groups(znodes)
                require_settled(cluster)
                record(cluster, znodes, folder)


def fill(cluster: LocalCluster) -> None:
    """Create the topics with 10 records in each partition, and delete the first 4 of one partition."""
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions=partitions)
        cluster.produce(topic, [{"value": b"v", "partition": n % partitions} for n in range(10 * partitions)])
    cluster.delete_records("payments", {0: 4})


def consumers(zookeeper: str) -> Iterable[OldConsumer]:
    """Yield live groups: with different subscriptions, with an idle member, without commits, with dual commits."""
    yield OldConsumer(zookeeper, "billing", topics={"orders": 2, "payments": 1}, consumer_id="c1", properties=PATIENT)
    yield OldConsumer(zookeeper, "billing", white_list="orders|payments", properties=PATIENT)
    yield OldConsumer(zookeeper, "crowded", topics={"single": 1}, consumer_id="c1", properties=PATIENT)
    yield OldConsumer(zookeeper, "crowded", topics={"single": 1}, consumer_id="c2", properties=PATIENT)
    uncommitted = {**PATIENT, "auto.commit.enable": "false"}
    yield OldConsumer(zookeeper, "uncommitted", topics={"payments": 2}, consumer_id="c1", properties=uncommitted)
    yield OldConsumer(zookeeper, "dual", topics={"payments": 1}, consumer_id="c1", properties=DUAL)


def break_groups(znodes: KazooClient) -> None:
    """Write the znodes of broken groups, each named after its problem."""
    register(znodes, "unowned", "c1", {"orders": 1})
    claim(znodes, "unowned", "orders", {p: "unowned_c1-0" for p in range(5)})
    register(znodes, "zombie", "c1", {"payments": 1})
    claim(znodes, "zombie", "payments", {0: "zombie_c1-0", 1: "zombie_c1-0", 2: "zombie_gone-0"})
    register(znodes, "thread", "c1", {"payments": 1})
    claim(znodes, "thread", "payments", {0: "thread_c1-0", 1: "thread_c1-0", 2: "thread_c1-7"})
    register(znodes, "foreign", "c1", {"payments": 1})
    claim(znodes, "foreign", "payments", dict.fromkeys(range(3), "foreign_c1-0"))
    claim(znodes, "foreign", "single", {0: "foreign_c1-0"})
    for consumer in ("c1", "c2"):
        register(znodes, "shuffled", consumer, {"orders": 1})
    claim(znodes, "shuffled", "orders", {p: f"shuffled_c{1 if p in (0, 1, 5) else 2}-0" for p in range(6)})
    register(znodes, "garbage", "c1", {"single": 1})
    claim(znodes, "garbage", "single", {0: "garbage_c1-0"})
    znodes.create("/consumers/garbage/offsets/single/0", b"7\n", makepath=True)
    znodes.ensure_path("/consumers/offsets/ids")
    znodes.ensure_path("/consumers/offsets/owners/payments")
    for place, offset in {"payments/0": 2, "payments/1": 10, "payments/2": 99, "payments/7": 1, "gone/0": 5}.items():
        znodes.create(f"/consumers/offsets/offsets/{place}", str(offset).encode(), makepath=True)


def register(znodes: KazooClient, group: str, consumer: str, subscription: Mapping[str, int]) -> None:
    """Register a consumer as Kafka does."""
    data = {"version": 1, "subscription": dict(subscription), "pattern": "static", "timestamp": "1795227256228"}
    path = f"/consumers/{group}/ids/{group}_{consumer}"
    znodes.create(path, json.dumps(data, separators=(",", ":")).encode(), ephemeral=True, makepath=True)


def claim(znodes: KazooClient, group: str, topic: str, threads: Mapping[int, str]) -> None:
    """Claim partitions as Kafka does."""
    for partition, thread in threads.items():
        path = f"/consumers/{group}/owners/{topic}/{partition}"
        znodes.create(path, thread.encode(), ephemeral=True, makepath=True)


def require_settled(cluster: LocalCluster) -> None:
    """Wait until the live groups own all subscribed partitions, and have committed everything."""
    live = ["billing", "crowded", "dual", "uncommitted"]

    def settled() -> bool | None:
        rows = json.loads(zkafka(cluster, "describe", *live, "--offsets-storage", "both", "--json"))
        partitions = [row for row in rows if row["topic"] is not None]
        owned = all(row["consumer"] for row in partitions)
        read = all(row["lag"] == 0 for row in partitions if row["group"] != "uncommitted")
        return (owned and read and len(rows) == 9 + 2 + 3 + 3) or None

    assert Wait(120).until(settled), zkafka(cluster, "describe", "--all-groups")


def record(cluster: LocalCluster, znodes: KazooClient, folder: Path) -> None:
    """Write all files of a version."""
    connect = cluster.zookeeper_connect
    groups = sorted(znodes.get_children("/consumers"))
    (folder / "znodes.json").write_text(json.dumps(facts(cluster, znodes, groups), indent=1, sort_keys=True) + "\n")
    (folder / "list.txt").write_text(tool("kafka.admin.ConsumerGroupCommand", "--zookeeper", connect, "--list"))
    for group in groups:
        described = tool("kafka.admin.ConsumerGroupCommand", "--zookeeper", connect, "--describe", "--group", group)
        verdict = tool("kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", connect, "--group", group)
        (folder / f"describe-{group}.txt").write_text(described)
        (folder / f"verify-{group}.txt").write_text(verdict)
    both = ("--offsets-storage", "both")
    (folder / "zkafka-list.txt").write_text(zkafka(cluster, "list", *both))
    (folder / "zkafka-describe.txt").write_text(zkafka(cluster, "describe", "--all-groups", *both))
    (folder / "zkafka-verify.txt").write_text(zkafka(cluster, "verify", "--all-groups"))


def facts(cluster: LocalCluster, znodes: KazooClient, groups: list[str]) -> dict[str, object]:
    """Return the values behind the descriptions and verifications."""
    children: dict[str, list[str]] = {}
    nodes: dict[str, object] = {}

    def walk(path: str) -> None:
        below = sorted(znodes.get_children(path))
        children[path] = below
        data, stat = znodes.get(path)
        if path.count("/") == 5 or "/ids/" in path:
            nodes[path] = [None if data is None else data.decode(), stat.ephemeralOwner, stat.czxid, stat.mzxid, stat.mtime]
        for name in below:
            walk(f"{path}/{name}")

    walk("/consumers")
    config = parse_connection({"zookeeper.connect": cluster.zookeeper_connect}).zookeeper
    assert config is not None
    with ZooKeeperClient(config) as client, GroupAdmin(cluster.bootstrap_servers, {}) as brokers:
        read_groups(client, names=groups)
        logs = read_logs(lambda: brokers, client.snapshot(list(TOPICS)))
        in_kafka = brokers.committed_many(groups)
    return {
        "children": children,
        "nodes": nodes,
        "logs": {str(tp): [found.start, found.end, found.czxid] for tp, found in logs.bounds.items()},
        "kafka": {g: {str(tp): offset for tp, offset in found.items()} for g, found in in_kafka.items() if found},
    }


def tool(main_class: str, *arguments: str) -> str:
    """Return the output of one of Kafka's tools, or its error."""
    try:
        return run_kafka_tool(TOOLS, main_class, *arguments, timeout_s=120)
    except LocalClusterError as error:
        return f"{error.message}\n"


def zkafka(cluster: LocalCluster, *arguments: str) -> str:
    """Return the standard output of ``zkafka groups``."""
    return CliRunner().invoke(app, ["groups", *arguments, "--zookeeper", cluster.zookeeper_connect]).stdout


if __name__ == "__main__":
    main()
