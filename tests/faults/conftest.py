"""A cluster to break: its brokers compact, delete and give up fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_zkafka.testing import LocalCluster

FAST = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "auto.create.topics.enable": "true",
}


@pytest.fixture(scope="session")
def zkafka_cluster() -> Iterator[LocalCluster]:
    """Three brokers; a test that stops one starts it again."""
    with LocalCluster(brokers=3, broker_config=FAST) as cluster:
        yield cluster


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
