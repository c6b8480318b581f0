"""The engines: each reads a topic into a frame and writes a frame to a topic, as far as it can."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks import arrow_path, plain
from benchmarks.cluster import Topic
from benchmarks.consumers import Consumers
from benchmarks.session import Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

READS = frozenset({"read", "value", "group"})
WRITES = frozenset({"write", "write-nokey"})
STREAMS = frozenset({"stream20", "stream-tiny", "stream-wide"})
COPIES = frozenset({"copy"})

JVM_READ = {
    "kafka.max.partition.fetch.bytes": str(8 * 1024**2),
    "kafka.fetch.max.bytes": str(64 * 1024**2),
    "kafka.receive.buffer.bytes": str(1024**2),
    "kafka.max.poll.records": "10000",
    "kafka.fetch.min.bytes": str(1024**2),
    "kafka.fetch.max.wait.ms": "50",
}
JVM_WRITE = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": str(256 * 1024**2),
    "kafka.send.buffer.bytes": str(1024**2),
    "kafka.enable.idempotence": "false",
}
JVM_IDEMPOTENT = {**JVM_WRITE, "kafka.acks": "all", "kafka.enable.idempotence": "true"}
LIBRDKAFKA = {"transport": "librdkafka"}


class Engine:
    """An engine to measure; it supports the works in `works`."""

    name: str
    label: str
    works: frozenset[str]
    makes_frames = True
    reads_topic = True
    """Whether it reads the topic's real contents."""
    is_transactional = False
    """Whether each task's transaction adds a marker to each partition that it writes to."""
    uses_python = True
    """Whether rows pass through Python workers, so that Spark's settings for them matter."""

    def frame(self, bench: Bench, topic: Topic, *, value_only: bool = False) -> DataFrame:
        """Return all records of a topic."""
        raise NotImplementedError

    def stream(self, bench: Bench, topic: Topic, per_trigger: int, start: str = "earliest") -> DataFrame:
        """Return the topic as a stream, with this many records per micro-batch."""
        raise NotImplementedError

    def write(self, bench: Bench, frame: DataFrame, topic: str) -> None:
        """Write a frame's rows to a topic. Returns once all are acknowledged."""
        raise NotImplementedError

    def compressing(self, codec: str) -> Engine:
        """Return the engine with a codec for its writes, or as it is if it writes nothing to a topic."""
        return self

    def start_write(self, bench: Bench, stream: DataFrame, topic: str, checkpoint: str) -> StreamingQuery:
        """Start to write a stream's rows to a topic, up to the current ends of its source."""
        raise NotImplementedError


