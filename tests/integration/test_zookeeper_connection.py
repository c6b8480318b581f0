"""Sessions with a real ZooKeeper: start, loss, end, watches and transactions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.states import KeeperState
from kazoo.security import make_acl

from pyspark_zkafka.errors import ChrootMissing, ClusterStateError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper import connection
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Check, Conflict, Create, Delete, Reason, SetData
from tests.support.eventually import eventually
from tests.support.options import ensemble_config
from tests.support.wire import Wire
from tests.support.zookeeper_sessions import connections

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.support.chroot import Chroot


@pytest.fixture(scope="session")
def zkafka_cluster(breakable_cluster: LocalCluster) -> LocalCluster:
    """The cluster whose ZooKeeper may be paused."""
    return breakable_cluster


@pytest.mark.parametrize("timeout_ms", [3000, 5000])
def test_the_session_timeout_is_the_one_asked_for(
    zkafka_cluster: LocalCluster, zookeeper_config: ZooKeeperConfig, timeout_ms: int
) -> None:
    """ZooKeeper keeps sessions for zookeeper.session.timeout.ms."""
    with ZooKeeperClient(replace(zookeeper_config, session_timeout_ms=timeout_ms)) as client:
        lines = connections(zkafka_cluster.port("zookeeper"))
        (ours,) = [line for line in lines if f"sid=0x{client.session_id:x}," in line]
    assert f"to={timeout_ms}," in ours


def test_a_wrong_chroot_is_named_with_the_right_one(zookeeper_config: ZooKeeperConfig) -> None:
    """The error for a missing chroot names it and the chroots with a Kafka cluster; nothing is created."""
    with pytest.raises(ChrootMissing, match=rf"/nowhere .* a Kafka cluster is under .*{zookeeper_config.chroot}"):
        ZooKeeperClient(replace(zookeeper_config, chroot="/nowhere")).__enter__()
    with ZooKeeperConnection(replace(zookeeper_config, chroot="")) as root:
        assert "/nowhere" not in root.exists_many(["/nowhere"])


def test_a_chroot_without_kafka_is_told_apart(zookeeper_config: ZooKeeperConfig) -> None:
    """A chroot that exists without a Kafka cluster raises another error, which mentions KRaft."""
    with pytest.raises(ClusterStateError, match=r"no /brokers/ids; a Kafka cluster is under .*KRaft.*kafka\.bootstrap"):
        ZooKeeperClient(replace(zookeeper_config, chroot="")).__enter__()


def test_a_server_that_refuses_connections_is_an_error_in_time() -> None:
    """If no server listens, the error names hosts and cause within the connection time-out."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{unused.getsockname()[1]}"
        took = _fails_to_connect(ensemble_config(hosts, connection_timeout_ms=700), f"{hosts}.*Connection refused")
    assert took < 5


def test_a_host_without_address_is_an_error_in_time() -> None:
    """An unknown host raises an error that says it cannot be resolved."""
    config = ensemble_config("no-such-host.invalid:2181", connection_timeout_ms=700)
    _fails_to_connect(config, "Cannot resolve no-such-host")


def test_a_server_that_is_silent_is_an_error_in_time() -> None:
    """A server that accepts connections and never answers raises an error at the connection time-out."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = ensemble_config(
            f"127.0.0.1:{silent.getsockname()[1]}", session_timeout_ms=30_000, connection_timeout_ms=700
        )
        took = _fails_to_connect(config, "within 700 ms")
    assert took < 5


def _fails_to_connect(config: ZooKeeperConfig, message: str) -> float:
    started, threads = time.monotonic(), set(threading.enumerate())
    with pytest.raises(ZooKeeperError, match=message):
        ZooKeeperClient(config).__enter__()
    assert _begun_since(threads) == set()
    return time.monotonic() - started


def _begun_since(before: set[threading.Thread]) -> set[threading.Thread]:
    """Return the threads started since, except timers, which idle clients of other tests have left."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading.Timer)} - before


