"""Lookups of the ends of logs, with errors by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import UnknownTopic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp
from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic of eight partitions; partition N has N records."""
    name = new_topic(partitions=8)
    zkafka_cluster.produce(name, [{"value": b"v", "partition": p} for p in range(8) for _ in range(p)])
    return name


def test_ends_of_many_logs(topic: str, zkafka_cluster: LocalCluster) -> None:
    """Earliest and latest offsets, and offsets at a time, are looked up together."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    positions = [EARLIEST, LATEST, AtTimestamp(0)]
    mixed = {tp: positions[tp.partition % 3] for tp in partitions}
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        assert client.list_offsets(mixed) == {tp: tp.partition * (tp.partition % 3 == 1) for tp in partitions}
        ages = client.list_offsets(dict.fromkeys(partitions, AtTimestamp(0)))
        assert ages == {tp: 0 if tp.partition else -1 for tp in partitions}


def test_partition_that_is_not_there(topic: str, zkafka_cluster: LocalCluster) -> None:
    """A missing partition is reported by name next to the others' offsets."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    wanted = dict.fromkeys([*partitions, TopicPartition(topic, 99)], LATEST)
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        for _ in range(2):
            found, failed = client.list_offsets_each(wanted)
            assert found == {tp: tp.partition for tp in partitions}
            assert [*failed] == [TopicPartition(topic, 99)]
            assert isinstance(failed[TopicPartition(topic, 99)], UnknownTopic)


def test_added_partitions(topic: str, zkafka_cluster: LocalCluster) -> None:
    """Added partitions are found."""
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        client.list_offsets({TopicPartition(topic, p): LATEST for p in range(8)})
        zkafka_cluster.add_partitions(topic, 10)
        wanted = {TopicPartition(topic, p): LATEST for p in range(10)}
        assert client.list_offsets(wanted) == {tp: tp.partition if tp.partition < 8 else 0 for tp in wanted}


@contextmanager
def open_transaction(cluster: LocalCluster, topic: str) -> Iterator[None]:
    """Keep a transaction open with one record in each partition, and abort it at the end."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(8):
        producer.produce(topic, b"open", partition=partition)
    assert producer.flush(30) == 0
    yield
    producer.abort_transaction(30)


def test_leader_epochs(topic: str, zkafka_cluster: LocalCluster) -> None:
    """Lookups of log ends return leader epochs."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    epochs: dict[TopicPartition, int] = {}
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        client.list_offsets_each(dict.fromkeys(partitions, LATEST), 30, epochs)
    assert epochs == dict.fromkeys(partitions, 0)


@pytest.mark.parametrize("read_committed", [False, True])
def test_open_transaction(topic: str, zkafka_cluster: LocalCluster, read_committed: bool) -> None:
    """The latest offset is the end of the log, or, with read_committed, the last stable offset."""
    wanted = {TopicPartition(topic, p): LATEST for p in range(8)}
    client = KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, read_committed=read_committed)
    with open_transaction(zkafka_cluster, topic), client:
        assert client.list_offsets(wanted) == {tp: tp.partition + (not read_committed) for tp in wanted}
        assert client.high_watermarks(wanted) == ({tp: tp.partition + 1 for tp in wanted} if read_committed else {})
