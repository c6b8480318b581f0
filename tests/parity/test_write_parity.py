"""Frames written by Spark's JVM sink and by ours, read back by Spark's JVM connector: the same records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pyspark_zkafka.testing import LocalCluster
from tests.support.parity import their_words
from tests.support.tiers import seldom

NewTopic = Callable[..., str]
Peers = Any  # `Peers` of conftest.py, which tests cannot import
HEADERS = "headers array<struct<key:string,value:binary>>"


@pytest.fixture
def both_write(peers: Peers) -> Callable[..., None]:
    """Function that writes a frame to both sinks, or one frame to each: ``both_write((ours, theirs), topics)``."""

    def write(frames: DataFrame | tuple[DataFrame, DataFrame], topics: tuple[str, str] | None = None) -> None:
        ours, theirs = (frames, frames) if isinstance(frames, DataFrame) else frames
        by_zookeeper = {"zookeeper.connect": peers.cluster.zookeeper_connect}
        by_brokers = {"kafka.bootstrap.servers": peers.cluster.bootstrap_servers}
        if topics is not None:
            by_zookeeper["topic"], by_brokers["topic"] = topics
        ours.write.format("zkafka").options(**by_zookeeper).mode("append").save()
        theirs.write.format("kafka").options(**by_brokers).mode("append").save()

    return write


def written(peers: Peers, topic: str) -> list[tuple[Any, ...]]:
    """Return a topic's records as Spark's JVM connector reads them: (partition, key, value, headers), sorted."""
    rows = peers.theirs({"subscribe": topic, "includeHeaders": "true"}).collect()
    return sorted(((r.partition, _bytes(r.key), _bytes(r.value), _pairs(r.headers)) for r in rows), key=repr)


def without_partition(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return records without their partition, which each sink chooses freely for rows without keys."""
    return sorted((record[1:] for record in records), key=repr)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _pairs(headers: list[Any] | None) -> list[tuple[str, bytes | None]] | None:
    return None if headers is None else [(h.key, _bytes(h.value)) for h in headers]


@pytest.mark.parametrize(("key_type", "value_type"), [("string", "binary"), *seldom(("binary", "string"))])
def test_keys_and_values(
    spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic, key_type: str, value_type: str
) -> None:
    """Both sinks write the same keys and values from text or bytes, and each key to the same partition."""
    ours, theirs = new_topic(partitions=7), new_topic(partitions=7)
    key = F.concat(F.lit("schlüssel-"), F.col("id") % 300).cast(key_type)
    value = F.col("id").cast("string").cast(value_type)
    frame = spark.range(1000, numPartitions=1).select(key.alias("key"), value.alias("value"))
    both_write(frame, (ours, theirs))
    found = written(peers, ours)
    assert found == written(peers, theirs)
    assert len(found) == 1000
    assert {record[0] for record in found} == set(range(7))


