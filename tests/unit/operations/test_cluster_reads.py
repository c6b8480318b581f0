"""Readers of the exporter that cannot begin."""

from __future__ import annotations

import time

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.operations.cluster_reads import BrokerReader, Ensemble, EnsembleReader, Selection
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition

UNREACHABLE = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1)


def test_no_zookeeper() -> None:
    """The exporter needs ZooKeeper's address."""
    with pytest.raises(OptionError, match="use --zookeeper"):
        EnsembleReader(parse_connection({"kafka.bootstrap.servers": "broker1:9092"}), Selection())


def test_timeout() -> None:
    """The timeout of a scrape shortens that of requests, and brokers that do not answer are a problem of partitions."""
    t0 = TopicPartition("t", 0)
    states = {t0: PartitionState(1, 0, (1,))}
    snapshot = ClusterSnapshot({1: Broker(1, (UNREACHABLE,))}, {"t": Topic("t", {0: (1,)})}, states)
    reader = BrokerReader(parse_connection({"zookeeper.connect": "zk1:2181"}), "zookeeper", timeout_s=0.2)
    begin = time.monotonic()
    try:
        logs = reader.read(Ensemble(snapshot)).logs
    finally:
        reader.close()
    assert time.monotonic() - begin < 10
    assert (logs.bounds[t0].end, len(logs.problems)) == (None, 1)
