"""Writes while the cluster changes."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import DeliveryFailed
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.testing.servers import zookeeper_session
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.writers import ZKafkaWriter
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
SCHEMA = pa.schema([("partition", pa.int32()), ("value", pa.binary())])


@pytest.fixture(params=["direct", *seldom("librdkafka")])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each transport; checks afterwards that the rows were sent by it."""
    add, used = DirectSender.add, []

    def noted(self: DirectSender, *rows: Any) -> None:
        used.append(self)
        add(self, *rows)

    monkeypatch.setattr(DirectSender, "add", noted)
    yield request.param
    assert bool(used) == (request.param == "direct")


@pytest.fixture
def options(zookeeper: dict[str, str], transport: str) -> Callable[..., WriteOptions]:
    """Options of a write through ZooKeeper: ``options(topic, partitioner="crc32")``."""
    return lambda topic, **more: parse_write({**zookeeper, "topic": topic, "transport": transport, **more})


def batches(count: int, rows: int = 1000, size_bytes: int = 1000) -> Iterator[pa.RecordBatch]:
    """Yield batches of numbered values without keys."""
    for batch in range(count):
        values = [b"%d " % (batch * rows + n) + b"." * size_bytes for n in range(rows)]
        yield pa.record_batch([pa.array(values, pa.binary())], names=["value"])


def written(zookeeper: dict[str, str], topic: str) -> list[tuple[int, int]]:
    """Return the partition and number of every record of a topic."""
    options = parse_read({**zookeeper, "subscribe": topic})
    plan, reader = plan_batch(options), ZKafkaReader(options, SCHEMA)
    found = (batch for split in plan.splits for batch in reader.read(SplitPartition((split,), plan.bootstrap_servers)))
    return [(row["partition"], int(row["value"].split(b" ")[0])) for batch in found for row in batch.to_pylist()]


def test_leader_killed(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, zookeeper: dict[str, str], options: Callable[..., WriteOptions]
) -> None:
    """Killing a leader during a write loses no row, and the idempotent producer repeats none."""
    topic = new_topic(partitions=3, replication=3, config={"min.insync.replicas": "2"})
    write = options(topic)
    plan = plan_write(write)
    killed = threading.Event()

    def breaking() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(40)):
            if number == 15:
                zkafka_cluster.kill(0)
                killed.set()
            yield batch

    try:
        message = ZKafkaWriter(write, plan).write(breaking())
    finally:
        zkafka_cluster.restart(0)
    assert killed.is_set()
    assert message.rows == 40_000
    assert Counter(n for _, n in written(zookeeper, topic)) == dict.fromkeys(range(40_000), 1)


@pytest.mark.long
def test_too_few_in_sync(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, zookeeper: dict[str, str], options: Callable[..., WriteOptions]
) -> None:
    """A write fails when too few replicas are in sync, with the reason unless librdkafka hides it."""
    topic = new_topic(replication=3, config={"min.insync.replicas": "3"})
    zkafka_cluster.stop(2)
    try:
        write = options(topic, **{"kafka.delivery.timeout.ms": "3000"})
        reason = "" if write.connection.transport == "librdkafka" else r"min\.insync\.replicas; "
        counts = "of 10 records .* 0 were acknowledged and 10 were not"
        with pytest.raises(DeliveryFailed, match=rf"{topic}-0: .*{reason}{counts}"):
            ZKafkaWriter(write, plan_write(write)).write(batches(1, rows=10))
    finally:
        zkafka_cluster.restart(2)


@pytest.mark.long
def test_available_partitions(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, zookeeper: dict[str, str], options: Callable[..., WriteOptions]
) -> None:
    """Rows without a key alternate over the partitions that have a leader."""
    topic = new_topic(assignment={0: [0], 1: [1], 2: [2]})
    zkafka_cluster.stop(1)
    try:
        write = options(topic)
        message = ZKafkaWriter(write, plan_write(write)).write(batches(1, rows=100))
    finally:
        zkafka_cluster.restart(1)
    assert message.rows == 100
    assert Counter(p for p, _ in written(zookeeper, topic)) == {0: 50, 2: 50}


