"""Migration of a group's offsets from ZooKeeper to Kafka and back, with active consumers of both kinds."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.tools import app as zkafka
from tests.support.eventually import eventually
from tests.support.java_consumer import JavaConsumer

Place = tuple[int, int]
"""Partition and offset."""

PARTITIONS = 3
PATIENCE_S = 60
DUAL = {"offsets.storage": "kafka", "dual.commit.enabled": "true", "auto.commit.interval.ms": "300"}


def wait_for_records(consumer: OldConsumer | JavaConsumer, count: int) -> None:
    """Wait until a consumer has read this many records, for a minute, or until it ends."""
    end = time.monotonic() + PATIENCE_S
    while len(consumer.records) < count and consumer.running and time.monotonic() < end:
        time.sleep(0.05)


class Group:
    """A group with its own topic, and its readers."""

    def __init__(self, cluster: LocalCluster, topic: str, opened: ExitStack, folder: Path) -> None:
        self.cluster, self.topic, self.name = cluster, topic, f"migrated-{secrets.token_hex(4)}"
        self._opened, self._folder = opened, folder

    def write(self, records: int, partitions: Collection[int] = range(PARTITIONS)) -> set[Place]:
        """Write this many records to each partition, and return their places."""
        told = self.cluster.produce(
            self.topic, [{"value": b"v", "partition": p} for p in partitions for _ in range(records)]
        )
        return {(p, offset) for p, offsets in told.items() for offset in offsets}

    def jvm(self, **properties: str) -> OldConsumer:
        """Start the old consumer of Kafka 1.1.1."""
        consumer = OldConsumer(self.cluster.zookeeper_connect, self.name, topics={self.topic: 1}, properties=properties)
        self._opened.callback(consumer.kill)
        return consumer.start()

    def read_by_jvm(self, jvm: OldConsumer, records: int) -> list[Place]:
        """Wait for this many records, and return those that the old consumer has read."""
        wait_for_records(jvm, records)
        return sorted((r.partition, r.offset) for r in jvm.records)

    def read_by_java(self, consumer: JavaConsumer, records: int) -> list[Place]:
        """Wait for this many records, and return those that the Java consumer has read."""
        wait_for_records(consumer, records)
        return sorted(consumer.records)

    def kafka_consumer(self, reset: str = "error") -> Consumer:
        """Return a subscribed consumer that Kafka coordinates; by default it fails without an offset."""
        config: dict[str, Any] = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": self.name}
        consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": reset})
        self._opened.callback(consumer.close)
        consumer.subscribe([self.topic])
        return consumer

    def java_consumer(self) -> JavaConsumer:
        """Return Kafka's Java consumer in a group that brokers coordinate; it fails without an offset."""
        properties = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": self.name}
        properties |= {"auto.offset.reset": "none", "enable.auto.commit": "false"}
        consumer = JavaConsumer(self.topic, properties, self._folder / "java-consumer.log")
        self._opened.callback(consumer.kill)
        return consumer

    def read_by(self, consumer: Consumer, records: int) -> list[Place]:
        """Return the next records that a consumer reads, and commit them."""
        found: list[Place] = []
        end = time.monotonic() + PATIENCE_S
        while len(found) < records and time.monotonic() < end:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                found.append((message.partition(), message.offset()))
        consumer.commit(asynchronous=False)
        return sorted(found)

    def has_committed(self) -> bool:
        """True once a consumer has committed an offset to ZooKeeper."""
        with self.cluster.zookeeper() as client:
            return client.exists(f"/consumers/{self.name}/offsets/{self.topic}/0") is not None

    def run(self, *arguments: str) -> Result:
        """Run ``zkafka groups migrate`` for this group."""
        where = ["--zookeeper", self.cluster.zookeeper_connect, "--json"]
        confirmed = [] if "--verify" in arguments else ["--yes"]
        return CliRunner().invoke(zkafka, ["groups", "migrate", self.name, *arguments, *confirmed, *where])

    def migrate(self, *arguments: str, status: int = 0) -> dict[int, str]:
        """Run a migration, check its exit status, and return the state of each partition."""
        result = self.run(*arguments)
        assert result.exit_code == status, result.stderr
        return {row["partition"]: row["state"] for row in json.loads(result.stdout)}


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path) -> Iterator[Group]:
    """A group without members, and its topic."""
    with ExitStack() as opened:
        yield Group(zkafka_cluster, new_topic(partitions=PARTITIONS), opened, tmp_path)


