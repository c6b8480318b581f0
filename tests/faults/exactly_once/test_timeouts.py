"""Transactions that time out and transactional ids that expire, on a broker that drops both within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pyspark_zkafka.errors import TransactionFailed
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import IN_TRANSACTION, SlotQuery, once, rows
from tests.support.transactions import wait_until_forgotten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

IMPATIENT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "transaction.max.timeout.ms": "300000",
}
WHOLE = range(15_000)


@pytest.fixture(scope="module")
def zkafka_cluster() -> Iterator[LocalCluster]:
    """A broker that expires transactional ids after three seconds."""
    with LocalCluster(brokers=1, broker_config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture
def options(zookeeper: dict[str, str], new_topic: Callable[..., str]) -> dict[str, str]:
    """Options of a write to a new topic."""
    return {**zookeeper, "topic": new_topic(partitions=2)}


def slowly(batches: Iterator[pa.RecordBatch], pause: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and pause once the transaction has begun."""
    for number, batch in enumerate(batches, 1):
        yield batch
        if number == IN_TRANSACTION:
            pause()


def wait_until_aborted(cluster: LocalCluster, topic: str) -> None:
    """Wait until rows are in the log and their transaction has been aborted."""
    eventually(lambda: numbers(cluster.bootstrap_servers, topic, committed=False))
    assert not numbers(cluster.bootstrap_servers, topic)


def test_slow_task(zkafka_cluster: LocalCluster, options: dict[str, str]) -> None:
    """A task slower than the transaction timeout fails, names the option and commits nothing; a restart completes."""
    timeout = {"kafka.transaction.timeout.ms": "2000"}
    query, topic = SlotQuery({**options, **timeout}), options["topic"]
    match = (
        r"\[FENCED\] .*brokers abort one after 2000 ms; write less in each task, or raise kafka\.transaction\.timeout\.ms"
    )
    with pytest.raises(TransactionFailed, match=match):
        query.write(0, slowly(rows(WHOLE), lambda: wait_until_aborted(zkafka_cluster, topic)))
    assert not numbers(zkafka_cluster.bootstrap_servers, topic)
    assert numbers(zkafka_cluster.bootstrap_servers, topic, committed=False)
    patient = SlotQuery({**options, "kafka.transaction.timeout.ms": "60000"}, query.query)
    patient.write(0, slowly(rows(WHOLE), lambda: time.sleep(3)), run="run-2")
    assert numbers(zkafka_cluster.bootstrap_servers, topic) == once(WHOLE)


def test_pause_longer_than_an_id_lives(zkafka_cluster: LocalCluster, options: dict[str, str]) -> None:
    """A query continues after a pause during which the brokers forgot its transactional ids."""
    query, servers = SlotQuery(options), zkafka_cluster.bootstrap_servers
    control = Producer({"bootstrap.servers": servers, "transactional.id": query.query})
    control.init_transactions(30)
    for batch in range(2):
        query.write(batch, rows(range(100 * batch, 100 * batch + 100)))
        wait_until_forgotten(zkafka_cluster, query.transactional_id(), times=batch + 1)
    control.begin_transaction()
    control.produce(options["topic"], b"-1 ")
    with pytest.raises(KafkaException) as forgotten:
        control.commit_transaction(30)
    assert forgotten.value.args[0].code() == KafkaError.INVALID_PRODUCER_ID_MAPPING
    assert query.write(2, rows(range(200, 300))).rows == 100
    assert query.write(2, rows(range(200, 300)), run="run-2").repeated == 100
    assert numbers(servers, options["topic"]) == once(range(300))


def test_timeout_that_brokers_do_not_allow(
    spark: SparkSession, zkafka_cluster: LocalCluster, options: dict[str, str], tmp_path: Path
) -> None:
    """The plan refuses a timeout above the brokers' maximum before any task has run."""

    def noting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (tmp_path / "begun").touch()
        yield from batches

    frame = spark.range(10).selectExpr("cast(id AS string) AS value").mapInArrow(noting, "value string")
    named = {"deliveryGuarantee": "exactly-once", "writerName": options["topic"], "batchId": 0}
    write = frame.write.format("zkafka").mode("append").options(**options, **named)
    with pytest.raises(Exception, match=r"\[TRANSACTION_TIMEOUT\] kafka\.transaction\.timeout\.ms is 300001.* 300000 "):
        write.option("kafka.transaction.timeout.ms", "300001").save()
    assert not (tmp_path / "begun").exists()
    write.option("kafka.transaction.timeout.ms", "300000").save()
    assert (tmp_path / "begun").exists()
    assert numbers(zkafka_cluster.bootstrap_servers, options["topic"]) == once(range(10))
