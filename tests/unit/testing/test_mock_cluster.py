"""Mock brokers and topics that cannot be made. tests/integration/test_mock_cluster.py uses running brokers."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import MockCluster


@pytest.mark.parametrize("library", [None, object()])
def test_a_library_without_mock_brokers(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    """A librdkafka that cannot be loaded, or lacks functions, is reported as such."""
    monkeypatch.setattr("pyspark_zkafka.testing.mock_cluster.load_librdkafka", lambda: library)
    with pytest.raises(LocalClusterError, match=r"NO_MOCK_BROKERS.*; install"), MockCluster():
        pass


def test_no_broker() -> None:
    """A cluster needs a broker."""
    with pytest.raises(LocalClusterError, match=r"BAD_CLUSTER.*brokers is 0, and must be 1"), MockCluster(brokers=0):
        pass


@pytest.mark.parametrize(
    ("topic", "partitions", "replication", "reason"),
    [
        ("a", -1, 1, "at least 1 partition and 1 replica"),
        ("a", 0, 1, "at least 1 partition and 1 replica"),
        ("a", 1, 0, "at least 1 partition and 1 replica"),
        ("a b", 1, 1, "topic 'a b': Kafka allows"),
        ("a\0b", 1, 1, r"topic 'a\\x00b': Kafka allows"),
        ("", 1, 1, "topic '': Kafka allows"),
    ],
)
def test_impossible_topics(topic: str, partitions: int, replication: int, reason: str) -> None:
    """Topics that Kafka does not allow are refused: librdkafka would create them, or end the process."""
    with MockCluster() as cluster, pytest.raises(LocalClusterError, match=f"REFUSED_BY_CLUSTER.*{reason}.*correct"):
        cluster.create_topic(topic, partitions, replication)
