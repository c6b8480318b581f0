"""Reads with read_committed of logs with an open transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.errors import ClusterStateError, DataLoss
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import BatchPlan, plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.fill import fill
from tests.support.tiers import seldom
from tests.support.transactions import transaction as open_transaction
from tests.support.transactions import wait_for_marker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

COMMITTED = {"kafka.isolation.level": "read_committed"}
LENIENT = {"failOnDataLoss": "false"}
SCHEMA = pa.schema([("offset", pa.int64())])


class OpenTransaction:
    """A topic of one partition: offsets 0 to 4 are stable, 5 to 9 belong to a transaction, and 10 becomes its marker."""

    def __init__(self, cluster: LocalCluster, topic: str, producer: Producer) -> None:
        self.topic = topic
        self.is_open = True
        self._cluster = cluster
        self._producer = producer

    def commit(self) -> None:
        """Commit the transaction. Returns once its marker is in the log."""
        self.is_open = False
        self._producer.commit_transaction(30)
        wait_for_marker(self._cluster, self.topic)

    def abort(self) -> None:
        """Abort the transaction if it is still open."""
        if self.is_open:
            self._producer.abort_transaction(30)

    def set_committed(self, offset: int) -> dict[str, str]:
        """Store an offset, as a JVM member that reads uncommitted would, and return the options of its group."""
        with self._cluster.zookeeper() as client:
            path = f"{self._path}/{self.topic}/0"
            client.ensure_path(path)
            client.set(path, b"%d" % offset)
        return {"subscribe": self.topic, "group.id": f"g-{self.topic}", **COMMITTED}

    @property
    def committed(self) -> int:
        """Return the group's offset in ZooKeeper."""
        with self._cluster.zookeeper() as client:
            return int(client.get(f"{self._path}/{self.topic}/0")[0])

    @property
    def _path(self) -> str:
        return f"/consumers/g-{self.topic}/offsets"