def test_nothing_is_left_when_it_is_closed(zookeeper_config: ZooKeeperConfig) -> None:
    """`close` ends threads and session and may be repeated; a closed client raises an error, and can be opened again."""
    threads = set(threading.enumerate())
    with ZooKeeperClient(zookeeper_config) as client:
        assert client.session_id
        with pytest.raises(ZooKeeperError, match="ZOOKEEPER_ALREADY_OPEN"):
            client.__enter__()
    client.close()
    assert _begun_since(threads) == set()
    with pytest.raises(ZooKeeperError, match="ZOOKEEPER_NOT_OPEN"):
        client.topic_names()
    with pytest.raises(ZooKeeperError, match="ZOOKEEPER_NOT_OPEN"):
        client.get_many(f"/{number}" for number in range(1000))
    with client:
        assert client.snapshot().brokers


def test_an_ensemble_that_stops_answering_is_an_error_in_time(
    zkafka_cluster: LocalCluster, zookeeper_config: ZooKeeperConfig
) -> None:
    """A paused server fails a read at the connection time-out, and does not delay `close`."""
    with ZooKeeperClient(replace(zookeeper_config, connection_timeout_ms=800)) as client:
        zkafka_cluster.pause("zookeeper")
        started = time.monotonic()
        try:
            with pytest.raises(ZooKeeperError, match=r"Reading .*/brokers/topics .* no answer within 800 ms"):
                _read_on(client)
            client.close()
        finally:
            zkafka_cluster.resume("zookeeper")
        assert time.monotonic() - started < 6  # the session time-out


@pytest.mark.long
def test_many_reads_without_a_connection_are_an_error_in_time(zookeeper_config: ZooKeeperConfig, wire: Wire) -> None:
    """A round of many requests without a server fails after the connection time-out, and succeeds later."""
    paths = [f"/none/{number}" for number in range(1500)]
    with ZooKeeperClient(replace(zookeeper_config, hosts=wire.address, connection_timeout_ms=3000)) as client:
        wire.cut()
        started = time.monotonic()
        with pytest.raises(ZooKeeperError, match=r"ZOOKEEPER_TIMEOUT|ZOOKEEPER_CONNECTION_LOST"):
            client.ask(get=paths, watch=lambda _: None)
        assert time.monotonic() - started < 10
        wire.mend()
        assert client.ask(get=paths, watch=lambda _: None).nodes == {}


def _read_on(client: ZooKeeperClient) -> None:
    """Read until it fails: the signal takes a moment to arrive."""
    for _ in range(1000):
        client.topic_names()


def test_a_lost_connection_is_made_again_within_a_read(zookeeper_config: ZooKeeperConfig, wire: Wire) -> None:
    """A read whose connection breaks is sent again on a new one."""
    with ZooKeeperClient(replace(zookeeper_config, hosts=wire.address)) as client:
        brokers = client.snapshot().brokers
        for _ in range(3):
            wire.cut()
            wire.mend()
            assert client.snapshot().brokers == brokers
    assert len(wire.greetings) == 4


