"""Batches, streams and writes without ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.both_paths import BOTH
from tests.support.both_paths_reads import Read as ByEachTransport
from tests.support.both_paths_writes import frame, send
from tests.support.tiers import seldom
from tests.support.topics import arrived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_zkafka.options.values import Transport
    from pyspark_zkafka.testing import LocalCluster
    from tests.support.stream import Stream

Read = Callable[..., "DataFrame"]

pytestmark = pytest.mark.parametrize("kraft_cluster", ["4.3.1", *seldom("3.9.1")], indirect=True)


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """Return partitions and offsets, sorted."""
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def between(*ends: range) -> list[tuple[int, int]]:
    """Return the places of ranges of offsets, one range per partition."""
    return [(partition, offset) for partition, end in enumerate(ends) for offset in end]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, between(range(10), range(10))),
        (
            {"startingOffsets": '{"T": {"0": 4, "1": -2}}', "endingOffsets": '{"T": {"0": 6, "1": 2}}'},
            [*between(range(4, 6), range(2))],
        ),
        ({"startingTimestamp": "8000"}, between(range(7, 10), range(7, 10))),
        *seldom(
            ({"endingTimestamp": "3000"}, between(range(2), range(2))),
            ({"startingOffsetsByTimestamp": '{"T": {"0": 10000, "1": 9000}}'}, between(range(9, 10), range(8, 10))),
        ),
    ],
)
def test_batch(read_kraft: Read, topic: str, options: dict[str, str], expected: list[tuple[int, int]]) -> None:
    """A batch without ZooKeeper starts and ends at the given offsets or timestamps."""
    frame = read_kraft({"subscribe": topic, **{name: value.replace("T", topic) for name, value in options.items()}})
    assert places(frame) == expected


def test_transports(kraft_cluster: LocalCluster, topic: str) -> None:
    """Every transport reads the same records, whatever the codec."""
    assert ByEachTransport(kraft_cluster)(topic, 10).num_rows == 10
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        name = f"{topic}-{codec}"
        kraft_cluster.create_topic(name)
        kraft_cluster.produce(
            name, [{"key": b"%d" % n, "value": b"v" * n} for n in range(200)], {"compression.type": codec}
        )
        assert ByEachTransport(kraft_cluster)(name, 200).num_rows == 200


@pytest.mark.parametrize("transport", BOTH)
def test_writes_of_each_transport(kraft_cluster: LocalCluster, topic: str, transport: Transport) -> None:
    """Each transport writes with all codecs."""
    servers = kraft_cluster.bootstrap_servers
    batch = frame(key=[b"k", None] * 500, value=[b"v" * (n % 300) for n in range(1000)])
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        name = f"{topic}-{transport}-{codec}"
        kraft_cluster.create_topic(name, partitions=2)
        sent = send(servers, {"compression.type": codec}, transport, name, [(batch, [0, 1] * 500)])
        assert sent == 1000
        assert [row[2] for row in arrived(servers, name, 2)[0]] == batch.column("value").to_pylist()[::2]


def test_pattern(read_kraft: Read, topic: str) -> None:
    """A pattern selects from the topics that the brokers know."""
    assert read_kraft({"subscribePattern": f"{topic}$"}).count() == 20


def test_committed_start(read_kraft: Read, kraft_cluster: LocalCluster, topic: str) -> None:
    """A batch starts at a group's offsets in Kafka, and without an offset where auto.offset.reset says."""
    with KafkaGroupOffsets(kraft_cluster.bootstrap_servers, {}, f"g-{topic}") as offsets:
        offsets.commit({TopicPartition(topic, 0): 7})
    group = {"group.id": f"g-{topic}", "offsets.storage": "kafka", "auto.offset.reset": "earliest"}
    assert places(read_kraft({"subscribe": topic, "startingOffsets": "committed", **group})) == between(
        range(7, 10), range(10)
    )


