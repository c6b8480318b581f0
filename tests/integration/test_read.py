"""Batch reads on real brokers: what comes back, from where to where, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from pyspark_zkafka.batch.planner import plan_batch
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, DataLoss, UnknownTopic, ZooKeeperError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

KEPT = {"retention.ms": "-1"}
"""For records of years ago."""
NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


def offsets(frame: DataFrame, partition: int = 0) -> list[int]:
    """The offsets that a frame holds of one partition, in order."""
    return sorted(row.offset for row in frame.where(f"partition = {partition}").collect())


def produce_transaction(cluster: LocalCluster, topic: str, values: list[bytes], commit: bool) -> None:
    """Write values to partition 0 in one transaction of its own, and end it either way."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic}-{time.time_ns()}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)
    wait_for_marker(cluster, TopicPartition(topic, 0))


def wait_for_marker(cluster: LocalCluster, partition: TopicPartition) -> None:
    """Wait until the end of a transaction is in the log: brokers write it after they have answered."""
    deadline = time.monotonic() + 30
    while len({_log_end(cluster, partition, read_committed) for read_committed in (True, False)}) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _log_end(cluster: LocalCluster, partition: TopicPartition, read_committed: bool) -> int:
    with KafkaAdmin(cluster.bootstrap_servers, {}, read_committed=read_committed) as admin:
        return admin.list_offsets({partition: LATEST})[partition]


def test_columns(
    spark: SparkSession, connection: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """All columns of a record come back as they were produced, through ZooKeeper and through the brokers alone."""
    topic = new_topic(partitions=2, replication=2, config=KEPT)
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    zkafka_cluster.produce(
        topic,
        [
            {"key": b"k", "value": b"v", "partition": 1, "headers": headers, "timestamp": 1_700_000_000_123},
            {"key": None, "value": None, "partition": 1, "timestamp": 1_700_000_000_124},
            {"key": b"", "value": b"", "partition": 1, "timestamp": 1_700_000_000_125},
        ],
    )
    frame = spark.read.format("zkafka").options(**connection, subscribe=topic, includeHeaders="true").load()
    rows = sorted(frame.collect(), key=lambda r: r.offset)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert [(r.key, r.value) for r in rows] == [(b"k", b"v"), (None, None), (b"", b"")]
    assert [(r.topic, r.partition, r.offset, r.timestampType) for r in rows] == [(topic, 1, n, 0) for n in range(3)]
    assert rows[0].timestamp.astimezone(timezone.utc) == datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
    assert [tuple(h) for h in rows[0].headers] == headers
    assert rows[1].headers is None


def test_log_append_time(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A topic whose brokers set the time has timestamp type 1."""
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    zkafka_cluster.produce(topic, [{"value": b"v", "timestamp": 5}])
    row = read({"subscribe": topic}).first()
    assert row.timestampType == 1
    assert row.timestamp.year > 2000


def test_projection(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A schema given by the user is the projection: subset, order, key and value as strings."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"key": "clé".encode(), "value": b"v"}])
    frame = read({"subscribe": topic}, schema="offset bigint, value string, key string")
    assert [tuple(r) for r in frame.collect()] == [(0, "v", "clé")]
    assert read({"subscribe": topic}, schema="value binary").count() == 1


def test_not_utf8(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A value that is not UTF-8, read as string, is an error that names the record."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"value": b"fine"}, {"value": b"\xff\xfe"}])
    with pytest.raises(Exception, match=rf"MALFORMED_UTF8.*{topic}-0 at offset 1"):
        read({"subscribe": topic}, schema="value string").collect()


def test_wrong_schema(read: Read, new_topic: NewTopic) -> None:
    """A schema with unknown columns or other types is refused, with all that is wrong with it."""
    with pytest.raises(Exception, match=r"INVALID_SCHEMA.*no column 'valu'.*offset cannot be string"):
        read({"subscribe": new_topic()}, schema="valu string, offset string").collect()


def test_count_needs_no_columns(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Counting works, over several partitions."""
    topic = new_topic(partitions=3)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 3} for n in range(1000)])
    assert read({"subscribe": topic}).count() == 1000


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern", "assign"])
def test_subscriptions(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, how: str) -> None:
    """Topics by name, by pattern, and partitions by number."""
    first, second = new_topic(partitions=2), new_topic()
    for topic, partition in ((first, 0), (first, 1), (second, 0)):
        zkafka_cluster.produce(topic, [{"value": b"v", "partition": partition}])
    option, expected = {
        "subscribe": (f"{first}, {second}", {(first, 0), (first, 1), (second, 0)}),
        "subscribePattern": (f"{first}|{second}|none.*", {(first, 0), (first, 1), (second, 0)}),
        "assign": (f'{{"{first}": [1], "{second}": [0]}}', {(first, 1), (second, 0)}),
    }[how]
    assert {(r.topic, r.partition) for r in read({how: option}).collect()} == expected


