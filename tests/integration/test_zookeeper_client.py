"""`ZooKeeperClient` against a real ZooKeeper: what it reads, what it refuses, and how long it takes to say so."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl

from pyspark_zkafka.errors import ChrootMissing, ClusterStateError, CodecError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.protocol.model import Broker, Endpoint, PartitionState, TopicPartition
from pyspark_zkafka.protocol.znodes import brokers as broker_znodes
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.protocol.znodes.admin import AdminState
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration, LegacyPartition
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import Results, Watch, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Conflict, Create, Delete, Reason, SetData

if TYPE_CHECKING:
    from conftest import Chroot

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.server

SECRET = "open-sesame"
ALICE = ("digest", f"alice:{SECRET}")


@pytest.fixture
def config(zkafka_cluster: LocalCluster) -> ZooKeeperConfig:
    """Where the real brokers are."""
    hosts, _, chroot = zkafka_cluster.zookeeper_connect.partition("/")
    return ZooKeeperConfig(hosts, f"/{chroot}")


def make_topic(chroot: Chroot, name: str, partitions: int) -> None:
    """Write the znodes of a topic that broker 1 leads."""
    registration = znodes.TopicRegistration({p: (1,) for p in range(partitions)}, 1)
    state = znodes.encode_partition_state(PartitionState(1, 0, (1,), 1))
    paths = [znodes.partition_state_path(TopicPartition(name, p)) for p in range(partitions)]
    topic = znodes.topic_path(name)
    creates = [Create(topic, znodes.encode_topic(registration)), Create(f"{topic}/partitions", None)]
    for path in paths:
        creates += [Create(path.rpartition("/")[0], None), Create(path, state)]
    with ZooKeeperConnection(chroot.config) as connection:
        assert connection.transaction(creates) is None


# --- a real cluster


@pytest.mark.parametrize("timeout_ms", [3000, 5000])
def test_the_session_timeout_is_the_one_asked_for(config: ZooKeeperConfig, timeout_ms: int) -> None:
    """ZooKeeper keeps the session as long as zookeeper.session.timeout.ms says."""
    host, _, port = config.hosts.partition(":")
    with (
        ZooKeeperClient(replace(config, session_timeout_ms=timeout_ms)) as client,
        socket.create_connection((host, int(port)), timeout=10) as console,
    ):
        console.sendall(b"cons")
        sessions = b"".join(iter(lambda: console.recv(65536), b"")).decode()
        (ours,) = [line for line in sessions.splitlines() if f"sid=0x{client.session_id:x}," in line]
    assert f"to={timeout_ms}," in ours


def test_a_snapshot_shows_the_real_cluster(zkafka_cluster: LocalCluster, config: ZooKeeperConfig, new_topic: Any) -> None:
    """Brokers with endpoints, a topic with its id and leaders, controller and cluster id are those of the brokers."""
    topic = new_topic(partitions=3)
    with ZooKeeperClient(config) as client:
        whole, named = client.snapshot(), client.snapshot([topic, "no-such-topic", "", "a/b", ".."])
        assert topic in client.topic_names()
        assert client.czxid(topic) == named.topics[topic].czxid
        assert client.czxid("no-such-topic") is None
    assert sorted(named.brokers) == zkafka_cluster.broker_ids
    addresses = {str(e) for broker in named.brokers.values() for e in broker.endpoints}
    assert set(zkafka_cluster.bootstrap_servers.split(",")) <= addresses
    assert list(named.topics) == [topic]
    assert len(named.topics[topic].topic_id or "") == 22
    assert named.led(topic) == [0, 1, 2]
    assert named.controller in named.brokers
    assert len(named.cluster_id or "") == 22
    assert whole.topics[topic] == named.topics[topic]
    assert whole.brokers == named.brokers


def test_a_topic_made_again_has_another_czxid(
    zkafka_cluster: LocalCluster, config: ZooKeeperConfig, new_topic: Any
) -> None:
    """Deletion and creation under the same name are visible."""
    topic = new_topic(partitions=1)
    with ZooKeeperClient(config) as client:
        before = client.czxid(topic)
        zkafka_cluster.delete_topic(topic)
        zkafka_cluster.create_topic(topic, partitions=1)
        after = client.czxid(topic)
    assert before is not None
    assert after is not None
    assert after > before


def test_topic_configs_are_the_topics_own(config: ZooKeeperConfig, new_topic: Any) -> None:
    """Only what was set for the topic is there; unknown topics are left out."""
    topic = new_topic(partitions=1, config={"retention.ms": "86400000"})
    with ZooKeeperClient(config) as client:
        assert client.topic_configs([topic, "no-such-topic"]) == {topic: {"retention.ms": "86400000"}}
        assert client.topic_configs()[topic] == {"retention.ms": "86400000"}


# --- getting in


def test_a_wrong_chroot_is_named_with_the_right_one(config: ZooKeeperConfig) -> None:
    """The error names the chroot that is missing and the ones that hold a cluster; nothing is created."""
    with pytest.raises(ChrootMissing, match=rf"/nowhere .* a Kafka cluster is under .*{config.chroot}"):
        ZooKeeperClient(replace(config, chroot="/nowhere")).__enter__()
    with ZooKeeperConnection(replace(config, chroot="")) as root:
        assert "/nowhere" not in root.exists_many(["/nowhere"])


def test_a_chroot_without_kafka_is_told_apart(config: ZooKeeperConfig) -> None:
    """A chroot that exists and holds no cluster is another error, and it speaks of KRaft."""
    with pytest.raises(ClusterStateError, match=r"no /brokers/ids; a Kafka cluster is under .*KRaft.*kafka\.bootstrap"):
        ZooKeeperClient(replace(config, chroot="")).__enter__()


def test_a_server_that_refuses_connections_is_an_error_in_time() -> None:
    """Nobody listens: the error names hosts and cause, within the connection timeout."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{unused.getsockname()[1]}"
        took = _fails_to_connect(ZooKeeperConfig(hosts, connection_timeout_ms=700), f"{hosts}.*Connection refused")
    assert took < 2


