"""Readers of the exporter: what they read, and those that cannot begin."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.operations import cluster_reads
from pyspark_zkafka.operations.cluster_reads import BrokerReader, Ensemble, EnsembleReader, Selection
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.zookeeper.connection import Results
from tests.support.ensemble_client import EnsembleClient

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


def test_only_groups_that_are_shown_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are chosen by their names before their znodes are read; one that is deleted meanwhile is left out."""
    client, asked = EnsembleClient(), list[str]()
    client.put_topic("t")
    for group in ("shown", "shown-2", "other"):
        client.put(f"/consumers/{group}/offsets/t/0", b"1")
    read = client.ask

    def ask(get: Iterable[str] = (), children: Iterable[str] = (), **more: Any) -> Results:
        gets, parents = list(get), list(children)
        asked.extend([*gets, *parents])
        if "/consumers" not in parents:
            client.ensemble.nodes.pop("/consumers/shown-2", None)
        return read(gets, parents, **more)

    monkeypatch.setattr(client, "ask", ask)
    monkeypatch.setattr(cluster_reads, "ZooKeeperClient", lambda config: nullcontext(client))
    connection = parse_connection({"zookeeper.connect": "zk1:2181"})
    found = EnsembleReader(connection, Selection(groups=re.compile("^shown"))).read()
    assert list(found.groups) == ["shown"]
    assert [path for path in asked if path.startswith("/consumers/other")] == []