def test_pattern_without_match(read: Read) -> None:
    """A pattern that matches no topic gives an empty frame with the right columns."""
    frame = read({"subscribePattern": "no-such-topic-.*"})
    assert frame.columns[:2] == ["key", "value"]
    assert frame.collect() == []


def test_empty_topic(read: Read, new_topic: NewTopic) -> None:
    """A topic without records gives an empty frame, not an error and not a hang."""
    assert read({"subscribe": new_topic(partitions=3)}).collect() == []


def test_plan_follows_leaders(zookeeper: dict[str, str], zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Each split carries leader, epoch, ISR, identity and endpoints from ZooKeeper, neighbours on different leaders."""
    topic = new_topic(partitions=6, replication=2)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 6} for n in range(60)])
    plan = plan_batch(parse_read({**zookeeper, "subscribe": topic}))
    assert {s.partition: (s.start, s.until) for s in plan.splits} == {TopicPartition(topic, p): (0, 10) for p in range(6)}
    assert all(a.leader != b.leader for a, b in zip(plan.splits, plan.splits[1:], strict=False))
    for split in plan.splits:
        assert split.leader_epoch == 0
        assert len(split.isr) == 2
        assert len(split.endpoints) == 2
        assert split.topic_id
        assert split.czxid


def test_splits(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """minPartitions and maxRecordsPerPartition make more Spark partitions, and no record more or less."""
    topic = new_topic(partitions=2)
    zkafka_cluster.produce(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(1000)])
    for options, partitions in (({}, 2), ({"minPartitions": "5"}, 6), ({"maxRecordsPerPartition": "100"}, 10)):
        frame = read({"subscribe": topic, **options}, schema="value string")
        assert frame.rdd.getNumPartitions() == partitions
        assert sorted(int(r.value) for r in frame.collect()) == list(range(1000))


@pytest.mark.parametrize("native", ["on", "off"])
def test_joined_splits(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, native: str) -> None:
    """minRecordsPerPartition makes fewer Spark partitions, of several topics too, and no record more or less."""
    topics = [new_topic(partitions=5), new_topic(partitions=2)]
    for topic, partitions in zip(topics, (5, 2), strict=True):
        numbers = range(100 * partitions)
        zkafka_cluster.produce(topic, [{"value": b"%d" % n, "partition": n % partitions} for n in numbers])
    subscribed = {"subscribe": ",".join(topics), "nativePath": native}
    for least, most, partitions in (("1", None, 7), ("300", None, 3), ("250", "299", 4), ("9999", None, 1)):
        options = {"minRecordsPerPartition": least, **({} if most is None else {"maxRecordsPerPartition": most})}
        frame = read({**subscribed, **options}, schema="topic string, value string, partition int, offset long")
        assert frame.rdd.getNumPartitions() == partitions
        rows = frame.collect()
        assert sorted(int(r.value) for r in rows if r.topic == topics[0]) == list(range(500))
        assert sorted(int(r.value) for r in rows if r.topic == topics[1]) == list(range(200))
        assert [r.offset for r in rows if (r.topic, r.partition) == (topics[0], 3)] == list(range(100))


def test_joined_splits_of_a_topic_created_anew(read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A task that reads several partitions, too, finds out that their topic is another one of the same name."""
    topic = new_topic(partitions=3)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 3} for n in range(30)])
    frame = read({"subscribe": topic, "minRecordsPerPartition": "30"})
    assert frame.rdd.getNumPartitions() == 1
    zkafka_cluster.delete_topic(topic)
    zkafka_cluster.create_topic(topic, partitions=3)
    zkafka_cluster.produce(topic, [{"value": b"w", "partition": n % 3} for n in range(30)])
    with pytest.raises(Exception, match="TOPIC_REPLACED"):
        frame.rdd.collect()