def test_a_host_without_address_is_an_error_in_time() -> None:
    """An unknown name is said to be one."""
    config = ZooKeeperConfig("no-such-host.invalid:2181", connection_timeout_ms=700)
    _fails_to_connect(config, "Cannot resolve no-such-host")


def test_a_server_that_is_silent_is_an_error_in_time() -> None:
    """A server that accepts connections and never answers does not hold us longer than the connection timeout."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = ZooKeeperConfig(
            f"127.0.0.1:{silent.getsockname()[1]}", session_timeout_ms=30_000, connection_timeout_ms=700
        )
        took = _fails_to_connect(config, "within 700 ms")
    assert took < 2


def _fails_to_connect(config: ZooKeeperConfig, message: str) -> float:
    started, threads = time.monotonic(), threading.active_count()
    with pytest.raises(ZooKeeperError, match=message):
        ZooKeeperClient(config).__enter__()
    assert threading.active_count() == threads
    return time.monotonic() - started


def test_nothing_is_left_when_it_is_closed(config: ZooKeeperConfig) -> None:
    """The threads are gone, the session is too, closing twice is harmless, and a closed client says that it is closed."""
    threads = threading.active_count()
    with ZooKeeperClient(config) as client:
        assert client.session_id
        with pytest.raises(ZooKeeperError, match="ZOOKEEPER_ALREADY_OPEN"):
            client.__enter__()
    client.close()
    assert threading.active_count() == threads
    with pytest.raises(ZooKeeperError, match="ZOOKEEPER_NOT_OPEN"):
        client.topic_names()
    with client:
        assert client.snapshot().brokers


def test_an_ensemble_that_stops_answering_is_an_error_in_time(
    zkafka_cluster: LocalCluster, config: ZooKeeperConfig
) -> None:
    """A frozen server ends a read after the connection timeout, and does not hold up closing."""
    with ZooKeeperClient(replace(config, connection_timeout_ms=800)) as client:
        zkafka_cluster.pause("zookeeper")
        started = time.monotonic()
        try:
            with pytest.raises(ZooKeeperError, match=r"Reading .*/brokers/topics .* no answer within 800 ms"):
                _read_on(client)
            client.close()
        finally:
            zkafka_cluster.resume("zookeeper")
        assert time.monotonic() - started < 4


def _read_on(client: ZooKeeperClient) -> None:
    """Read until it fails: the signal takes a moment to arrive."""
    for _ in range(1000):
        client.topic_names()


def test_a_lost_connection_is_made_again_within_a_read(config: ZooKeeperConfig) -> None:
    """A read whose connection breaks is sent again."""
    with ZooKeeperClient(config) as client:
        brokers = client.snapshot().brokers
        for _ in range(3):
            client._kazoo._connection._socket.shutdown(socket.SHUT_RDWR)
            assert client.snapshot().brokers == brokers


# --- rights


def test_digest_credentials_open_what_an_acl_closes(chroot: Chroot) -> None:
    """Without credentials, or with others, the error names the path; with the right ones it is read."""
    make_topic(chroot, "secret", 1)
    chroot.other.add_auth(*ALICE)
    chroot.other.set_acls("/brokers/topics/secret", [make_digest_acl("alice", SECRET, all=True)])
    path = f"{chroot.config.chroot}/brokers/topics/secret"
    for auth, who in ((None, "anonymously"), (("digest", "bob:x"), "as the digest user")):
        with (
            ZooKeeperClient(replace(chroot.config, auth=auth)) as client,
            pytest.raises(ZooKeeperRefused, match=rf"Reading {path} was refused: an ACL forbids it, asked {who}"),
        ):
            client.snapshot()
    with ZooKeeperClient(replace(chroot.config, auth=ALICE)) as client:
        assert list(client.snapshot().topics) == ["secret"]


def test_reading_needs_no_more_than_the_right_to_read(chroot: Chroot) -> None:
    """In a tree that the world may only read, everything can be read, and writing is refused with the path."""
    make_topic(chroot, "t", 1)
    chroot.other.create("/consumers/g/offsets/t/0", b"5", makepath=True)
    admin = make_digest_acl("alice", SECRET, all=True)
    paths = ["/brokers/topics/t", "/brokers/topics", "/consumers/g", "/consumers"]
    for path in paths:
        chroot.other.set_acls(path, [*READ_ACL_UNSAFE, admin])
    try:
        with ZooKeeperClient(chroot.config) as client:
            assert list(client.snapshot().topics) == ["t"]
            assert client.group_offsets("g") == {TopicPartition("t", 0): 5}
            with pytest.raises(ZooKeeperRefused, match=rf"Create {chroot.config.chroot}/consumers/new in a transaction"):
                client.transaction([Check("/brokers"), Create("/consumers/new", None), Create("/consumers/new/ids", None)])
    finally:
        chroot.other.add_auth(*ALICE)
        for path in paths:
            chroot.other.set_acls(path, OPEN_ACL_UNSAFE)


def test_credentials_do_not_appear_in_logs_or_errors(chroot: Chroot, caplog: pytest.LogCaptureFixture) -> None:
    """At the lowest log level, and in what errors and the configuration show, the password is not there."""
    caplog.set_level(1)
    config = replace(chroot.config, auth=ALICE)
    with ZooKeeperClient(config) as client:
        client.snapshot()
    with pytest.raises(ChrootMissing) as error:
        ZooKeeperClient(replace(config, chroot="/nowhere")).__enter__()
    assert SECRET not in caplog.text + str(error.value) + repr(config)
    assert "Connecting to" in caplog.text


def test_sasl_where_the_server_has_none_is_an_error_in_time(config: ZooKeeperConfig) -> None:
    """A server without SASL never finishes the exchange; we do."""
    started = time.monotonic()
    with pytest.raises(ZooKeeperError, match=r"that they support SASL \(zookeeper.auth\)"):
        ZooKeeperClient(replace(config, auth=("sasl", f"DIGEST-MD5:alice:{SECRET}"), connection_timeout_ms=700)).__enter__()
    assert time.monotonic() - started < 3


# --- what is read


class Meddled(ZooKeeperClient):
    """A client in whose first round of requests somebody deletes znodes."""

    def __init__(self, config: ZooKeeperConfig, chroot: Chroot, paths: Iterable[str]) -> None:
        super().__init__(config)
        self._chroot, self._paths = chroot, list(paths)

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
    ) -> Results:
        answers = super().ask(get, children, exists, watch)
        if children:
            for path in self._paths:
                self._chroot.other.delete(path, recursive=True)
            self._paths = []
        return answers


def test_znodes_that_vanish_meanwhile_are_left_out(chroot: Chroot) -> None:
    """A topic, a broker, a member and an owner that go between listing and reading are no error."""
    make_topic(chroot, "stays", 1)
    make_topic(chroot, "goes", 1)
    chroot.other.create("/brokers/ids/1", b"c:kafka1:9092")
    chroot.other.create("/consumers/g/ids/c", b"x", makepath=True)
    chroot.other.create("/consumers/g/owners/t/0", b"c-0", makepath=True)
    with Meddled(chroot.config, chroot, ["/brokers/topics/goes", "/brokers/ids/1"]) as client:
        snapshot = client.snapshot()
    assert (list(snapshot.topics), dict(snapshot.brokers)) == (["stays"], {})
    assert snapshot.without_leader([TopicPartition("stays", 0)])
    with Meddled(chroot.config, chroot, ["/consumers/g"]) as client:
        assert client.group_owners("g") == {}
    assert not chroot.other.exists("/consumers/g")


def test_more_partitions_than_requests_in_flight(chroot: Chroot) -> None:
    """5,000 partitions are read in several rounds; each has its state."""
    for number in range(5):
        make_topic(chroot, f"topic-{number}", 1000)
    chroot.other.create("/brokers/ids/1", broker_znodes.encode_broker(_broker()))
    with ZooKeeperClient(chroot.config) as client:
        snapshot = client.snapshot()
    assert len(snapshot.states) == 5000
    assert snapshot.led("topic-4") == list(range(1000))


def _broker() -> broker_znodes.BrokerRegistration:
    return broker_znodes.BrokerRegistration(Broker(1, (Endpoint("A", "SSL", "h", 1),)), 5, None, -1, timestamp="0")


def test_a_cluster_of_0_7_shows_its_brokers(chroot: Chroot) -> None:
    """Brokers of 0.7 are there; topics in its layout are left out of the snapshot, and listed by name."""
    chroot.other.create("/brokers/ids/3", b"creator-1:kafka3:9092")
    chroot.other.create("/brokers/topics/login/3", b"2", makepath=True)
    with ZooKeeperClient(chroot.config) as client:
        snapshot = client.snapshot()
        assert client.topic_names() == ["login"]
    assert dict(snapshot.brokers) == {3: Broker(3, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka3", 9092),))}
    assert dict(snapshot.topics) == {}
    assert (snapshot.controller, snapshot.cluster_id) == (None, None)


def test_a_malformed_znode_is_named(chroot: Chroot) -> None:
    """Somebody wrote into a topic's znode: the error says which."""
    chroot.other.create("/brokers/topics/broken", b"hello")
    with ZooKeeperClient(chroot.config) as client, pytest.raises(CodecError, match=r"/brokers/topics/broken .* b'hello'"):
        client.snapshot()