def test_keys_of_all_kinds(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """Both sinks put empty, short and long keys in the same partitions, also with empty values and tombstones."""
    ours, theirs = new_topic(partitions=5), new_topic(partitions=5)
    keys = [b"", *(bytes([n]) * length for n in (0, 1, 127, 128, 255) for length in (1, 2, 3, 4, 5, 8, 1000))]
    rows = [(bytearray(key), value) for key in keys for value in (bytearray(b"v"), bytearray(), None)]
    both_write(spark.createDataFrame(rows, "key binary, value binary"), (ours, theirs))
    found = written(peers, ours)
    assert found == written(peers, theirs)
    assert len(found) == len(rows)


def test_null_keys(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """Both sinks write the same rows without keys, in any partitions; a frame may lack the key column."""
    ours, theirs = new_topic(partitions=3), new_topic(partitions=3)
    values = spark.range(100, numPartitions=1).select(F.col("id").cast("string").alias("value"))
    both_write(values, (ours, theirs))
    both_write(values.withColumn("key", F.lit(None).cast("binary")), (ours, theirs))
    found = written(peers, ours)
    assert without_partition(found) == without_partition(written(peers, theirs))
    assert len(found) == 200
    assert {record[1] for record in found} == {None}


def test_headers(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """Both sinks write headers in order with repetitions, and null values, empty arrays and missing headers alike."""
    ours, theirs = new_topic(), new_topic()
    rows: list[tuple[str, list[tuple[str, bytes | None]] | None]] = [
        ("a", [("x", b"1"), ("y", b""), ("x", None), ("x", b"1")]),
        ("b", [("é", "ü".encode())]),
        ("c", []),
        ("d", None),
    ]
    both_write(spark.createDataFrame(rows, f"value string, {HEADERS}"), (ours, theirs))
    found = written(peers, ours)
    assert found == written(peers, theirs)
    assert {value: headers for _, _, value, headers in found} == {
        b"a": [("x", b"1"), ("y", b""), ("x", None), ("x", b"1")],
        b"b": [("é", "ü".encode())],
        b"c": None,
        b"d": None,
    }


def test_topic_column(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """Without the topic option, each row goes to the topic in its column; with both, the option wins."""
    ours, theirs = ([new_topic(partitions=2), new_topic()] for _ in range(2))

    def frame(topics: list[str]) -> DataFrame:
        rows = [(topics[n % 2], f"k{n}", f"v{n}") for n in range(10)]
        return spark.createDataFrame(rows, "topic string, key string, value string")

    both_write((frame(ours), frame(theirs)))
    both_write((frame(ours), frame(theirs)), (ours[1], theirs[1]))
    for our_topic, their_topic, count in zip(ours, theirs, (5, 15), strict=True):
        found = written(peers, our_topic)
        assert found == written(peers, their_topic)
        assert len(found) == count


def test_partition_column(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """A partition in the column takes precedence over the key; a null one leaves the choice to the key."""
    ours, theirs = new_topic(partitions=4), new_topic(partitions=4)
    rows = [(f"k{n}", f"v{n}", None if n % 5 == 4 else n % 4) for n in range(40)]
    both_write(spark.createDataFrame(rows, "key string, value string, partition int"), (ours, theirs))
    found = written(peers, ours)
    assert found == written(peers, theirs)
    given = {value.encode(): partition for _, value, partition in rows if partition is not None}
    assert {value: partition for partition, _, value, _ in found if value in given} == given


def test_time_of_writing(spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic) -> None:
    """Without the column timestamp, which only ours supports, records carry the time of writing."""
    ours, theirs = new_topic(), new_topic()
    begin = time.time()
    both_write(spark.createDataFrame([("v",)], "value string"), (ours, theirs))
    for topic in (ours, theirs):
        row = peers.theirs({"subscribe": topic}).first()
        assert row.timestampType == 0
        assert begin - 1 <= row.timestamp.timestamp() <= time.time() + 1


@pytest.mark.parametrize(
    ("schema", "row", "our_reason", "their_reason"),
    [
        ("key string", ("k",), "there is no column value;", "Required attribute 'value' not found"),
        *seldom(
            ("value int", (1,), "value must be string or binary", "value attribute unsupported type int"),
            ("value string, key int", ("v", 1), "key must be string or binary", "key attribute unsupported type int"),
            (
                "value string, partition string",
                ("v", "0"),
                "partition must be int",
                "partition attribute unsupported type string",
            ),
            (
                "value string, headers string",
                ("v", "h"),
                "headers must be array",
                "headers attribute unsupported type string",
            ),
        ),
    ],
)
def test_refused(
    spark: SparkSession,
    both_write: Callable[..., None],
    new_topic: NewTopic,
    schema: str,
    row: tuple[Any, ...],
    our_reason: str,
    their_reason: str,
) -> None:
    """Both sinks refuse a missing value, and columns of other types."""
    good, bad, topic = spark.range(0).selectExpr("'v' value"), spark.createDataFrame([row], schema), new_topic()
    with pytest.raises(Exception, match=rf"\[INVALID_SCHEMA\] The frame cannot be written: (column )?{our_reason}"):
        both_write((bad, good), (topic, topic))
    with pytest.raises(Exception, match=their_reason):
        both_write((good, bad), (topic, topic))


@pytest.mark.parametrize(
    ("schema", "row", "our_reason", "their_reason"),
    [
        (
            "value string",
            ("v",),
            "SCHEMA.*neither the option",
            "topic option required when no 'topic' attribute is present",
        ),
        *seldom(
            ("value string, topic int", ("v", 1), "SCHEMA.*topic must be string", "topic attribute unsupported type int"),
            (
                "value string, topic string",
                ("v", None),
                "NULL_TOPIC.*topic is null",
                their_words("contains a null topic", "null topic present"),
            ),
        ),
    ],
)
def test_refused_topics(
    spark: SparkSession,
    both_write: Callable[..., None],
    schema: str,
    row: tuple[Any, ...],
    our_reason: str,
    their_reason: str,
) -> None:
    """Both sinks refuse a missing topic, a topic of another type and a null topic."""
    good, bad = spark.range(0).selectExpr("'no-topic' topic", "'v' value"), spark.createDataFrame([row], schema)
    with pytest.raises(Exception, match=our_reason):
        both_write((bad, good))
    with pytest.raises(Exception, match=their_reason):
        both_write((good, bad))


def test_partition_out_of_range(
    spark: SparkSession, peers: Peers, both_write: Callable[..., None], new_topic: NewTopic, zkafka_cluster: LocalCluster
) -> None:
    """Both sinks refuse a negative partition, and write nothing."""
    topics = new_topic(), new_topic()
    good = spark.createDataFrame([], "value string, partition int")
    bad = spark.createDataFrame([("v", -1)], "value string, partition int")
    with pytest.raises(Exception, match=r"\[PARTITION_OUT_OF_RANGE\] Row 0 of the batch asks for partition -1 of topic"):
        both_write((bad, good), topics)
    with pytest.raises(Exception, match="nvalid partition"):
        both_write((good, bad), topics)
    assert written(peers, topics[0]) == written(peers, topics[1]) == []
