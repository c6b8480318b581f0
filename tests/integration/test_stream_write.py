"""Streaming writes on real brokers: arriving rows, restarts and errors."""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.source import ZKafkaDataSource
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.writers import ZKafkaStreamWriter
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
KEY_VALUE = "key string, value string"
NEVER_CREATE = {"kafka.allow.auto.create.topics": "false"}
"""A missing topic fails at once instead of being created."""


class Feed:
    """A folder of files that a stream reads, one micro-batch per file."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Add a file with rows."""
        self._files += 1
        hidden = self._folder / f".{self._files}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self._folder / f"{self._files}.json")

    def stream(self, schema: str = KEY_VALUE) -> DataFrame:
        """Return a streaming frame of all present and future files."""
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self._folder))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """The input of a test's streams."""
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def sink(zookeeper: dict[str, str], tmp_path: Path) -> Callable[..., DataStreamWriter]:
    """Prepares a query with a checkpoint: ``sink(frame, topic="t")``."""

    def prepare(frame: DataFrame, **options: str) -> DataStreamWriter:
        writer = frame.writeStream.format("zkafka").options(**{**zookeeper, **options})
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    return prepare


@pytest.fixture
def witness(spark: SparkSession, zkafka_cluster: LocalCluster) -> Callable[[str], DataFrame]:
    """Reads a topic with Spark's own connector."""

    def read(topic: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers,
            "subscribe": topic,
            "includeHeaders": "true",
        }
        return spark.read.format("kafka").options(**options).load()

    return read


@pytest.fixture
def values(witness: Callable[[str], DataFrame]) -> Callable[[str], list[str]]:
    """Returns the sorted values of a topic."""
    return lambda topic: sorted(bytes(r.value).decode() for r in witness(topic).collect())


def run(writer: DataStreamWriter) -> None:
    """Run a query until all files are processed, one micro-batch per file."""
    assert writer.trigger(availableNow=True).start().awaitTermination(60)


def numbered(begin: int, end: int) -> list[dict[str, Any]]:
    """Rows with 50 keys and numbers as values."""
    return [{"key": f"k{n % 50}", "value": str(n)} for n in range(begin, end)]


def test_every_row_once(
    zookeeper: dict[str, str], tmp_path: Path, feed: Feed, new_topic: NewTopic, witness: Callable[[str], DataFrame]
) -> None:
    """All rows of all micro-batches arrive once, with each key in one partition."""
    topic = new_topic(partitions=5, replication=2)
    for part in range(2):
        feed.add(numbered(part * 1000, (part + 1) * 1000))
    writer = feed.stream().writeStream.format("zkafka").options(**zookeeper, topic=topic).queryName(f"to {topic}")
    run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    rows = witness(topic).collect()
    assert sorted(int(r.value) for r in rows) == list(range(2000))
    assert len({(bytes(r.key), r.partition) for r in rows}) == 50


@pytest.mark.long
def test_all_columns(
    sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic, witness: Callable[[str], DataFrame]
) -> None:
    """Headers, timestamps, tombstones, explicit partitions and the column topic are written as in batch writes."""
    first, second = new_topic(partitions=3, config={"retention.ms": "-1"}), new_topic()
    header = {"key": "h", "value": base64.b64encode(b"\x00\xff").decode()}
    rows = [
        {"topic": first, "key": "k", "value": "v", "partition": 2, "headers": [header, header]},
        {"topic": first, "key": "k", "partition": 1, "timestamp": "2020-02-29T12:00:00.987Z"},
        {"topic": second, "value": ""},
    ]
    feed.add(rows)
    columns = "topic string, partition int, headers array<struct<key:string,value:binary>>, timestamp timestamp"
    run(sink(feed.stream(f"{KEY_VALUE}, {columns}")))
    found = {r.partition: r for r in witness(first).withColumn("ms", F.unix_millis("timestamp")).collect()}
    assert found.keys() == {1, 2}
    assert [(h.key, bytes(h.value)) for h in found[2].headers] == [("h", b"\x00\xff")] * 2
    assert bytes(found[2].value) == b"v"
    assert found[2].key == b"k"
    assert found[1].value is None
    assert found[1].headers is None
    assert found[1].ms == 1_582_977_600_987
    assert [(r.key, r.value) for r in witness(second).collect()] == [(None, b"")]


