"""Batch reads on real brokers: records, columns and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from tests.support.all_columns import COLUMNS, expected_rows, produce_all_columns, shown
from tests.support.fill import fill
from tests.support.tiers import seldom
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


def test_columns(
    spark: SparkSession, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """All columns of a record are read as they were produced, through ZooKeeper and through brokers only."""
    topic = new_topic(partitions=2, replication=2, config=KEPT)
    produce_all_columns(zkafka_cluster, topic)
    frame = spark.read.format("zkafka").options(**connection, subscribe=topic, includeHeaders="true").load()
    assert frame.columns == COLUMNS
    assert [shown(row) for row in sorted(frame.collect(), key=lambda r: r.offset)] == expected_rows(topic)


def test_timestamps_without_zone(
    spark: SparkSession, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """A session whose type "timestamp" has no time zone reads the same columns."""
    topic = new_topic(config=KEPT)
    zkafka_cluster.produce(topic, [{"value": b"v", "timestamp": 5}])
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frame = read({"subscribe": topic})
        assert frame.schema["timestamp"].dataType.typeName() == "timestamp"
        assert frame.count() == 1
        assert read({"subscribe": topic}, schema="value string, timestamp timestamp_ltz").first().timestamp.year == 1970
    finally:
        spark.conf.unset("spark.sql.timestampType")


def test_log_append_time(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Records of a topic with LogAppendTime have the broker's time and timestampType 1."""
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    zkafka_cluster.produce(topic, [{"value": b"v", "timestamp": 5}])
    row = read({"subscribe": topic}).first()
    assert row.timestampType == 1
    assert row.timestamp.year > 2000