def test_stream(stream: Callable[..., Stream], brokers: dict[str, str], kraft_cluster: LocalCluster, topic: str) -> None:
    """A stream reads each record once across a restart, including those of added partitions."""
    mine = stream({"subscribe": topic, "startingOffsets": "earliest"}, connection=brokers)
    mine.run()
    kraft_cluster.add_partitions(topic, 3)
    kraft_cluster.produce(topic, [{"value": "new", "partition": 2}])
    mine.run()
    assert sorted((row.partition, row.offset) for row in mine.rows) == between(range(10), range(10), range(1))


def test_stream_commits_to_kafka(
    stream: Callable[..., Stream], brokers: dict[str, str], kraft_cluster: LocalCluster, topic: str
) -> None:
    """A stream without membership commits a group's offsets to Kafka, and another stream resumes from them."""
    group = {"group.id": f"g-{topic}", "groupMembership": "none", "offsets.storage": "kafka"}
    options = {"subscribe": topic, "auto.offset.reset": "earliest", **group}
    first = stream(options, connection=brokers)
    first.run()
    first.run()  # a micro-batch is committed when the next one is planned
    with KafkaGroupOffsets(kraft_cluster.bootstrap_servers, {}, f"g-{topic}") as offsets:
        assert offsets.committed([TopicPartition(topic, p) for p in range(2)]) == {
            TopicPartition(topic, 0): 10,
            TopicPartition(topic, 1): 10,
        }
    kraft_cluster.produce(topic, [{"value": "new", "partition": 0}])
    second = stream(options, connection=brokers, name="other")
    second.run()
    assert [(row.partition, row.offset) for row in second.rows] == [(0, 10)]


def test_membership_needs_zookeeper(
    read_kraft: Read, stream: Callable[..., Stream], brokers: dict[str, str], topic: str
) -> None:
    """A stream that would join a group in ZooKeeper is refused, and zookeeper.connect is named."""
    with pytest.raises(Exception, match=r"zookeeper\.connect"):
        stream({"subscribe": topic, "group.id": "g", "groupMembership": "zookeeper"}, connection=brokers).run()


@pytest.mark.parametrize("view", ["brokers", "topics", "partitions", "plan"])
def test_views(read_kraft: Read, kraft_cluster: LocalCluster, topic: str, view: str) -> None:
    """The views of broker metadata have the cluster's rows."""
    rows = read_kraft({"view": view, **({} if view == "brokers" else {"subscribe": topic})}).collect()
    if view == "brokers":
        assert [row.id for row in rows] == kraft_cluster.broker_ids
    else:
        assert {row.topic for row in rows} == {topic}
        assert len(rows) == (1 if view == "topics" else 2)


@pytest.mark.parametrize("transport", ["direct", *seldom("librdkafka")])
def test_write(
    spark: object, read_kraft: Read, brokers: dict[str, str], kraft_cluster: LocalCluster, topic: str, transport: str
) -> None:
    """Each transport writes each row once, and a batch write commits a group's offsets to Kafka."""
    target = f"{topic}-copy-{transport}"
    kraft_cluster.create_topic(target, partitions=2)
    ends = json.dumps({topic: {"0": 10, "1": 10}})
    group = {"group.id": f"g-{target}", "offsets.storage": "kafka", "commitOffsets": ends}
    copied = read_kraft({"subscribe": topic}).select("key", "value").write.format("zkafka").mode("append")
    copied.options(**brokers, topic=target, transport=transport, **group).save()
    values = sorted(bytes(row.value) for row in read_kraft({"subscribe": target}).collect())
    assert values == sorted([str(n).encode() for n in range(10)] * 2)
    with KafkaGroupOffsets(kraft_cluster.bootstrap_servers, {}, f"g-{target}") as offsets:
        assert offsets.committed([TopicPartition(topic, 1)]) == {TopicPartition(topic, 1): 10}