@pytest.mark.long
@pytest.mark.usefixtures("all_brokers")
def test_partition_that_never_had_a_leader(
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    zookeeper: dict[str, str],
    options: Callable[..., WriteOptions],
    create_without_waiting: Callable[[str, list[list[int]]], None],
) -> None:
    """Rows for a partition that ZooKeeper lists, but the brokers' metadata do not yet, wait until the metadata do."""
    topic = f"{new_topic()}-later"
    zkafka_cluster.stop(1)
    create_without_waiting(topic, [[0], [1]])
    write = options(topic)
    plan = plan_write(write)
    restart = threading.Timer(2, zkafka_cluster.restart, [1])
    restart.start()
    columns = [pa.array([0, 1, 1], pa.int32()), pa.array([b"0 ", b"1 ", b"2 "], pa.binary())]
    batch = pa.record_batch(columns, names=["partition", "value"])
    message = ZKafkaWriter(write, plan).write(iter([batch]))
    restart.join(60)
    assert message.rows == 3
    assert sorted(written(zookeeper, topic)) == [(0, 0), (1, 1), (1, 2)]


def test_topic_is_created(
    zkafka_cluster: LocalCluster, zookeeper: dict[str, str], options: Callable[..., WriteOptions], transport: str
) -> None:
    """If brokers create topics automatically, a write to a new topic works, by option and by column."""
    by_option, by_column = f"made-by-option-{transport}", f"made-by-column-{transport}"
    write = options(by_option)
    ZKafkaWriter(write, plan_write(write)).write(batches(1, rows=10))
    assert len(written(zookeeper, by_option)) == 10
    column = parse_write({**zookeeper, "transport": transport})
    batch = pa.record_batch([[by_column] * 3, [b"0 ", b"1 ", b"2 "]], names=["topic", "value"])
    ZKafkaWriter(column, plan_write(column)).write(iter([batch]))
    assert sorted(n for _, n in written(zookeeper, by_column)) == [0, 1, 2]


def test_a_failing_frame_sends_no_more(
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    zookeeper: dict[str, str],
    options: Callable[..., WriteOptions],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the source of the rows fails, unsent rows are dropped and the source's error is raised."""
    monkeypatch.setattr("pyspark_zkafka.model.rows._GATHERED_ROWS", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(1, size_bytes=10)  # too little for a whole record batch, which would be sent at once
        raise ValueError("the source failed")

    topic = new_topic()
    write = options(topic, **{"kafka.linger.ms": "60000"})
    with pytest.raises(ValueError, match="the source failed"):
        ZKafkaWriter(write, plan_write(write)).write(failing())
    assert written(zookeeper, topic) == []


@pytest.mark.long
def test_quota(
    zkafka_cluster: LocalCluster, new_topic: NewTopic, zookeeper: dict[str, str], options: Callable[..., WriteOptions]
) -> None:
    """A client is slowed down by its quota, and writes all rows."""
    topic, client = new_topic(replication=1), "throttled"
    rate = {"version": 1, "config": {"producer_byte_rate": "1000000"}}
    change = {"version": 2, "entity_path": f"clients/{client}"}
    with zookeeper_session(zkafka_cluster.zookeeper_connect, 30) as zk:
        zk.create(f"/config/clients/{client}", json.dumps(rate).encode(), makepath=True)
        zk.create("/config/changes/config_change_", json.dumps(change).encode(), sequence=True)
        write = options(topic, **{"kafka.client.id": client})
        plan, began_at = plan_write(write), time.monotonic()
        try:
            message = ZKafkaWriter(write, plan).write(batches(20))
        finally:
            zk.delete(f"/config/clients/{client}")
            zk.create("/config/changes/config_change_", json.dumps(change).encode(), sequence=True)
    # Brokers measure over windows of some seconds and do not throttle the first bytes.
    assert time.monotonic() - began_at > 5
    assert message.rows == 20_000
    assert [n for _, n in written(zookeeper, topic)] == [*range(20_000)]
