"""How long a group rebalances, on the cluster that is up; see `benchmarks.rebalance`."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from benchmarks.cluster import BenchCluster
from benchmarks.rebalance import PARTITIONS, TOPIC, Group, rounds, started
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient


def rebalances(cluster: BenchCluster, sizes: Iterable[int], count: int) -> list[dict[str, Any]]:
    """A row for each size of the group and what happens to it: seconds until all partitions are owned again."""
    cluster.create_topic(TOPIC, PARTITIONS)
    hosts, _, chroot = cluster.zookeeper_connect.partition("/")
    config = ZooKeeperConfig(hosts, f"/{chroot}")
    with ZooKeeperClient(config) as zookeeper:
        group = Group(zookeeper)
        return [row for size in sizes for row in _rows(config, group, size, count)]


def _rows(config: ZooKeeperConfig, group: Group, size: int, count: int) -> list[dict[str, Any]]:
    with started(config, group, size) as members:
        found = list(rounds(group, members, count))
    return [
        {
            "members": size,
            "after": what,
            "median s": median(one[what] for one in found),
            "worst s": max(o[what] for o in found),
        }
        for what in found[0]
    ]
