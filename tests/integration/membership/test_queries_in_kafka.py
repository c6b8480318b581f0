"""Queries and batch jobs as members of groups that Kafka coordinates, next to Java consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.testing import LocalCluster
from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.java_consumer import JavaConsumer
from tests.support.memberships import MemberGroup
from tests.support.stream import Stream
from tests.support.tiers import seldom

ASSIGNORS = {"cooperative-sticky": "CooperativeSticky", "range": "Range", "roundrobin": "RoundRobin"}
PARTITIONS = range(4)


@pytest.fixture
def new_group(kafka4: LocalCluster) -> Iterator[Callable[[str], MemberGroup]]:
    """Makes groups of a kind, each with its own topic."""
    made: list[MemberGroup] = []

    def make(kind: str) -> MemberGroup:
        topic = f"{kind}-{time.monotonic_ns()}"
        kafka4.create_topic(topic, partitions=len(PARTITIONS))
        made.append(MemberGroup(kafka4, kind, topic))
        return made[-1]

    yield make
    for group in made:
        group.close()


def java_properties(group: MemberGroup) -> dict[str, str]:
    """The properties of a Java consumer that joins the group."""
    shared = {
        "bootstrap.servers": group.cluster.bootstrap_servers,
        "group.id": group.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    if group.kind == "consumer":
        return {**shared, "group.protocol": "consumer"}
    assignor = f"org.apache.kafka.clients.consumer.{ASSIGNORS[group.kind]}Assignor"
    return {**shared, "partition.assignment.strategy": assignor, "heartbeat.interval.ms": "500"}


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("consumer", "4.3.1"),
        *seldom(("cooperative-sticky", "3.9.1"), ("range", "3.9.1"), ("roundrobin", "4.3.1")),
    ],
)
def test_beside_java(
    new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream], tmp_path: Path, kind: str, version: str
) -> None:
    """A query and a Java consumer share partitions and hand them over, without lost records or backward commits."""
    group = new_group(kind)
    query = stream(group.options(), connection={})
    query.begin(processingTime="100 milliseconds")
    java = JavaConsumer(group.topic, java_properties(group), tmp_path / "java.log", version)
    written = 0

    def missing() -> list[tuple[int, int]]:
        found = {(row.partition, row.offset) for row in query.rows} | set(java.records)
        return sorted({(partition, offset) for partition in PARTITIONS for offset in range(written)} - found)

    with closing(java):

        def both() -> bool:
            nonlocal written
            if not missing():  # no poll gets more than these 20 records
                fill(group.cluster, group.topic, 5, PARTITIONS)
                written += 5
            mine = {row.partition for row in query.batches[-1]} if query.batches else set()
            return len({partition for partition, _ in java.records[-10:]}) >= 2 and 0 < len(mine) <= 2

        eventually(both, timeout_s=60, poll_s=0.25)
    fill(group.cluster, group.topic, 5, PARTITIONS)
    written += 5
    eventually(lambda: not missing(), timeout_s=60, message=missing)
    query.stop()
    count = written * len(PARTITIONS)
    twice = len(query.rows) + len(java.records) - count
    assert twice <= 40, f"{twice} of {count} records were read twice"
    assert went_back(commit_history(group.cluster, group.name)) == {}


def test_repeated_micro_batch(new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream]) -> None:
    """A restart repeats an unfinished micro-batch exactly, although another member owns its partitions now."""
    group = new_group("cooperative-sticky")
    fill(group.cluster, group.topic, 5, PARTITIONS)
    query = stream(group.options(), connection={})

    def fail(frame: object, number: int) -> None:
        raise ValueError("the sink is full")

    query.in_batch = fail
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    member = group.member()
    assert member.wait_settled(30)
    fill(group.cluster, group.topic, 5, PARTITIONS)
    query.in_batch = lambda frame, number: None
    query.start()
    query.wait_until(lambda: len(query.batches) >= 2)
    first, again = ([(row.partition, row.offset) for row in batch] for batch in query.batches[:2])
    assert sorted(first) == sorted(again)


def test_reset_wins(new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream]) -> None:
    """An offset that was changed while the query was stopped takes precedence over its checkpoint."""
    group = new_group("cooperative-sticky")
    fill(group.cluster, group.topic, 10, PARTITIONS)
    query = stream(group.options(), connection={})
    query.run()
    query.run()
    with GroupAdmin(group.cluster.bootstrap_servers, {}) as admin:
        eventually(lambda: not admin.group_states([group.name])[group.name].is_active, timeout_s=30)
        assert admin.committed(group.name)[TopicPartition(group.topic, 0)] == 10
        assert admin.alter_offsets(group.name, {TopicPartition(group.topic, 0): 7}) == {}
    before = len(query.rows)
    query.run()
    assert [(row.partition, row.offset) for row in query.rows[before:]] == [(0, 7), (0, 8), (0, 9)]


def test_batch_job(new_group: Callable[[str], MemberGroup], spark: SparkSession) -> None:
    """A batch job plans its member's partitions and commits through the member; the next plan starts at the commit."""
    group = new_group("consumer")
    fill(group.cluster, group.topic, 3, PARTITIONS)
    options = {n: v for n, v in group.options().items() if n not in ("subscribe", "group.id")}
    with ConsumerGroup(None, group.name, subscribe=[group.topic], options=options) as member:
        batch = member.plan(spark)
        assert batch.load().count() == 12
        with pytest.raises(GroupError, match="COMMIT_BY_MEMBER"):
            _ = batch.commit_options
        batch.commit()
        assert member.plan(spark).load().count() == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["consumer", "cooperative-sticky"])
