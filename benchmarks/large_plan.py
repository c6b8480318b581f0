"""Duration and memory of planning on a very large cluster.

This script writes its znodes under a chroot of a real ZooKeeper; its brokers are a mock cluster in this process, with a
record in each partition. A separate process plans from scratch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from kazoo.client import KazooClient

from benchmarks.checks import require
from pyspark_zkafka.testing import LocalCluster, MockCluster

BROKERS = 3
PARTITIONS_EACH = 1_000
_TOGETHER = 100
_ZOOKEEPER_HEAP_MB = 1024

PLANNER = """
import json, resource, sys, time
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.worker import collector_paused
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

options = parse_read({"zookeeper.connect": sys.argv[1], "subscribePattern": "large-.*"})
found = {"MiB before": peak_mib()}
begin = time.perf_counter()
with ZooKeeperClient(options.connection.zookeeper) as zookeeper:
    found["partitions"] = len(zookeeper.snapshot(zookeeper.topic_names()).states)
found["snapshot s"] = time.perf_counter() - begin
begin = time.perf_counter()
with collector_paused():  # as in ZKafkaReader.partitions
    found["splits"] = len(plan_batch(options).splits)
found["plan s"] = time.perf_counter() - begin
found["MiB at most"] = peak_mib()
print(json.dumps(found))
"""


def large_plans(sizes: Iterable[int], count: int) -> list[dict[str, Any]]:
    """Return a row for each number of partitions: median seconds, and the process's peak memory."""
    with (
        LocalCluster(brokers=1, zookeeper_heap_mb=_ZOOKEEPER_HEAP_MB) as cluster,
        _connected(cluster.zookeeper_connect.partition("/")[0]) as client,
    ):
        return [_row(client, size, count) for size in sizes]


def _row(client: KazooClient, size: int, count: int) -> dict[str, Any]:
    topics = [f"large-{number:04}" for number in range(-(-size // PARTITIONS_EACH))]
    chroot = f"large-plan-{size}"
    with MockCluster(BROKERS) as brokers:
        for topic in topics:
            brokers.create_topic(topic, PARTITIONS_EACH, BROKERS)
            brokers.produce(topic, ({"value": b"1", "partition": n} for n in range(PARTITIONS_EACH)))
        _write(client, chroot, topics, brokers.bootstrap_servers)
        hosts = ",".join(f"{host}:{port}" for host, port in client.hosts)
        found = [_planned(f"{hosts}/{chroot}") for _ in range(count)]
    for what in ("partitions", "splits"):
        require([one[what] for one in found], [len(topics) * PARTITIONS_EACH] * count, what)
    return {name: median(one[name] for one in found) for name in ("partitions", *found[0])}


def _planned(connect: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", PLANNER, connect], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _write(client: KazooClient, chroot: str, topics: Iterable[str], servers: str) -> None:
    """Write the znodes of brokers, topics and partition states, as brokers of Kafka 1.1 to 3.9 do."""
    for broker, address in enumerate(servers.split(","), 1):
        host, _, port = address.rpartition(":")
        value = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{address}"],
            "jmx_port": -1,
            "host": host,
            "port": int(port),
            "version": 4,
            "timestamp": "1",
        }
        client.create(f"/{chroot}/brokers/ids/{broker}", _json(value), makepath=True)
    for topic in topics:
        path = f"/{chroot}/brokers/topics/{topic}"
        replicas = {p: [1 + (p + shift) % BROKERS for shift in range(BROKERS)] for p in range(PARTITIONS_EACH)}
        client.create(path, _json({"version": 1, "partitions": replicas}), makepath=True)
        client.create(f"{path}/partitions")
        _write_states(client, f"{path}/partitions", replicas)


def _write_states(client: KazooClient, path: str, replicas: dict[int, list[int]]) -> None:
    for first in range(0, len(replicas), _TOGETHER):
        transaction = client.transaction()
        for partition in range(first, min(first + _TOGETHER, len(replicas))):
            isr = replicas[partition]
            state = {"controller_epoch": 1, "leader": isr[0], "version": 1, "leader_epoch": 0, "isr": isr}
            transaction.create(f"{path}/{partition}")
            transaction.create(f"{path}/{partition}/state", _json(state))
        failed = [result for result in transaction.commit() if isinstance(result, Exception)]
        require(failed, [], f"failures below {path}")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextmanager
def _connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts, timeout=60)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
