"""Batch reads while the cluster changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.errors import BrokersUnavailable, DataLoss, NoLeader
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.read.batch_planner import BatchPlan, plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Options = Callable[..., ReadOptions]
SLOW = {"kafka.max.partition.fetch.bytes": "50000", "kafka.queued.max.messages.kbytes": "1"}
"""Leaves most of a range on the brokers while the test checks its first batch."""
SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def read_plan(options: ReadOptions, plan: BatchPlan) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all splits of a plan, as tasks read them."""
    reader = ZKafkaReader(options, SCHEMA)
    for split in plan.splits:
        yield from reader.read(SplitPartition((split,), plan.bootstrap_servers))


def read_offsets(options: ReadOptions, plan: BatchPlan) -> list[int]:
    """Return the offsets that a plan reads, in order."""
    return [offset for batch in read_plan(options, plan) for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def options(zookeeper: dict[str, str]) -> Options:
    """Options of a read through ZooKeeper: ``options(topic, failOnDataLoss="false")``."""

    def parse(topic: str, **more: str) -> ReadOptions:
        return parse_read({**zookeeper, "subscribe": topic, "kafkaConsumer.pollTimeoutMs": "20000", **more})

    return parse


class TestRetention:
    """Records deleted between planning and reading, or during the read."""

    def test_fail(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """With failOnDataLoss, a task fails and names the deleted records."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        zkafka_cluster.delete_records(topic, {0: 40})
        with pytest.raises(DataLoss, match=rf"{topic}-0: records \[0, 40\) .* begins at 40"):
            read_offsets(options(topic), plan)

    def test_go_on(
        self,
        zkafka_cluster: LocalCluster,
        new_topic: NewTopic,
        options: Options,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Without failOnDataLoss, a task reads the remaining records and warns about the deleted ones."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        zkafka_cluster.delete_records(topic, {0: 40})
        with caplog.at_level(logging.WARNING, "pyspark_zkafka"):
            assert read_offsets(options(topic, failOnDataLoss="false"), plan) == list(range(40, 100))
        assert f"{topic}-0: records [0, 40)" in caplog.text

    def test_whole_range(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """Without failOnDataLoss, a range that is deleted completely is empty."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        fill(zkafka_cluster, topic, 100)
        zkafka_cluster.delete_records(topic, {0: 150})
        assert read_offsets(options(topic, failOnDataLoss="false"), plan) == []

    def test_overtaken(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """A reader overtaken by retention continues at the new start of the log and repeats no record."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 3000, size_bytes=10_000)  # more than one batch
        lenient = options(topic, failOnDataLoss="false", **SLOW)
        batches = read_plan(lenient, plan_batch(lenient))
        seen = next(batches).column("offset").to_pylist()
        assert len(seen) < 2500
        zkafka_cluster.delete_records(topic, {0: 2900})
        seen += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert seen == sorted(set(seen))
        assert seen[-100:] == list(range(2900, 3000))
        assert len(seen) < 3000


class TestReplacedTopic:
    """A topic that is deleted, or deleted and recreated, after planning."""

    @pytest.mark.parametrize("records", [500, *seldom(10, 100)])
    def test_created_again(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options, records: int) -> None:
        """A recreated topic is not read in place of the old one, whether it has fewer or more records."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        zkafka_cluster.delete_topic(topic)
        zkafka_cluster.create_topic(topic)
        fill(zkafka_cluster, topic, records)
        with pytest.raises(DataLoss, match=f"topic {topic} was created again"):
            read_offsets(options(topic), plan)
        assert read_offsets(options(topic, failOnDataLoss="false"), plan) == []

    def test_deleted(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """A deleted topic is reported as data loss, or reads as empty without failOnDataLoss."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        zkafka_cluster.delete_topic(topic)
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted"):
            read_offsets(options(topic), plan)
        assert read_offsets(options(topic, failOnDataLoss="false"), plan) == []


class TestBrokers:
    """Leaders that change, stop or do not answer."""

    @pytest.mark.long
    def test_leader_stops_after_planning(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """A split whose planned leader has stopped is read from the next leader."""
        topic = new_topic(replication=3)
        fill(zkafka_cluster, topic, 100)
        plan = plan_batch(options(topic))
        leader = plan.splits[0].leader
        zkafka_cluster.stop(leader)
        try:
            assert read_offsets(options(topic), plan) == list(range(100))
            assert plan_batch(options(topic)).splits[0].leader != leader
        finally:
            zkafka_cluster.restart(leader)

    def test_leader_killed_while_reading(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """Killing the leader during a read loses and repeats no record."""
        topic = new_topic(replication=3)
        fill(zkafka_cluster, topic, 3000, size_bytes=10_000)  # more than one batch
        patient = options(topic, **SLOW, **{"kafkaConsumer.pollTimeoutMs": "60000"})
        plan = plan_batch(patient)
        batches = read_plan(patient, plan)
        seen = next(batches).column("offset").to_pylist()
        assert len(seen) < 2500
        zkafka_cluster.kill(plan.splits[0].leader)
        try:
            seen += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        finally:
            zkafka_cluster.restart(plan.splits[0].leader)
        assert seen == list(range(3000))

    @pytest.mark.long
    def test_offline(
        self,
        zkafka_cluster: LocalCluster,
        new_topic: NewTopic,
        options: Options,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A partition without a leader fails the plan with its name and ISR, or is skipped with a warning."""
        topic = new_topic(assignment={0: [0], 1: [1]})
        fill(zkafka_cluster, topic, 1, (0, 1))
        zkafka_cluster.stop(1)
        try:
            with pytest.raises(NoLeader, match=rf"{topic}-1 \(ISR 1\)"):
                plan_batch(options(topic, **{"fetchOffset.numRetries": "0"}))
            with caplog.at_level(logging.WARNING, "pyspark_zkafka"):
                plan = plan_batch(options(topic, offlinePartitions="skip"))
            assert [s.partition.partition for s in plan.splits] == [0]
            assert f"{topic}-1" in caplog.text
        finally:
            zkafka_cluster.restart(1)

    def test_stuck(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
        """A broker that does not answer causes an error after the poll timeout, never an early end."""
        topic = new_topic(assignment={0: [2]})
        fill(zkafka_cluster, topic, 100)
        impatient = options(topic, **{"kafkaConsumer.pollTimeoutMs": "2000"})
        plan = plan_batch(impatient)
        zkafka_cluster.pause(2)
        try:
            begin = time.monotonic()
            with pytest.raises(
                BrokersUnavailable, match=rf"{topic}-0: no records from the brokers for 2000 ms at offset 0"
            ):
                read_offsets(impatient, plan)
            assert 2 <= time.monotonic() - begin < 20
        finally:
            zkafka_cluster.resume(2)


def test_silent_leader_while_planning(zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
    """A leader that does not answer an offset request fails the plan by name; its partition does not count as empty."""
    topic = new_topic(assignment={0: [0], 1: [1]})
    fill(zkafka_cluster, topic, 1, (0, 1))
    zkafka_cluster.pause(1)
    try:
        with pytest.raises(BrokersUnavailable, match=f"{topic}-1"):
            plan_batch(options(topic, **{"fetchOffset.numRetries": "0", "kafka.request.timeout.ms": "3000"}))
    finally:
        zkafka_cluster.resume(1)
    zkafka_cluster.wait_for_leader(topic, 1)
    assert len(plan_batch(options(topic)).splits) == 2


@pytest.mark.long
def test_silent_leader_of_one_log(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Partitions of a silent leader fail, and all others return their offsets."""
    topic = new_topic(assignment={0: [0], 1: [1]})
    fill(zkafka_cluster, topic, 1, (0, 1))
    silent = TopicPartition(topic, 1)
    with KafkaAdmin(zkafka_cluster.bootstrap_servers, {}) as client:
        ends = {TopicPartition(topic, p): LATEST for p in (0, 1)}
        assert client.list_offsets(ends) == dict.fromkeys(ends, 1)
        zkafka_cluster.pause(1)
        try:
            found, failed = client.list_offsets_each(ends, 8)
        finally:
            zkafka_cluster.resume(1)
        assert found == {TopicPartition(topic, 0): 1}
        # NoLeader if the broker's ZooKeeper session expires meanwhile.
        assert isinstance(failed[silent], BrokersUnavailable | NoLeader)
        eventually(lambda: client.list_offsets_each(ends)[0] == dict.fromkeys(ends, 1), timeout_s=60)


def test_compaction(zkafka_cluster: LocalCluster, new_topic: NewTopic, options: Options) -> None:
    """Offset gaps left by compaction are not data loss."""
    compacting = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "500",
    }
    topic = new_topic(config=compacting)
    produced: list[int] = []

    def with_gaps() -> list[int] | None:
        records = [{"key": b"%d" % (n % 5), "value": b"v"} for n in range(50)]
        produced.extend(zkafka_cluster.produce(topic, records)[0])
        found = read_offsets(options(topic), plan_batch(options(topic)))
        return found if len(found) < len(produced) else None

    found = eventually(with_gaps, timeout_s=60, poll_s=0.5)
    assert len(found) >= 5
    assert found == sorted(set(found))


@pytest.mark.long
def test_retries(
    zkafka_cluster: LocalCluster,
    new_topic: NewTopic,
    options: Options,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Planning retries a failed request with the count and the interval of its options."""
    topic = new_topic(assignment={0: [1]})
    fill(zkafka_cluster, topic, 100)
    zkafka_cluster.pause(1)
    pauses: list[float] = []

    def resume(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            zkafka_cluster.resume(1)
            zkafka_cluster.wait_ready()  # a resumed broker may take a while to answer
            zkafka_cluster.wait_for_leader(topic, 0)

    quick = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "70", "kafka.request.timeout.ms": "3000"}
    try:
        plan = plan_batch(options(topic, **quick), sleep=resume)
    finally:
        zkafka_cluster.resume(1)
    assert [s.size for s in plan.splits] == [100]
    assert pauses == [0.07, 0.07]
    assert "Attempt 2 of 3 failed" in caplog.text
