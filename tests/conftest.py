"""What all tests share: one Spark session on real settings, one cluster, and the promise that CI skips no server test."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.options.model import ZooKeeperConfig
    from pyspark_zkafka.protocol.model import TopicPartition
    from pyspark_zkafka.testing import LocalCluster

ROOT = Path(__file__).resolve().parent.parent

# Spark's workers run "python3" from the PATH unless they are told otherwise.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_CONF_DIR"] = str(ROOT / "spark-conf")
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

# How fast examples run says something of the machine, on which servers run beside them, and nothing of the code.
settings.register_profile("beside-servers", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beside-servers")

KAFKA_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Spark's own connector, the peer of the parity tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in a folder of server tests, so that -m 'not server' leaves it out."""
    servers = {ROOT / "tests" / name for name in ("integration", "interop", "parity", "faults", "notebooks")}
    for item in items:
        if servers & set(item.path.parents):
            item.add_marker(pytest.mark.server)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--zkafka-require-servers", action="store_true", help="a skipped test is a failure (for CI)")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped something where nothing may be skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.config.getoption("--zkafka-require-servers"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores, the settings of spark-conf/, and Spark's own connector beside ours."""
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import fetch_jars

    jars = ",".join(map(str, fetch_jars(*KAFKA_CONNECTOR, transitive=False)))
    tables = str(tmp_path_factory.mktemp("tables"))
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", jars)
    session = builder.config("spark.sql.warehouse.dir", tables).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _topic_numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def new_topic(zkafka_cluster: LocalCluster, _topic_numbers: Iterator[int]) -> Callable[..., str]:
    """Makes a topic of a name of its own: ``new_topic(partitions=4, replication=2, config={...})``."""

    def make(**arguments: object) -> str:
        name = f"topic-{next(_topic_numbers)}"
        zkafka_cluster.create_topic(name, **arguments)
        return name

    return make


@pytest.fixture
def header_of_any_name(zkafka_cluster: LocalCluster) -> Callable[[str, bytes], None]:
    """Writes the record ``b"v"`` with one header of a name that may be no UTF-8: ``header_of_any_name(topic, b"\\xff")``.

    Neither confluent-kafka's producer nor a write by this package does that: the compiled path's sender is handed the row.
    """
    import numpy as np
    import pyarrow as pa

    from pyspark_zkafka.protocol.rows import OutgoingBatch
    from pyspark_zkafka.transport.native.producer import ArrowSender
    from pyspark_zkafka.transport.sender import QueueLimits

    def write(topic: str, name: bytes) -> None:
        names = pa.Array.from_buffers(pa.string(), 1, pa.array([name]).buffers())
        entries = pa.StructArray.from_arrays([names, pa.array([b"x"])], ["key", "value"])
        headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), entries)
        row = OutgoingBatch(topic, pa.array([b"v"]), None, None, None, headers)
        with ArrowSender({"bootstrap.servers": zkafka_cluster.bootstrap_servers}, QueueLimits(), print) as sender:
            sender.add(row, np.zeros(1, np.int32), 1)
            assert sender.advance(10)
            sender.flush(30)
            assert sender.counts.acknowledged == 1

    return write


