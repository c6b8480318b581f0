"""Batch writes on real brokers: destinations of rows, acknowledgements and refusals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from pyspark_zkafka.model.offsets import canonical_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]
VECTORS = Path(__file__).parent.parent / "vectors"


@pytest.fixture
def write(zookeeper: dict[str, str]) -> Callable[..., None]:
    """Writes through ZooKeeper: ``write(frame, topic="t")``."""

    def save(frame: DataFrame, **options: str) -> None:
        frame.write.format("zkafka").options(**{**zookeeper, **options}).mode("append").save()

    return save


def test_every_row_once(spark: SparkSession, connection: dict[str, str], read: Read, new_topic: NewTopic) -> None:
    """Every row arrives once, each key in one partition, through ZooKeeper and through brokers only."""
    topic = new_topic(partitions=5, replication=2)
    frame = spark.range(20_000).select(
        F.concat(F.lit("k"), F.col("id") % 500).alias("key"), F.col("id").cast("string").alias("value")
    )
    frame.write.format("zkafka").options(**connection).option("topic", topic).mode("append").save()
    rows = read({"subscribe": topic}, schema="key string, value string, partition int").collect()
    assert sorted(int(r.value) for r in rows) == list(range(20_000))
    assert len({(r.key, r.partition) for r in rows}) == 500


def test_murmur2_vectors(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """Keys go to the partitions that the Java client chooses for them."""
    recorded = json.loads((VECTORS / "murmur2.json").read_text())
    topic = new_topic(partitions=7)
    seventh = recorded["partition_counts"].index(7)
    expected = {bytes.fromhex(key): partitions[seventh] for key, _, partitions in recorded["keys"]}
    write(spark.createDataFrame([(bytearray(k), b"v") for k in expected], "key binary, value binary"), topic=topic)
    found = {bytes(r.key): r.partition for r in read({"subscribe": topic}).collect()}
    assert found == expected


@pytest.mark.long
@pytest.mark.only_on("spark")
def test_same_partitions_as_spark(
    spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic, zkafka_cluster: LocalCluster
) -> None:
    """Spark's own connector puts the same keys into the same partitions."""
    ours, theirs = new_topic(partitions=6), new_topic(partitions=6)
    frame = spark.range(3000).select(F.sha2(F.col("id").cast("string"), 256).alias("key"), F.lit("v").alias("value"))
    write(frame, topic=ours)
    frame.write.format("kafka").option("kafka.bootstrap.servers", zkafka_cluster.bootstrap_servers).option(
        "topic", theirs
    ).save()
    placed = [{(bytes(r.key), r.partition) for r in read({"subscribe": t}).collect()} for t in (ours, theirs)]
    assert placed[0] == placed[1]
    assert len(placed[0]) == 3000


