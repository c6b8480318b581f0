"""Durations of rebalances of groups in ZooKeeper, on the running cluster, and in Kafka; see `benchmarks.rebalance`."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from benchmarks.cluster import BenchCluster
from benchmarks.kafka_groups import kafka_rebalances
from benchmarks.rebalance import PARTITIONS, TOPIC, Group, rounds, started
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient


def rebalances(cluster: BenchCluster, sizes: Iterable[int], count: int) -> list[dict[str, Any]]:
    """Return a row for each kind, size and event of a group: seconds until all partitions are owned again."""
    sizes = list(sizes)
    rows = _in_zookeeper(cluster, sizes, count)
    return rows + [row for kind, size, found in kafka_rebalances(sizes, count) for row in _rows(kind, size, found)]


def _in_zookeeper(cluster: BenchCluster, sizes: Iterable[int], count: int) -> list[dict[str, Any]]:
    cluster.create_topic(TOPIC, PARTITIONS)
    config = parse_connection({"zookeeper.connect": cluster.zookeeper_connect}).zookeeper
    with ZooKeeperClient(config) as zookeeper:
        group = Group(zookeeper)
        return [row for size in sizes for row in _rows("ZooKeeper", size, _rounds(config, group, size, count))]


def _rounds(config: ZooKeeperConfig, group: Group, size: int, count: int) -> list[dict[str, float]]:
    with started(config, group, size) as members:
        return list(rounds(group, members, count))


def _rows(kind: str, size: int, found: list[dict[str, float]]) -> list[dict[str, Any]]:
    return [
        {
            "group": kind,
            "members": size,
            "after": what,
            "median s": median(one[what] for one in found),
            "worst s": max(o[what] for o in found),
        }
        for what in found[0]
    ]