@pytest.fixture(params=["zookeeper", "bootstrap"])
def connection(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster) -> dict[str, str]:
    """The options that reach the cluster: once through ZooKeeper, once through its brokers alone."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
    return {"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers}


@pytest.fixture
def zookeeper(zkafka_cluster: LocalCluster) -> dict[str, str]:
    """The options that reach the cluster through ZooKeeper."""
    return {"zookeeper.connect": zkafka_cluster.zookeeper_connect}


@pytest.fixture
def read(spark: SparkSession, zookeeper: dict[str, str]) -> Callable[..., DataFrame]:
    """Reads through ZooKeeper: ``read({"subscribe": topic}, schema="value string")``."""

    def load(options: dict[str, str], schema: str | None = None) -> DataFrame:
        reader = spark.read.format("zkafka").options(**{**zookeeper, **options})
        return (reader if schema is None else reader.schema(schema)).load()

    return load


class Stream:
    """A checkpoint, the queries that run on it one after the other, and what their micro-batches held.

    `batches` holds the rows of every micro-batch as foreachBatch got them, those that failed or ran again too. `in_batch`
    is called with each micro-batch's frame and number after its rows were gathered; it may raise.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
        self.options = options
        self.checkpoint = checkpoint
        self.batches: list[list[Row]] = []
        self.in_batch: Callable[[DataFrame, int], None] = lambda frame, number: None
        self._spark = spark
        self._queries: list[StreamingQuery] = []

    def start(self, *, schema: str | None = None, **trigger: Any) -> StreamingQuery:
        """A query, running; with Spark's default trigger, or e.g. ``availableNow=True``."""
        reader = self._spark.readStream.format("zkafka").options(**self.options)
        frame = (reader if schema is None else reader.schema(schema)).load()
        writer = frame.writeStream.foreachBatch(self._gather).option("checkpointLocation", str(self.checkpoint))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self._queries.append(query)
        return query

    def run(self, *, schema: str | None = None) -> StreamingQuery:
        """A query that has read all that there was."""
        query = self.start(schema=schema, availableNow=True)
        assert query.awaitTermination(60)
        return query

    def stop(self) -> None:
        """End all queries."""
        for query in self._queries:
            query.stop()

    def _gather(self, frame: DataFrame, number: int) -> None:
        self.batches.append(frame.collect())
        self.in_batch(frame, number)

    @property
    def rows(self) -> list[Row]:
        """The rows of all micro-batches, in the order in which they came."""
        return [row for batch in self.batches for row in batch]

    def offsets(self, partition: int = 0, topic: str | None = None) -> list[int]:
        """The offsets of one partition, in the order in which they came."""
        return [r.offset for r in self.rows if r.partition == partition and topic in (None, r.topic)]

    def wait_for_start(self, timeout_s: float = 60) -> None:
        """Return when the query has looked for records once, so that it knows where it starts."""
        from pyspark_zkafka.testing.waiting import Deadline

        assert Deadline(timeout_s).until(lambda: self._queries[-1].lastProgress), "the query has not begun"

    def wait_for(self, records: int, timeout_s: float = 60) -> None:
        """Return when so many records have come; a query that has failed raises its error."""
        from pyspark_zkafka.testing.waiting import Deadline

        def enough() -> bool | None:
            error = self._queries[-1].exception()
            if error is not None:
                raise error
            return True if len(self.rows) >= records else None

        assert Deadline(timeout_s).until(enough), f"{len(self.rows)} of {records} records came within {timeout_s} s"


