"""Transactions of a producer on partition 0 of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["abort", "commit", "transaction", "wait_for_marker", "wait_until_forgotten"]


@contextmanager
def transaction(cluster: LocalCluster, topic: str, *values: bytes) -> Iterator[Producer]:
    """Open a transaction with some records in partition 0, which stays open unless the block ends it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic}-{time.time_ns()}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    yield producer


def commit(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    """Commit a transaction with some records."""
    with transaction(cluster, topic, *values) as producer:
        producer.commit_transaction(30)
    wait_for_marker(cluster, topic)


def abort(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    """Abort a transaction with some records."""
    with transaction(cluster, topic, *values) as producer:
        producer.abort_transaction(30)
    wait_for_marker(cluster, topic)


def wait_for_marker(cluster: LocalCluster, topic: str) -> None:
    """Wait until the log's last stable offset is its end: brokers respond before they write the markers."""
    tp = TopicPartition(topic, 0)
    committed, every = (KafkaAdmin(cluster.bootstrap_servers, {}, read_committed=flag) for flag in (True, False))
    with committed, every:
        eventually(lambda: committed.list_offsets({tp: LATEST}) == every.list_offsets({tp: LATEST}))


def wait_until_forgotten(cluster: LocalCluster, transactional_id: str, times: int = 1) -> None:
    """Wait until the log of the coordinators has this many deletions of an expired id."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"}
    deleted = 0
    with closing(Consumer(settings)) as consumer:
        consumer.assign([KafkaTopicPartition("__transaction_state", partition, 0) for partition in range(50)])
        while deleted < times:
            message = consumer.poll(30)
            assert message is not None, f"{transactional_id} was deleted {deleted} times"
            deleted += message.value() is None and transactional_id.encode() in message.key()