def test_available_now_beside_another(
    new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream], kind: str
) -> None:
    """An availableNow query waits for its share while another member works on it, and until that member has committed."""
    group = new_group(kind)
    fill(group.cluster, group.topic, 5, PARTITIONS)
    first = group.member(hold_ms=60_000)
    assert first.wait_settled(30)
    assert len(first.rebalance()) == 4
    query = stream(group.options(), connection={})
    query.start(availableNow=True)
    running = query.wait_until(lambda: not first.settled)
    assert not running.awaitTermination(10)
    kept = first.rebalance()
    assert len(kept) == 2
    assert not running.awaitTermination(5)  # the other member may be dead
    group.offsets(first).commit(dict.fromkeys(kept, 5), first.owner)
    assert running.awaitTermination(60)
    mine = set(PARTITIONS) - {tp.partition for tp in kept}
    assert {(row.partition, row.offset) for row in query.rows} == {(n, offset) for n in mine for offset in range(5)}


@pytest.mark.long
def test_once(new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream]) -> None:
    """Trigger.Once reads all available records in each run, although partitions are assigned only some seconds later."""
    group = new_group("cooperative-sticky")
    query = stream(group.options(), connection={})
    for run in range(1, 4):
        fill(group.cluster, group.topic, 5, PARTITIONS)
        query.run(once=True)
        assert len(query.rows) == 20 * run


@pytest.mark.long
@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
def test_partitions_added_while_a_static_member_restarts(
    new_group: Callable[[str], MemberGroup], stream: Callable[..., Stream], kind: str
) -> None:
    """An availableNow query reads partitions that were added while its static member was stopped.

    The coordinator assigns them to nobody until the member joins again.
    """
    group = new_group(kind)
    fill(group.cluster, group.topic, 5, PARTITIONS)
    options = group.options(group_instance_id="one", kafkaConsumer_pollTimeoutMs="3000", rebalance_hold_ms="1000")
    query = stream(options | {"session.timeout.ms": "30000"}, connection={})
    query.run()
    group.cluster.add_partitions(group.topic, 6)
    fill(group.cluster, group.topic, 5, range(6))
    query.run(timeout_s=150)
    assert {row.partition for row in query.rows} == set(range(6))


def test_inconsistent_strategy(new_group: Callable[[str], MemberGroup]) -> None:
    """A query whose strategy the group's members do not support fails within seconds, and the error says what to do."""
    group = new_group("range")
    assert group.member().wait_settled(30)
    options = {**group.options(), "partition.assignment.strategy": "roundrobin"}
    with (
        closing(StreamDriver(parse_stream(options))) as driver,
        pytest.raises(GroupError, match=r"INCONSISTENT_GROUP_PROTOCOL.*Set partition.assignment.strategy"),
    ):
        driver.latest(driver.initial(), limited=False)


def test_protocol_of_old_brokers(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """Brokers before 4.0, which do not support group.protocol=consumer, are recognised within seconds."""
    group = MemberGroup(zkafka_cluster, "consumer", new_topic())
    begin = time.monotonic()
    with (
        closing(StreamDriver(parse_stream(group.options()))) as driver,
        pytest.raises(GroupError, match=r"GROUP_PROTOCOL_UNSUPPORTED.*Set group.protocol=classic"),
    ):
        driver.latest(driver.initial(), limited=False)
    assert time.monotonic() - begin < 20


def test_members_in_zookeeper(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """A query does not join in Kafka while ZooKeeper has members of the group."""
    group = MemberGroup(zkafka_cluster, "zookeeper", new_topic())
    with closing(group):
        assert group.member().wait_settled(20)
        options = {**group.options(), "groupMembership": "kafka"}
        del options["rebalance.backoff.ms"]
        with (
            closing(StreamDriver(parse_stream(options))) as driver,
            pytest.raises(GroupError, match="MEMBERS_IN_ZOOKEEPER"),
        ):
            driver.latest(driver.initial(), limited=False)
