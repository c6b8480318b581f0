"""Reuse of librdkafka's consumers and producers by consecutive tasks of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import DeliveryFailed, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.rows import outgoing
from pyspark_zkafka.options.batch import parse_connection, parse_write
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.records import select as choice
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.writers import ZKafkaWriter
from tests.support.librdkafka_log import ClientNames, librdkafka_log

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
COLUMNS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])


class Tasks:
    """Tasks of one worker on one topic, with one transport; `clients` has the name of each task's librdkafka client."""

    def __init__(self, cluster: LocalCluster, topic: str, transport: str) -> None:
        options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "transport": transport}
        self.connection: ConnectionOptions = parse_connection(options)
        self.servers = cluster.bootstrap_servers
        self.topic = topic
        self.names = ClientNames()
        self.clients: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the librdkafka client that logs inside the ``with`` block: the task's client."""
        self.names.since()
        yield
        (name,) = self.names.since()
        self.clients.append(name)


class Reading(Tasks):
    """Reads splits of one topic as a worker's tasks do, and records the librdkafka consumer of each."""

    def properties(self, **kafka: Any) -> dict[str, Any]:
        return {**consumer_properties(self.connection, self.servers, "reuse"), "debug": "fetch", **kafka}

    def read(self, partition: int, start: int, until: int, topic_id: str | None = "one", **kafka: Any) -> list[bytes]:
        """Return the values of a range."""
        tp = TopicPartition(self.topic, partition)
        split = Split(tp, start, until, 0, 0, (0,), (self.servers,), topic_id=topic_id)
        with choice.open_consumer(self.connection, self.properties(**kafka), split, COLUMNS) as consumer, self.noted():
            table = pa.Table.from_batches(SplitReader(split, consumer, ReadPolicy(), lambda: "same").batches(), COLUMNS)
        assert table["partition"].to_pylist() == [partition] * (until - start)
        assert table["offset"].to_pylist() == list(range(start, until))
        return list(table["value"].to_pylist())


