"""Queries with Spark's asynchronous progress tracking, whose checkpoints lag behind their sinks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from kazoo.client import KazooClient
from pyspark.errors import StreamingQueryException

from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.parity import SPARK_VERSION
from tests.support.stream import is_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long
PARTITIONS = range(2)
LIMITS = {"maxOffsetsPerTrigger": "10"} if SPARK_VERSION >= (4, 2) else {}
HALT = "halt"
_NEVER_MS = "600000"  # the checkpoint stores only the first micro-batch of a run


class Sink:
    """Appends each record's offset to its partition's file, and fails at a record valued HALT.

    A function of the frame, which the sink noop runs: Spark allows the sink foreach only from 4.3 on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition, offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if value.decode() == HALT and not (self.folder / HALT).exists():
                    raise ValueError("the sink fails")
                with (self.folder / str(partition)).open("a") as lines:
                    lines.write(f"{offset}\n")
            yield batch

    def offsets(self, partition: int) -> list[int]:
        """Return the offsets of a partition in order of arrival."""
        path = self.folder / str(partition)
        return [int(line) for line in path.read_text().split()] if path.exists() else []


class Query:
    """Queries on one checkpoint, with small micro-batches and their own sink."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self.options = {"startingOffsets": "earliest", **LIMITS, **options}
        self.sink = Sink(folder / "sink")
        self.sink.folder.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._spark = spark
        self._queries: list[StreamingQuery] = []

    def start(self, sink: str = "noop") -> StreamingQuery:
        """Stop earlier queries and start a new one, which passes its records through `sink` of this object."""
        self.stop()
        self._rename()
        frame = (
            self._spark.readStream.format("zkafka").options(**self.options).load().select("partition", "offset", "value")
        )
        writer = frame.mapInArrow(self.sink, frame.schema).writeStream.format(sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).option("asyncProgressTrackingEnabled", "true")
        self._queries.append(writer.option("asyncProgressTrackingCheckpointIntervalMs", _NEVER_MS).start())
        return self._queries[-1]

    def _rename(self) -> None:
        """Give the checkpoint to a new query.

        A query that ends before it has passed the last stored offset to a Python source stays registered, and this JVM
        cannot start its id again: Spark 4.3 calls `commit` after closing the connection to the planner.
        """
        (self.checkpoint / ".metadata.crc").unlink(missing_ok=True)
        metadata = self.checkpoint / "metadata"
        if metadata.exists():
            metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))

    def wait_for(self, records: int, *partitions: int) -> None:
        """Wait until the sink has the records of each partition. Raises the query's error."""

        def complete() -> bool:
            error = self._queries[-1].exception()
            if is_late(error):
                self.start()
            elif error is not None:
                raise error
            return all(set(self.sink.offsets(p)) == set(range(records)) for p in partitions)

        eventually(complete, 120, lambda: f"{[len(self.sink.offsets(p)) for p in partitions]} of {records} records")

    def fail(self) -> None:
        """Run a query until its sink fails."""
        error = None
        while error is None or is_late(error):
            with pytest.raises(StreamingQueryException) as raised:
                self.start().awaitTermination(120)
            error = raised.value
        assert "the sink fails" in str(error)

    def stored(self, log: str) -> list[int]:
        """Return the micro-batches in a log of the checkpoint: ``stored("offsets")``."""
        return sorted(int(path.name) for path in (self.checkpoint / log).iterdir() if path.name.isdigit())

    def stop(self) -> None:
        """Stop all queries."""
        for query in self._queries:
            query.stop()


class Group:
    """A group's offsets of a topic in ZooKeeper."""

    def __init__(self, client: KazooClient, name: str, topic: str) -> None:
        self._client = client
        self._path = f"/consumers/{name}/offsets/{topic}"
        self.options = {"group.id": name, "startingOffsets": "committed", "auto.offset.reset": "earliest"}

    def offset(self, partition: int) -> int:
        """Return the offset of a partition, or 0 without one."""
        path = f"{self._path}/{partition}"
        return int(self._client.get(path)[0]) if self._client.exists(path) else 0