class TestCommitted:
    """startingOffsets=committed."""

    @pytest.fixture
    def topic(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        topic = new_topic(partitions=2)
        zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 2} for n in range(20)])
        return topic

    def commit(self, cluster: LocalCluster, topic: str, offset: bytes) -> None:
        with cluster.zookeeper() as client:
            client.create(f"/consumers/g-{topic}/offsets/{topic}/0", offset, makepath=True)

    @pytest.mark.parametrize(("reset", "expected"), [("smallest", 10), ("earliest", 10), ("largest", 0), (None, 0)])
    def test_reset(self, read: Read, zkafka_cluster: LocalCluster, topic: str, reset: str | None, expected: int) -> None:
        """A partition starts at the group's offset, one without an offset where auto.offset.reset says (latest)."""
        self.commit(zkafka_cluster, topic, b"7")
        options = {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}
        frame = read(options | ({"auto.offset.reset": reset} if reset else {}))
        assert offsets(frame, 0) == [7, 8, 9]
        assert len(offsets(frame, 1)) == expected

    def test_reset_error(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """auto.offset.reset=error names the partition that has no offset."""
        self.commit(zkafka_cluster, topic, b"7")
        options = {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}
        with pytest.raises(Exception, match=rf"NO_COMMITTED_OFFSET.*{topic}-1"):
            read({**options, "auto.offset.reset": "error"}).collect()

    def test_outside_the_log(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """An offset beyond the log follows failOnDataLoss: an error, or a warning and what is there."""
        self.commit(zkafka_cluster, topic, b"99")
        options = {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}
        with pytest.raises(Exception, match=rf"OFFSET_OUT_OF_RANGE.*{topic}-0.*99.*\[0, 10\)"):
            read(options).collect()
        assert read({**options, "failOnDataLoss": "false"}).collect() == []

    def test_malformed(self, read: Read, zkafka_cluster: LocalCluster, topic: str) -> None:
        """An offset that another tool wrote in bad form is an error that quotes the znode's path."""
        self.commit(zkafka_cluster, topic, b"7 ")
        options = {"subscribe": topic, "startingOffsets": "committed", "group.id": f"g-{topic}"}
        with pytest.raises(Exception, match=rf"MALFORMED_ZNODE.*/consumers/g-{topic}/offsets/{topic}/0"):
            read(options).collect()


class TestInvisibleRecords:
    """What the log holds and a reader does not see."""

    def test_transactions(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Aborted records and markers are skipped as the isolation level says, also at the end of the log."""
        topic = new_topic()
        produce_transaction(zkafka_cluster, topic, [b"a", b"b"], commit=True)
        produce_transaction(zkafka_cluster, topic, [b"c", b"d"], commit=False)
        zkafka_cluster.produce(topic, [{"value": b"e"}])
        produce_transaction(zkafka_cluster, topic, [b"f"], commit=True)
        committed = read({"subscribe": topic, "kafka.isolation.level": "read_committed"})
        assert [r.value for r in committed.orderBy("offset").collect()] == [b"a", b"b", b"e", b"f"]
        every = read({"subscribe": topic})
        assert [r.value for r in every.orderBy("offset").collect()] == [b"a", b"b", b"c", b"d", b"e", b"f"]

    def test_nothing_visible(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A range of aborted records and markers alone ends, empty."""
        topic = new_topic()
        produce_transaction(zkafka_cluster, topic, [b"x"] * 10, commit=False)
        frame = read({"subscribe": topic, "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": "4"})
        assert frame.collect() == []

    def test_open_transaction(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """With read_committed a batch ends before an open transaction."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": b"before"}])
        producer = Producer({"bootstrap.servers": zkafka_cluster.bootstrap_servers, "transactional.id": topic})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(30)
        try:
            frame = read({"subscribe": topic, "kafka.isolation.level": "read_committed"})
            assert [r.value for r in frame.collect()] == [b"before"]
            assert read({"subscribe": topic}).count() == 2
        finally:
            producer.abort_transaction(30)

    def test_large_records(self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Records larger than the fetch size are read, in batches that do not hold them all."""
        topic = new_topic()
        zkafka_cluster.produce(topic, [{"value": bytes([n]) * 900_000} for n in range(60)])
        small_fetches = {"kafka.max.partition.fetch.bytes": "10000"}
        frame = read({"subscribe": topic, **small_fetches})
        assert sorted((r.value[0], len(r.value)) for r in frame.collect()) == [(n, 900_000) for n in range(60)]


class TestPushdown:
    """Filters on topic, partition, offset and timestamp."""

    @pytest.fixture
    def topic(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        topic = new_topic(partitions=3, config=KEPT)
        records = [{"value": b"v", "partition": n % 3, "timestamp": 1_700_000_000_000 + n} for n in range(300)]
        zkafka_cluster.produce(topic, records)
        return topic

    CASES = (
        ("partition = 1", 1, 100),
        ("partition IN (0, 2)", 2, 200),
        ("partition = 1 AND offset >= 90", 1, 10),
        ("offset < 5", 3, 15),
        ("offset > 1000", 0, 0),
        ("topic = 'other'", 0, 0),
        ("timestamp >= timestamp_millis(1700000000297)", 3, 3),
        ("timestamp = timestamp_millis(1700000000000)", 3, 1),
        ("timestamp > timestamp_millis(1800000000000)", 0, 0),
        ("value = 'v'", 3, 300),
    )

    @pytest.mark.parametrize(("where", "partitions", "rows"), CASES)
    def test_narrowed(self, read: Read, topic: str, where: str, partitions: int, rows: int) -> None:
        """Where Spark pushes filters, the plan has only the partitions that can match, and the same rows come back."""
        frame = read({"subscribe": topic}).where(where)
        assert frame.count() == rows
        assert frame.rdd.getNumPartitions() == max(partitions, 1)

    @pytest.mark.parametrize(("where", "partitions", "rows"), CASES)
    def test_off(self, spark: SparkSession, read: Read, topic: str, where: str, partitions: int, rows: int) -> None:
        """Where it does not (its default), the reader works unchanged."""
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        try:
            frame = read({"subscribe": topic}).where(where)
            assert frame.count() == rows
            assert frame.rdd.getNumPartitions() == 3
        finally:
            spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


class TestRefused:
    """What is refused, before any task runs."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"subscribe": "t", "startingOffset": "earliest"}, "did you mean startingOffsets"),
            ({"subscribe": "t", "assign": '{"t":[0]}'}, "subscribe and assign contradict"),
            ({}, "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
            ({"subscribe": "t", "startingOffsets": "latest"}, "a batch that starts at latest reads nothing"),
            ({"subscribe": "t", "endingOffsets": "earliest"}, "a batch that ends at earliest reads nothing"),
            ({"subscribe": "t", "minPartitions": "0"}, "minPartitions is '0'"),
            ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
            ({"subscribe": "t", "kafka.key.deserializer": "x"}, "key.deserializer"),
            ({"subscribe": "t", "startingOffsets": "committed"}, "needs group.id"),
            ({"subscribe": "t", "topic": "x"}, "topic is an option of a write"),
        ],
    )
    def test_options(self, read: Read, options: dict[str, str], expected: str) -> None:
        """A bad option is named, with what is right."""
        with pytest.raises(Exception, match=expected):
            read(options).collect()

    def test_all_at_once(self, read: Read) -> None:
        """All problems are in one error."""
        with pytest.raises(Exception, match=r"3 problem\(s\)") as caught:
            read({"subscribe": "t", "failOnDataLoss": "perhaps", "maxRecordsPerPartition": "-1", "speed": "11"}).collect()
        for name in ("failOnDataLoss", "maxRecordsPerPartition", "speed"):
            assert name in str(caught.value)

    def test_unknown_topic(self, zookeeper: dict[str, str]) -> None:
        """A topic that does not exist is named."""
        with pytest.raises(UnknownTopic, match="no-such-topic"):
            plan_batch(parse_read({**zookeeper, "subscribe": "no-such-topic"}))

    def test_unknown_partition(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """A partition that does not exist is named."""
        topic = new_topic(partitions=2)
        with pytest.raises(UnknownTopic, match=f"{topic}-7"):
            plan_batch(parse_read({**zookeeper, "assign": f'{{"{topic}":[0,7]}}'}))

    def test_wrong_chroot(self, zookeeper: dict[str, str]) -> None:
        """A chroot that is not there is said to be missing."""
        hosts = zookeeper["zookeeper.connect"].partition("/")[0]
        with pytest.raises(ZooKeeperError, match="/nowhere"):
            plan_batch(parse_read({"zookeeper.connect": f"{hosts}/nowhere", "subscribe": "t"}))

    def test_no_zookeeper(self) -> None:
        """An ensemble that does not answer is an error within the connection time-out."""
        options = {"zookeeper.connect": "127.0.0.1:1", "zookeeper.connection.timeout.ms": "1500", "subscribe": "t"}
        begin = time.monotonic()
        with pytest.raises(ZooKeeperError, match=r"127\.0\.0\.1:1"):
            plan_batch(parse_read({**options, "fetchOffset.numRetries": "0"}))
        assert time.monotonic() - begin < 5

    @pytest.mark.parametrize(("servers", "cause"), [("127.0.0.1:1", "refused"), ("no-such-host.invalid:9092", "resolve")])
    def test_no_brokers(self, servers: str, cause: str) -> None:
        """Brokers that cannot be reached are an error within seconds, with the cause."""
        options = {"kafka.bootstrap.servers": servers, "subscribe": "t", "fetchOffset.numRetries": "0"}
        begin = time.monotonic()
        with pytest.raises(BrokersUnavailable, match=f"{servers}.*{cause}"):
            plan_batch(parse_read(options))
        assert time.monotonic() - begin < 15

    def test_start_outside_the_log(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """An explicit start beyond the log's end is data loss, found while planning."""
        topic = new_topic()
        with pytest.raises(DataLoss, match=rf"{topic}-0: starting offset 5 is outside the log"):
            plan_batch(parse_read({**zookeeper, "subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":5}}}}'}))

    def test_no_record_at_timestamp(self, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """A starting timestamp later than all records is an error, unless the strategy says latest."""
        topic = new_topic()
        options: dict[str, Any] = {**zookeeper, "subscribe": topic, "startingTimestamp": "1700000000000"}
        with pytest.raises(ClusterStateError, match=rf"NO_OFFSET_FOR_TIMESTAMP.*{topic}-0"):
            plan_batch(parse_read(options))
        assert plan_batch(parse_read({**options, "startingOffsetsByTimestampStrategy": "latest"})).splits == ()
