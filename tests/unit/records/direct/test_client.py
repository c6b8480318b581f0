"""Connections of a client to several brokers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.messages import FETCH, Request
from pyspark_zkafka.records.direct.wire import ConnectionLost
from tests.support.fake_partition import TP, FakePartition
from tests.support.scripted_broker import ScriptedBroker

NOWHERE = "127.0.0.1:1"


def client(*servers: str, **kafka: Any) -> DirectClient:
    return DirectClient({"bootstrap.servers": ",".join(servers), **kafka})


def test_response_that_is_due() -> None:
    """A connection on which a response is due is closed, and replaced, where another request is to be sent."""
    with ScriptedBroker(lambda request: b"") as broker, client(NOWHERE) as opened:
        first = opened.connect(broker.address)
        assert opened.connect(broker.address) is first
        first.send(Request(FETCH, 11, b""))
        assert opened.connected(broker.address) is None
        assert opened.connect(broker.address) is not first
        assert not first.is_open


def test_metadata_of_brokers_that_answer() -> None:
    """A server that cannot be reached is not asked again while there are others."""
    partition = FakePartition()
    with ScriptedBroker(partition) as broker:
        partition.port = broker.address[1]
        with client(NOWHERE, f"127.0.0.1:{partition.port}") as opened:
            with pytest.raises(ConnectionLost):
                opened.metadata(TP.topic)
            for _ in range(4):
                assert opened.metadata(TP.topic).brokers == {0: broker.address}


def test_silent_server() -> None:
    """A server that accepts connections and never answers does not keep the others from being asked."""
    partition = FakePartition()
    with ScriptedBroker(partition) as broker, ScriptedBroker(lambda request: b"") as silent:
        partition.port = broker.address[1]
        with client(f"127.0.0.1:{silent.address[1]}", f"127.0.0.1:{partition.port}") as opened:
            begin = time.monotonic()
            with pytest.raises(ConnectionLost, match="no response in time"):
                opened.metadata(TP.topic)
            for _ in range(4):
                opened.metadata(TP.topic)
            assert time.monotonic() - begin < 5
