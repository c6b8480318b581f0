"""Duration of planning by number of partitions, for batches and for micro-batches of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from typing import Any, TypeVar

from confluent_kafka import Producer

from benchmarks.checks import require
from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

SIZES = (8, 1_000, 10_000)
_STEP = 1_000
_CLUSTER: dict[str, Any] = {
    "broker_heap_mb": 1024,
    "broker_jvm_options": ["-XX:TieredStopAtLevel=4"],
    # The brokers' index files for so many partitions are not measured.
    "broker_config": {"log.index.size.max.bytes": "65536"},
}
_T = TypeVar("_T")


class Stopwatch:
    """Seconds of actions, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, what: str, action: Callable[[], _T]) -> _T:
        """Return the action's result, and record its duration."""
        begin = time.perf_counter()
        try:
            return action()
        finally:
            self.seconds[what] = time.perf_counter() - begin


def plan_times(sizes: Iterable[int], rounds: int) -> list[dict[str, Any]]:
    """Return a row for each step: median milliseconds by size, on a separate cluster with real partitions."""
    with LocalCluster(brokers=3, **_CLUSTER) as cluster:
        found = {size: _medians_ms(cluster, size, rounds) for size in sizes}
    steps = dict.fromkeys(step for times in found.values() for step in times)
    return [{"step, ms": step, **{f"{size:,} partitions": found[size][step] for size in found}} for step in steps]


def _medians_ms(cluster: LocalCluster, size: int, rounds: int) -> dict[str, float]:
    with _topic(cluster, size) as topic:
        _produce(cluster, topic, size)  # empty partitions have no splits
        # A leader lost for a moment makes a round start again, instead of making planning look slow.
        found = [Retry(5, 2.0, time.sleep)(lambda: _measured(cluster, topic, size)) for _ in range(rounds + 1)][1:]
    return {step: 1000 * median(one[step] for one in found) for step in found[0]}


def _measured(cluster: LocalCluster, topic: str, size: int) -> dict[str, float]:
    watch = Stopwatch()
    options = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": topic}
    _parts(cluster, topic, size, options, watch)
    plan = watch("batch", lambda: plan_batch(parse_read(options)))
    require(len(plan.splits), size, "splits of the batch")
    _stream(cluster, topic, size, options, watch)
    return watch.seconds


def _parts(cluster: LocalCluster, topic: str, size: int, options: dict[str, str], watch: Stopwatch) -> None:
    """Measure the snapshot and the ends of the logs separately."""
    config = parse_read(options).connection.zookeeper
    if config is None:
        raise ValueError("there is no zookeeper.connect")
    with ZooKeeperClient(config) as zookeeper:
        require(len(watch("snapshot", lambda: zookeeper.snapshot([topic])).states), size, "partitions")
    wanted = {TopicPartition(topic, p): LATEST for p in range(size)}
    with KafkaAdmin(cluster.bootstrap_servers, {}) as admin:
        require(len(watch("list offsets", lambda: admin.list_offsets(wanted))), size, "offsets")


def _stream(cluster: LocalCluster, topic: str, size: int, options: dict[str, str], watch: Stopwatch) -> None:
    with closing(StreamDriver(parse_stream(options))) as planner:
        start = watch("stream: connect and start", planner.initial)
        for which in ("first", "second", "third"):
            _produce(cluster, topic, size)
            before = start
            start = watch(f"stream: {which} latest", lambda: planner.latest(before, limited=False))  # noqa: B023
            splits, _ = watch(f"stream: {which} splits", lambda: planner.splits(start))  # noqa: B023
            require(len(splits), size, "splits of a micro-batch")


def _produce(cluster: LocalCluster, topic: str, size: int) -> None:
    """Produce one record to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
    for partition in range(size):
        producer.produce(topic, b"1", partition=partition)
    if producer.flush(60):
        raise TimeoutError("not all records were acknowledged")


@contextmanager
def _topic(cluster: LocalCluster, size: int) -> Iterator[str]:
    """Yield a topic with this many partitions, created in steps."""
    name = f"plan-{size}"
    cluster.create_topic(name, min(size, _STEP))
    for total in range(2 * _STEP, size + 1, _STEP):
        cluster.add_partitions(name, total)
    yield name
    cluster.delete_topic(name)
