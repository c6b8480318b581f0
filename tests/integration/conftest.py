"""A chroot with the bare znodes of a Kafka cluster, for tests of what we read and write in ZooKeeper."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.options import ZooKeeperConfig
from pyspark_zkafka.testing import LocalCluster


@dataclass
class Chroot:
    """Where it is, and a plain session in it that plays the other party."""

    config: ZooKeeperConfig
    other: KazooClient


@pytest.fixture
def chroot(zkafka_cluster: LocalCluster) -> Iterator[Chroot]:
    """A new chroot that holds ``/brokers/ids``, ``/brokers/topics`` and ``/consumers``, removed afterwards."""
    hosts, path = zkafka_cluster.zookeeper_connect.partition("/")[0], f"/znodes-{secrets.token_hex(4)}"
    other = KazooClient(hosts=hosts)
    other.start()
    try:
        for child in ("brokers/ids", "brokers/topics", "consumers"):
            other.ensure_path(f"{path}/{child}")
        other.chroot = path
        yield Chroot(ZooKeeperConfig(hosts, path), other)
    finally:
        other.chroot = ""
        other.delete(path, recursive=True)
        other.stop()
        other.close()
