"""Logs that an unclean election truncated and that have grown again since."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.read.batch_planner import BatchPlan, plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.records.direct.settings import settings_of
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

MakeTopic = Callable[..., str]
SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
UNCLEAN = {"unclean.leader.election.enable": "true"}
SIZE_BYTES = 10_000
SLOW = {"kafka.max.partition.fetch.bytes": "50000", "kafka.queued.max.messages.kbytes": "1"}
"""Leaves most of a range on the brokers while the test checks its first batch."""

pytestmark = pytest.mark.usefixtures("all_brokers")


class Reading:
    """A read in progress, and its records so far as pairs of offset and value without padding."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.seen: list[tuple[int, bytes]] = []

    def first(self) -> None:
        """Read one batch."""
        self._add(next(self._batches))

    def rest(self) -> None:
        """Read to the end of the range."""
        for batch in self._batches:
            self._add(batch)

    def _add(self, batch: pa.RecordBatch) -> None:
        self.seen += [(row["offset"], row["value"].rstrip(b".")) for row in batch.to_pylist()]


def read_by_fetch_11(options: ReadOptions, plan: BatchPlan) -> Iterator[pa.RecordBatch]:
    """Read directly as from brokers before 2.7, whose Fetch does not report truncation."""
    properties = consumer_properties(options.connection, plan.bootstrap_servers, options.client_group)
    policy = ReadPolicy.of(options)
    (split,) = plan.splits
    with (
        DirectClient(settings_of(properties)) as client,
        DirectConsumer(client, split, SCHEMA) as consumer,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(consumer._fetcher, "_fetch_version", lambda connection: connection.version(FETCH, 11))
        yield from SplitReader(split, consumer, policy, lambda: "same").batches()


@pytest.mark.long
def test_cut_off_below_a_reader(
    zkafka_cluster: LocalCluster, new_topic: MakeTopic, zookeeper: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A log truncated below a task's position that has since grown past it is data loss on every transport."""
    topic = new_topic(assignment={0: [0, 1]}, config=UNCLEAN)
    fill(zkafka_cluster, topic, [b"kept"] * 10, size_bytes=SIZE_BYTES)
    zkafka_cluster.wait_in_sync(topic)
    zkafka_cluster.stop(1)
    fill(zkafka_cluster, topic, [b"lost"] * 2990, size_bytes=SIZE_BYTES)

    def begin(by_fetch_11: bool = False, **more: str) -> Reading:
        options = {**zookeeper, "subscribe": topic, **SLOW, "kafkaConsumer.pollTimeoutMs": "60000", **more}
        parsed = parse_read(options)
        plan = plan_batch(parsed)
        whole = SplitPartition(plan.splits, plan.bootstrap_servers)
        reading = Reading(read_by_fetch_11(parsed, plan) if by_fetch_11 else iter(ZKafkaReader(parsed, SCHEMA).read(whole)))
        reading.first()
        assert 10 < len(reading.seen) < 2500
        return reading

    strict = [begin(transport=name) for name in ("direct", "librdkafka")]
    strict.append(begin(by_fetch_11=True))
    lenient = [begin(transport=name, failOnDataLoss="false") for name in ("direct", "librdkafka")]
    lenient.append(begin(by_fetch_11=True, failOnDataLoss="false"))
    zkafka_cluster.stop(0)
    zkafka_cluster.restart(1)
    assert zkafka_cluster.wait_for_leader(topic, 0) == 1
    fill(zkafka_cluster, topic, [b"new"] * 2990, size_bytes=SIZE_BYTES)
    for reading in strict:
        with pytest.raises(DataLoss, match=rf"\[DATA_LOSS\] {topic}-0: .* truncated below offset \d+, .* has grown again"):
            reading.rest()
        assert {value for _, value in reading.seen} == {b"kept", b"lost"}
    with caplog.at_level(logging.WARNING, "pyspark_zkafka"):
        for reading in lenient:
            caplog.clear()
            reading.rest()
            assert [offset for offset, _ in reading.seen] == list(range(3000))
            assert reading.seen[-1] == (2999, b"new")
            assert "was truncated below offset" in caplog.text


@pytest.mark.parametrize("connection", ["zookeeper", *seldom("bootstrap")], indirect=True)
def test_cut_off_between_micro_batches(
    stream: Callable[..., Any], zkafka_cluster: LocalCluster, new_topic: MakeTopic, connection: dict[str, str]
) -> None:
    """A log truncated below a stream's position that grew past it before the next planning is data loss."""
    topic = new_topic(assignment={0: [0, 1]}, config=UNCLEAN)
    fill(zkafka_cluster, topic, [b"kept"] * 10, size_bytes=SIZE_BYTES)
    zkafka_cluster.wait_in_sync(topic)
    zkafka_cluster.stop(1)
    fill(zkafka_cluster, topic, [b"lost"] * 10, size_bytes=SIZE_BYTES)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    strict = stream(options, connection, "strict")
    lenient = stream({**options, "failOnDataLoss": "false"}, connection, "lenient")
    regrown = threading.Event()
    for one in (strict, lenient):
        one.in_batch = lambda frame, number: regrown.wait(120)
    for one in (strict, lenient):
        one.start()
    for one in (strict, lenient):
        one.wait_for(20)
    zkafka_cluster.stop(0)
    zkafka_cluster.restart(1)
    assert zkafka_cluster.wait_for_leader(topic, 0) == 1
    fill(zkafka_cluster, topic, [b"new"] * 30, size_bytes=SIZE_BYTES)
    regrown.set()
    error = strict.wait_for_error()
    assert isinstance(error, StreamingQueryException)
    assert f"[OFFSET_WENT_BACK] {topic}-0: the log was truncated below offset 20" in str(error)
    lenient.wait_for(40)
    assert [(r.offset, r.value.rstrip(b".")) for r in lenient.rows[20:]] == [(n, b"new") for n in range(20, 40)]
    assert len(strict.rows) == 20


def test_clean_election(zkafka_cluster: LocalCluster, new_topic: MakeTopic, planner: Callable[..., StreamDriver]) -> None:
    """A new leader that has all records, and more, is no truncation: a stream continues where it was."""
    topic = new_topic(partitions=2, assignment={0: [0, 1], 1: [0, 1]})
    fill(zkafka_cluster, topic, 10)
    zkafka_cluster.wait_in_sync(topic)
    driver = planner({"subscribe": topic, "startingOffsets": "earliest"})
    first = driver.latest(driver.initial(), limited=True)
    zkafka_cluster.stop(0)
    zkafka_cluster.wait_for_leader(topic, 0, not_broker=0)
    fill(zkafka_cluster, topic, 10)
    found = eventually(lambda: second if (second := driver.latest(first, limited=True)) != first else None, 60)
    assert found["topics"][topic]["partitions"] == {"0": [10, 20], "1": [0, 0]}