def test_administration_under_way_is_shown(chroot: Chroot) -> None:
    """Nothing at first; then a reassignment, an election and a deletion."""
    with ZooKeeperClient(chroot.config) as client:
        assert client.admin_state() == AdminState()
        moves = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[7]}]}'
        chroot.other.create("/admin/reassign_partitions", moves, makepath=True)
        election = b'{"version":1,"partitions":[{"topic":"t","partition":1}]}'
        chroot.other.create("/admin/preferred_replica_election", election)
        chroot.other.create("/admin/delete_topics/gone", makepath=True)
        tp = TopicPartition("t", 0)
        assert client.admin_state() == AdminState({tp: (7,)}, (TopicPartition("t", 1),), ("gone",))


def test_a_group_is_shown_with_members_owners_and_offsets(chroot: Chroot) -> None:
    """Readable members and unreadable ones, claims and offsets of both layouts; an unknown group has nothing."""
    json = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1"}'
    data = {
        "ids/g_c1": json,
        "ids/g_c2": b"t",
        "owners/t/0": b"g_c1-0",
        "owners/t/1-3": b"g_old-0",
        "offsets/t/0": b"20",
        "offsets/t/1": b"-1",
        "offsets/t/1-3": b"4096",
    }
    for path, value in data.items():
        chroot.other.create(f"/consumers/g/{path}", value, makepath=True)
    tp, old = TopicPartition("t", 0), LegacyPartition("t", 1, 3)
    with ZooKeeperClient(chroot.config) as client:
        members = client.group_members("g")
        assert client.groups() == ["g"]
        assert members.readable == {"g_c1": ConsumerRegistration({"t": 2}, "static", "1")}
        assert "/consumers/g/ids/g_c2" in str(members.unreadable["g_c2"])
        assert client.group_owners("g") == {tp: "g_c1-0"}
        assert client.legacy_owners("g") == {old: "g_old-0"}
        assert client.group_offsets("g") == {tp: 20, TopicPartition("t", 1): -1}
        assert client.group_offsets("g", [tp, TopicPartition("t", 7)]) == {tp: 20}
        assert client.legacy_offsets("g") == {old: 4096}
        assert client.group_offsets("unknown") == {}
        assert client.group_members("unknown").readable == {}