@pytest.fixture
def stream(spark: SparkSession, zookeeper: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """Makes streams: ``stream({"subscribe": topic})``; another connection can be given, and a folder for the checkpoint."""
    made: list[Stream] = []

    def make(options: dict[str, str], connection: dict[str, str] | None = None, name: str = "checkpoint") -> Stream:
        made.append(Stream(spark, {**(zookeeper if connection is None else connection), **options}, tmp_path / name))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@dataclass
class Chroot:
    """The bare znodes of a Kafka cluster, without brokers: where they are, and a plain session that plays the others."""

    config: ZooKeeperConfig
    other: KazooClient

    def topic(self, name: str, partitions: int) -> None:
        """Let there be a topic, or another number of its partitions."""
        path = f"/brokers/topics/{name}"
        data = json.dumps({"version": 1, "partitions": {str(p): [0] for p in range(partitions)}}, separators=(",", ":"))
        if self.other.exists(path):
            self.other.set(path, data.encode())
        else:
            self.other.create(path, data.encode())

    def register(self, group: str, consumer: str, data: bytes | None, by: KazooClient | None = None) -> str:
        """Register a consumer as a JVM does, with any data; the path."""
        return self._create(f"/consumers/{group}/ids/{consumer}", data, by)

    def claim(self, group: str, partition: TopicPartition, thread: bytes | None, by: KazooClient | None = None) -> str:
        """Claim a partition as a JVM does; the path."""
        return self._create(f"/consumers/{group}/owners/{partition.topic}/{partition.partition}", thread, by)

    def ids(self, group: str) -> dict[str, bytes | None]:
        """The registrations of a group."""
        return self._values(f"/consumers/{group}/ids")

    def owners(self, group: str, topic: str = "t") -> dict[int, str]:
        """The threads that own a topic's partitions."""
        found = self._values(f"/consumers/{group}/owners/{topic}")
        return {int(name): (data or b"").decode() for name, data in found.items()}

    def _create(self, path: str, data: bytes | None, by: KazooClient | None) -> str:
        session = by or self.other
        session.ensure_path(path.rpartition("/")[0])
        session.create(path, data, ephemeral=True)
        return path

    def _values(self, path: str) -> dict[str, bytes | None]:
        from kazoo.exceptions import NoNodeError

        found = {}
        try:
            names = self.other.get_children(path)
        except NoNodeError:
            return {}
        for name in names:
            try:
                found[name] = self.other.get(f"{path}/{name}")[0]
            except NoNodeError:
                continue  # gone since we looked
        return found


@pytest.fixture
def chroot(zkafka_cluster: LocalCluster) -> Iterator[Chroot]:
    """A new chroot that holds ``/brokers/ids``, ``/brokers/topics`` and ``/consumers``, removed afterwards."""
    from kazoo.client import KazooClient

    from pyspark_zkafka.options.model import ZooKeeperConfig

    hosts, path = zkafka_cluster.zookeeper_connect.partition("/")[0], f"/znodes-{secrets.token_hex(4)}"
    other = KazooClient(hosts=hosts, timeout=30)  # outlives a ZooKeeper that halts for some seconds
    other.start()
    try:
        for child in ("brokers/ids", "brokers/topics", "consumers"):
            other.ensure_path(f"{path}/{child}")
        other.chroot = path
        yield Chroot(ZooKeeperConfig(hosts, path), other)
    finally:
        other.chroot = ""
        other.delete(path, recursive=True)
        other.stop()
        other.close()


@pytest.fixture
def new_member(chroot: Chroot) -> Iterator[Callable[..., GroupMember]]:
    """Makes members of the group ``g`` in the chroot, not joined yet: ``new_member("c1", "t", threads=2)``.

    What is given by name are fields of GroupOptions, or `session_ms`, `hosts` and `timing`; instead of topics, one
    subscription can be given. They leave when the test ends.
    """
    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.options.model import GroupOptions
    from pyspark_zkafka.protocol.planning import Subscribe

    with ExitStack() as leaving:

        def make(
            consumer_id: str | None,
            *topics: Any,
            session_ms: int = 6000,
            hosts: str | None = None,
            timing: Any = None,
            **options: Any,
        ) -> GroupMember:
            by_name = all(isinstance(topic, str) for topic in topics)
            config = replace(chroot.config, session_timeout_ms=session_ms, hosts=hosts or chroot.config.hosts)
            group = GroupOptions(**{"name": "g", "backoff_ms": 200, "hold_ms": 0, "consumer_id": consumer_id, **options})
            member = GroupMember(config, group, Subscribe(topics) if by_name else topics[0], timing)
            leaving.callback(member.leave)
            return member

        yield make


@pytest.fixture
def eventually() -> Callable[..., bool]:
    """Polls: ``assert eventually(lambda: ..., timeout_s=5)``."""
    from pyspark_zkafka.testing.waiting import Deadline

    return lambda look, timeout_s=10.0: Deadline(timeout_s, poll_s=0.01).until(lambda: look() or None) is not None
