"""What works with the brokers before 1.0, version by version, with the default options, and what is refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.spec import version_tuple
from pyspark_zkafka.tools import app as zkafka
from tests.support.fill import fill
from tests.support.stream import Stream
from tests.support.tiers import seldom
from tests.support.topics import arrived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3")
each_version = pytest.mark.parametrize("early_cluster", VERSIONS, indirect=True)
two_versions_quickly = pytest.mark.parametrize(
    "early_cluster", ["0.8.2.2", "0.10.2.2", *seldom("0.9.0.1", "0.10.0.1", "0.11.0.3")], indirect=True
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "murmur2.json").read_text())
T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4")
CONTENTS = [(b"k%d" % n if n % 3 else None, b"v%d" % n * 50 if n % 5 else None) for n in range(20)]
"""Keys and values of a partition's records, by offset."""

NEEDS: dict[str, tuple[tuple[int, int], str, dict[str, str]]] = {
    "headers": ((0, 11), "array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers", {}),
    "timestamps": ((0, 10), f"timestamp_millis({T0}) AS timestamp", {}),
    "idempotence": ((0, 11), "'k' AS key", {"kafka.enable.idempotence": "true"}),
    "exactly-once": ((0, 11), "'k' AS key", {"deliveryGuarantee": "exactly-once", "writerName": "w", "batchId": "1"}),
}
"""Features of writes: the first version that has each, and a column and options that need it."""


@pytest.fixture(scope="session")
def early_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One broker of the version that the test names, which keeps records with old timestamps."""
    with LocalCluster(brokers=1, kafka_version=request.param, broker_config={"log.retention.hours": "876000"}) as cluster:
        yield cluster


@pytest.fixture
def zookeeper(early_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the broker through ZooKeeper."""
    return {"zookeeper.connect": early_cluster.zookeeper_connect}


@pytest.fixture
def brokers(early_cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the broker without ZooKeeper."""
    return {"kafka.bootstrap.servers": early_cluster.bootstrap_servers}


@pytest.fixture(params=["zookeeper", *seldom("brokers")])
def connection(request: pytest.FixtureRequest) -> dict[str, str]:
    """Options that reach the broker, through ZooKeeper or without it."""
    options: dict[str, str] = request.getfixturevalue(request.param)
    return options


@pytest.fixture
def new_topic(early_cluster: LocalCluster, _topic_names: Iterator[str]) -> NewTopic:
    """Creates a topic with a new name: ``new_topic(partitions=4)``."""

    def make(**arguments: Any) -> str:
        name = next(_topic_names)
        early_cluster.create_topic(name, **arguments)
        return name

    return make


@pytest.fixture(scope="session")
def written(early_cluster: LocalCluster) -> str:
    """A topic with a partition for each codec, all with the same records, one millisecond apart."""
    early_cluster.create_topic("written", partitions=len(CODECS))
    for partition, codec in enumerate(CODECS):
        records = [
            {"key": key, "value": value, "partition": partition, "timestamp": T0 + n}
            for n, (key, value) in enumerate(CONTENTS)
        ]
        early_cluster.produce("written", records, {**old(early_cluster), "compression.type": codec})
    return "written"


def old(cluster: LocalCluster) -> dict[str, Any]:
    """Return the properties with which librdkafka speaks the protocol of the cluster's version."""
    fallback = {"api.version.request": False, "broker.version.fallback": cluster.kafka_version}
    return {**fallback, "enable.idempotence": False}


def found_in(cluster: LocalCluster, topic: str, partitions: int = 1) -> dict[int, list[Any]]:
    """Return offset, key, value, headers and time of all records of a topic, by partition."""
    config = {name: value for name, value in old(cluster).items() if name != "enable.idempotence"}
    return arrived(cluster.bootstrap_servers, topic, partitions, config)


def has(cluster: LocalCluster, *first: int) -> bool:
    """Return whether the cluster's version is the first version that has a feature, or a later one."""
    return version_tuple(cluster.kafka_version) >= first


def names(*first: int) -> str:
    """Return a pattern for an error with a condition, which names the first version that has a feature."""
    return rf"(?s)\[[A-Z]+(_[A-Z]+)+\].*Kafka {re.escape('.'.join(map(str, first)))}"


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """Return partition and offset of each row, sorted."""
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("zkafka").options(**options).mode("append").save()


@two_versions_quickly
def test_read(spark: SparkSession, connection: dict[str, str], written: str, early_cluster: LocalCluster) -> None:
    """Records of another client are read with each codec, with their timestamps, or -1 before 0.10."""
    rows = spark.read.format("zkafka").options(**connection, subscribe=written).load().collect()
    timed = has(early_cluster, 0, 10)
    expected = [
        (partition, n, key, value, T0 + n if timed else -1, 0 if timed else -1)
        for partition in range(len(CODECS))
        for n, (key, value) in enumerate(CONTENTS)
    ]
    found = [(r.partition, r.offset, r.key, r.value, round(r.timestamp.timestamp() * 1000), r.timestampType) for r in rows]
    assert sorted(found, key=lambda row: row[:2]) == expected


@pytest.mark.long
@pytest.mark.parametrize("connection", ["zookeeper", "brokers"], indirect=True)
@each_version
def test_offsets(spark: SparkSession, connection: dict[str, str], written: str) -> None:
    """A batch starts and ends at given offsets, and at distances from the ends of the logs."""
    reader = spark.read.format("zkafka").options(**connection, subscribe=written)
    assert places(reader.option("startingOffsets", "latest-5").load()) == [(p, n) for p in range(4) for n in range(15, 20)]
    starts, ends = ({"written": {str(p): at + p for p in range(4)}} for at in (3, 10))
    ranges = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}
    assert places(reader.options(**ranges).load()) == [(p, n) for p in range(4) for n in range(3 + p, 10 + p)]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["latest", "error"])