def test_from_zookeeper_to_kafka_and_back(group: Group) -> None:
    """During a migration to Kafka and back, with dual commits in between, each record is read by exactly one consumer."""
    first = group.write(40)
    jvm = group.jvm()
    assert group.read_by_jvm(jvm, len(first)) == sorted(first)
    jvm.stop()

    dual = group.jvm(**DUAL)
    second = group.write(30, [0, 1])
    assert group.read_by_jvm(dual, len(second)) == sorted(second)
    live = group.migrate("--live", "--interval", "0.3")
    assert live.keys() == {0, 1, 2}
    assert set(live.values()) <= {"copied", "equal"}
    refused = group.run()
    assert refused.exit_code == 1
    assert "[GROUP_ACTIVE]" in refused.stderr
    third = group.write(20)
    assert group.read_by_jvm(dual, len(second | third)) == sorted(second | third)
    dual.stop()

    group.migrate()
    assert group.migrate("--verify") == dict.fromkeys(range(PARTITIONS), "equal")
    fourth = group.write(10)
    consumer = group.kafka_consumer()
    assert group.read_by(consumer, len(fourth)) == sorted(fourth)
    assert group.migrate("--verify", status=1) == dict.fromkeys(range(PARTITIONS), "ahead")
    refused = group.run()
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 2
    assert "while consumers that Kafka coordinates are active" in refused.stderr
    consumer.close()

    assert group.migrate("--to", "zookeeper") == dict.fromkeys(range(PARTITIONS), "copied")
    fifth = group.write(10)
    again = group.jvm()
    assert group.read_by_jvm(again, len(fifth)) == sorted(fifth)


@pytest.mark.long
def test_java_consumers(group: Group) -> None:
    """During a migration to Kafka's Java consumer and back, each record is read by exactly one consumer."""
    first = group.write(20)
    dual = group.jvm(**DUAL)
    assert group.read_by_jvm(dual, len(first)) == sorted(first)
    eventually(group.has_committed)
    group.migrate("--live", "--interval", "0.3")
    dual.stop()
    group.migrate()
    assert group.migrate("--verify") == dict.fromkeys(range(PARTITIONS), "equal")

    second = group.write(10)
    consumer = group.java_consumer()
    assert group.read_by_java(consumer, len(second)) == sorted(second)
    refused = group.run()
    assert refused.exit_code == 1
    assert "while consumers that Kafka coordinates are active" in refused.stderr
    third = group.write(5)
    assert group.read_by_java(consumer, len(second | third)) == sorted(second | third)
    consumer.close()

    assert group.migrate("--to", "zookeeper") == dict.fromkeys(range(PARTITIONS), "copied")
    fourth = group.write(10)
    assert group.read_by_jvm(group.jvm(), len(fourth)) == sorted(fourth)


def test_live_until_the_members_have_left(group: Group, zkafka_cluster: LocalCluster) -> None:
    """A live migration follows a consumer that commits to ZooKeeper only, and copies its last offsets when it has left."""
    written, stopped, found = group.write(40), Event(), list[Result]()
    jvm = group.jvm(**{"auto.commit.interval.ms": "100"})
    eventually(group.has_committed)
    following = Thread(target=lambda: found.append(group.run("--live", "--interval", "0.5")))

    def write() -> None:
        while not stopped.wait(0.05):
            written.update(group.write(5))

    writing = Thread(target=write, daemon=True)
    for thread in (writing, following):
        thread.start()
    copied, first_partition = set[int](), [TopicPartition(group.topic, 0)]
    with KafkaGroupOffsets(group.cluster.bootstrap_servers, {}, group.name) as in_kafka:
        while len(copied) < 2 and following.is_alive():  # it copies more than once
            copied.update(in_kafka.committed(first_partition).values())
            time.sleep(0.1)
    jvm.stop()
    stopped.set()
    for thread in (writing, following):
        thread.join()
    assert found[0].exit_code == 0, found[0].stderr
    assert group.migrate("--verify") == dict.fromkeys(range(PARTITIONS), "equal")
    written |= group.write(10)
    with zkafka_cluster.zookeeper() as znodes:
        path = f"/consumers/{group.name}/offsets/{group.topic}"
        offsets = {p: int(znodes.get(f"{path}/{p}")[0]) for p in range(PARTITIONS)}
    unread = sorted((p, offset) for p, offset in written if offset >= offsets[p])
    assert group.read_by(group.kafka_consumer(), len(unread)) == unread


