"""A user's straightforward job: confluent-kafka in mapInArrow, one row for each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_BATCH = 10_000


def read(spark: SparkSession, servers: str, topic: str, *, headers: bool) -> DataFrame:
    """Return all records of a topic, in the columns of Spark's own source."""
    ranges = _ranges(servers, topic)
    frame = spark.createDataFrame(spark.sparkContext.parallelize(ranges, len(ranges)), "p int, start bigint, stop bigint")
    columns = _COLUMNS + (", headers array<struct<key: string, value: binary>>" if headers else "")
    return frame.mapInArrow(_consuming(servers, topic, headers), columns)


def write(frame: DataFrame, servers: str, topic: str) -> None:
    """Write keys and values, partitioned by the key's murmur2."""
    frame.mapInArrow(_producing(servers, topic), "sent bigint").write.format("noop").mode("overwrite").save()


def _ranges(servers: str, topic: str) -> list[tuple[int, int, int]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "plain"})
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        return [(p, *consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)) for p in partitions]
    finally:
        consumer.close()


def _consuming(servers: str, topic: str, headers: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": servers, "group.id": "plain", "enable.auto.commit": False})
        for row in (row for batch in batches for row in batch.to_pylist()):
            consumer.assign([TopicPartition(topic, row["p"], row["start"])])
            position = row["start"]
            while position < row["stop"]:
                messages = consumer.consume(min(_BATCH, row["stop"] - position), timeout=1.0)
                for message in messages:
                    if message.error():
                        raise RuntimeError(message.error())
                if messages:
                    position = messages[-1].offset() + 1
                    yield _batch(messages, headers)
        consumer.close()

    return consume


def _batch(messages: list[Any], headers: bool) -> pa.RecordBatch:
    stamps = [m.timestamp() for m in messages]
    columns = {
        "key": pa.array([m.key() for m in messages], pa.binary()),
        "value": pa.array([m.value() for m in messages], pa.binary()),
        "topic": pa.array([m.topic() for m in messages], pa.string()),
        "partition": pa.array([m.partition() for m in messages], pa.int32()),
        "offset": pa.array([m.offset() for m in messages], pa.int64()),
        "timestamp": pa.array([ms * 1000 for _, ms in stamps], pa.timestamp("us", "UTC")),
        # librdkafka's types start with "not available", Spark's with "create time".
        "timestampType": pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
    }
    if headers:
        columns["headers"] = pa.array([m.headers() for m in messages], pa.map_(pa.string(), pa.binary())).cast(_HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def _producing(servers: str, topic: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import Producer

        failures: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 20})
        sent = 0
        for batch in batches:
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                while True:
                    try:
                        producer.produce(topic, value, key, on_delivery=delivered)
                        break
                    except BufferError:
                        producer.poll(0.1)
                sent += 1
            producer.poll(0)
        producer.flush()
        if failures:
            raise RuntimeError(failures[0])
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})

    return produce
