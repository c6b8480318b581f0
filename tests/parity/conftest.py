"""Fixtures that give the same options to Spark's JVM connector and to ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

Record = tuple[Any, ...]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _record(row: Any) -> Record:
    """Return a row as a tuple that sorts by topic, partition and offset, with headers as pairs."""
    fields = row.asDict()
    place = (fields.pop("topic"), fields.pop("partition"), fields.pop("offset"))
    headers = fields.pop("headers", None)
    pairs = None if headers is None else [(h.key, _plain(h.value)) for h in headers]
    return (*place, *map(_plain, fields.values()), pairs)


@dataclass(frozen=True)
class Peers:
    """Two readers of one cluster: `ours` connects through ZooKeeper, `theirs` through the brokers."""

    spark: SparkSession
    cluster: LocalCluster

    def ours(self, options: dict[str, str]) -> DataFrame:
        """Return the frame of format("zkafka")."""
        reader = self.spark.read.format("zkafka").option("zookeeper.connect", self.cluster.zookeeper_connect)
        return reader.options(**options).load()

    def theirs(self, options: dict[str, str]) -> DataFrame:
        """Return the frame of format("kafka")."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.cluster.bootstrap_servers)
        # Its pooled consumers wait for the fetch before a seek: half a second for every partition.
        return reader.option("kafka.fetch.max.wait.ms", "20").options(**options).load()

    def same(self, options: dict[str, str], **ours_alone: str) -> list[Record]:
        """Return the records that both read, in order: (topic, partition, offset, key, value, timestamp, type, headers)."""
        ours, theirs = self.ours({**options, **ours_alone}), self.theirs(options)
        assert ours.schema == theirs.schema
        found, expected = ([*sorted(map(_record, f.collect()))] for f in (ours, theirs))
        assert found == expected
        return found

    def both_refuse(self, options: dict[str, str], our_reason: str, their_reason: str) -> None:
        """Check that both fail, each with its reason."""
        with pytest.raises(Exception, match=our_reason):
            self.ours(options).collect()
        with pytest.raises(Exception, match=their_reason):
            self.theirs(options).collect()


@pytest.fixture
def peers(spark: SparkSession, zkafka_cluster: LocalCluster) -> Peers:
    """Both readers on the shared cluster."""
    return Peers(spark, zkafka_cluster)


@pytest.fixture
def peers_of(spark: SparkSession) -> Callable[[LocalCluster], Peers]:
    """Function that returns both readers on a given cluster."""
    return lambda cluster: Peers(spark, cluster)
