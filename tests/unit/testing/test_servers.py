"""Readiness of local servers: fake znodes, prepared responses to ``srvr``, and views of librdkafka's mock brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.processes import Wait
from pyspark_zkafka.testing.servers import (
    BrokerView,
    MetadataWatch,
    client_settings,
    has_topics,
    registered_brokers,
    wait_for_zookeeper,
    zookeeper_session,
)
from tests.support.listening import server


def test_registered_brokers(znodes: Any) -> None:
    """Registered brokers are those with a znode, and there are none before the first broker has started."""
    assert registered_brokers(znodes) == set()
    znodes.data = {"/brokers/ids/1": b"", "/brokers/ids/10": b""}
    assert registered_brokers(znodes) == {1, 10}


def test_cluster_with_topics(znodes: Any) -> None:
    """A cluster has topics if at least one has a znode."""
    assert not has_topics(znodes)
    znodes.data["/brokers/topics"] = b""
    assert not has_topics(znodes)
    znodes.data["/brokers/topics/t"] = b""
    assert has_topics(znodes)


class Processes:
    """The part of `ServerProcesses` that the wait for ZooKeeper uses."""

    def __init__(self, port: int, dead: LocalClusterError | None = None) -> None:
        self._port = port
        self._dead = dead

    def port(self, name: str) -> int:
        return self._port

    def raise_if_dead(self, name: str) -> None:
        if self._dead is not None:
            raise self._dead

    def log_tail(self, name: str) -> str:
        return "the log of zookeeper"


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Run a server that gives the prepared responses in turn and repeats the last one; yield its port."""
    left = list(answers)

    def answer(client: socket.socket) -> None:
        assert client.recv(4, socket.MSG_WAITALL) == b"srvr"
        client.sendall(left.pop(0) if len(left) > 1 else left[0])

    with server(answer) as port:
        yield port


def test_ready() -> None:
    """ZooKeeper is asked repeatedly until it responds that it is serving."""
    not_yet = b"This ZooKeeper instance is not currently serving requests\n"
    with answering(not_yet, b"", b"Zookeeper version: 3.4.10\nMode: standalone\n") as port:
        wait_for_zookeeper(Processes(port), Wait(30, poll_s=0))  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [b"This ZooKeeper instance is not currently serving requests\n", b"", None])
def test_not_ready(answer: bytes | None) -> None:
    """A ZooKeeper that does not serve in time is an error with the end of its log."""
    with answering(answer or b"") as port:
        processes: Any = Processes(1 if answer is None else port)
        with pytest.raises(LocalClusterError, match=r"NOT_READY\] ZooKeeper does not serve after 0 s") as caught:
            wait_for_zookeeper(processes, Wait(0))
    assert caught.value.message.endswith("\nthe log of zookeeper")


def test_dead() -> None:
    """The wait ends if ZooKeeper has died."""
    dead = LocalClusterError("SERVER_DIED", "zookeeper has ended")
    with pytest.raises(LocalClusterError, match="SERVER_DIED"):
        wait_for_zookeeper(Processes(1, dead), Wait(600))  # type: ignore[arg-type]


def test_silent_ensemble() -> None:
    """A session that cannot be opened in time is an error with the address."""
    with (
        pytest.raises(LocalClusterError, match=r"ZOOKEEPER_SILENT\] ZooKeeper at 127\.0\.0\.1:1 did not answer within 0 s"),
        zookeeper_session("127.0.0.1:1", 0),
    ):
        pass


@pytest.mark.parametrize(
    ("leaders", "is_led"),
    [({"t": {0: 1, 1: 2}}, True), ({"t": {0: 1, 1: -1}}, False), ({"t": {0: 1}}, False), ({}, False)],
)
def test_led_topics(leaders: dict[str, dict[int, int]], is_led: bool) -> None:
    """A topic is led if it has all its partitions and each has a leader."""
    assert BrokerView(frozenset({1, 2}), leaders).is_led("t", 2) is is_led


def test_settings_for_old_brokers() -> None:
    """Brokers before 0.10 are not asked for their API versions, and other settings take precedence."""
    assert client_settings("b:1", (0, 9, 0, 1), {})["api.version.request"] is False
    assert "api.version.request" not in client_settings("b:1", (0, 10, 0, 0), {})
    assert client_settings("b:1", (3, 9, 1), {"log_level": "7"})["log_level"] == "7"


def test_watch() -> None:
    """Brokers agree once each of them responds and the condition holds; otherwise, the error shows their views."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 2, "log_level": 0})
    producer.produce("t", b"v", partition=0)
    producer.flush(10)
    brokers = producer.list_topics(timeout=10).brokers
    watch = MetadataWatch({n: client_settings(f"{b.host}:{b.port}", (3, 9, 1), {}) for n, b in brokers.items()})
    try:
        assert watch.uninformed({1, 2}) == set()
        assert watch.uninformed({1, 9}) == {1, 2}
        views = watch.agree(lambda found: all("t" in view.leaders for view in found), "t is unknown", 10)
        assert len(views) == 2
        with pytest.raises(LocalClusterError, match=r"t is deleted, after 0 s; the brokers' metadata are .*BrokerView"):
            watch.agree(lambda found: not any(view.leaders for view in found), "t is deleted", 0)
    finally:
        watch.close()
