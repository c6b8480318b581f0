"""Versions of local clusters, and their nodes."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.spec import ClusterSpec, kafka_jars


@pytest.mark.parametrize(
    ("version", "jar"),
    [
        ("0.8.2.2", "kafka_2.11:0.8.2.2"),
        ("1.1.1", "kafka_2.12:1.1.1"),
        ("2.4.0", "kafka_2.13:2.4.0"),
        ("3.9.1", "kafka_2.13:3.9.1"),
        ("4.3.1", "kafka_2.13:4.3.1"),
    ],
)
def test_scala_version(version: str, jar: str) -> None:
    """Each Kafka version uses the Scala build that exists for it."""
    assert kafka_jars(version)[0] == f"org.apache.kafka:{jar}"


@pytest.mark.parametrize("version", ["3.9", "new"])
def test_versions_refused(version: str) -> None:
    """An incomplete version is refused with the right form."""
    with pytest.raises(LocalClusterError, match="write it like"):
        kafka_jars(version)


def test_kraft() -> None:
    """Kafka 4 always runs in KRaft mode, and older versions on request."""
    assert [ClusterSpec(kafka_version=version).is_kraft for version in ("3.9.1", "4.3.1")] == [False, True]
    assert ClusterSpec(kraft=True).is_kraft
    assert ClusterSpec(brokers=5).controller_ids == []
    assert ClusterSpec(brokers=5, kraft=True).controller_ids == [0, 1, 2]
    assert ClusterSpec(controllers=2).controller_ids == [3000, 3001]


def test_server_names() -> None:
    """A server is named by its node's id or as `zookeeper`, if there is one, and the error for others lists these names."""
    assert [ClusterSpec(controllers=1).server_name(node) for node in (2, 3000)] == ["broker-2", "controller-3000"]
    assert ClusterSpec().server_name("zookeeper") == "zookeeper"
    with pytest.raises(LocalClusterError, match="NO_ZOOKEEPER"):
        ClusterSpec(kraft=True).server_name("zookeeper")
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_SERVER.*\[0, 1, 2\] and 'zookeeper'"):
        ClusterSpec().server_name(3000)
