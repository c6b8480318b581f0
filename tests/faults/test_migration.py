"""Streams and batches through ZooKeeper while the cluster is migrated to KRaft."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.tools import app as zkafka
from tests.support.eventually import eventually
from tests.support.migration import MigratingCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.stream import Stream

PARTITIONS = range(2)
EARLIEST = {"subscribe": "t", "startingOffsets": "earliest"}
SESSION = {"zookeeper.session.timeout.ms": "30000"}
PATIENT_BROKERS = {**SESSION, "broker.session.timeout.ms": "30000"}
PAUSE = "300 milliseconds"
"""Pause between micro-batches: queries that plan all the time starve the servers that are starting."""


@pytest.fixture
def cluster() -> Iterator[MigratingCluster]:
    """A cluster with ZooKeeper and a topic; its long session timeouts let brokers keep their sessions on a busy machine."""
    with MigratingCluster(brokers=2, broker_config=PATIENT_BROKERS) as started:
        started.create_topic("t", partitions=len(PARTITIONS), replication=2)
        yield started


def read(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return a batch frame of all records."""
    return spark.read.format("zkafka").options(**options).load()


def check_described(cluster: MigratingCluster) -> None:
    """Check that the group is described from what ZooKeeper kept, with a note, and with lags only if brokers are named."""
    left = "All brokers have left ZooKeeper for KRaft"
    for more, has_lag in (["--bootstrap-server", cluster.bootstrap_servers], True), ([], False):
        command = ["groups", "describe", "g", "--json", "--zookeeper", cluster.zookeeper_connect, *more]
        found = CliRunner().invoke(zkafka, command)
        assert found.exit_code == 0, found.output
        assert left in found.stderr, found.output
        rows = json.loads(found.stdout)
        assert [row["partition"] for row in rows] == [*PARTITIONS]
        assert all((row["lag"] is not None) == has_lag for row in rows)
        assert "No broker leads" not in found.stderr


@pytest.mark.long
@pytest.mark.timeout(900)  # seven servers are started one after the other
def test_migration(spark: SparkSession, cluster: MigratingCluster, stream: Callable[..., Stream]) -> None:
    """Streams through ZooKeeper read every record once; a group member reads until the last broker leaves ZooKeeper.

    From then on, plans come from the brokers, or fail with the reason if no broker's address is known.
    """
    zookeeper = {"zookeeper.connect": cluster.zookeeper_connect, **SESSION}
    servers = {**zookeeper, "kafka.bootstrap.servers": cluster.bootstrap_servers}
    group = {"subscribe": "t", "group.id": "g", "auto.offset.reset": "earliest"}
    streams = [stream(EARLIEST, connection=c, name=n) for n, c in (("both", servers), ("alone", zookeeper))]
    member = stream(group, connection=zookeeper, name="member")
    for each in (*streams, member):
        each.begin(processingTime=PAUSE)
    written = 0

    def phase(*reading: Stream) -> None:
        nonlocal written
        cluster.produce("t", [{"value": "v", "partition": p} for p in PARTITIONS])
        written += 1
        for each in reading:
            each.wait_for(len(PARTITIONS) * written, timeout_s=120)

    def count(connection: dict[str, str], **more: str) -> int:
        return read(spark, {**connection, **EARLIEST, **more}).count()

    phase(*streams, member)
    cluster.begin()
    phase(*streams, member)
    assert count(zookeeper) == len(PARTITIONS) * written
    cluster.move(0)
    cluster.elect_preferred_leaders("t")
    phase(*streams, member)
    assert count(zookeeper, offlinePartitions="skip") == len(PARTITIONS) * written
    cluster.restart(1)  # the last broker in ZooKeeper, which has no registered broker meanwhile
    phase(*streams, member)
    cluster.move(1)
    phase(*streams)
    cluster.finalize()
    phase(*streams)
    assert count(servers, offlinePartitions="skip") == len(PARTITIONS) * written
    for skip in ({}, {"offlinePartitions": "skip"}):
        with pytest.raises(Exception, match=r"MIGRATED_TO_KRAFT.*kafka\.bootstrap\.servers"):
            count(zookeeper, **skip)
    # ZooKeeper does not know this topic.
    late = {**servers, "topic": "after-migration"}
    spark.range(3).selectExpr("'v' AS value").write.format("zkafka").options(**late).mode("append").save()
    assert read(spark, {**servers, "subscribePattern": "after.*"}).count() == 3
    for each in streams:
        assert [each.offsets(p) for p in PARTITIONS] == [list(range(written))] * len(PARTITIONS)
    eventually(lambda: member.error, 120, "the member's query goes on")
    assert "MIGRATED_TO_KRAFT" in str(member.error)
    for p in PARTITIONS:
        assert member.offsets(p) == list(range(len(member.offsets(p))))
    check_described(cluster)