def test_restart(
    sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic, values: Callable[[str], list[str]]
) -> None:
    """A restarted query continues after its last micro-batch."""
    topic = new_topic(partitions=2)
    for part in range(2):
        feed.add(numbered(part * 10, (part + 1) * 10))
        run(sink(feed.stream(), topic=topic))
        run(sink(feed.stream(), topic=topic))
    assert values(topic) == sorted(str(n) for n in range(20))


def test_a_micro_batch_that_runs_again(
    sink: Callable[..., DataStreamWriter],
    feed: Feed,
    new_topic: NewTopic,
    values: Callable[[str], list[str]],
    tmp_path: Path,
) -> None:
    """A micro-batch whose end Spark could not record runs again, and its rows arrive twice (at least once)."""
    topic = new_topic()
    feed.add(numbered(0, 3))
    feed.add(numbered(3, 5))
    run(sink(feed.stream(), topic=topic))
    for noted in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        noted.unlink()
    run(sink(feed.stream(), topic=topic))
    assert values(topic) == ["0", "1", "2", "3", "3", "4", "4"]


@pytest.mark.long
def test_added_partitions(
    sink: Callable[..., DataStreamWriter],
    feed: Feed,
    new_topic: NewTopic,
    witness: Callable[[str], DataFrame],
    zkafka_cluster: LocalCluster,
) -> None:
    """Partitions added while the query runs get rows from the next micro-batch on."""
    topic = new_topic(partitions=1)
    query = sink(feed.stream(), topic=topic).start()
    try:
        feed.add(numbered(0, 50))
        query.processAllAvailable()
        zkafka_cluster.add_partitions(topic, 4)
        feed.add(numbered(50, 100))
        query.processAllAvailable()
    finally:
        query.stop()
    rows = witness(topic).collect()
    assert {r.partition for r in rows if int(r.value) < 50} == {0}
    assert {r.partition for r in rows if int(r.value) >= 50} == {0, 1, 2, 3}


@pytest.mark.long
def test_small_micro_batches_spread(
    sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic, witness: Callable[[str], DataFrame]
) -> None:
    """Rows without keys alternate between partitions, even with one row per micro-batch."""
    topic = new_topic(partitions=3)
    for number in range(3):
        feed.add([{"value": str(number)}])
    run(sink(feed.stream(), topic=topic))
    assert Counter(r.partition for r in witness(topic).collect()) == {0: 1, 1: 1, 2: 1}