@pytest.fixture
def reading(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Iterator[Reading]:
    """Tasks that read a topic of two partitions with ten records each."""
    topic = new_topic(partitions=2)
    records = [{"value": f"{p}-{n}".encode(), "partition": p} for p in range(2) for n in range(10)]
    zkafka_cluster.produce(topic, records)
    tasks = Reading(zkafka_cluster, topic, "librdkafka")
    with librdkafka_log(tasks.names):
        yield tasks


def values(partition: int, start: int, until: int) -> list[bytes]:
    return [f"{partition}-{n}".encode() for n in range(start, until)]


def test_one_after_the_other(reading: Reading) -> None:
    """One consumer reads ranges of any partition, forwards and backwards, each exactly."""
    for partition, start, until in [(0, 0, 4), (1, 2, 9), (0, 4, 10), (0, 0, 10), (1, 9, 10)]:
        assert reading.read(partition, start, until) == values(partition, start, until)
    assert len(set(reading.clients)) == 1


@pytest.mark.parametrize(
    ("second", "kafka"),
    [
        pytest.param("another", {}, id="a topic created again"),
        pytest.param(None, {}, id="a topic of which no id is known"),
        pytest.param("one", {"client.id": "other"}, id="other settings"),
    ],
)
def test_not_of_another_kind(reading: Reading, second: str | None, kafka: dict[str, Any]) -> None:
    """A consumer is reused only for the same topic id and settings."""
    reading.read(0, 0, 10)
    assert reading.read(0, 0, 10, second, **kafka) == values(0, 0, 10)
    first, other = reading.clients
    assert first != other


def test_not_after_an_error(reading: Reading) -> None:
    """The consumer of a failed task is closed."""
    reading.read(0, 0, 4)
    tp = TopicPartition(reading.topic, 0)
    split = Split(tp, 0, 10, 0, 0, (0,), (reading.servers,), topic_id="one")
    with (
        pytest.raises(OptionError),
        choice.open_consumer(reading.connection, reading.properties(), split, COLUMNS),
    ):
        raise OptionError("INVALID_OPTION", "a task that fails")
    assert reading.read(0, 4, 10) == values(0, 4, 10)
    first, other = reading.clients
    assert first != other


def test_the_brokers_order_does_not_matter(reading: Reading) -> None:
    """A consumer is reused whatever the order of the brokers, since splits name their own leader first."""
    reading.read(0, 0, 4)
    reading.servers = ",".join(reversed(reading.servers.split(",")))
    reading.connection = replace(reading.connection, bootstrap_servers=reading.servers)
    reading.read(1, 0, 4)
    first, second = reading.clients
    assert first == second


class Writing(Tasks):
    """Writes to one topic as a worker's tasks do, and records the librdkafka producer of each."""

    def write(self, partitions: Sequence[int], generation: str | None = "one", size_bytes: int = 1, **kafka: Any) -> int:
        """Return the acknowledged rows of a task that writes one row to each of the given partitions."""
        values = pa.array([bytes(size_bytes)] * len(partitions), pa.binary())
        (rows,) = outgoing(pa.record_batch([values], names=["value"]), self.topic)
        logged = {"debug": "msg", "client.id": self.topic}  # producers of other tests have another configuration
        properties = producer_properties(self.connection, self.servers) | logged | kafka
        with choice.open_producer(self.connection, properties, generation) as producer, self.noted():
            producer.send(rows, np.array(partitions, dtype=np.int32))
            producer.flush()
            return producer.acknowledged


@pytest.fixture(params=["direct", "librdkafka"])
def writing(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Iterator[Writing]:
    """Tasks that write to a topic of two partitions."""
    tasks = Writing(zkafka_cluster, new_topic(partitions=2), request.param)
    with librdkafka_log(tasks.names):
        yield tasks


def test_one_write_after_the_other(writing: Writing) -> None:
    """Consecutive tasks share one producer, and each counts only its own rows."""
    assert writing.write([0, 1, 0]) == 3
    assert writing.write([1]) == 1
    assert writing.write([0]) == 1
    assert len(set(writing.clients)) == 1


@pytest.mark.parametrize(
    ("second", "kafka"),
    [
        pytest.param("another", {}, id="topics that have changed"),
        pytest.param(None, {}, id="topics of which no id is known"),
        pytest.param("one", {"client.id": "other"}, id="other settings"),
    ],
)
def test_no_producer_of_another_kind(writing: Writing, second: str | None, kafka: dict[str, Any]) -> None:
    """A producer is reused only for the same topic ids and settings."""
    assert writing.write([0, 1]) == writing.write([0, 1], second, **kafka) == 2
    first, other = writing.clients
    assert first != other


def test_no_producer_after_a_failure(writing: Writing) -> None:
    """A producer that failed to deliver a record is closed, and its counts do not affect the next task."""
    assert writing.write([0]) == 1
    with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
        writing.write([0], size_bytes=2_000_000)
    assert writing.write([1, 1]) == 2
    first, other = writing.clients
    assert first != other


def test_topics_that_grow_or_come_again(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, zookeeper: dict[str, str]
) -> None:
    """A worker's next write follows a topic that has grown or was created again."""
    topic = new_topic(partitions=1)
    options = parse_write({**zookeeper, "topic": topic})

    def write(partitions: Sequence[int]) -> list[int]:
        columns = [pa.array(partitions, pa.int32()), pa.array([b"v"] * len(partitions), pa.binary())]
        batch = pa.record_batch(columns, names=["partition", "value"])
        assert ZKafkaWriter(options, plan_write(options)).write(iter([batch])).rows == len(partitions)
        with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as admin:
            ends = admin.list_offsets({TopicPartition(topic, p): LATEST for p in range(max(partitions) + 1)})
        return [ends[tp] for tp in sorted(ends)]

    assert write([0, 0]) == [2]
    zkafka_cluster.add_partitions(topic, 3)
    assert write([0, 2, 2]) == [3, 0, 2]
    zkafka_cluster.delete_topic(topic)
    zkafka_cluster.create_topic(topic, partitions=2)
    assert write([0, 1, 1]) == [1, 2]
