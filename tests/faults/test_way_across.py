"""One query on its way from a group in ZooKeeper, beside an old JVM consumer, to a group in Kafka and to KRaft mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.cli import app as zkafka
from pyspark_zkafka.testing import OldConsumer
from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.migration import MigratingCluster

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.stream import Stream

GROUP, TOPIC, PARTITIONS = "settlement", "t", range(4)
DUAL = {"offsets.storage": "kafka", "dual.commit.enabled": "true", "auto.commit.interval.ms": "300"}


@pytest.fixture
def cluster() -> Iterator[MigratingCluster]:
    """A cluster with ZooKeeper, and a topic; partition 3 stays empty until the group is in Kafka."""
    with MigratingCluster(brokers=2, broker_config={"offsets.topic.replication.factor": "2"}) as started:
        started.create_topic(TOPIC, partitions=len(PARTITIONS), replication=2)
        yield started


class Way:
    """What the steps have in common: one checkpoint, and the records written so far."""

    def __init__(self, cluster: MigratingCluster, query: Stream) -> None:
        self.cluster, self.query = cluster, query
        self.written = dict.fromkeys(PARTITIONS, 0)
        self.by_jvm: set[tuple[int, int]] = set()

    def write(self, records: int, partitions: range) -> None:
        """Write records into some partitions."""
        fill(self.cluster, TOPIC, records, partitions)
        for number in partitions:
            self.written[number] += records

    def options(self, **more: str) -> dict[str, str]:
        """A query's options for one step."""
        shared = {"subscribe": TOPIC, "group.id": GROUP, "auto.offset.reset": "earliest"}
        return {**shared, **{name.replace("_", "."): value for name, value in more.items()}}

    def start(self, options: dict[str, str]) -> StreamingQuery:
        """Start the query with these options, on the same checkpoint."""
        self.query.options = options
        return self.query.start(processingTime="100 milliseconds")

    def finish(self, running: StreamingQuery) -> None:
        """Stop the query when all records have been read, and its last micro-batch is committed."""
        eventually(lambda: self.read() >= self.all(), 120, lambda: (running.exception(), self.all() - self.read()))
        before = running.lastProgress["batchId"] if running.lastProgress else -1
        eventually(lambda: is_idle(running, before), timeout_s=60)
        running.stop()

    def step(self, options: dict[str, str], records: int = 5, partitions: range = PARTITIONS) -> None:
        """Read some more records with these options."""
        running = self.start(options)
        self.write(records, partitions)
        self.finish(running)

    def read(self) -> set[tuple[int, int]]:
        """The records that the query, or the JVM consumer, has read."""
        return {(row.partition, row.offset) for row in self.query.rows} | self.by_jvm

    def all(self) -> set[tuple[int, int]]:
        """The records that have been written."""
        return {(number, offset) for number, count in self.written.items() for offset in range(count)}

    def migrate(self, *arguments: str) -> None:
        """Run ``zkafka groups migrate``, which succeeds."""
        where = ["--zookeeper", self.cluster.zookeeper_connect]
        found = CliRunner().invoke(zkafka, ["groups", "migrate", GROUP, "--to", "kafka", *arguments, *where])
        assert found.exit_code == 0, found.output


def is_idle(running: StreamingQuery, batch: int) -> bool:
    """True when the query has looked for records after that micro-batch, and found none: it is committed."""
    found = running.lastProgress
    return found is not None and found["batchId"] >= batch and found["numInputRows"] == 0


def places(jvm: OldConsumer) -> set[tuple[int, int]]:
    """Partition and offset of each record that a JVM consumer has read."""
    return {(record.partition, record.offset) for record in jvm.records}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_way_across(cluster: MigratingCluster, stream: Callable[..., Stream]) -> None:
    """The query reads each record once, in all steps, on one checkpoint; what the JVM consumer has read is read by it."""
    way = Way(cluster, stream({}, connection={}))
    zookeeper, servers = cluster.zookeeper_connect, cluster.bootstrap_servers
    dual = way.options(zookeeper_connect=zookeeper, offsets_storage="kafka")
    way.step(way.options(zookeeper_connect=zookeeper), partitions=range(3))
    jvm = OldConsumer(zookeeper, GROUP, topics={TOPIC: 1}, properties=DUAL).start()
    try:
        running = way.start(dual)
        way.write(5, range(3))
        eventually(lambda: way.read() | places(jvm) >= way.all(), timeout_s=120, message=lambda: running.exception())
        jvm.stop()
        way.by_jvm = places(jvm)
    finally:
        jvm.kill()
    way.finish(running)
    way.migrate("--yes")
    way.migrate("--verify")
    in_kafka = way.options(kafka_bootstrap_servers=servers) | {"groupMembership": "kafka"}
    way.step({**in_kafka, "zookeeper.connect": zookeeper})
    way.step(in_kafka)
    running = way.start(in_kafka)
    cluster.begin()
    way.write(5, PARTITIONS)
    for broker in cluster.broker_ids:
        cluster.move(broker)
        way.write(5, PARTITIONS)
    cluster.finalize()
    way.write(5, PARTITIONS)
    way.finish(running)
    twice = Counter([*((row.partition, row.offset) for row in way.query.rows), *way.by_jvm])
    assert [place for place, times in twice.items() if times > 1] == []
    assert went_back(commit_history(cluster, GROUP)) == {}
