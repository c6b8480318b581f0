"""Offsets passed between JVM consumers and our queries: after an orderly stop, no record is read twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from conftest import Group

NewTopic = Callable[..., str]
Place = tuple[str, int, int]
PARTITIONS = 3
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}


class Topic:
    """A topic that is written in rounds."""

    def __init__(self, group: Group, name: str) -> None:
        self.name, self._group = name, group

    def write(self, records: int) -> set[Place]:
        """Write `records` records to each partition; returns their places."""
        written = fill(self._group.cluster, self.name, records, range(PARTITIONS))
        return {(self.name, p, offset) for p, offsets in written.items() for offset in offsets}

    def at(self, offset: int) -> dict[TopicPartition, int]:
        """Return the same offset for each partition."""
        return {TopicPartition(self.name, p): offset for p in range(PARTITIONS)}

    def require_read(self, reader: Any, expected: set[Place]) -> None:
        """Wait until a member has read exactly the expected records, each once."""
        places = self._group.places
        eventually(lambda: len(places(reader)) >= len(expected), 60, lambda: len(places(reader)))
        assert sorted(places(reader)) == sorted(expected)


@pytest.fixture
def topic(group: Group, new_topic: NewTopic) -> Topic:
    """A topic without records."""
    return Topic(group, new_topic(partitions=PARTITIONS))


@pytest.mark.parametrize("version", ["1.1.1", *seldom("0.8.2.2")])
def test_each_goes_on_where_the_other_stopped(group: Group, topic: Topic, version: str) -> None:
    """A query resumes from the JVM's commits, and the JVM from the query's, and no record is read twice."""
    first = topic.write(7)
    jvm = group.jvm("a", version, topics={topic.name: 1})
    topic.require_read(jvm, first)
    group.stop(jvm)
    assert group.offsets() == topic.at(7)

    second = topic.write(5)
    ours = group.query("ours", {"subscribe": topic.name})
    eventually(lambda: group.offsets() == topic.at(12))
    topic.require_read(ours, second)
    group.stop(ours)
    assert group.offsets() == topic.at(12)

    third = topic.write(4)
    jvm.start()
    topic.require_read(jvm, third)
    group.stop(jvm)
    assert group.offsets() == topic.at(16)


@pytest.fixture
def in_kafka(group: Group, topic: Topic) -> Iterator[Callable[[], dict[TopicPartition, int]]]:
    """Function that asks the brokers for the group's offsets."""
    asked = [KafkaTopicPartition(tp.topic, tp.partition) for tp in topic.at(0)]
    consumer = Consumer({"bootstrap.servers": group.cluster.bootstrap_servers, "group.id": group.name})

    def ask() -> dict[TopicPartition, int]:
        return {TopicPartition(tp.topic, tp.partition): tp.offset for tp in consumer.committed(asked, timeout=30)}

    yield ask
    consumer.close()


@pytest.mark.long
def test_offsets_in_kafka_and_zookeeper(
    group: Group, topic: Topic, in_kafka: Callable[[], dict[TopicPartition, int]]
) -> None:
    """With dual commits, JVM and query commit to both stores, and resume from the larger of two offsets."""

    def rewind_zookeeper(offset: bytes) -> None:
        for p in range(PARTITIONS):
            group.znodes.set(f"{group.path}/offsets/{topic.name}/{p}", offset)

    first = topic.write(7)
    jvm = group.jvm("a", "1.1.1", topics={topic.name: 1}, properties=IN_KAFKA)
    topic.require_read(jvm, first)
    group.stop(jvm)
    assert group.offsets() == in_kafka() == topic.at(7)

    rewind_zookeeper(b"2")
    second = topic.write(5)
    ours = group.query("ours", {"subscribe": topic.name, **IN_KAFKA})
    eventually(lambda: group.offsets() == in_kafka() == topic.at(12))
    topic.require_read(ours, second)
    group.stop(ours)

    rewind_zookeeper(b"3")
    third = topic.write(4)
    jvm.start()
    topic.require_read(jvm, third)
    group.stop(jvm)
    assert group.offsets() == in_kafka() == topic.at(16)

    fourth = topic.write(3)
    rewind_zookeeper(b"18")
    ours = group.query("ours", {"subscribe": topic.name, **IN_KAFKA})
    topic.require_read(ours, {place for place in fourth if place[2] >= 18})
    eventually(lambda: group.offsets() == in_kafka() == topic.at(19))


@pytest.mark.long
def test_a_query_moves_a_group_to_kafka(
    group: Group, topic: Topic, in_kafka: Callable[[], dict[TopicPartition, int]]
) -> None:
    """A query with offsets in Kafka resumes a JVM's ZooKeeper offsets, and a JVM using only Kafka resumes the query's."""
    first = topic.write(7)
    jvm = group.jvm("a", "1.1.1", topics={topic.name: 1})
    topic.require_read(jvm, first)
    group.stop(jvm)
    assert in_kafka() == topic.at(-1001)

    second = topic.write(5)
    ours = group.query("ours", {"subscribe": topic.name, "offsets.storage": "kafka"})
    eventually(lambda: group.offsets() == in_kafka() == topic.at(12))
    topic.require_read(ours, second)
    group.stop(ours)

    third = topic.write(4)
    only_kafka = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}
    later = group.jvm("b", "1.1.1", topics={topic.name: 1}, properties=only_kafka)
    topic.require_read(later, third)
    group.stop(later)
    assert group.offsets() == topic.at(12)
    assert in_kafka() == topic.at(16)