def test_live_from_kafka(group: Group) -> None:
    """A live migration to ZooKeeper copies the offsets of a running consumer in Kafka until both stores agree."""
    records = group.write(20)
    consumer = group.kafka_consumer(reset="earliest")
    group.read_by(consumer, len(records))
    refused = group.run("--to", "zookeeper")
    assert refused.exit_code == 1
    assert "[GROUP_ACTIVE]" in refused.stderr
    states = group.migrate("--to", "zookeeper", "--live", "--interval", "0.2")
    assert states == dict.fromkeys(range(PARTITIONS), "copied")


def test_never_backwards(group: Group, zkafka_cluster: LocalCluster) -> None:
    """A larger target offset stays, with exit status 1, unless --force is given; -1 and malformed data are not copied."""
    with zkafka_cluster.zookeeper() as znodes:
        path = f"/consumers/{group.name}/offsets/{group.topic}"
        group.write(10)
        for partition, data in enumerate([b"7", b"-1", b"7 "]):
            znodes.create(f"{path}/{partition}", data, makepath=True)
        assert group.migrate(status=1) == {0: "copied", 2: "failed"}
        znodes.set(f"{path}/0", b"5")
        znodes.set(f"{path}/2", b"5")
        assert group.migrate(status=1) == {0: "ahead", 2: "copied"}
        assert group.migrate("--verify", status=1) == {0: "ahead", 2: "equal"}
        assert group.migrate("--force") == {0: "copied", 2: "equal"}
        znodes.set(f"{path}/2", b"")
        assert group.migrate("--to", "zookeeper", status=1) == {0: "equal", 2: "failed"}
        assert group.migrate("--to", "zookeeper", "--force") == {0: "equal", 2: "copied"}
        assert znodes.get(f"{path}/2")[0] == b"5"


def test_a_topic_created_again(group: Group, zkafka_cluster: LocalCluster) -> None:
    """An offset older than its topic is copied only with --force; the offset of a deleted partition is skipped."""
    group.write(10)
    with zkafka_cluster.zookeeper() as znodes:
        for partition in range(PARTITIONS):
            znodes.create(f"/consumers/{group.name}/offsets/{group.topic}/{partition}", b"7", makepath=True)
        zkafka_cluster.delete_topic(group.topic)
        assert group.migrate() == dict.fromkeys(range(PARTITIONS), "skipped")
        zkafka_cluster.create_topic(group.topic, partitions=2)
        assert group.migrate(status=1) == {0: "failed", 1: "failed", 2: "skipped"}
        assert group.migrate("--force") == {0: "copied", 1: "copied", 2: "skipped"}


def test_name_that_zookeeper_does_not_allow(group: Group) -> None:
    """A group in Kafka with a slash in its name is reported and left out, and the others are compared."""
    group.write(5)
    for name in (group.name, f"{group.name}/x"):
        with KafkaGroupOffsets(group.cluster.bootstrap_servers, {}, name) as consumer:
            consumer.commit({TopicPartition(group.topic, 0): 4})
    where = ["--zookeeper", group.cluster.zookeeper_connect, "--json"]
    result = CliRunner().invoke(zkafka, ["groups", "migrate", "--all-groups", "--to", "zookeeper", "--verify", *where])
    left_out = next(
        line for line in result.stderr.splitlines() if line.startswith("Left out: ZooKeeper cannot have groups")
    )
    assert f"'{group.name}/x'" in left_out
    assert [row["state"] for row in json.loads(result.stdout) if row["group"] == group.name] == ["behind"]
