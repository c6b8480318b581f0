"""A client's connections to several brokers, and its choice of a broker to fetch from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.direct.client import DirectClient, PartitionBroker
from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import ConnectionLost, LoginRefused, Request, Unsupported
from tests.support.clock import Clock
from tests.support.fake_partition import METADATA, TP, FakePartition
from tests.support.scripted_broker import Script, ScriptedBroker, answered

NOWHERE = "127.0.0.1:1"
NEVER = Deadline(math.inf)


def client(*servers: str, **kafka: Any) -> DirectClient:
    return DirectClient(settings_of({"bootstrap.servers": ",".join(servers), **kafka}))


def test_response_that_is_due() -> None:
    """A connection with a response due is closed and replaced before another request."""
    with ScriptedBroker(lambda request: b"") as broker, client(NOWHERE) as opened:
        first = opened.try_connect(broker.address, NEVER)
        assert opened.try_connect(broker.address, NEVER) is first
        first.send(Request(FETCH, 11, b""))
        assert opened.connected(broker.address) is None
        assert opened.try_connect(broker.address, NEVER) is not first
        assert not first.is_open


def test_metadata_of_brokers_that_answer() -> None:
    """An unreachable server is not asked again while there are other servers."""
    partition = FakePartition()
    with ScriptedBroker(partition) as broker:
        partition.port = broker.address[1]
        with client(NOWHERE, f"127.0.0.1:{partition.port}") as opened:
            with pytest.raises(ConnectionLost):
                opened.metadata([TP.topic])
            for _ in range(4):
                assert opened.metadata([TP.topic]).brokers[0].address == broker.address


def test_server_that_refuses_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refused login, the next request goes to another server."""

    def exchange(login: object, host: str) -> Iterator[bytes]:
        asked.append(login)
        raise LoginRefused("no")
        yield b""

    asked: list[object] = []
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    monkeypatch.setattr("pyspark_zkafka.wire.connection.exchange", exchange)
    accept: Script = lambda request: answered(request, protocol.int16(0) + protocol.int32(0))  # noqa: E731
    with ScriptedBroker(accept) as first, ScriptedBroker(accept) as second:
        servers = (f"127.0.0.1:{broker.address[1]}" for broker in (first, second))
        with client(*servers, **login) as opened:
            for _ in range(4):
                with pytest.raises(LoginRefused):
                    opened.metadata([TP.topic])
        assert first.connections == 2
        assert second.connections == 2
        assert len(asked) == 4


def test_silent_server() -> None:
    """A silent server does not keep the client from asking other servers."""
    partition = FakePartition()
    with ScriptedBroker(partition) as broker, ScriptedBroker(lambda request: b"") as silent:
        partition.port = broker.address[1]
        with client(f"127.0.0.1:{silent.address[1]}", f"127.0.0.1:{partition.port}") as opened:
            begin = time.monotonic()
            with pytest.raises(ConnectionLost, match="no response in time"):
                opened.metadata([TP.topic])
            for _ in range(4):
                opened.metadata([TP.topic])
            assert time.monotonic() - begin < 8  # three seconds once, not twice


NOWHERE_PORT = 1
OLD_S = 300


class Cluster:
    """A leader, and a replica as broker 9."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self.clock = Clock(100.0)
        self.partition = FakePartition(b"")
        self.leader = opened.enter_context(ScriptedBroker(self.partition))
        self.replica = opened.enter_context(ScriptedBroker(lambda request: None))
        self.partition.port = self.leader.address[1]
        self.partition.others = {9: self.replica.address[1]}

    def broker(self, *endpoints: str, partition: TopicPartition = TP, **kafka: Any) -> PartitionBroker:
        """Return the broker of a split with these endpoints."""
        given = {name.replace("_", "."): value for name, value in kafka.items()}
        server = f"127.0.0.1:{self.leader.address[1]}"
        client = self._opened.enter_context(DirectClient(settings_of({"bootstrap.servers": server, **given}), self.clock))
        return PartitionBroker(client, Split(partition, 0, 10, 0, 4, (0,), endpoints))

    @property
    def planned(self) -> str:
        """The leader's endpoint."""
        return f"127.0.0.1:{self.leader.address[1]}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A leader and a replica."""
    with ExitStack() as opened:
        yield Cluster(opened)


def address(broker: PartitionBroker) -> str:
    """Return the address of current fetches."""
    return str(broker.connect(NEVER))


def test_planned_leader(cluster: Cluster) -> None:
    """The plan's leader and its epoch are used without a metadata request."""
    broker = cluster.broker(cluster.planned, "127.0.0.1:1")
    assert broker.find() == 0
    assert broker.epoch == 4
    assert broker.connected() is None
    opened = broker.connect_leader(NEVER)
    assert str(opened) == cluster.planned
    assert broker.connected() is opened
    assert METADATA not in cluster.partition.asked