@each_version
def test_starting_timestamp(read: Read, early_cluster: LocalCluster, written: str, strategy: str) -> None:
    """Records are found by their timestamps from 0.10.1 on; before, a start by time is refused with this reason."""

    def start(timestamp: int) -> list[tuple[int, int]]:
        options = {"startingTimestamp": str(timestamp), "startingOffsetsByTimestampStrategy": strategy}
        return places(read({"subscribe": written, **options}))

    if not has(early_cluster, 0, 10, 1):
        for timestamp in (T0 - 1, T0 + 7):
            with pytest.raises(Exception, match=names(0, 10, 1).replace("Kafka ", "")):
                start(timestamp)
        return
    assert start(T0 + 7) == [(p, n) for p in range(4) for n in range(7, 20)]
    if strategy == "latest":
        assert start(T0 + 1000) == []
    else:
        with pytest.raises(Exception, match="NO_OFFSET_FOR_TIMESTAMP"):
            start(T0 + 1000)


@two_versions_quickly
def test_group_in_zookeeper(stream: Callable[..., Stream], early_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """A stream in a group in ZooKeeper reads all records, then the rest, each once, and commits its offsets there."""
    topic = new_topic(partitions=2)
    fill(early_cluster, topic, 10, range(2))
    mine = stream({"subscribe": topic, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    mine.run()
    assert [sorted(mine.offsets(p)) for p in range(2)] == [list(range(10))] * 2
    fill(early_cluster, topic, 5, range(2))
    mine.run()
    assert [sorted(mine.offsets(p)) for p in range(2)] == [list(range(15))] * 2
    mine.run()  # a micro-batch is committed when the next one is planned
    with early_cluster.zookeeper() as client:
        assert [client.get(f"/consumers/g-{topic}/offsets/{topic}/{p}")[0] for p in range(2)] == [b"15"] * 2


@pytest.mark.long
@each_version
def test_offsets_in_kafka(
    stream: Callable[..., Stream], brokers: dict[str, str], early_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """A stream commits a group's offsets to Kafka, without ZooKeeper, and another stream resumes from them."""
    topic = new_topic()
    fill(early_cluster, topic, 10)
    group = {"group.id": f"g-{topic}", "groupMembership": "none", "offsets.storage": "kafka"}
    options = {"subscribe": topic, "auto.offset.reset": "earliest", **group}
    first = stream(options, connection=brokers)
    first.run()
    first.run()  # a micro-batch is committed when the next one is planned
    fill(early_cluster, topic, 5)
    second = stream(options, connection=brokers, name="other")
    second.run()
    assert first.offsets() == list(range(10))
    assert second.offsets() == list(range(10, 15))


@pytest.mark.long
@each_version
def test_group_in_kafka(
    stream: Callable[..., Stream], brokers: dict[str, str], early_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """A stream joins a group that Kafka coordinates from 0.9 on; before, it is refused with this reason."""
    topic = new_topic(partitions=2)
    fill(early_cluster, topic, 10, range(2))
    options = {"subscribe": topic, "group.id": f"g-{topic}", "auto.offset.reset": "earliest", "groupMembership": "kafka"}
    options |= {"session.timeout.ms": "30000"}  # the longest that 0.9 allows
    mine = stream(options, connection=brokers)
    if not has(early_cluster, 0, 9):
        with pytest.raises(Exception, match=names(0, 9)):
            mine.run()
        return
    mine.run()
    fill(early_cluster, topic, 5, range(2))
    mine.run()
    assert [sorted(mine.offsets(p)) for p in range(2)] == [list(range(15))] * 2


@two_versions_quickly
def test_write(spark: SparkSession, connection: dict[str, str], early_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Rows arrive once, each key in the partition that the Java client chooses, and with a time from 0.10 on."""
    topic, began_ms = new_topic(partitions=7), time.time() * 1000 - 1000
    seventh = VECTORS["partition_counts"].index(7)
    expected = {bytes.fromhex(key): partitions[seventh] for key, _, partitions in VECTORS["keys"]}
    frame = spark.createDataFrame([(bytearray(key), b"v") for key in expected], "key binary, value binary")
    save(frame, {**connection, "topic": topic})
    found = found_in(early_cluster, topic, 7)
    assert sorted((key, p) for p, rows in found.items() for _, key, *_ in rows) == sorted(expected.items())
    assert {value for rows in found.values() for _, _, value, *_ in rows} == {b"v"}
    assert {when > began_ms for rows in found.values() for *_, when in rows} == {has(early_cluster, 0, 10)}


@pytest.mark.long
@pytest.mark.parametrize("feature", NEEDS)
@each_version
def test_features_of_writes(
    spark: SparkSession, zookeeper: dict[str, str], early_cluster: LocalCluster, new_topic: NewTopic, feature: str
) -> None:
    """A write that needs a later broker is refused with the version that it needs, before it writes a row."""
    first, column, options = NEEDS[feature]
    topic = new_topic()
    frame = spark.range(10).selectExpr("cast(id AS string) AS value", column)
    if has(early_cluster, *first):
        save(frame, {**zookeeper, **options, "topic": topic})
        rows = found_in(early_cluster, topic)[0]
        assert sorted(row[2] for row in rows) == [b"%d" % n for n in range(10)]
        assert feature != "headers" or all(row[3] == [("h", b"x")] for row in rows)
        assert feature != "timestamps" or all(row[4] == T0 for row in rows)
        return
    with pytest.raises(Exception, match=names(*first)):
        save(frame, {**zookeeper, **options, "topic": topic})
    assert found_in(early_cluster, topic) == {0: []}


@pytest.mark.long
@each_version
def test_librdkafka(spark: SparkSession, zookeeper: dict[str, str], read: Read, new_topic: NewTopic) -> None:
    """Rows are written and read with transport=librdkafka."""
    topic, transport = new_topic(partitions=2), {"transport": "librdkafka"}
    frame = spark.range(100).selectExpr("cast(id % 7 AS string) AS key", "cast(id AS string) AS value")
    save(frame, {**zookeeper, **transport, "topic": topic})
    rows = read({"subscribe": topic, **transport}, schema="key string, value string, partition int").collect()
    assert sorted(int(row.value) for row in rows) == list(range(100))
    assert all(int(row.key) == int(row.value) % 7 for row in rows)
    assert len({(row.key, row.partition) for row in rows}) == 7


@pytest.mark.long
@each_version
def test_command_groups(early_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """`zkafka groups` lists and describes groups in Kafka from 0.9 on; before, it says why it cannot."""

    def run(*arguments: str) -> Any:
        servers = ("--bootstrap-server", early_cluster.bootstrap_servers, "--json")
        return CliRunner().invoke(zkafka, ["groups", *arguments, *servers])

    topic = new_topic()
    group = f"g-{topic}"
    fill(early_cluster, topic, 10)
    if not has(early_cluster, 0, 9):
        for arguments in (("list",), ("describe", group)):
            result = run(*arguments)
            assert result.exit_code == 1
            assert re.search(names(0, 9), result.output)
        return
    servers = {"bootstrap.servers": early_cluster.bootstrap_servers, "api.version.request": False}
    settings = {"group.id": group, "auto.offset.reset": "earliest", "broker.version.fallback": early_cluster.kafka_version}
    with closing(Consumer({**servers, **settings, "session.timeout.ms": 30_000})) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
        listed, described = run("list"), run("describe", group)
        assert listed.exit_code == 0, listed.output + described.output
        assert described.exit_code == 0, listed.output + described.output
        members = {row["group"]: row["members"] for row in json.loads(listed.stdout)}
        assert members[group] == 1
        rows = [(row["topic"], row["partition"], row["offset"], row["latest"]) for row in json.loads(described.stdout)]
        assert rows == [(topic, 0, 1, 10)]
