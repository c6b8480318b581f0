"""Sail: reads, writes and views by an engine without a JVM, whose tasks are threads of one process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.only_on("sail")

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]
MORE_THAN_THE_QUEUE = 50 * 65_536
"""Rows of one task, in batches of at most 65,536, that Sail's queue of 16 batches does not hold."""


@pytest.fixture
def brokers(zkafka_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the cluster through brokers only."""
    return {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}


def save(frame: DataFrame, options: dict[str, str]) -> None:
    """Append the rows of a frame to topics."""
    frame.write.format("zkafka").options(**options).mode("append").save()


def numbers(spark: SparkSession, count: int, value: str = "cast(id as string)") -> DataFrame:
    """Return rows whose values number them, in two tasks."""
    return spark.range(count).repartition(2).selectExpr("cast(id % 100 as string) as key", f"{value} as value")


def test_both_ways(spark: SparkSession, connection: dict[str, str], read: Read, new_topic: NewTopic) -> None:
    """Rows are written once, and read with all columns, projected, filtered, aggregated and from SQL."""
    topic = new_topic(partitions=3)
    frame = numbers(spark, 20_000).selectExpr("*", "array(named_struct('key', 'h', 'value', value)) as headers")
    save(frame, {**connection, "topic": topic})
    found = read({"subscribe": topic, "includeHeaders": "true"})
    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    rows = found.collect()
    assert sorted(int(row.value) for row in rows) == list(range(20_000))
    assert all([tuple(header) for header in row.headers] == [("h", row.value)] for row in rows)
    assert len({(row.key, row.partition) for row in rows}) == 100
    assert read({"subscribe": topic}).where("partition = 1 and offset < 10").count() == 10
    read({"subscribe": topic}, schema="partition int, value string").createOrReplaceTempView("numbers")
    assert spark.sql("select sum(cast(value as bigint)) as s from numbers").first().s == sum(range(20_000))
    assert {row.topic for row in read({"view": "topics"}).collect()} >= {topic}


EVENT = """{"type": "record", "name": "Event", "fields": [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "past", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}}]}"""


def test_declared_timestamps(spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic) -> None:
    """In a session with another time zone, timestamps keep their instants, in columns, views, and fields of formats."""
    topic = new_topic(config={"retention.ms": "-1"})
    avro = {"value.format": "avro", "value.schema": EVENT}
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        at = "timestamp_micros(1698539400000000)"
        frame = spark.range(0, 1, 1, 1).selectExpr(
            f"named_struct('at', {at}, 'past', array({at})) as value", f"{at} as timestamp"
        )
        save(frame, {**brokers, **avro, "topic": topic})
        source = spark.read.format("zkafka").options(**brokers)
        for schema in ("timestamp timestamp, value struct<at: timestamp, past: array<timestamp>>", None):
            reader = source if schema is None else source.schema(schema)
            found = reader.options(**avro, subscribe=topic).load()
            row = found.selectExpr("unix_micros(timestamp)", "unix_micros(value.at)", "unix_micros(value.past[0])").first()
            assert tuple(row) == (1698539400000000,) * 3
        rows = spark.read.format("zkafka").options(**brokers, view="brokers").schema("id int, timestamp timestamp").load()
        assert rows.count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "p"}, r"UNSUPPORTED_ENGINE\] Exactly-once writes"),
        ({"topik": "t"}, r"INVALID_OPTIONS\].*unknown option topik; did you mean topic"),
    ],
)
def test_refused_writes(
    spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic, options: dict[str, str], condition: str
) -> None:
    """A write that Sail cannot guarantee, or a wrong option, is refused with its condition, and writes nothing."""
    topic = new_topic()
    with pytest.raises(Exception, match=condition):
        save(numbers(spark, 10), {**brokers, "topic": topic, **options})
    assert spark.read.format("zkafka").options(**brokers, subscribe=topic).load().count() == 0


@pytest.mark.parametrize("sink", ["parquet", "console", "memory"])
def test_streams(spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic, tmp_path: Path, sink: str) -> None:
    """Sail asks Python sources for batches alone, and refuses to write a stream of them."""
    stream = spark.readStream.format("zkafka").options(**brokers, subscribe=new_topic()).load()
    writer = stream.writeStream.format(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"sink|streaming|No data source"):
        writer.queryName("refused").option("path", str(tmp_path / "out")).start()
    assert not (tmp_path / "out").exists()


def test_failed_rows(spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic) -> None:
    """An error in a task names its condition, and the next write of the process works."""
    topic = new_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(Exception, match=r"DELIVERY_FAILED.*MESSAGE_TOO_LARGE"):
        save(numbers(spark, 1, "repeat('x', 5000)"), {**brokers, "topic": topic})
    save(numbers(spark, 1), {**brokers, "topic": topic})


@pytest.mark.parametrize("consumer", ["copy", *seldom("function", "join", "sort", "cache")])
def test_more_batches_than_the_queue_holds(
    spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic, consumer: str
) -> None:
    """Queries that need Python next to a read, or that keep its batches, end, and see each row once."""
    from pyspark.sql.functions import udf

    topic, sink = new_topic(), new_topic(partitions=2)
    save(numbers(spark, MORE_THAN_THE_QUEUE), {**brokers, "topic": topic})
    frame = spark.read.format("zkafka").options(**brokers, subscribe=topic).load()
    if consumer == "copy":
        save(frame.select("value"), {**brokers, "topic": sink})
        assert spark.read.format("zkafka").options(**brokers, subscribe=sink).load().count() == MORE_THAN_THE_QUEUE
    elif consumer == "function":
        size = udf(len, "int")
        assert frame.where(size("value") > 0).count() == MORE_THAN_THE_QUEUE
    elif consumer == "join":
        other = spark.read.format("zkafka").options(**brokers, subscribe=topic).load().select("offset")
        assert frame.join(other, "offset").count() == MORE_THAN_THE_QUEUE
    elif consumer == "sort":
        assert frame.orderBy("value", "offset").selectExpr("sum(offset) as s").first().s == sum(range(MORE_THAN_THE_QUEUE))
    else:
        kept = frame.select("offset").cache()
        assert kept.count() == MORE_THAN_THE_QUEUE
        assert kept.distinct().count() == MORE_THAN_THE_QUEUE


@pytest.mark.long
def test_many_tasks(
    spark: SparkSession, brokers: dict[str, str], new_topic: NewTopic, zkafka_cluster: LocalCluster
) -> None:
    """Queries of 16 tasks each, at once, one of them cancelled, read and write every row; the collector still runs."""
    topic, sink, other = new_topic(partitions=16), new_topic(partitions=16), new_topic()
    fill(zkafka_cluster, topic, 5_000, range(16))
    options = {**brokers, "subscribe": topic}

    def frame() -> DataFrame:
        return spark.read.format("zkafka").options(**options).load().select("key", "value")

    def cancelled() -> None:
        spark.addTag("cancelled")
        large = frame().selectExpr("concat(value, repeat('x', 20000)) as value")
        with pytest.raises(Exception, match="operation not found"):
            save(large, {**brokers, "topic": other})

    calls: list[Callable[[], Any]] = [
        *[lambda: save(frame(), {**brokers, "topic": sink})] * 2,
        *[lambda: frame().count()] * 2,
        *[lambda: frame().limit(3).collect()] * 4,
        cancelled,
    ]
    with ThreadPoolExecutor(len(calls)) as threads:
        running = [threads.submit(call) for call in calls]
        with closing(Consumer({"bootstrap.servers": brokers["kafka.bootstrap.servers"], "group.id": "g"})) as consumer:
            eventually(lambda: consumer.get_watermark_offsets(TopicPartition(other, 0), timeout=30)[1] > 0)
        spark.interruptTag("cancelled")
        assert [len(found) for found in (each.result() for each in running[4:8])] == [3] * 4
        assert [each.result() for each in running[2:4]] == [16 * 5_000] * 2
        assert [each.result() for each in (*running[:2], running[8])] == [None] * 3
    found = spark.read.format("zkafka").options(**brokers, subscribe=sink).load().select("value").collect()
    assert Counter(row.value for row in found) == {str(n).encode(): 2 * 16 for n in range(5_000)}
    assert gc.isenabled()


LOCAL_CLUSTER = """
import sys
from tests.support.sail import sail_session

servers, topic, sink = sys.argv[1:]
with sail_session() as spark:
    frame = spark.read.format("zkafka").options(**{"kafka.bootstrap.servers": servers, "subscribe": topic}).load()
    options = {"kafka.bootstrap.servers": servers, "topic": sink}
    frame.select("value").write.format("zkafka").options(**options).mode("append").save()
    print(frame.selectExpr("count(distinct partition, offset) as n").first().n)
"""


@pytest.mark.long
def test_workers(brokers: dict[str, str], read: Read, new_topic: NewTopic, zkafka_cluster: LocalCluster) -> None:
    """In the mode local-cluster, the workers of a cluster read and write."""
    topic, sink = new_topic(partitions=4), new_topic(partitions=2)
    fill(zkafka_cluster, topic, 5000, range(4))
    command = [sys.executable, "-c", LOCAL_CLUSTER, brokers["kafka.bootstrap.servers"], topic, sink]
    environment = {**os.environ, "SAIL_MODE": "local-cluster"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["20000"], done.stderr
    assert read({"subscribe": sink}).count() == 20_000