@pytest.mark.parametrize(
    ("endpoints", "kafka"),
    [((), {}), (("127.0.0.1:1",), {"client_rack": "a"}), (("127.0.0.1:1,127.0.0.1:2",), {})],
    ids=["no endpoint", "nearest replica first", "several addresses"],
)
def test_leader_to_look_up(cluster: Cluster, endpoints: tuple[str, ...], kafka: dict[str, str]) -> None:
    """If the plan does not name a single leader, metadata gives the leader and its epoch."""
    cluster.partition.leader_epoch = 7
    broker = cluster.broker(*endpoints, **kafka)
    assert broker.connected() is None
    assert broker.find() == 0
    assert broker.epoch == 7
    assert address(broker) == cluster.planned
    assert cluster.partition.asked == [METADATA]


def test_leader_to_look_up_again(cluster: Cluster) -> None:
    """A forgotten leader is looked up, and a known leader is not."""
    broker = cluster.broker(cluster.planned)
    broker.forget()
    assert broker.connected() is None
    assert [broker.find(), broker.find()] == [0, 0]
    assert cluster.partition.asked == [METADATA]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"topic_error": KafkaError.LEADER_NOT_AVAILABLE}, KafkaError.LEADER_NOT_AVAILABLE),
        ({"topic_error": KafkaError.UNKNOWN_TOPIC_OR_PART}, KafkaError.UNKNOWN_TOPIC_OR_PART),
        ({"partition_error": KafkaError.LEADER_NOT_AVAILABLE}, KafkaError.LEADER_NOT_AVAILABLE),
        ({"partition_error": KafkaError.REPLICA_NOT_AVAILABLE}, 0),
        ({"leader": -1}, KafkaError.LEADER_NOT_AVAILABLE),
        ({"leader": 5}, KafkaError.LEADER_NOT_AVAILABLE),
    ],
)
def test_errors_of_metadata(cluster: Cluster, metadata: dict[str, int], code: int) -> None:
    """The error of a topic or partition without a leader is returned; a replica that is down does not matter."""
    for name, value in metadata.items():
        setattr(cluster.partition, name, value)
    broker = cluster.broker()
    assert broker.find() == code
    if code:
        with pytest.raises(RuntimeError, match="the leader has not been found"):
            broker.connect_leader(NEVER)


def test_unknown_partition(cluster: Cluster) -> None:
    """A partition missing in its topic's metadata is unknown."""
    assert cluster.broker(partition=TopicPartition("t", 5)).find() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize("name", ["topic_error", "partition_error"])
def test_errors_that_do_not_pass(cluster: Cluster, name: str) -> None:
    """An error that no retry resolves is left to librdkafka, which explains it."""
    setattr(cluster.partition, name, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(Unsupported, match="the metadata of t has error 29"):
        cluster.broker().find()


@pytest.mark.parametrize("endpoints", [(), ("the leader",)])
def test_preferred_replica(cluster: Cluster, endpoints: tuple[str, ...]) -> None:
    """Fetches go to the replica that the leader names until metadata is old, then to the leader."""
    broker = cluster.broker(*(cluster.planned for _ in endpoints))
    broker.find()
    broker.prefer(9)
    assert broker.is_replica
    assert address(broker) == f"127.0.0.1:{cluster.replica.address[1]}"
    assert str(broker.connect_leader(NEVER)) == cluster.planned
    cluster.clock.now += OLD_S
    assert broker.is_replica
    cluster.clock.now += 1
    assert address(broker) == cluster.planned
    assert not broker.is_replica
    assert not broker.avoids_replicas


def test_replica_that_is_left(cluster: Cluster) -> None:
    """Fetches go back to the leader after `leave_replica`, which does not make the client avoid replicas."""
    broker = cluster.broker(cluster.planned)
    broker.prefer(9)
    broker.leave_replica()
    assert not broker.is_replica
    assert not broker.avoids_replicas
    assert address(broker) == cluster.planned


def test_unknown_replica(cluster: Cluster) -> None:
    """A replica missing in metadata leaves fetches with the leader, and replicas are avoided for a while."""
    broker = cluster.broker(cluster.planned)
    broker.prefer(8)
    assert not broker.is_replica
    assert broker.avoids_replicas
    assert cluster.partition.asked == [METADATA]
    cluster.clock.now += OLD_S
    assert not broker.avoids_replicas


def test_replica_out_of_reach(cluster: Cluster) -> None:
    """A replica that accepts no connection is avoided for a while; the caller decides on the next attempt."""
    cluster.partition.others = {9: NOWHERE_PORT}
    broker = cluster.broker(cluster.planned)
    broker.prefer(9)
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1: connecting failed"):
        broker.connect(NEVER)
    assert broker.avoids_replicas


def test_leader_out_of_reach(cluster: Cluster) -> None:
    """A leader that accepts no connection does not make the client avoid replicas."""
    broker = cluster.broker(f"127.0.0.1:{NOWHERE_PORT}")
    connect: list[Callable[[], object]] = [lambda: broker.connect(NEVER), lambda: broker.connect_leader(NEVER)]
    for call in connect:
        with pytest.raises(ConnectionLost):
            call()
    assert not broker.avoids_replicas
