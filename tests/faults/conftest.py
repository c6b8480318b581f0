"""What tests of faults do to the breakable cluster, and to the processes that use it."""

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
    """Leaves no broker down for the next test, also where a test failed, or a broker did not come up."""
    yield
    for broker in zkafka_cluster.broker_ids:
        if zkafka_cluster.pid(broker) is None:
            zkafka_cluster.restart(broker)


@pytest.fixture
def create_without_waiting(zkafka_cluster: LocalCluster) -> Callable[[str, list[list[int]]], None]:
    """Makes a topic of which partition 0 has a live replica, and others may have none; returns when 0 has a leader."""

    def create(topic: str, replicas: list[list[int]]) -> None:
        with AdminClient({"bootstrap.servers": zkafka_cluster.bootstrap_servers}) as admin:
            new = NewTopic(topic, len(replicas), replica_assignment=replicas)
            with suppress(KafkaException):  # that it does not wait for all leaders
                admin.create_topics([new], operation_timeout=0)[topic].result(30)
        zkafka_cluster.wait_for_leader(topic, 0)

    return create


@pytest.fixture
def planner(zookeeper: dict[str, str]) -> Iterator[Callable[..., StreamDriver]]:
    """Makes planners, which do what Spark's planning calls ask for: ``planner({"subscribe": topic})``."""
    with ExitStack() as opened:

        def make(options: dict[str, str], connection: dict[str, str] | None = None) -> StreamDriver:
            driver = StreamDriver(parse_stream({**(connection or zookeeper), **options}))
            opened.callback(driver.close)
            return driver

        yield make


@pytest.fixture
def processes(chroot: Chroot) -> Iterator[MemberProcesses]:
    """Starts members that are processes."""
    started = MemberProcesses(chroot.config)
    yield started
    started.close()


@pytest.fixture
def wire(zkafka_cluster: LocalCluster) -> Iterator[Wire]:
    """A way to ZooKeeper that can be cut."""
    with Wire(zkafka_cluster.port("zookeeper")) as way:
        yield way


@pytest.fixture
def new_group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Callable[..., TopicGroup]]:
    """Makes groups, each with a topic of its own: ``new_group(partitions=2)``."""
    with zkafka_cluster.zookeeper() as znodes, ExitStack() as opened:

        def make(**topic: Any) -> TopicGroup:
            group = TopicGroup(zkafka_cluster, new_topic(**topic), znodes)
            opened.callback(group.opened.close)
            return group

        yield make


@pytest.fixture
def planner_pid(spark: SparkSession) -> Callable[[], int]:
    """Finds the process that plans the only query of this Spark session."""
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    return lambda: planning_process(jvm)


@pytest.fixture
def gate(stream: Callable[..., Any]) -> Iterator[Gate]:
    """A gate that is open by the time that the test's streams are stopped."""
    made = Gate()
    yield made
    made.open()
