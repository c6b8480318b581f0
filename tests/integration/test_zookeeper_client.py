"""State of a cluster and its groups, read by `ZooKeeperClient`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.security import make_digest_acl

from pyspark_zkafka.errors import CodecError, ZooKeeperMisused, ZooKeeperRefused
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.nouns import Broker, Endpoint, TopicPartition
from pyspark_zkafka.model.znodes.cluster import AdminState, partition_state_path
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.testing import LocalCluster, spec
from pyspark_zkafka.zookeeper import connection
from pyspark_zkafka.zookeeper.connection import Results, Watch, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import DecodedZnodes, ZooKeeperClient
from tests.support.options import ensemble_config
from tests.support.topic_znodes import make_topic

if TYPE_CHECKING:
    from tests.support.chroot import Chroot


def test_a_snapshot_shows_the_real_cluster(
    zkafka_cluster: LocalCluster, zookeeper_config: ZooKeeperConfig, new_topic: Any
) -> None:
    """A snapshot has the real brokers and endpoints, a topic with id and leaders, the controller and the cluster id."""
    topic = new_topic(partitions=3)
    with ZooKeeperClient(zookeeper_config) as client:
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
    zkafka_cluster: LocalCluster, zookeeper_config: ZooKeeperConfig, new_topic: Any
) -> None:
    """A topic that was deleted and created again has a larger czxid."""
    topic = new_topic(partitions=1)
    with ZooKeeperClient(zookeeper_config) as client:
        before = client.czxid(topic)
        zkafka_cluster.delete_topic(topic)
        zkafka_cluster.create_topic(topic, partitions=1)
        after = client.czxid(topic)
    assert before is not None
    assert after is not None
    assert after > before


def test_topic_configs_are_the_topics_own(zookeeper_config: ZooKeeperConfig, new_topic: Any) -> None:
    """`topic_configs` has only settings of the topic itself, and leaves out unknown topics."""
    topic = new_topic(partitions=1, config={"retention.ms": "86400000"})
    with ZooKeeperClient(zookeeper_config) as client:
        assert client.topic_configs([topic, "no-such-topic"]).readable == {topic: {"retention.ms": "86400000"}}
        assert client.topic_configs().readable[topic] == {"retention.ms": "86400000"}


@pytest.mark.parametrize(
    "path", ["", "brokers", "/brokers//ids", "/brokers/ids/", "/brokers/./ids", "/consumers/../brokers"]
)
def test_what_is_no_path(zookeeper_config: ZooKeeperConfig, path: str) -> None:
    """A path that kazoo would normalise, or that leads upwards, is refused."""
    with ZooKeeperClient(zookeeper_config) as client, pytest.raises(ZooKeeperMisused, match="is not the path of a znode"):
        client.exists_many([path])


class Meddled(ZooKeeperClient):
    """A client after whose first or later round that lists children another client deletes znodes."""

    def __init__(self, config: ZooKeeperConfig, chroot: Chroot, paths: Iterable[str], after: int = 1) -> None:
        super().__init__(config)
        self._chroot, self._paths, self._left = chroot, list(paths), after

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
        *,
        sync: bool = False,
    ) -> Results:
        answers = super().ask(get, children, exists, watch, sync=sync)
        self._left -= bool(children)
        if self._left == 0:
            for path in self._paths:
                self._chroot.other.delete(path, recursive=True)
            self._paths = []
        return answers


def test_znodes_that_vanish_meanwhile_are_left_out(chroot: Chroot) -> None:
    """A topic, a broker, a member or an owner that disappears between listing and reading is left out."""
    make_topic(chroot, "stays", 1)
    make_topic(chroot, "goes", 1)
    chroot.other.create("/brokers/ids/1", b"c:kafka1:9092")
    chroot.other.create("/consumers/g/ids/c", b"x", makepath=True)
    with Meddled(chroot.config, chroot, ["/brokers/topics/goes", "/brokers/ids/1"]) as client:
        snapshot = client.snapshot()
    assert list(snapshot.topics) == ["stays"]
    assert dict(snapshot.brokers) == {}
    assert snapshot.without_leader([TopicPartition("stays", 0)])
    with Meddled(chroot.config, chroot, ["/consumers/g/ids/c"]) as client:
        assert client.group_members("g") == DecodedZnodes()
    assert not chroot.other.exists("/consumers/g/ids/c")
    for rounds in (1, 2):  # the first one lists the topics, the second one the claims
        chroot.other.create("/consumers/g/owners/t/0", b"c-0", makepath=True)
        with Meddled(chroot.config, chroot, ["/consumers/g"], rounds) as client:
            assert client.group_owners("g") == {}
        assert not chroot.other.exists("/consumers/g")


@pytest.fixture
def _bulk_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets that bulk reads failed while other tests stopped ZooKeeper."""
    monkeypatch.setattr(connection, "_without_bulk", Remembered())