@pytest.mark.long
def test_a_plan_for_each_micro_batch(
    spark: SparkSession, zookeeper: dict[str, str], feed: Feed, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Spark creates two writers per micro-batch: one to write, with a plan, and one to commit, without."""
    log = tmp_path / "writers"

    class Recording(ZKafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "recording"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            writer = super().streamWriter(schema, overwrite)
            with log.open("a") as lines:
                print("commits" if writer._plan is None else "writes", file=lines)
            return writer

    spark.dataSource.register(Recording)
    feed.add(numbered(0, 1))
    writer = feed.stream().writeStream.format("recording").options(**zookeeper, topic=new_topic())
    run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert log.read_text().split() == ["writes", "commits"]


def test_no_plan(zookeeper: dict[str, str], new_topic: NewTopic, values: Callable[[str], list[str]]) -> None:
    """A writer without a plan makes its own, in case Spark sends one to a task."""
    topic = new_topic()
    batch = pa.record_batch([[b"v"]], names=["value"])
    message = ZKafkaStreamWriter(parse_write({**zookeeper, "topic": topic}), None).write(iter([batch]))
    assert message.rows == 1
    assert values(topic) == ["v"]


def test_a_small_task_is_short(zookeeper: dict[str, str], new_topic: NewTopic) -> None:
    """A task of one row does not wait half a second, the time that librdkafka may take to request a producer id."""
    options = parse_write({**zookeeper, "topic": new_topic()})
    writer = ZKafkaStreamWriter(options, plan_write(options))
    batch = pa.record_batch([[b"v"]], names=["value"])
    took = []
    for _ in range(7):
        begin = time.monotonic()
        writer.write(iter([batch]))
        took.append(time.monotonic() - begin)
    assert statistics.median(took) < 0.4


class TestRefused:
    """Queries that fail without writing any row of the micro-batch."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"topic": "no-such-topic", **NEVER_CREATE}, r"\[UNKNOWN_TOPIC\] The cluster has no topic no-such-topic"),
            ({"commitOffsets": '{"t": {"0": 1}}'}, r"\[INVALID_OPTIONS\] commitOffsets .* set group.id on readStream"),
            ({"topics": "t"}, r"\[INVALID_OPTIONS\] 1 problem.* unknown option topics; did you mean topic"),
        ],
    )
    def test_options(
        self, sink: Callable[..., DataStreamWriter], feed: Feed, options: dict[str, str], expected: str
    ) -> None:
        """Invalid options fail the first micro-batch, and the error names them."""
        feed.add(numbered(0, 1))
        with pytest.raises(StreamingQueryException, match=expected):
            run(sink(feed.stream(), **{"topic": "t", **options}))

    def test_column(self, sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic) -> None:
        """A column of the wrong type raises an error that names it."""
        feed.add([{"value": 1}])
        with pytest.raises(StreamingQueryException, match="column value must be string or binary"):
            run(sink(feed.stream("value int"), topic=new_topic()))

    @pytest.mark.parametrize(
        ("bad", "expected"),
        [({"topic": None}, "NULL_TOPIC"), *seldom(({"partition": 7}, "PARTITION_OUT_OF_RANGE.* partition 7"))],
    )
    def test_row(
        self,
        sink: Callable[..., DataStreamWriter],
        feed: Feed,
        new_topic: NewTopic,
        values: Callable[[str], list[str]],
        bad: dict[str, Any],
        expected: str,
    ) -> None:
        """A row without a valid destination fails the query; restarted with the row corrected, it loses nothing."""
        topic = new_topic(partitions=2)
        feed.add([{"topic": topic, "value": "a"}, {"topic": topic, "value": "b", **bad}])
        frame = feed.stream("topic string, value string, partition int")
        with pytest.raises(StreamingQueryException, match=expected):
            run(sink(frame))
        assert values(topic) == []
        mended = frame.select("value", F.lit(topic).alias("topic"), F.lit(1).alias("partition"))
        run(sink(mended))
        assert values(topic) == ["a", "b"]

    @pytest.mark.long
    def test_complete(self, sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic) -> None:
        """The output mode complete is refused, with the reason."""
        feed.add(numbered(0, 1))
        counts = feed.stream().groupBy("key").agg(F.count("value").cast("string").alias("value"))
        with pytest.raises(StreamingQueryException, match=r"\[OUTPUT_MODE\] .*complete"):
            run(sink(counts, topic=new_topic()).outputMode("complete"))

    def test_update(self, sink: Callable[..., DataStreamWriter], feed: Feed, new_topic: NewTopic) -> None:
        """Spark refuses the output mode update for every Python data source."""
        feed.add(numbered(0, 1))
        with pytest.raises(StreamingQueryException, match="zkafka does not support Update mode"):
            run(sink(feed.stream(), topic=new_topic()).outputMode("update"))


class TestForeachBatch:
    """Writes inside foreachBatch."""

    @pytest.mark.long
    def test_update(
        self,
        feed: Feed,
        zookeeper: dict[str, str],
        new_topic: NewTopic,
        witness: Callable[[str], DataFrame],
        tmp_path: Path,
    ) -> None:
        """A query in update mode writes the changed results of each micro-batch."""
        topic = new_topic(partitions=2)

        def write(batch: DataFrame, number: int) -> None:
            batch.write.format("zkafka").options(**zookeeper, topic=topic).mode("append").save()

        feed.add([{"key": "a", "value": "1"}, {"key": "b", "value": "1"}])
        feed.add([{"key": "a", "value": "2"}])
        counts = feed.stream().groupBy("key").agg(F.count("value").cast("string").alias("value"))
        writer = counts.writeStream.foreachBatch(write).outputMode("update")
        run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
        rows = witness(topic).orderBy("partition", "offset").collect()
        assert [r.value for r in rows if r.key == b"a"] == [b"1", b"2"]
        assert [r.value for r in rows if r.key == b"b"] == [b"1"]

    def test_error(self, feed: Feed, zookeeper: dict[str, str], tmp_path: Path) -> None:
        """An error in the write fails the query, with its text."""

        def write(batch: DataFrame, number: int) -> None:
            batch.write.format("zkafka").options(**zookeeper, **NEVER_CREATE, topic="no-such-topic").mode("append").save()

        feed.add(numbered(0, 1))
        writer = feed.stream().writeStream.foreachBatch(write)
        with pytest.raises(StreamingQueryException, match=r"\[UNKNOWN_TOPIC\] The cluster has no topic no-such-topic"):
            run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
