"""Reads, writes and streams on librdkafka's mock brokers, without Java servers, and the limits of mock brokers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import MockCluster
from tests.support.stream import run_to_end
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def record(number: int) -> dict[str, Any]:
    """Return a numbered record with a partition, a header and a time."""
    text = b"%d" % number
    return {
        "key": b"k" + text, "value": b"v" + text, "partition": number % 2, "headers": [("n", text)],
        "timestamp": 1_700_000_000_000 + number,
    }  # fmt: skip


@pytest.fixture(params=["direct", *seldom("librdkafka")])
def options(request: pytest.FixtureRequest, zkafka_mock_cluster: MockCluster) -> dict[str, str]:
    """Options for the mock brokers, with each transport."""
    return {"kafka.bootstrap.servers": zkafka_mock_cluster.bootstrap_servers, "transport": request.param}


@pytest.fixture
def orders(zkafka_mock_cluster: MockCluster) -> str:
    """A topic of two partitions with ten records."""
    zkafka_mock_cluster.create_topic("orders", partitions=2)
    assert zkafka_mock_cluster.produce("orders", map(record, range(10))) == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}
    return "orders"


def values(spark: SparkSession, options: dict[str, str], topic: str) -> list[bytes]:
    rows = spark.read.format("zkafka").options(**options, subscribe=topic).load().select("value").collect()
    return sorted(bytes(row.value) for row in rows)


def test_batch(spark: SparkSession, options: dict[str, str], orders: str) -> None:
    """A read returns keys, values, headers and times, and can be limited to a range of offsets."""
    reader = spark.read.format("zkafka").options(**options, subscribe=orders, includeHeaders="true")
    rows = reader.load().orderBy("partition", "offset").collect()
    found = [
        (bytes(r.key), bytes(r.value), r.partition, r.offset, [(h.key, bytes(h.value)) for h in r.headers]) for r in rows
    ]
    expected = [(b"k%d" % n, b"v%d" % n, n % 2, n // 2, [("n", b"%d" % n)]) for n in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)]
    assert found == expected
    assert rows[0].timestamp.timestamp() == 1_700_000_000
    part = reader.option("startingOffsets", '{"orders": {"0": 3, "1": 5}}').load()
    assert [bytes(row.value) for row in part.orderBy("offset").collect()] == [b"v6", b"v8"]


def test_write(spark: SparkSession, options: dict[str, str]) -> None:
    """A write creates its topic, and every row arrives."""
    frame = spark.range(20).selectExpr("cast(id as string) as key", "concat('v', id) as value")
    frame.write.format("zkafka").options(**options, topic="written").mode("append").save()
    assert values(spark, options, "written") == sorted(b"v%d" % n for n in range(20))


@pytest.mark.long
def test_stream(
    spark: SparkSession, options: dict[str, str], orders: str, zkafka_mock_cluster: MockCluster, tmp_path: Path
) -> None:
    """A stream copies a topic, and resumes from its checkpoint."""
    for records in (10, 11):
        stream = spark.readStream.format("zkafka").options(**options, subscribe=orders, startingOffsets="earliest").load()
        writer = stream.writeStream.format("zkafka").options(**options, topic="copy", checkpointLocation=str(tmp_path))
        run_to_end(writer.trigger(availableNow=True).start, timeout_s=120)
        assert values(spark, options, "copy") == sorted(b"v%d" % n for n in range(records))
        zkafka_mock_cluster.produce(orders, [record(10)])


def test_what_mock_brokers_lack(spark: SparkSession, zkafka_mock_cluster: MockCluster, orders: str) -> None:
    """Starts by time and exactly-once writes fail on mock brokers, with errors that name the cause."""
    servers = {"kafka.bootstrap.servers": zkafka_mock_cluster.bootstrap_servers}
    with pytest.raises(Exception, match="NO_OFFSET_FOR_TIMESTAMP"):
        spark.read.format("zkafka").options(**servers, subscribe=orders, startingTimestamp="1700000000000").load().collect()
    once = {"deliveryGuarantee": "exactly-once", "writerName": "w", "batchId": "0", "topic": orders}
    with pytest.raises(Exception, match=r"listing the groups of broker .* brokers coordinate groups from Kafka 0\.9 on"):
        spark.range(1).selectExpr("'x' as value").write.format("zkafka").options(**servers, **once).mode("append").save()


def test_topics(zkafka_mock_cluster: MockCluster) -> None:
    """A topic can be created once; clients that request an unknown topic get one with four partitions."""
    zkafka_mock_cluster.create_topic("three", partitions=3)
    with pytest.raises(LocalClusterError, match=r"create topic 'three': .*already exists"):
        zkafka_mock_cluster.create_topic("three")
    records = [{"value": b"x", "partition": 3}]
    assert zkafka_mock_cluster.produce("asked-for", records) == {3: [0]}


def test_other_processes(zkafka_mock_cluster: MockCluster, orders: str) -> None:
    """Another process reaches the brokers, and sees the same topics."""
    program = (
        "import sys; from confluent_kafka.admin import AdminClient; "
        "print(*AdminClient({'bootstrap.servers': sys.argv[1]}).list_topics(timeout=20).topics)"
    )
    command = [sys.executable, "-c", program, zkafka_mock_cluster.bootstrap_servers]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split() == [orders]


def test_outside_of_the_block() -> None:
    """A cluster that is not running raises an error, and can be started again after it was closed."""
    cluster = MockCluster(brokers=2)
    for _ in range(2):
        with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
            cluster.create_topic("t")
        with cluster:
            assert len(cluster.bootstrap_servers.split(",")) == 2
