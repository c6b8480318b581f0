"""Lookups of the ends of many logs: equal to single lookups, with errors by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from pyspark_zkafka.brokers import admin as admin_module
from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.clients import MessageClient, consumer_properties
from pyspark_zkafka.brokers.log_lookups import LookupSizes, find_watermarks, find_without_records
from pyspark_zkafka.errors import NoLeader
from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.testing import LocalCluster
from tests.support.options import broker_connection
from tests.support.transactions import commit

NewTopic = Callable[..., str]
SIZES = LookupSizes(request=3, bulk=8)  # eight partitions are many, and too many for one request
Found = dict[TopicPartition, int] | None


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic of eight partitions; partition N has N records."""
    name = new_topic(partitions=8)
    zkafka_cluster.produce(name, [{"value": b"v", "partition": p} for p in range(8) for _ in range(p)])
    return name


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each bulk lookup of ends of logs, whether it found all of them."""
    told: list[bool] = []

    def noting(
        client: MessageClient,
        wanted: dict[TopicPartition, Position],
        timeout_s: float,
        epochs: dict[TopicPartition, int] | None,
        request_size: int,
    ) -> dict[TopicPartition, int] | None:
        found = find_watermarks(client, wanted, timeout_s, epochs, request_size)
        told.append(found is not None)
        return found

    monkeypatch.setattr(admin_module, "find_watermarks", noting)
    return told


def test_ends_of_many_logs(topic: str, asked: list[bool], zkafka_cluster: LocalCluster) -> None:
    """Earliest and latest offsets of many partitions are looked up in bulk; timestamps and few partitions are not."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    mixed = {tp: LATEST if tp.partition % 2 else EARLIEST for tp in partitions}
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, sizes=SIZES) as client:
        assert client.list_offsets(mixed) == {tp: tp.partition * (tp.partition % 2) for tp in partitions}
        assert client.list_offsets(dict.fromkeys(partitions, LATEST)) == {tp: tp.partition for tp in partitions}
        assert asked == [True, True]
        assert client.list_offsets(dict.fromkeys(partitions[:7], LATEST)) == {tp: tp.partition for tp in partitions[:7]}
        ages = client.list_offsets(dict.fromkeys(partitions, AtTimestamp(0)))
        assert ages == {tp: 0 if tp.partition else -1 for tp in partitions}
        assert asked == [True, True]


def test_partition_that_is_not_there(topic: str, asked: list[bool], zkafka_cluster: LocalCluster) -> None:
    """A missing partition is reported by name next to the others' offsets; bulk lookups pause until none is missing."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    wanted = dict.fromkeys([*partitions, TopicPartition(topic, 99)], LATEST)
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, sizes=SIZES) as client:
        for _ in range(2):
            found, failed = client.list_offsets_each(wanted)
            assert found == {tp: tp.partition for tp in partitions}
            assert [*failed] == [TopicPartition(topic, 99)]
            assert isinstance(failed[TopicPartition(topic, 99)], NoLeader)
        assert asked == [False]
        for _ in range(2):
            assert client.list_offsets(dict.fromkeys(partitions, LATEST)) == {tp: tp.partition for tp in partitions}
        assert asked == [False, True]


def test_added_partitions(topic: str, asked: list[bool], zkafka_cluster: LocalCluster) -> None:
    """Added partitions are found."""
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, sizes=SIZES) as client:
        client.list_offsets({TopicPartition(topic, p): LATEST for p in range(8)})
        zkafka_cluster.add_partitions(topic, 10)
        wanted = {TopicPartition(topic, p): LATEST for p in range(10)}
        assert client.list_offsets(wanted) == {tp: tp.partition if tp.partition < 8 else 0 for tp in wanted}
    assert asked[0]


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


def test_leader_epochs(topic: str, asked: list[bool], zkafka_cluster: LocalCluster) -> None:
    """Lookups of log ends return leader epochs, for many partitions and for few."""
    partitions = [TopicPartition(topic, p) for p in range(8)]
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, sizes=SIZES) as client:
        for some in (partitions, partitions[:7]):
            epochs: dict[TopicPartition, int] = {}
            client.list_offsets_each(dict.fromkeys(some, LATEST), 30, epochs)
            assert epochs == dict.fromkeys(some, 0)
    assert asked == [True]


@pytest.mark.parametrize("read_committed", [False, True])
def test_open_transaction(topic: str, asked: list[bool], zkafka_cluster: LocalCluster, read_committed: bool) -> None:
    """The latest offset is the end of the log, or, with read_committed, the last stable offset."""
    wanted = {TopicPartition(topic, p): LATEST for p in range(8)}
    client = KafkaAdmin(zkafka_cluster.bootstrap_servers, {}, read_committed=read_committed, sizes=SIZES)
    with open_transaction(zkafka_cluster, topic), client:
        assert client.list_offsets(wanted) == {tp: tp.partition + (not read_committed) for tp in wanted}
        assert client.high_watermarks(wanted) == ({tp: tp.partition + 1 for tp in wanted} if read_committed else {})
    assert asked == [True]


def test_ranges_without_records(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """The marker of a transaction is no record, wherever it stands; a leader that does not answer proves nothing."""
    topics = [new_topic(), new_topic()]
    for topic in topics:
        commit(zkafka_cluster, topic, b"a", b"b")
    commit(zkafka_cluster, topics[1], b"c")
    first, second = (TopicPartition(topic, 0) for topic in topics)
    empty = [OffsetRange(first, 2, 3), OffsetRange(second, 2, 3)]
    servers = zkafka_cluster.bootstrap_servers
    properties = consumer_properties(broker_connection(servers), servers, "g", 1)
    assert sorted(find_without_records(properties, empty, 30), key=str) == sorted(empty, key=str)
    assert find_without_records(properties, [OffsetRange(first, 1, 3), OffsetRange(second, 2, 4)], 30) == []
    assert find_without_records({**properties, "bootstrap.servers": "127.0.0.1:1"}, empty, 0.5) == []