@pytest.mark.usefixtures("_bulk_reads")
def test_more_partitions_than_requests_in_flight(
    chroot: Chroot, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states of 2,100 partitions, more than are in flight, are read in bulk, and equally one by one with watches."""
    read_in_bulk: list[int] = []
    bulk = ZooKeeperConnection._bulk

    def counted(client: ZooKeeperConnection, asked: Sequence[str]) -> dict[str, Znode] | None:
        found = bulk(client, asked)
        read_in_bulk.append(len(found or ()))
        return found

    monkeypatch.setattr(ZooKeeperConnection, "_bulk", counted)
    make_topic(chroot, "large", 2100)
    chroot.other.create("/brokers/ids/1", b'{"version": 1, "host": "h", "port": 1}')
    paths = [partition_state_path(TopicPartition("large", p)) for p in (*range(2100), 9999)]
    others = ["/brokers/topics/large/partitions", "/brokers/topics"]  # null and empty
    caplog.set_level(logging.INFO)
    with ZooKeeperClient(chroot.config) as client:
        snapshot = client.snapshot()
        in_bulk = client.get_many([*paths, *others])
        singly = client.ask(get=[*paths, *others], watch=lambda _: None).nodes
    assert snapshot.led("large") == list(range(2100))
    assert in_bulk == singly
    assert read_in_bulk == [2100, 2102]
    assert "one by one" not in caplog.text
    assert not connection._without_bulk.get(chroot.config.hosts)
    assert set(in_bulk) == {*paths[:-1], *others}


def test_one_of_many_is_forbidden(chroot: Chroot) -> None:
    """The error names a forbidden znode even if it was requested with many others."""
    make_topic(chroot, "large", 600)
    paths = [partition_state_path(TopicPartition("large", p)) for p in range(600)]
    chroot.other.add_auth("digest", "alice:secret")  # with which the fixture can delete the znode
    chroot.other.set_acls(paths[300], [make_digest_acl("alice", "secret", all=True)])
    with ZooKeeperClient(chroot.config) as client, pytest.raises(ZooKeeperRefused, match=f"{paths[300]} was refused"):
        client.get_many(paths)


@pytest.mark.long
@pytest.mark.usefixtures("_bulk_reads")
@pytest.mark.parametrize("of_kafka", ["1.1.1", "2.7.2"])
def test_older_servers(monkeypatch: pytest.MonkeyPatch, of_kafka: str) -> None:
    """Many znodes are read one by one from ZooKeeper 3.4 and 3.5, and the session survives."""
    monkeypatch.setattr(spec, "ZOOKEEPER_VERSION", of_kafka)
    with LocalCluster(brokers=1, kafka_version=of_kafka) as cluster:
        cluster.create_topic("t", partitions=600)
        hosts, _, chroot = cluster.zookeeper_connect.partition("/")
        paths = [partition_state_path(TopicPartition("t", p)) for p in range(600)]
        with ZooKeeperClient(ensemble_config(hosts, "/" + chroot)) as client:
            session = client.session_id
            found = [client.get_many(paths) for _ in range(2)]
            assert client.session_id == session
            assert connection._without_bulk.get(hosts)
        assert [sorted(nodes) for nodes in found] == [sorted(paths)] * 2


def test_a_cluster_of_0_7_shows_its_brokers(chroot: Chroot) -> None:
    """A snapshot has brokers of Kafka 0.7; its topics are listed by name, but left out of the snapshot."""
    chroot.other.create("/brokers/ids/3", b"creator-1:kafka3:9092")
    chroot.other.create("/brokers/topics/login/3", b"2", makepath=True)
    with ZooKeeperClient(chroot.config) as client:
        snapshot = client.snapshot()
        assert client.topic_names() == ["login"]
    assert dict(snapshot.brokers) == {3: Broker(3, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka3", 9092),))}
    assert dict(snapshot.topics) == {}
    assert snapshot.controller is None
    assert snapshot.cluster_id is None


def test_a_malformed_znode_is_named(chroot: Chroot) -> None:
    """A malformed topic znode raises an error with its path if the topic is requested by name."""
    chroot.other.create("/brokers/topics/broken", b"hello")
    with ZooKeeperClient(chroot.config) as client:
        assert client.snapshot().topics == {}
        with pytest.raises(CodecError, match=r"/brokers/topics/broken .* b'hello'"):
            client.snapshot(["broken"])


def test_administration_under_way_is_shown(chroot: Chroot) -> None:
    """`admin_state` is empty at first, then shows a reassignment, an election and a deletion."""
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
    """A group is read with readable and unreadable members, claims and offsets; an unknown group has none."""
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
    with ZooKeeperClient(chroot.config) as client:
        members = client.group_members("g")
        assert client.groups() == ["g"]
        assert members.readable == {"g_c1": ConsumerRegistration({"t": 2}, "static", "1")}
        assert "/consumers/g/ids/g_c2" in str(members.unreadable["g_c2"])
        assert client.group_owners("g") == {TopicPartition("t", 0): "g_c1-0"}
        assert client.group_offsets("g") == {TopicPartition("t", 0): 20, TopicPartition("t", 1): -1}
        assert client.group_offsets("unknown") == {}
        assert client.group_members("unknown").readable == {}


def test_a_malformed_offset_is_named(chroot: Chroot) -> None:
    """An offset with a newline, which the JVM refuses, raises an error with its path."""
    chroot.other.create("/consumers/g/offsets/t/0", b"7\n", makepath=True)
    with ZooKeeperClient(chroot.config) as client, pytest.raises(CodecError, match="/consumers/g/offsets/t/0 "):
        client.group_offsets("g")
