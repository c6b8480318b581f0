"""Fixtures of the fault tests: a cluster that tests may break, and processes that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.members import MemberProcesses
from tests.support.topic_group import Gate, TopicGroup, planning_process
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster
    from tests.support.chroot import Chroot


@pytest.fixture(scope="session")
def zkafka_cluster(breakable_cluster: LocalCluster) -> LocalCluster:
    """The cluster that tests may break."""
    return breakable_cluster


@pytest.fixture
def all_brokers(zkafka_cluster: LocalCluster) -> Iterator[None]:
    """Restart every broker that is down after the test, whether it passed or failed."""
    yield
    for broker in zkafka_cluster.broker_ids:
        if zkafka_cluster.pid(broker) is None:
            zkafka_cluster.restart(broker)


@pytest.fixture
def create_without_waiting(zkafka_cluster: LocalCluster) -> Callable[[str, list[list[int]]], None]:
    """Function that creates a topic whose partition 0 has a live replica; returns once partition 0 has a leader."""

    def create(topic: str, replicas: list[list[int]]) -> None:
        with AdminClient({"bootstrap.servers": zkafka_cluster.bootstrap_servers}) as admin:
            new = NewTopic(topic, len(replicas), replica_assignment=replicas)
            with suppress(KafkaException):  # not all leaders are known yet
                admin.create_topics([new], operation_timeout=0)[topic].result(30)
        zkafka_cluster.wait_for_leader(topic, 0)

    return create


@pytest.fixture
def planner(zookeeper: dict[str, str]) -> Iterator[Callable[..., StreamDriver]]:
    """Factory of planners, which answer Spark's planning calls: ``planner({"subscribe": topic})``."""
    with ExitStack() as opened:

        def make(options: dict[str, str], connection: dict[str, str] | None = None) -> StreamDriver:
            driver = StreamDriver(parse_stream({**(connection or zookeeper), **options}))
            opened.callback(driver.close)
            return driver

        yield make


@pytest.fixture
def processes(chroot: Chroot) -> Iterator[MemberProcesses]:
    """Group members that run as processes."""
    started = MemberProcesses(chroot.config)
    yield started
    started.close()


@pytest.fixture
def wire(zkafka_cluster: LocalCluster) -> Iterator[Wire]:
    """A proxy to ZooKeeper that can be cut."""
    with Wire(zkafka_cluster.port("zookeeper")) as way:
        yield way


@pytest.fixture
def new_group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Callable[..., TopicGroup]]:
    """Factory of groups, each with its own topic: ``new_group(partitions=2)``."""
    with zkafka_cluster.zookeeper() as znodes, ExitStack() as opened:

        def make(**topic: Any) -> TopicGroup:
            group = TopicGroup(zkafka_cluster, new_topic(**topic), znodes)
            opened.callback(group.opened.close)
            return group

        yield make


@pytest.fixture
def planner_pid(spark: SparkSession) -> Callable[[], int]:
    """Function that finds the process planning the only query of this Spark session."""
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    return lambda: planning_process(jvm)


@pytest.fixture
def gate(stream: Callable[..., Any]) -> Iterator[Gate]:
    """A gate that opens before the test's streams are stopped."""
    made = Gate()
    yield made
    made.open()