def test_a_malformed_offset_is_named(chroot: Chroot) -> None:
    """An offset with a newline, as the JVM refuses it, is an error with its path, asked for or found."""
    chroot.other.create("/consumers/g/offsets/t/0", b"7\n", makepath=True)
    with ZooKeeperClient(chroot.config) as client:
        for partitions in (None, [TopicPartition("t", 0)]):
            with pytest.raises(CodecError, match="/consumers/g/offsets/t/0 "):
                client.group_offsets("g", partitions)


# --- the parts


def test_a_watch_tells_once_of_each_change(chroot: Chroot) -> None:
    """Children, data and existence are watched; the same watch set twice tells once."""
    told = threading.Semaphore(0)

    def watch(event: object) -> None:
        told.release()

    with ZooKeeperClient(chroot.config) as client:
        client.ask(get=["/brokers"], children=["/consumers"], exists=["/new"], watch=watch)
        client.ask(get=["/brokers"], children=["/consumers"], exists=["/new"], watch=watch)
        chroot.other.set("/brokers", b"x")
        chroot.other.create("/consumers/g")
        chroot.other.create("/new")
        assert all(told.acquire(timeout=5) for _ in range(3))
        chroot.other.delete("/new")
        assert not told.acquire(timeout=0.2)


def test_a_transaction_is_all_or_nothing(chroot: Chroot) -> None:
    """Null data is null, versions are checked, and the conflict says which operation failed, and why."""
    with ZooKeeperClient(chroot.config) as client:
        assert client.transaction([]) is None
        assert client.transaction([Create("/a", None), Create("/a/b", b"1"), Create("/e", b"", ephemeral=True)]) is None
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
            outcome = client.transaction([Create("/c", None), operation, Create("/d", None)])
            assert outcome == Conflict(operation, reason)
        assert client.transaction([SetData("/a/b", b"2", 0), Check("/a/b", 1), Delete("/a/b", 1)]) is None
        assert client.children_many(["/", "/a"]) == {"/": ["a", "brokers", "consumers", "e"], "/a": []}


def test_open_acls_are_what_kafka_sets(chroot: Chroot) -> None:
    """What we create is open to the world, as what the old consumer creates."""
    with ZooKeeperClient(chroot.config) as client:
        client.transaction([Create("/a", None)])
    assert chroot.other.get_acls("/a")[0] == [make_acl("world", "anyone", all=True)]
