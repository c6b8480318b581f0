"""Servers, topics and records of a real LocalCluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster


def end_offsets(cluster: LocalCluster, topic: str, partition: int) -> tuple[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    finally:
        consumer.close()
    return low, high


def test_registered(breakable_cluster: LocalCluster) -> None:
    """Each broker has its znode under the chroot, with the loopback address and its rack."""
    with breakable_cluster.zookeeper() as zookeeper:
        ids = sorted(zookeeper.get_children("/brokers/ids"))
        znode = json.loads(zookeeper.get("/brokers/ids/1")[0])
    assert ids == ["0", "1", "2"]
    assert znode["endpoints"] == [f"PLAINTEXT://127.0.0.1:{breakable_cluster.port(1)}"]
    assert znode["rack"] == "b"
    assert breakable_cluster.zookeeper_connect.split("/")[0] == f"127.0.0.1:{breakable_cluster.port('zookeeper')}"


def test_listens_on_loopback_alone(breakable_cluster: LocalCluster) -> None:
    """No socket of the servers listens on an address other than 127.0.0.1."""
    ports = {breakable_cluster.port(s) for s in ("zookeeper", *breakable_cluster.broker_ids)}
    rows = [line.split() for f in ("tcp", "tcp6") for line in Path(f"/proc/net/{f}").read_text().splitlines()[1:]]
    listening = {(address, int(port, 16)) for row in rows if row[3] == "0A" for address, port in [row[1].rsplit(":", 1)]}
    assert {(a, p) for a, p in listening if p in ports} == {("0100007F", p) for p in ports}


def test_topics_and_records(breakable_cluster: LocalCluster) -> None:
    """Topics are spread over the brokers, records go to the given partitions, and partitions can be added."""
    breakable_cluster.create_topic("spread", partitions=3, replication=2, config={"retention.ms": "-1"})
    assert breakable_cluster.assignment("spread") == {0: [0, 1], 1: [1, 2], 2: [2, 0]}
    assert breakable_cluster.produce("spread", [{"value": "a", "partition": 1}, ("k", "b", 1), (None, b"c", 2)]) == {
        1: [0, 1],
        2: [0],
    }
    breakable_cluster.add_partitions("spread", 5)
    assert {len(r) for r in breakable_cluster.assignment("spread").values()} == {2}
    assert breakable_cluster.produce("spread", [{"value": "d", "partition": 4}]) == {4: [0]}


def test_own_assignment(breakable_cluster: LocalCluster) -> None:
    """A topic gets the replicas given in `assignment`."""
    breakable_cluster.create_topic("own", assignment={0: [2, 1], 1: [0, 2]})
    assert breakable_cluster.assignment("own") == {0: [2, 1], 1: [0, 2]}
    assert breakable_cluster.wait_for_leader("own", 0) == 2


def test_refusals(breakable_cluster: LocalCluster) -> None:
    """A request that the cluster refuses raises an error with the reason."""
    breakable_cluster.create_topic("twice")
    with pytest.raises(LocalClusterError, match=r"create topic twice.*already exists"):
        breakable_cluster.create_topic("twice")
    with pytest.raises(LocalClusterError, match="REFUSED_BY_CLUSTER"):
        breakable_cluster.delete_topic("never-made")
    with pytest.raises(LocalClusterError, match=r"NOT_DELIVERED.*Unknown partition"):
        breakable_cluster.produce("twice", [{"value": b"x", "partition": 9}], {"message.timeout.ms": 3000})
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_SERVER.*\[0, 1, 2\]"):
        breakable_cluster.stop(7)


def test_deleted(breakable_cluster: LocalCluster) -> None:
    """Deleting records moves the log's start, and a deleted topic can be created again at once."""
    breakable_cluster.create_topic("deleted")
    breakable_cluster.produce("deleted", [{"value": b"x"}] * 5)
    assert breakable_cluster.delete_records("deleted", {0: 3}) == {0: 3}
    assert end_offsets(breakable_cluster, "deleted", 0) == (3, 5)
    breakable_cluster.delete_topic("deleted")
    breakable_cluster.create_topic("deleted")
    assert end_offsets(breakable_cluster, "deleted", 0) == (0, 0)
