"""Write tasks and the metadata that they route by, with both transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.librdkafka_sender import MessageSender
from pyspark_zkafka.records.producer import CountingProducer, producer_properties
from pyspark_zkafka.records.select import open_producer
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.rows import write_rows
from tests.support.both_paths import connection, same
from tests.support.both_paths_writes import frame
from tests.support.topics import arrived

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]


def write_task(servers: str, transport: Transport, batches: Sequence[pa.RecordBatch], **options: str) -> int:
    """Return the number of rows of a task that writes batches."""
    given = {"kafka.bootstrap.servers": servers, "transport": transport, "kafka.allow.auto.create.topics": "false"}
    parsed = parse_write(given | options)
    return write_rows(parsed, plan_write(parsed), iter(batches)).rows


class TestWriteTask:
    """Rows routed by a write task, with both transports."""

    def test_several_topics(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Each row goes to the topic it names and to the partition of its key, and is counted."""
        keys = [None if n % 10 == 0 else b"key %d" % (n % 37) for n in range(3000)]

        def act(transport: Transport) -> Any:
            topics = [new_topic(partitions=3), new_topic(partitions=5), new_topic()]
            named = pa.array([topics[n % 3] for n in range(3000)])
            batch = frame(topic=named, key=keys, value=[b"%d" % n for n in range(3000)])
            written = write_task(zkafka_cluster.bootstrap_servers, transport, [batch.slice(0, 1001), batch.slice(1001)])
            found = {t: arrived(zkafka_cluster.bootstrap_servers, t, p) for t, p in zip(topics, (3, 5, 1), strict=True)}
            assert written == sum(len(rows) for by_partition in found.values() for rows in by_partition.values()) == 3000
            return [{p: [row[1:3] for row in rows] for p, rows in found[t].items()} for t in topics]

        first = same(act)[0]
        assert sorted(int(row[1]) for rows in first.values() for row in rows) == list(range(0, 3000, 3))

    @pytest.mark.parametrize("partitioner", ["murmur2", "murmur3", "crc32", "fnv1a", "roundrobin"])
    def test_partitioners(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, partitioner: str) -> None:
        """Each partitioner chooses the same partitions with both transports."""
        keys = [b"", None, *(b"%d" % n * (n % 9) for n in range(500))]

        def act(transport: Transport) -> Any:
            topic = new_topic(partitions=7)
            batch = frame(key=keys, value=[b"v"] * len(keys))
            write_task(zkafka_cluster.bootstrap_servers, transport, [batch], topic=topic, partitioner=partitioner)
            found = arrived(zkafka_cluster.bootstrap_servers, topic, 7)
            return {p: [row[1] for row in rows] for p, rows in found.items()}

        assert sum(map(len, same(act).values())) == len(keys)

    @pytest.mark.parametrize("partition", [2, -1])
    def test_partition_out_of_range(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, partition: int) -> None:
        """A partition that the topic does not have raises an error before anything is sent."""
        topic = new_topic(partitions=2)
        batch = frame(value=[b"a", b"b"], partition=pa.array([0, partition], pa.int32()))
        found = same(lambda transport: write_task(zkafka_cluster.bootstrap_servers, transport, [batch], topic=topic))
        assert found.kind == "InvalidRow"
        assert found.condition == "PARTITION_OUT_OF_RANGE"
        assert arrived(zkafka_cluster.bootstrap_servers, topic, 2) == {0: [], 1: []}

    def test_missing_topic(self, zkafka_cluster: LocalCluster) -> None:
        """A missing topic that the brokers may not create raises an error that names it."""
        batch = frame(topic=pa.array(["no-such-topic"]), value=[b"v"])
        found = same(lambda transport: write_task(zkafka_cluster.bootstrap_servers, transport, [batch]))
        assert found.kind == "UnknownTopic"
        assert found.condition == "UNKNOWN_TOPIC"


def impatient(sender: type[Any]) -> type[Any]:
    """Return a subclass of a sender that waits 0.3 s for metadata, whatever the time-out."""

    class Impatient(sender):  # type: ignore[misc]
        def leaders(self, topic: str, timeout_s: float) -> Any:
            return super().leaders(topic, 0.3)

    return Impatient


def asked(servers: str, transport: Transport, topic: str, kafka: Mapping[str, Any] | None = None) -> Any:
    """Return the partitions of a topic that a producer gets from the brokers."""
    how = connection(servers, transport, kafka or {})
    with open_producer(how, producer_properties(how, servers)) as producer:
        return producer.partitions_of(topic)


class TestPartitionsOf:
    """The number of partitions that the brokers report."""

    def test_partitions(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """The result has the number of partitions, and the partitions with a leader."""
        topic = new_topic(partitions=6, replication=2)
        assert same(lambda transport: asked(zkafka_cluster.bootstrap_servers, transport, topic)) == (6, (0, 1, 2, 3, 4, 5))

    def test_missing(self, zkafka_cluster: LocalCluster) -> None:
        """A topic that may not be created raises UNKNOWN_TOPIC."""
        kafka = {"allow.auto.create.topics": False}
        found = same(lambda transport: asked(zkafka_cluster.bootstrap_servers, transport, "no-such-topic", kafka))
        assert found.condition == "UNKNOWN_TOPIC"

    def test_no_brokers(self) -> None:
        """Unreachable brokers raise an error that quotes the transport's error."""

        def act(transport: Transport) -> Any:
            properties = producer_properties(connection("127.0.0.1:1", transport, {}), "127.0.0.1:1")
            sender = impatient(MessageSender if transport == "librdkafka" else DirectSender)
            with CountingProducer(properties, sender) as producer:
                return producer.partitions_of("t")

        found = same(act, lambda failed: (failed.kind, failed.condition))
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert found.message.startswith("asking for the partitions of t: _")
