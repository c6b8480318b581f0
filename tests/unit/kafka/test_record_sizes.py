"""Samples of records, from librdkafka's mock cluster."""

from __future__ import annotations

from itertools import count

from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.kafka.log_probes import sample_record_bytes
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import TopicPartition

CONNECTION = parse_connection({"kafka.bootstrap.servers": "mock"})
T0, T1, EMPTY = (TopicPartition("t", number) for number in range(3))


def test_mean_sizes(servers: str) -> None:
    """Keys and values count; a partition without records has no mean, and does not delay the others."""
    found = sample_record_bytes(consumer_properties(CONNECTION, servers, "g"), {T0: 0, T1: 3, EMPTY: 0}, 30)
    assert found == {T0: 4.0, T1: 4.0}


def test_timeout(servers: str) -> None:
    """A sample ends with the time for it."""
    seconds = count(step=10)
    properties = consumer_properties(CONNECTION, "127.0.0.1:1", "g")
    assert sample_record_bytes(properties, {T0: 0}, 5, clock=lambda: float(next(seconds))) == {}