@pytest.fixture
def transaction(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[OpenTransaction]:
    topic = new_topic()
    fill(zkafka_cluster, topic, 5)
    with open_transaction(zkafka_cluster, topic, *[b"open"] * 5) as producer:
        made = OpenTransaction(zkafka_cluster, topic, producer)
        yield made
        made.abort()


@pytest.fixture
def plan(zookeeper: dict[str, str]) -> Callable[..., tuple[dict[str, str], BatchPlan]]:
    """Plans a batch with ``plan({"subscribe": topic})``; returns all its options and the plan."""

    def make(options: dict[str, str]) -> tuple[dict[str, str], BatchPlan]:
        whole = {**zookeeper, **options}
        return whole, plan_batch(parse_read(whole))

    return make


def read(options: dict[str, str], found: BatchPlan) -> list[int]:
    """Return the offsets that the tasks of a plan read."""
    reader = ZKafkaReader(parse_read(options), SCHEMA)
    batches = (b for s in found.splits for b in reader.read(SplitPartition((s,), found.bootstrap_servers)))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


class TestBatch:
    """Batches that start or end within an open transaction."""

    @pytest.mark.parametrize("more", [{}, LENIENT])
    def test_committed(self, transaction: OpenTransaction, plan: Callable[..., Any], more: dict[str, str]) -> None:
        """A committed offset within an open transaction is not data loss: the batch is empty until the transaction ends."""
        options = {**transaction.set_committed(8), "startingOffsets": "committed", **more}
        assert plan(options)[1].splits == ()
        transaction.commit()
        assert read(*plan(options)) == [8, 9]

    def test_explicit_start(self, transaction: OpenTransaction, plan: Callable[..., Any]) -> None:
        """A batch with an explicit start within an open transaction is empty until the transaction ends."""
        options = {"subscribe": transaction.topic, "startingOffsets": f'{{"{transaction.topic}": {{"0": 8}}}}', **COMMITTED}
        assert plan(options)[1].splits == ()
        transaction.commit()
        assert read(*plan(options)) == [8, 9]

    def test_outside(self, transaction: OpenTransaction, plan: Callable[..., Any]) -> None:
        """An offset beyond the end of the log, open transaction included, is out of range."""
        options = {**transaction.set_committed(11), "startingOffsets": "committed"}
        with pytest.raises(DataLoss, match=r"\[OFFSET_OUT_OF_RANGE\] .* starting offset 11 .* spans \[0, 10\)"):
            plan(options)

    @pytest.mark.parametrize(
        ("path", "start"),
        [("direct", 3), ("direct", 7), ("librdkafka", 7)],
    )
    def test_explicit_end(self, transaction: OpenTransaction, plan: Callable[..., Any], start: int, path: str) -> None:
        """A range that ends within an open transaction is read completely when the transaction has ended."""
        ends = {"startingOffsets": f'{{"{transaction.topic}": {{"0": {start}}}}}'}
        ends["endingOffsets"] = f'{{"{transaction.topic}": {{"0": 9}}}}'
        options, found = plan({"subscribe": transaction.topic, **ends, **COMMITTED, "transport": path})
        transaction.commit()
        assert read(options, found) == list(range(start, 9))

    @pytest.mark.parametrize(
        ("path", "start", "more"),
        [
            ("direct", 3, {}),
            *seldom(("direct", 7, LENIENT), ("librdkafka", 3, LENIENT), ("librdkafka", 7, {})),
        ],
    )
    def test_it_stays_open(
        self, transaction: OpenTransaction, plan: Callable[..., Any], start: int, path: str, more: dict[str, str]
    ) -> None:
        """A transaction that stays open for the poll time-out fails the range with TRANSACTION_OPEN, not as data loss."""
        ends = {"startingOffsets": f'{{"{transaction.topic}": {{"0": {start}}}}}'}
        ends["endingOffsets"] = f'{{"{transaction.topic}": {{"0": 9}}}}'
        patience = {"kafkaConsumer.pollTimeoutMs": "3000"}
        options, found = plan({"subscribe": transaction.topic, **ends, **COMMITTED, "transport": path, **patience, **more})
        with pytest.raises(
            ClusterStateError, match=rf"\[TRANSACTION_OPEN\] {transaction.topic}-0: .* \[{max(start, 5)}, 9\)"
        ):
            read(options, found)


class TestStream:
    """Streams with a position beyond the last stable offset."""

    @pytest.mark.parametrize("more", [{}, *seldom(LENIENT)])
    def test_group(self, stream: Callable[..., Any], transaction: OpenTransaction, more: dict[str, str]) -> None:
        """A group's offset within an open transaction is kept, and the stream continues there when the transaction ends."""
        found = stream({**transaction.set_committed(8), **more})
        found.run()
        found.run()
        assert found.offsets() == []
        assert transaction.committed == 8
        transaction.commit()
        found.run()
        assert found.offsets() == [8, 9]
        assert transaction.committed == 11

    @pytest.mark.long
    def test_restart(self, stream: Callable[..., Any], transaction: OpenTransaction) -> None:
        """A stream that read uncommitted and restarts with read_committed reads no record twice."""
        found = stream({"subscribe": transaction.topic, "startingOffsets": "earliest"})
        found.run()
        found.options.update(COMMITTED)
        found.run()
        assert found.offsets() == list(range(10))
        transaction.commit()
        found.run()
        assert found.offsets() == list(range(10))

    def test_planning_does_not_wait(self, transaction: OpenTransaction, new_driver: Callable[..., StreamDriver]) -> None:
        """A micro-batch is planned without waiting, and the reported end of the log is not below the position."""
        slept: list[float] = []
        planner = new_driver(transaction.set_committed(8), sleep=slept.append)
        start = planner.initial()
        assert planner.latest(start, limited=True) == start
        assert planner.report() == {transaction.topic: {"0": 8}}
        assert slept == []

    @pytest.mark.long
    def test_outside(self, stream: Callable[..., Any], transaction: OpenTransaction) -> None:
        """A position beyond all records of the log is out of range."""
        with pytest.raises(Exception, match=r"\[OFFSET_OUT_OF_RANGE\] .* starting offset 11 .* spans \[0, 10\)"):
            stream(transaction.set_committed(11)).run()


def test_batch_of_a_group(spark: SparkSession, zkafka_cluster: LocalCluster, transaction: OpenTransaction) -> None:
    """A member's batch is empty while its group's offset is beyond the last stable offset."""
    transaction.set_committed(8)
    topic = transaction.topic
    with ConsumerGroup(zkafka_cluster.zookeeper_connect, f"g-{topic}", subscribe=[topic], options=COMMITTED) as member:
        assert [(r.start, r.until) for r in member.plan(spark).ranges] == [(8, 8)]
        transaction.commit()
        assert [(r.start, r.until) for r in member.plan(spark).ranges] == [(8, 11)]