@dataclass(frozen=True)
class SourceEngine(Engine):
    """A Spark data source."""

    name: str
    label: str
    format: str
    works: frozenset[str] = READS | WRITES | STREAMS | COPIES
    read_options: Mapping[str, str] = field(default_factory=dict)
    write_options: Mapping[str, str] = field(default_factory=dict)
    is_transactional: bool = False
    tasks: int | None = None
    """The number of tasks per micro-batch, if not one for each partition."""

    @property
    def uses_python(self) -> bool:  # type: ignore[override]
        return self.format == "zkafka"

    def frame(self, bench: Bench, topic: Topic, *, value_only: bool = False) -> DataFrame:
        reader = bench.spark.read.format(self.format).options(**self._reading(bench, topic))
        if value_only and self.format == "zkafka":
            return reader.schema("value binary").load()
        return reader.load().select("value") if value_only else reader.load()

    def stream(self, bench: Bench, topic: Topic, per_trigger: int, start: str = "earliest") -> DataFrame:
        options = {"startingOffsets": start, "maxOffsetsPerTrigger": str(per_trigger)}
        if self.tasks is not None:
            options["minRecordsPerPartition"] = str(per_trigger // self.tasks)
        return bench.spark.readStream.format(self.format).options(**self._reading(bench, topic), **options).load()

    def write(self, bench: Bench, frame: DataFrame, topic: str) -> None:
        options = {**self._connection(bench), **self.write_options, "topic": topic}
        if self.is_transactional:
            options |= {"writerName": uuid.uuid4().hex, "batchId": "0"}
        frame.write.format(self.format).options(**options).mode("append").save()

    def compressing(self, codec: str) -> SourceEngine:
        return replace(self, write_options={**self.write_options, "kafka.compression.type": codec})

    def start_write(self, bench: Bench, stream: DataFrame, topic: str, checkpoint: str) -> StreamingQuery:
        options = {**self._connection(bench), **self.write_options, "topic": topic, "checkpointLocation": checkpoint}
        return stream.writeStream.format(self.format).options(**options).trigger(availableNow=True).start()

    def _reading(self, bench: Bench, topic: Topic) -> dict[str, str]:
        headers = str(topic.has_headers).lower()
        return {**self._connection(bench), **self.read_options, "subscribe": topic.name, "includeHeaders": headers}

    def _connection(self, bench: Bench) -> dict[str, str]:
        if self.format == "zkafka":
            return {"zookeeper.connect": bench.cluster.zookeeper_connect}
        return {"kafka.bootstrap.servers": bench.cluster.bootstrap_servers}


class PlainEngine(Engine):
    """What a user would write with confluent-kafka and mapInArrow."""

    name, label = "mapinarrow", "confluent-kafka in mapInArrow"
    works = frozenset({"read", "write"})

    def frame(self, bench: Bench, topic: Topic, *, value_only: bool = False) -> DataFrame:
        return plain.read(bench.spark, bench.cluster.bootstrap_servers, topic.name, headers=topic.has_headers)

    def write(self, bench: Bench, frame: DataFrame, topic: str) -> None:
        plain.write(frame, bench.cluster.bootstrap_servers, topic)


class ArrowEngine(Engine):
    """An upper limit: a Python data source without Kafka, which generates and discards batches."""

    name, label = "arrow", "Spark's limit"
    works = frozenset({"read", "value", "write", "write-nokey"}) | STREAMS
    reads_topic = False

    def frame(self, bench: Bench, topic: Topic, *, value_only: bool = False) -> DataFrame:
        return arrow_path.read(bench.spark, topic, value_only=value_only)

    def stream(self, bench: Bench, topic: Topic, per_trigger: int, start: str = "earliest") -> DataFrame:
        return arrow_path.stream(bench.spark, topic, per_trigger)

    def write(self, bench: Bench, frame: DataFrame, topic: str) -> None:
        arrow_path.write(frame)


class LibrdkafkaEngine(Engine):
    """An upper limit: one process per core, outside Spark, which consumes and discards messages."""

    name, label = "librdkafka", "consume() outside Spark"
    works = frozenset({"read"})
    makes_frames = False
    uses_python = False

    def __init__(self) -> None:
        self._consumers: Consumers | None = None

    def consume(self, bench: Bench, topic: Topic) -> tuple[int, int]:
        """Return the number of consumed records, and their values' bytes."""
        if self._consumers is None:
            self._consumers = Consumers(bench.cores, bench.cluster.bootstrap_servers)
        return self._consumers.consume(topic.name, topic.ends)

    def close(self) -> None:
        """End the processes."""
        if self._consumers is not None:
            self._consumers.close()


def _all() -> tuple[Engine, ...]:
    no_idempotence = {"kafka.enable.idempotence": "false"}  # written by librdkafka
    once, written = {"deliveryGuarantee": "exactly-once"}, WRITES | COPIES
    return (
        SourceEngine("ours", "zkafka", "zkafka"),
        SourceEngine("ours-librdkafka", "zkafka, librdkafka", "zkafka", read_options=LIBRDKAFKA, write_options=LIBRDKAFKA),
        SourceEngine("ours-joined", "zkafka, two tasks", "zkafka", STREAMS, tasks=2),
        SourceEngine("ours-noidem", "zkafka, librdkafka, no idempotence", "zkafka", WRITES, write_options=no_idempotence),
        SourceEngine("ours-once", "zkafka, exactly-once", "zkafka", written, write_options=once, is_transactional=True),
        SourceEngine("jvm", "JVM, defaults", "kafka"),
        SourceEngine("jvm-tuned", "JVM, tuned", "kafka", read_options=JVM_READ, write_options=JVM_WRITE),
        SourceEngine("jvm-idempotent", "JVM, tuned, idempotent", "kafka", WRITES, write_options=JVM_IDEMPOTENT),
        PlainEngine(),
        LibrdkafkaEngine(),
        ArrowEngine(),
    )


ENGINES: dict[str, Engine] = {engine.name: engine for engine in _all()}
