"""Invalid topic names on real servers, with both transports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from pyspark_zkafka.cluster import open_cluster
from pyspark_zkafka.options.batch import parse_connection, parse_write
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.rows import write_rows
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.chroot import Chroot

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]

OLD_NAME = "x" * 255
"""The maximal length that Kafka before 0.10 allowed."""


@pytest.mark.parametrize(
    ("path", "bad"),
    [("direct", r"concat(good, '\u0000x')"), ("direct", "cast(x'61ff' as string)"), ("librdkafka", "'a/b'")],
)
def test_rows_for_a_topic_that_cannot_be(
    spark: SparkSession, zookeeper: dict[str, str], read: Read, new_topic: NewTopic, path: str, bad: str
) -> None:
    """A row with an invalid topic name fails the write before its batch is sent, and no other topic gets rows of it."""
    topic = new_topic()
    rows = spark.range(0, 2, 1, 1).selectExpr("id", f"'{topic}' as good")
    frame = rows.selectExpr(f"if(id = 0, good, {bad}) as topic", "'v' as value")
    writer = frame.write.format("zkafka").options(**zookeeper, transport=path).mode("append")
    with pytest.raises(Exception, match=r"\[INVALID_TOPIC\] The column topic is '"):
        writer.save()
    assert read({"subscribe": topic}).collect() == []


def test_znodes_that_are_no_topics(chroot: Chroot) -> None:
    """A znode next to the topics, with a name that no version of Kafka allows, is not a topic."""
    for name in ("t", "two words", OLD_NAME, "x" * 300):
        chroot.topic(name, 1)
    with ZooKeeperClient(chroot.config) as client:
        assert client.topic_names() == ["t", OLD_NAME]
        assert list(client.snapshot().topics) == ["t", OLD_NAME]
        assert list(client.snapshot([OLD_NAME]).topics) == [OLD_NAME]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A broker with the topic ``t`` and an invalid one, ``two words``, in its metadata."""
    with LocalCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        [leader] = cluster.assignment("t")[0]
        with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            client = KazooClient(cluster.zookeeper_connect)
            client.start()
            data = {"version": 1, "partitions": {"0": [leader]}}
            client.create("/brokers/topics/two words", json.dumps(data).encode())
            client.stop()
            client.close()
            eventually(lambda: "two words" in admin.list_topics(timeout=10).topics, timeout_s=60)
        yield cluster


@pytest.fixture(params=["zookeeper", "bootstrap"])
def reached(request: pytest.FixtureRequest, cluster: LocalCluster) -> dict[str, str]:
    """Options that reach the cluster."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": cluster.zookeeper_connect}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers}


@pytest.mark.long
class TestTopicOfAnotherName:
    """A znode with an invalid name next to the topics, which the brokers serve as a topic."""

    def test_it_is_not_listed(self, reached: dict[str, str]) -> None:
        """An invalid name is listed neither from ZooKeeper nor from brokers, so that no pattern matches it."""
        with open_cluster(parse_connection(reached)) as source:
            assert source.topic_names() == ["t"]
            assert list(source.snapshot().topics) == ["t"]

    def test_others_are_written(self, reached: dict[str, str]) -> None:
        """An invalid topic does not prevent a write to another topic."""
        options = parse_write(reached)
        batch = pa.record_batch([pa.array(["t"]), pa.array([b"v"])], ["topic", "value"])
        assert write_rows(options, plan_write(options), iter([batch])).rows == 1
