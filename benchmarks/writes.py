"""Works that write rows from memory or from a stream, to a topic with short retention."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import topics
from benchmarks.checks import check_written, require
from benchmarks.cluster import Topic
from benchmarks.engines import Engine
from benchmarks.session import Bench
from benchmarks.shapes import SHAPES
from benchmarks.works import Stream, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

_FEW = 1_000
_QUICK = {"kafka.max.partition.fetch.bytes": str(8 * 1024**2), "kafka.fetch.max.wait.ms": "20"}


@dataclass
class Write(Work):
    """Write keys and values, or only values, from memory to a topic."""

    keys: bool = True

    @property
    def payload_bytes(self) -> int:
        return self.topic.facts.value_bytes + (self.topic.facts.key_bytes if self.keys else 0)

    def open(self) -> None:
        self._target = topics.target(self.bench.cluster, self.topic.shape, self.payload_bytes)
        rows = _written(self.bench, self.topic.name).select("key", "value")
        # Spread the rows: otherwise each task would have keys of a single partition.
        self._cached = in_memory(rows.repartition(len(self.topic.ends)), self.records)
        self._frame = self._cached if self.keys else self._cached.select("value")

    def touch(self, engine: Engine) -> None:
        numbers = self.bench.spark.range(0, _FEW, 1, len(self.topic.ends)).selectExpr("CAST(id AS STRING) AS text")
        few = numbers.selectExpr("CAST(text AS BINARY) AS key", "CAST(text AS BINARY) AS value")
        engine.write(self.bench, few if self.keys else few.select("value"), self._target)

    def close(self) -> None:
        self._cached.unpersist(blocking=True)

    def check(self, engine: Engine) -> None:
        self.begin()
        self.act(engine)
        self.verify(engine, None)
        if engine.reads_topic:
            after = topics.ends(self.bench.cluster, self._target)
            found = _written(self.bench, self._target, self._before, after)
            check_written(found, self.topic, engine.label, keys=self.keys)

    def begin(self) -> None:
        self._before = topics.ends(self.bench.cluster, self._target)

    def act(self, engine: Engine) -> Any:
        engine.compressing(SHAPES[self.topic.shape].codec).write(self.bench, self._frame, self._target)

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        after = topics.ends(self.bench.cluster, self._target)
        written = [end - begin for begin, end in zip(self._before, after, strict=True)]
        self.verify_ends(engine, written)
        return {"by_partition": written}

    def verify_ends(self, engine: Engine, written: list[int]) -> None:
        """Check how many offsets a write took in each partition."""
        tasks = len(self.topic.ends)
        if self.keys and engine.is_transactional:  # each task has rows of every partition, and leaves a marker in each
            require(written, [end + tasks for end in self.topic.ends], f"{engine.label}: rows and markers by partition")
        elif engine.is_transactional:
            _check_markers(sum(written) - self.records, range(1, tasks**2 + 1), engine, self.topic)
        else:
            require(sum(written), self.records if engine.reads_topic else 0, f"{engine.label} wrote {self.topic.name}")
            if self.keys and engine.reads_topic:
                require(written, self.topic.ends, f"{engine.label}: rows by partition")
                self.agree("rows by partition", written, engine)


@dataclass
class Copy(Stream):
    """Copy a topic with Trigger.AvailableNow in micro-batches of a few rows, to measure the cost of a micro-batch."""

    _target: str = ""

    def open(self) -> None:
        self._target = topics.target(self.bench.cluster, self.topic.shape)

    def check(self, engine: Engine) -> None:
        self.begin()
        self.verify(engine, self.act(engine))
        after = topics.ends(self.bench.cluster, self._target)
        check_written(_written(self.bench, self._target, self._before, after), self.topic, engine.label, keys=True)

    def begin(self) -> None:
        self._before = topics.ends(self.bench.cluster, self._target)

    def start(self, engine: Engine, stream: DataFrame, checkpoint: str) -> StreamingQuery:
        return engine.start_write(self.bench, stream.select("key", "value"), self._target, checkpoint)

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        extra = super().verify(engine, found)
        written = sum(topics.ends(self.bench.cluster, self._target)) - sum(self._before)
        if engine.is_transactional:
            # Both topics have as many partitions, so each task writes to one of them.
            most = len(self.topic.ends) * extra["micro_batches"]
            _check_markers(written - self.records, range(extra["micro_batches"], most + 1), engine, self.topic)
        else:
            require(written, self.records, f"{engine.label} copied {self.topic.name}")
        return extra


def in_memory(frame: DataFrame, records: int) -> DataFrame:
    """Return the frame with all its records in memory; the only one until it is unpersisted."""
    from pyspark import StorageLevel

    cached = frame.persist(StorageLevel.MEMORY_ONLY)
    require(cached.count(), records, "rows in memory")
    [stored] = frame.sparkSession.sparkContext._jsc.sc().getRDDStorageInfo()
    require(stored.numCachedPartitions(), stored.numPartitions(), "partitions in memory")
    return cached


def _written(bench: Bench, topic: str, start: list[int] | None = None, end: list[int] | None = None) -> DataFrame:
    """Read with the JVM connector, whichever engine wrote."""
    options = {"kafka.bootstrap.servers": bench.cluster.bootstrap_servers, "subscribe": topic, **_QUICK}
    if start is not None and end is not None:
        options |= {"startingOffsets": _offsets(topic, start), "endingOffsets": _offsets(topic, end)}
    return bench.spark.read.format("kafka").options(**options).load()


def _check_markers(markers: int, due: range, engine: Engine, topic: Topic) -> None:
    """Check the number of markers: each task's transaction leaves one in each partition that it wrote to."""
    what = f"{engine.label}: {markers} markers, {due[0]} to {due[-1]} are due, in {topic.name}"
    require(markers in due, True, what)


def _offsets(topic: str, offsets: list[int]) -> str:
    return json.dumps({topic: dict(enumerate(offsets))})