def test_round_robin(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """With partitioner=roundrobin, rows alternate between partitions whatever their key."""
    topic = new_topic(partitions=4)
    frame = spark.range(400).coalesce(1).select(F.lit("same").alias("key"), F.lit("v").alias("value"))
    write(frame, topic=topic, partitioner="roundrobin")
    assert Counter(r.partition for r in read({"subscribe": topic}).collect()) == dict.fromkeys(range(4), 100)


def test_explicit_partition(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """An explicit partition takes precedence over the key; a null partition does not."""
    topic = new_topic(partitions=3)
    rows = [("abcd", "a", 1), ("abcd", "b", 0), ("abcd", "c", None)]  # murmur2 chooses partition 2
    write(spark.createDataFrame(rows, "key string, value string, partition int"), topic=topic)
    found = {r.value: r.partition for r in read({"subscribe": topic}, schema="value string, partition int").collect()}
    assert found == {"a": 1, "b": 0, "c": 2}


def test_topic_column(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """Without the option topic, each row goes to the topic in its column; the option takes precedence."""
    first, second = new_topic(), new_topic(partitions=3)
    frame = spark.createDataFrame([(first, "a"), (second, "b"), (first, "c")], "topic string, value string")
    write(frame)
    write(frame, topic=second)
    rows = [
        (r.topic, r.value) for r in read({"subscribe": f"{first},{second}"}, schema="topic string, value string").collect()
    ]
    assert sorted(rows) == sorted([(first, "a"), (first, "c"), (second, "b"), *((second, v) for v in "abc")])


def test_order_within_a_partition(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """Rows of one task with the same key keep their order."""
    topic = new_topic(partitions=3)
    frame = (
        spark.range(30_000)
        .coalesce(1)
        .select((F.col("id") % 7).cast("string").alias("key"), F.col("id").cast("string").alias("value"))
    )
    write(frame, topic=topic)
    rows = read({"subscribe": topic}, schema="key string, value string, offset bigint").orderBy("offset").collect()
    assert len(rows) == 30_000
    for key in "0123456":
        values = [int(r.value) for r in rows if r.key == key]
        assert values == sorted(values)


def test_all_columns(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """Headers (repeated, null), timestamps, tombstones and empty values are written unchanged."""
    topic = new_topic(config={"retention.ms": "-1"})
    when = datetime(2020, 2, 29, 12, 0, 0, 987_654, timezone.utc)
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp"
    rows: list[Any] = [
        (b"k", b"v", [("a", b"1"), ("a", None)], when),
        (b"k", None, None, None),
        (b"", b"", [], None),
    ]
    write(spark.createDataFrame(rows, schema).coalesce(1), topic=topic)
    found = read({"subscribe": topic, "includeHeaders": "true"}).orderBy("offset").collect()
    assert [(r.key, r.value) for r in found] == [(b"k", b"v"), (b"k", None), (b"", b"")]
    assert [None if r.headers is None else [tuple(h) for h in r.headers] for r in found] == [
        [("a", b"1"), ("a", None)],
        None,
        None,
    ]
    assert found[0].timestamp.astimezone(timezone.utc) == when.replace(microsecond=987_000)
    assert found[1].timestamp.year > 2020


@pytest.mark.parametrize("zone", ["Europe/Berlin", "GMT+05:00"])
def test_timestamps_in_any_zone_of_the_session(
    zone: str, spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic
) -> None:
    """Timestamps in an hour repeated at the end of summer time are written unchanged, in any time zone."""
    topic, repeated_us = new_topic(config={"retention.ms": "-1"}), (1_698_539_400_000_000, 1_698_543_000_000_000)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame([(us,) for us in repeated_us], "us bigint")
        write(frame.select(F.lit("v").alias("value"), F.timestamp_micros("us").alias("timestamp")), topic=topic)
        found = read({"subscribe": topic}).select(F.unix_micros("timestamp").alias("us")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert sorted(row.us for row in found) == sorted(repeated_us)


def test_empty_frame(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """A frame without rows writes no records."""
    topic = new_topic()
    write(spark.createDataFrame([], "value string"), topic=topic)
    assert read({"subscribe": topic}).collect() == []


def test_large_rows(spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
    """Rows of 900 kB, which together exceed the producer's queue, all arrive."""
    topic = new_topic(partitions=2)
    frame = spark.range(120).select(F.col("id").cast("string").alias("key"), F.expr("repeat('x', 900000)").alias("value"))
    write(frame, topic=topic)
    sizes = read({"subscribe": topic}).select(F.length("value").alias("n")).collect()
    assert [r.n for r in sizes] == [900_000] * 120


class TestRefused:
    """Refused writes, which write nothing."""

    def test_columns(self, spark: SparkSession, write: Callable[..., None], new_topic: NewTopic) -> None:
        """A column of the wrong type raises an error that names it."""
        with pytest.raises(Exception, match="column key must be string or binary"):
            write(spark.createDataFrame([("v", 1)], "value string, key int"), topic=new_topic())

    def test_null_topic(self, spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic) -> None:
        """A null topic raises an error, and its batch is not sent."""
        topic = new_topic()
        frame = spark.createDataFrame([(topic, "a"), (None, "b")], "topic string, value string").coalesce(1)
        with pytest.raises(Exception, match="NULL_TOPIC"):
            write(frame)
        assert read({"subscribe": topic}).collect() == []

    def test_partition_out_of_range(
        self, spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic
    ) -> None:
        """A partition that the topic does not have raises an error, and its batch is not sent."""
        topic = new_topic(partitions=2)
        frame = spark.createDataFrame([("a", 0), ("b", 2)], "value string, partition int").coalesce(1)
        with pytest.raises(Exception, match=rf"PARTITION_OUT_OF_RANGE.*partition 2 of topic {topic}"):
            write(frame, topic=topic)
        assert read({"subscribe": topic}).collect() == []

    @pytest.mark.long
    def test_unknown_topic(self, spark: SparkSession, write: Callable[..., None]) -> None:
        """A missing topic that the brokers do not create raises an error that names it."""
        with pytest.raises(Exception, match=r"UNKNOWN_TOPIC.*no-such-topic"):
            write(spark.range(1).select(F.lit("v").alias("value")), topic="no-such-topic")

    def test_overwrite(self, spark: SparkSession, zookeeper: dict[str, str], new_topic: NewTopic) -> None:
        """The mode overwrite is refused, with the reason."""
        frame = spark.range(1).select(F.lit("v").alias("value"))
        with pytest.raises(Exception, match="A topic is a log and cannot be overwritten"):
            frame.write.format("zkafka").options(**zookeeper, topic=new_topic()).mode("overwrite").save()

    def test_too_large(self, spark: SparkSession, write: Callable[..., None], new_topic: NewTopic) -> None:
        """A record that the broker refuses fails the write, and the error has topic, partition, cause and counts."""
        topic = new_topic(config={"max.message.bytes": "1000"})
        frame = spark.createDataFrame([("x" * 5000,)], "value string")
        with pytest.raises(Exception, match=rf"DELIVERY_FAILED.*{topic}-0: MESSAGE_TOO_LARGE.*were acknowledged"):
            write(frame, topic=topic)

    @pytest.mark.parametrize(
        ("limit", "options"),
        [
            (20_000, {}),
            (2_000, {"kafka.compression.type": "lz4"}),
            pytest.param(
                20_000,
                {"deliveryGuarantee": "exactly-once", "batchId": "1", "writerName": "small"},
                marks=pytest.mark.only_on("spark"),
            ),
        ],
    )
    def test_smaller_batches(
        self,
        spark: SparkSession,
        write: Callable[..., None],
        read: Read,
        new_topic: NewTopic,
        limit: int,
        options: dict[str, str],
    ) -> None:
        """Rows are written in order to a topic that accepts only small batches, with the default settings."""
        topic = new_topic(config={"max.message.bytes": str(limit)})
        frame = spark.range(0, 3000, 1, 1).select(F.rpad(F.col("id").cast("string"), 1000, ".").alias("value"))
        write(frame, topic=topic, **options)
        rows = read({"subscribe": topic}, schema="value string, offset long").orderBy("offset").collect()
        assert [row.value.rstrip(".") for row in rows] == [str(n) for n in range(3000)]


class TestCommitOffsets:
    """Writes with commitOffsets."""

    def test_commit(
        self, spark: SparkSession, write: Callable[..., None], new_topic: NewTopic, zkafka_cluster: LocalCluster
    ) -> None:
        """When the write ends, offsets are in ZooKeeper as the JVM writes them, and never move backwards."""
        source, sink = new_topic(partitions=2), new_topic()
        frame = spark.createDataFrame([("v",)], "value string")
        group = f"g-{source}"
        for offsets, expected in (({"0": 5, "1": 7}, (b"5", b"7")), ({"0": 3, "1": 9}, (b"5", b"9"))):
            write(frame, **{"topic": sink, "group.id": group, "commitOffsets": json.dumps({source: offsets})})
            with zkafka_cluster.zookeeper() as client:
                found = tuple(client.get(f"/consumers/{group}/offsets/{source}/{p}")[0] for p in (0, 1))
                assert found == expected
                assert client.exists(f"/consumers/{group}/ids") is None

    def test_failed_write(
        self, spark: SparkSession, write: Callable[..., None], new_topic: NewTopic, zkafka_cluster: LocalCluster
    ) -> None:
        """A failed write commits no offsets."""
        sink = new_topic(config={"max.message.bytes": "1000"})
        commit = json.dumps({sink: {"0": 5}})
        frame = spark.createDataFrame([("x" * 5000,)], "value string")
        with pytest.raises(Exception, match="DELIVERY_FAILED"):
            write(frame, **{"topic": sink, "group.id": f"g-{sink}", "commitOffsets": commit})
        with zkafka_cluster.zookeeper() as client:
            assert client.exists(f"/consumers/g-{sink}/offsets") is None

    def test_unknown_partitions(
        self, spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic
    ) -> None:
        """Topics and partitions that do not exist are an error before any row is written."""
        sink = new_topic()
        frame, commit = spark.createDataFrame([("v",)], "value string"), {sink: {"0": 1, "9": 1}, f"{sink}-typo": {"0": 1}}
        with pytest.raises(Exception, match=rf"UNKNOWN_TOPIC.*commitOffsets names {sink}-typo, {sink}-9, which"):
            write(frame, **{"topic": sink, "group.id": f"g-{sink}", "commitOffsets": json.dumps(commit)})
        assert read({"subscribe": sink}).count() == 0

    @pytest.mark.long
    def test_owned(
        self, spark: SparkSession, write: Callable[..., None], new_topic: NewTopic, zkafka_cluster: LocalCluster
    ) -> None:
        """A partition owned by a live member prevents the commit of all offsets, and the error names the owner."""
        source, sink = new_topic(partitions=2), new_topic()
        group = f"g-{source}"
        commit = json.dumps({source: {"0": 5, "1": 7}})
        with zkafka_cluster.zookeeper() as client:
            client.create(f"/consumers/{group}/owners/{source}/1", b"member-0", ephemeral=True, makepath=True)
            with pytest.raises(Exception, match=rf"{source}-1.*member-0"):
                write(
                    spark.createDataFrame([("v",)], "value string"),
                    **{"topic": sink, "group.id": group, "commitOffsets": commit},
                )
            assert client.exists(f"/consumers/{group}/offsets/{source}/0") is None


def test_read_write_commit(
    spark: SparkSession, write: Callable[..., None], read: Read, new_topic: NewTopic, zkafka_cluster: LocalCluster
) -> None:
    """Batches that read from committed offsets and commit what they wrote lose and repeat no record."""
    source, sink = new_topic(partitions=2), new_topic()
    group, seen = f"g-{source}", 0
    for round_number in range(3):
        zkafka_cluster.produce(source, [{"value": b"%d" % round_number, "partition": n % 2} for n in range(10)])
        ends = canonical_json({tp: 5 * (round_number + 1) for tp in _partitions(source)})
        options = {"subscribe": source, "startingOffsets": "committed", "auto.offset.reset": "smallest", "group.id": group}
        batch = read({**options, "endingOffsets": ends}).select("key", "value")
        write(batch, **{"topic": sink, "group.id": group, "commitOffsets": ends})
        seen += 10
        assert read({"subscribe": sink}).count() == seen


def _partitions(topic: str) -> list[Any]:
    from pyspark_zkafka.model.nouns import TopicPartition

    return [TopicPartition(topic, p) for p in (0, 1)]