def refuse(kazoo: Any, error: Exception) -> Callable[..., Any]:
    """Return a `_connect` of kazoo that fails after the session is established, as a login does."""

    def connect(*where: object) -> Any:
        kazoo._session_callback(KeeperState.CONNECTED)
        raise error

    return connect


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [AuthFailedError("Connection dropped in SASL"), OSError("Too many open files")])
def test_a_connection_lost_during_the_login_is_made_again(
    zookeeper_config: ZooKeeperConfig, wire: Wire, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """kazoo's thread ends if a connection breaks during a login, or after an unexpected error. It is started again."""
    monkeypatch.setattr(connection, "_REOPEN_S", (0.3, 0.6))
    states: list[str] = []
    with ZooKeeperClient(replace(zookeeper_config, hosts=wire.address), on_state=states.append) as client:
        brokers = client.snapshot().brokers
        with monkeypatch.context() as patched:
            patched.setattr(client._kazoo, "_connect", refuse(client._kazoo, error))
            wire.cut()
            wire.mend()
            eventually(lambda: states[-1] == "LOST")
            with pytest.raises(ZooKeeperError, match="ZOOKEEPER_CONNECTION_LOST"):
                client.snapshot()
        eventually(lambda: states[-1] == "CONNECTED" and client.connected)
        assert client.snapshot().brokers == brokers
        assert client.refused is None
        eventually(lambda: client._reopening is None)


def test_logins_that_are_refused_again_and_again(
    zookeeper_config: ZooKeeperConfig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that are refused three times in a row are an error, and accepted ones end it."""
    monkeypatch.setattr(connection, "_REOPEN_S", (0.1, 0.1))
    with ZooKeeperClient(replace(zookeeper_config, hosts=wire.address)) as client:
        with monkeypatch.context() as patched:
            patched.setattr(client._kazoo, "_connect", refuse(client._kazoo, AuthFailedError("changed")))
            wire.cut()
            wire.mend()
            assert isinstance(eventually(lambda: client.refused), ZooKeeperRefused)
            with pytest.raises(ZooKeeperRefused, match="does not accept the credentials"):
                client.snapshot()
            eventually(lambda: client._kazoo.refusals > 5)
            assert sum(thread.name == "zookeeper-reopen" for thread in threading.enumerate()) == 1
        eventually(lambda: client.connected and client.refused is None)


def test_states_of_a_closed_connection(zookeeper_config: ZooKeeperConfig, wire: Wire) -> None:
    """The thread of a closed client, which may still be connecting, reports nothing to the next client's user."""
    states: list[str] = []
    client = ZooKeeperClient(replace(zookeeper_config, hosts=wire.address), on_state=states.append)
    with client:
        first = client._kazoo
    with client:
        client._on_kazoo_state(first, "LOST")
    assert states == ["CONNECTED", "CONNECTED"]


def test_a_watch_tells_once_of_each_change(chroot: Chroot) -> None:
    """Children, data and existence can be watched, and a watch set twice fires once."""
    told = threading.Semaphore(0)

    def watch(event: object) -> None:
        told.release()

    with ZooKeeperClient(chroot.config) as client:
        client.ask(get=["/brokers"], children=["/consumers"], exists=["/new"], watch=watch)
        client.ask(get=["/brokers"], children=["/consumers"], exists=["/new"], watch=watch)
        chroot.other.set("/brokers", b"x")
        chroot.other.create("/consumers/g")
        chroot.other.create("/new")
        assert all(told.acquire(timeout=30) for _ in range(3))
        later = threading.Event()
        client.ask(exists=["/later"], watch=lambda event: later.set())
        chroot.other.delete("/new")
        chroot.other.create("/later")
        assert later.wait(30)  # a session's watches fire in the order of the changes
        assert not told.acquire(blocking=False)


def test_a_transaction_is_all_or_nothing(chroot: Chroot) -> None:
    """A transaction keeps null data, checks versions, and reports which operation failed and why."""
    with ZooKeeperClient(chroot.config) as client:
        assert client.transact([]).conflict is None
        creates = [Create("/a", None), Create("/a/b", b"1"), Create("/e", b"", ephemeral=True)]
        assert client.transact(creates).conflict is None
        assert chroot.other.get("/a")[0] is None
        assert chroot.other.exists("/e").ephemeralOwner == client.session_id
        failing = {
            Reason.NODE_EXISTS: Create("/a", b""),
            Reason.NO_NODE: SetData("/x", b""),
            Reason.BAD_VERSION: Check("/a/b", 7),
            Reason.NOT_EMPTY: Delete("/a"),
            Reason.EPHEMERAL_PARENT: Create("/e/x", None),
        }
        for reason, operation in failing.items():
            outcome = client.transact([Create("/c", None), operation, Create("/d", None)])
            assert outcome.conflict == Conflict(operation, reason)
        assert client.transact([SetData("/a/b", b"2", 0), Check("/a/b", 1), Delete("/a/b", 1)]).conflict is None
        assert client.children_many(["/", "/a"]) == {"/": ["a", "brokers", "consumers", "e"], "/a": []}


def test_open_acls_are_what_kafka_sets(chroot: Chroot) -> None:
    """Created znodes have open ACLs, like those of the old consumer."""
    with ZooKeeperClient(chroot.config) as client:
        client.transact([Create("/a", None)])
    assert chroot.other.get_acls("/a")[0] == [make_acl("world", "anyone", all=True)]
