"""Brokers without ZooKeeper that fall silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import topic_identity
from pyspark_zkafka.testing import LocalCluster

# In the 3.9.1 cluster, one broker answers everything.
pytestmark = [pytest.mark.long, pytest.mark.parametrize("kraft_cluster", ["3.9.1"], indirect=True)]


@pytest.fixture
def silent(kraft_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster with a broker to pause, which is ready again after the test."""
    yield kraft_cluster
    if not kraft_cluster.running_broker_ids:
        kraft_cluster.resume(0)
    kraft_cluster.wait_ready()


def test_commit_ends_in_time(silent: LocalCluster, topic: str) -> None:
    """An unanswered commit to Kafka fails within its timeout, and closing the client takes no longer."""
    place = TopicPartition(topic, 0)
    began = time.monotonic()
    with KafkaGroupOffsets(silent.bootstrap_servers, {}, f"g-{topic}", timeout_s=4) as offsets:
        offsets.commit({place: 1})
        silent.pause(0)
        began = time.monotonic()
        with pytest.raises(BrokersUnavailable):
            offsets.commit({place: 2})
    assert time.monotonic() - began < 8


def test_commit_waits_for_an_answer(silent: LocalCluster, topic: str) -> None:
    """A commit succeeds if brokers answer again within its timeout."""
    place = TopicPartition(topic, 0)
    with KafkaGroupOffsets(silent.bootstrap_servers, {}, f"h-{topic}") as offsets:
        offsets.commit({place: 1})
        silent.pause(0)
        threading.Timer(2, silent.resume, [0]).start()
        offsets.commit({place: 2})
        assert offsets.committed([place]) == {place: 2}


def test_identity_is_asked_again(silent: LocalCluster, topic: str) -> None:
    """A task retries the request for its topic's identity while brokers do not answer."""
    options = parse_read(
        {
            "kafka.bootstrap.servers": silent.bootstrap_servers,
            "subscribe": topic,
            "kafka.request.timeout.ms": "1000",
            "fetchOffset.numRetries": "20",
        }
    )
    plan = plan_batch(options)
    silent.pause(0)
    threading.Timer(3, silent.resume, [0]).start()
    assert topic_identity(plan.splits[0], options, plan.bootstrap_servers) == "same"
