"""Topics and readiness of a local ZooKeeper, with fake znodes and a server with prepared responses to ``srvr``."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError, NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.processes import Wait
from pyspark_zkafka.testing.servers import (
    has_topics,
    registered_brokers,
    wait_for_zookeeper,
    zookeeper_session,
)
from pyspark_zkafka.testing.topics import ZnodeTopics
from tests.support.listening import server

TOPIC = "/brokers/topics/t"
ELECTION = "/admin/preferred_replica_election"


class Znodes:
    """The methods of KazooClient that the code uses, on a dict of znodes."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def exists(self, path: str) -> object | None:
        return path if any(other == path or other.startswith(f"{path}/") for other in self.data) else None

    def get_children(self, path: str) -> list[str]:
        return sorted({other[len(path) + 1 :].split("/")[0] for other in self.data if other.startswith(f"{path}/")})

    def get(self, path: str) -> tuple[bytes, None]:
        if path not in self.data:
            raise NoNodeError
        return self.data[path], None

    def create(self, path: str, data: bytes, makepath: bool) -> None:
        if path in self.data:
            raise NodeExistsError
        self.data[path] = data


@pytest.fixture
def znodes() -> Any:
    """An ensemble without a cluster."""
    return Znodes()


def test_brokers(znodes: Any) -> None:
    """Registered brokers are those with a znode, and there are none before the first broker has started."""
    assert registered_brokers(znodes) == set()
    znodes.data = {"/brokers/ids/1": b"", "/brokers/ids/10": b""}
    assert registered_brokers(znodes) == {1, 10}


def test_topics(znodes: Any) -> None:
    """A cluster has topics if at least one has a znode."""
    assert not has_topics(znodes)
    znodes.data["/brokers/topics"] = b""
    assert not has_topics(znodes)
    znodes.data[TOPIC] = b""
    assert has_topics(znodes)


def test_assignment(znodes: Any) -> None:
    """An assignment is in the order of partition numbers."""
    znodes.data[TOPIC] = b'{"partitions": {"10": [3], "2": [2, 1], "1": [1, 2]}}'
    assert list(ZnodeTopics(znodes).assignment("t").items()) == [(1, [1, 2]), (2, [2, 1]), (10, [3])]
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_TOPIC\] There is no topic gone"):
        ZnodeTopics(znodes).assignment("gone")


@pytest.mark.parametrize(
    ("isr", "is_in_sync"),
    [({0: b"[2, 1]", 1: b"[2]"}, True), ({0: b"[1]", 1: b"[2]"}, False), ({0: b"[1, 2]"}, False)],
)
def test_in_sync(znodes: Any, isr: dict[int, bytes], is_in_sync: bool) -> None:
    """A topic is in sync if each ISR has all replicas in any order; a partition without a state is not in sync."""
    znodes.data = {f"{TOPIC}/partitions/{n}/state": b'{"isr": %s}' % found for n, found in isr.items()}
    assert ZnodeTopics(znodes).all_in_sync("t", {0: [1, 2], 1: [2]}) is is_in_sync


def test_election(znodes: Any) -> None:
    """An election is requested in Kafka's own format, unless another one is in progress."""
    assert ZnodeTopics(znodes).request_election("t", [1, 0])
    expected = b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":0}]}'
    assert znodes.data == {ELECTION: expected}
    assert not ZnodeTopics(znodes).request_election("t", [0])
    assert znodes.data == {ELECTION: expected}


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