def test_projection(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A user's schema selects columns, in any order, with key and value as strings if declared so."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"key": "clé".encode(), "value": b"v"}])
    frame = read({"subscribe": topic}, schema="offset bigint, value string, key string")
    assert [tuple(r) for r in frame.collect()] == [(0, "v", "clé")]
    assert read({"subscribe": topic}, schema="value binary").count() == 1


@pytest.mark.long
def test_batch_for_librdkafka_alone(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A batch too large for direct decompression is read correctly between other batches."""
    topic, size = new_topic(), 70 * 1024 * 1024
    for value in (b"a" * 1024, bytes(size), b"c"):
        properties = {"compression.type": "gzip", "message.max.bytes": 2 * size}
        zkafka_cluster.produce(topic, [{"value": value}], properties)
    rows = read({"subscribe": topic}).selectExpr("offset", "length(value)", "hex(substr(value, 1, 1))").collect()
    assert [tuple(row) for row in rows] == [(0, 1024, "61"), (1, size, "00"), (2, 1, "63")]


def test_not_utf8(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A value that is not UTF-8, read as string, raises an error that names the record."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"value": b"fine"}, {"value": b"\xff\xfe"}])
    with pytest.raises(Exception, match=rf"MALFORMED_UTF8.*{topic}-0 at offset 1"):
        read({"subscribe": topic}, schema="value string").collect()


def test_wrong_schema(read: Read, new_topic: NewTopic) -> None:
    """A schema with unknown columns or wrong types is refused with all its problems."""
    with pytest.raises(Exception, match=r"INVALID_SCHEMA.*no column 'valu'.*offset cannot be string"):
        read({"subscribe": new_topic()}, schema="valu string, offset string").collect()


def test_count_needs_no_columns(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """`count` counts the records of several partitions."""
    topic = new_topic(partitions=3)
    fill(zkafka_cluster, topic, 300, range(3))
    assert read({"subscribe": topic}).count() == 900


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern", "assign"])
def test_subscriptions(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, how: str) -> None:
    """Topics can be subscribed by name and by pattern, and partitions by number."""
    first, second = new_topic(partitions=2), new_topic()
    for topic, partition in ((first, 0), (first, 1), (second, 0)):
        fill(zkafka_cluster, topic, 1, partition)
    option, expected = {
        "subscribe": (f"{first}, {second}", {(first, 0), (first, 1), (second, 0)}),
        "subscribePattern": (f"{first}|{second}|none.*", {(first, 0), (first, 1), (second, 0)}),
        "assign": (f'{{"{first}": [1], "{second}": [0]}}', {(first, 1), (second, 0)}),
    }[how]
    assert {(r.topic, r.partition) for r in read({how: option}).collect()} == expected


def test_pattern_without_match(read: Read) -> None:
    """A pattern without a match is an error, or with missingTopics=wait an empty frame with the right columns."""
    with pytest.raises(Exception, match=r"\[NO_TOPIC_MATCHES\] subscribePattern 'no-such-topic-\.\*' matches no topic"):
        read({"subscribePattern": "no-such-topic-.*"}).collect()
    frame = read({"subscribePattern": "no-such-topic-.*", "missingTopics": "wait"})
    assert frame.columns[:2] == ["key", "value"]
    assert frame.collect() == []


def test_empty_topic(read: Read, new_topic: NewTopic) -> None:
    """A topic without records returns an empty frame."""
    assert read({"subscribe": new_topic(partitions=3)}).collect() == []


def test_plan_follows_leaders(zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Splits carry leader, epoch, ISR, identity and endpoints from ZooKeeper; neighbours have different leaders."""
    topic = new_topic(partitions=6, replication=2)
    fill(zkafka_cluster, topic, 10, range(6))
    plan = plan_batch(parse_read({**zookeeper, "subscribe": topic}))
    assert {s.partition: (s.start, s.until) for s in plan.splits} == {TopicPartition(topic, p): (0, 10) for p in range(6)}
    assert all(a.leader != b.leader for a, b in zip(plan.splits, plan.splits[1:], strict=False))
    for split in plan.splits:
        assert split.leader_epoch == 0
        assert len(split.isr) == 2
        assert len(split.endpoints) == 2
        assert split.topic_id
        assert split.czxid


@pytest.mark.only_on("spark")
def test_splits(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """minPartitions and maxRecordsPerPartition create more Spark partitions, and all records are read once."""
    topic = new_topic(partitions=2)
    zkafka_cluster.produce(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(1000)])
    for options, partitions in (({}, 2), ({"minPartitions": "5"}, 6), ({"maxRecordsPerPartition": "100"}, 10)):
        frame = read({"subscribe": topic, **options}, schema="value string")
        assert frame.rdd.getNumPartitions() == partitions
        assert sorted(int(r.value) for r in frame.collect()) == list(range(1000))


@pytest.mark.only_on("spark")
@pytest.mark.parametrize("transport", ["direct", *seldom("librdkafka")])
def test_joined_splits(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, transport: str) -> None:
    """minRecordsPerPartition creates fewer Spark partitions, even across topics, and all records are read once."""
    topics = [new_topic(partitions=5), new_topic(partitions=2)]
    for topic, partitions in zip(topics, (5, 2), strict=True):
        numbers = range(100 * partitions)
        zkafka_cluster.produce(topic, [{"value": b"%d" % n, "partition": n % partitions} for n in numbers])
    subscribed = {"subscribe": ",".join(topics), "transport": transport}
    for least, most, partitions in (("1", None, 7), ("300", None, 3), ("250", "299", 4), ("9999", None, 1)):
        options = {"minRecordsPerPartition": least, **({} if most is None else {"maxRecordsPerPartition": most})}
        frame = read({**subscribed, **options}, schema="topic string, value string, partition int, offset long")
        assert frame.rdd.getNumPartitions() == partitions
        rows = frame.collect()
        assert sorted(int(r.value) for r in rows if r.topic == topics[0]) == list(range(500))
        assert sorted(int(r.value) for r in rows if r.topic == topics[1]) == list(range(200))
        assert [r.offset for r in rows if (r.topic, r.partition) == (topics[0], 3)] == list(range(100))


@pytest.mark.only_on("spark")
def test_joined_splits_of_a_topic_created_anew(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A task with several partitions fails if their topic was deleted and created again."""
    topic = new_topic(partitions=3)
    fill(zkafka_cluster, topic, 10, range(3))
    frame = read({"subscribe": topic, "minRecordsPerPartition": "30"})
    assert frame.rdd.getNumPartitions() == 1
    zkafka_cluster.delete_topic(topic)
    zkafka_cluster.create_topic(topic, partitions=3)
    fill(zkafka_cluster, topic, 10, range(3), value="new")
    with pytest.raises(Exception, match="TOPIC_REPLACED"):
        frame.rdd.collect()