@pytest.fixture
def query(spark: SparkSession, zookeeper: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Query]]:
    """Makes a `Query`: ``query({"subscribe": topic})``."""
    made: list[Query] = []

    def make(options: dict[str, str]) -> Query:
        made.append(Query(spark, {**zookeeper, **options}, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Callable[[str], Group]]:
    """Returns the group of a topic: ``group(topic)``."""
    client = KazooClient(zkafka_cluster.zookeeper_connect)
    client.start()
    yield lambda topic: Group(client, f"group-of-{topic}", topic)
    client.stop()
    client.close()


def test_a_lagging_checkpoint_loses_nothing(
    query: Callable[..., Query], zkafka_cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    """A query that restarts on a checkpoint without its last micro-batches repeats them, and skips no record."""
    topic = new_topic(partitions=len(PARTITIONS))
    found = query({"subscribe": topic})
    for records in (30, 60, 90):
        found.start()
        for finished in range(records - 30, records, 10):  # a micro-batch each, even without limits
            fill(zkafka_cluster, topic, 10, PARTITIONS)
            found.wait_for(finished + 10, *PARTITIONS)
    found.stop()
    assert len(found.stored("offsets")) <= 3 < 9
    for partition in PARTITIONS:
        assert len(found.sink.offsets(partition)) > 90


def test_a_group_continues_where_its_sink_stopped(
    query: Callable[..., Query],
    group: Callable[[str], Group],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
) -> None:
    """A query in a group resumes at the group's offsets ahead of its checkpoint, without lost or repeated records."""
    topic = new_topic(partitions=len(PARTITIONS))
    owner = group(topic)
    found = query({"subscribe": topic, **owner.options})
    for records in (30, 60, 90):
        found.start()
        for finished in range(records - 30, records, 10):  # a micro-batch each, even without limits
            fill(zkafka_cluster, topic, 10, PARTITIONS)
            found.wait_for(finished + 10, *PARTITIONS)
        eventually(lambda records=records: [owner.offset(p) for p in PARTITIONS] == [records] * 2, 30, "not committed")
    found.stop()
    assert len(found.stored("offsets")) <= 3 < 9
    assert [found.sink.offsets(p) for p in PARTITIONS] == [list(range(90))] * 2


def test_a_failed_micro_batch_is_not_committed(
    query: Callable[..., Query],
    group: Callable[[str], Group],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
) -> None:
    """A group's offset stays before a micro-batch whose sink failed, even if Spark stored its end; it is repeated."""
    topic = new_topic()
    owner = group(topic)
    found = query({"subscribe": topic, **owner.options})
    fill(zkafka_cluster, topic, [*map(str, range(25)), HALT, *map(str, range(26, 40))])
    for _ in range(2):  # the second run starts with that micro-batch, and stores its end before it fails
        found.fail()
        assert owner.offset(0) == (20 if LIMITS else 0)
        assert set(found.sink.offsets(0)) == set(range(25))
    (found.sink.folder / HALT).touch()
    found.start()
    found.wait_for(40, 0)
    eventually(lambda: owner.offset(0) == 40, 30, "not committed")


@pytest.mark.parametrize("sink", ["noop", "console"])
def test_other_sinks(
    query: Callable[..., Query],
    group: Callable[[str], Group],
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    sink: str,
) -> None:
    """A query with another sink that Spark allows reads and commits everything."""
    topic = new_topic()
    owner = group(topic)
    fill(zkafka_cluster, topic, 30)
    found = query({"subscribe": topic, **owner.options})
    running = found.start(sink)
    while eventually(lambda query=running: owner.offset(0) == 30 or query.exception(), 60, "not committed") is not True:
        assert is_late(running.exception())
        running = found.start(sink)
    assert sum(p["numInputRows"] for p in running.recentProgress) == 30
