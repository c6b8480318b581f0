"""LocalCluster, for real: what it promises about life, faults, topics, versions, and about leaving nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster, cache_folder
from pyspark_zkafka.testing.topics import AdminTopics

pytestmark = pytest.mark.server


def eventually(look: Callable[[], bool], timeout_s: float = 30) -> bool:
    end = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def end_offsets(cluster: LocalCluster, topic: str, partition: int) -> tuple[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    finally:
        consumer.close()
    return low, high


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster of this module's own, whose servers are stopped and killed here."""
    with LocalCluster(racks=["a", "b", "c"]) as started:
        yield started


@pytest.fixture(autouse=True)
def _all_up(cluster: LocalCluster) -> Iterator[None]:
    yield
    for server in ("zookeeper", *cluster.broker_ids):
        if cluster.pid(server) is None:
            cluster.restart(server)


def test_registered(cluster: LocalCluster) -> None:
    """Each broker has its znode under the chroot, with the loopback address and its rack."""
    with cluster.zookeeper() as zookeeper:
        ids = sorted(zookeeper.get_children("/brokers/ids"))
        znode = json.loads(zookeeper.get("/brokers/ids/1")[0])
    assert ids == ["0", "1", "2"]
    assert znode["endpoints"] == [f"PLAINTEXT://127.0.0.1:{cluster.port(1)}"]
    assert znode["rack"] == "b"
    assert cluster.zookeeper_connect.split("/")[0] == f"127.0.0.1:{cluster.port('zookeeper')}"


def test_listens_on_loopback_alone(cluster: LocalCluster) -> None:
    """No socket of the servers listens on any other address than 127.0.0.1."""
    ports = {cluster.port(s) for s in ("zookeeper", *cluster.broker_ids)}
    rows = [line.split() for f in ("tcp", "tcp6") for line in Path(f"/proc/net/{f}").read_text().splitlines()[1:]]
    listening = {(address, int(port, 16)) for row in rows if row[3] == "0A" for address, port in [row[1].rsplit(":", 1)]}
    assert {(a, p) for a, p in listening if p in ports} == {("0100007F", p) for p in ports}


def test_topics_and_records(cluster: LocalCluster) -> None:
    """Topics are spread round the brokers; records go where they are sent, and partitions can be added."""
    cluster.create_topic("spread", partitions=3, replication=2, config={"retention.ms": "-1"})
    assert cluster.assignment("spread") == {0: [0, 1], 1: [1, 2], 2: [2, 0]}
    assert cluster.produce("spread", [{"value": "a", "partition": 1}, ("k", "b", 1), (None, b"c", 2)]) == {
        1: [0, 1],
        2: [0],
    }
    cluster.add_partitions("spread", 5)
    assert {len(r) for r in cluster.assignment("spread").values()} == {2}
    assert cluster.produce("spread", [{"value": "d", "partition": 4}]) == {4: [0]}


def test_own_assignment(cluster: LocalCluster) -> None:
    """A topic takes the replicas that it is given."""
    cluster.create_topic("own", assignment={0: [2, 1], 1: [0, 2]})
    assert cluster.assignment("own") == {0: [2, 1], 1: [0, 2]}
    assert cluster.wait_for_leader("own", 0) == 2


def test_refusals(cluster: LocalCluster) -> None:
    """What the cluster refuses is an error with its reason."""
    cluster.create_topic("twice")
    with pytest.raises(LocalClusterError, match=r"create topic twice.*already exists"):
        cluster.create_topic("twice")
    with pytest.raises(LocalClusterError, match="REFUSED_BY_CLUSTER"):
        cluster.delete_topic("never-made")
    with pytest.raises(LocalClusterError, match=r"NOT_DELIVERED.*Of 1 records.*1 were not"):
        cluster.produce("twice", [{"value": b"x", "partition": 9}], {"message.timeout.ms": 3000})
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_SERVER.*\[0, 1, 2\]"):
        cluster.stop(7)


def test_deleted(cluster: LocalCluster) -> None:
    """Deleted records move the log's start; a deleted topic can be created again at once."""
    cluster.create_topic("deleted")
    cluster.produce("deleted", [{"value": b"x"}] * 5)
    assert cluster.delete_records("deleted", {0: 3}) == {0: 3}
    assert end_offsets(cluster, "deleted", 0) == (3, 5)
    cluster.delete_topic("deleted")
    cluster.create_topic("deleted")
    assert end_offsets(cluster, "deleted", 0) == (0, 0)


def test_stop_and_restart(cluster: LocalCluster) -> None:
    """A stopped broker's znode is gone, another leads; restarted, it has its port and data, and can lead again."""
    cluster.create_topic("moved", replication=2)
    cluster.produce("moved", [{"value": b"x"}])
    port = cluster.port(0)
    cluster.stop(0)
    assert cluster.pid(0) is None
    assert cluster.running_broker_ids == [1, 2]
    with cluster.zookeeper() as zookeeper:
        assert sorted(zookeeper.get_children("/brokers/ids")) == ["1", "2"]
    assert cluster.wait_for_leader("moved", 0, not_broker=0) == 1
    cluster.restart(0)
    assert cluster.port(0) == port
    cluster.elect_preferred_leaders("moved")
    assert cluster.wait_for_leader("moved", 0) == 0
    assert cluster.produce("moved", [{"value": b"y"}]) == {0: [1]}


def test_kill(cluster: LocalCluster) -> None:
    """After kill the process is gone, the next leader is found when the session has expired, and restart waits for that."""
    cluster.create_topic("killed", assignment={0: [1, 2]})
    pid = cluster.pid(1)
    assert pid is not None
    cluster.kill(1)
    assert not alive(pid)
    assert cluster.wait_for_leader("killed", 0, not_broker=1) == 2
    cluster.restart(1)
    cluster.wait_in_sync("killed")


def test_session_that_expires_at_the_start() -> None:
    """A broker that loses its session while it starts ends by itself, and is started again: the restart succeeds."""
    with LocalCluster(brokers=1, broker_config={"zookeeper.session.timeout.ms": "1000"}) as cluster:
        for _ in range(5):
            cluster.stop(0)
            restart = threading.Thread(target=cluster.restart, args=(0,))
            restart.start()
            assert eventually(lambda: "to=1000," in zookeeper_connections(cluster.port("zookeeper")))
            pid = cluster.pid(0)
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5)
            os.kill(pid, signal.SIGCONT)
            restart.join()
            assert cluster.running_broker_ids == [0]
            if cluster.pid(0) != pid:
                break
        else:
            pytest.fail("the session did not expire")


def zookeeper_connections(port: int) -> str:
    """What ZooKeeper says of its connections: a line for each, with its session's timeout."""
    with socket.create_connection(("127.0.0.1", port), 5) as asking:
        asking.sendall(b"cons")
        return b"".join(iter(lambda: asking.recv(4096), b"")).decode()


def test_pause_and_resume(cluster: LocalCluster) -> None:
    """A paused broker loses its leadership, and is back in sync after resume."""
    cluster.create_topic("paused", assignment={0: [2, 0]})
    cluster.pause(2)
    assert cluster.running_broker_ids == [0, 1]
    assert cluster.wait_for_leader("paused", 0, not_broker=2) == 0
    cluster.resume(2)
    cluster.wait_ready()
    cluster.wait_in_sync("paused")


def test_kill_while_paused(cluster: LocalCluster) -> None:
    """A paused broker can be killed, and restarted; a server that is down cannot be paused."""
    cluster.pause(2)
    cluster.kill(2)
    with pytest.raises(LocalClusterError, match=r"SERVER_NOT_RUNNING.*broker-2"):
        cluster.pause(2)
    cluster.restart(2)
    assert cluster.running_broker_ids == [0, 1, 2]


def test_zookeeper_faults(cluster: LocalCluster) -> None:
    """ZooKeeper can be paused, killed and restarted; brokers and topics are there afterwards."""
    cluster.create_topic("survives", replication=3)
    cluster.pause("zookeeper")
    cluster.resume("zookeeper")
    cluster.kill("zookeeper")
    cluster.restart("zookeeper")
    assert cluster.wait_for_leader("survives", 0) in cluster.broker_ids
    cluster.restart("zookeeper")
    assert cluster.produce("survives", [{"value": b"x"}]) == {0: [0]}


def test_expire_session(cluster: LocalCluster) -> None:
    """The owner of an expired session sees it lost, and its ephemeral znode is gone at once."""
    states: list[str] = []
    client = KazooClient(cluster.zookeeper_connect)
    client.add_listener(states.append)
    client.start()
    try:
        client.create("/mine", ephemeral=True)
        cluster.expire_session(*client.client_id)
        with cluster.zookeeper() as other:
            assert other.exists("/mine") is None
        assert eventually(lambda: KazooState.LOST in states)
    finally:
        client.stop()
        client.close()


def test_session_expiry_of_a_broker_is_survived(cluster: LocalCluster) -> None:
    """wait_ready returns only when a broker that lost its session is registered again."""
    cluster.pause(0)
    with cluster.zookeeper() as zookeeper:
        assert eventually(lambda: zookeeper.exists("/brokers/ids/0") is None)
    cluster.resume(0)
    cluster.wait_ready()
    with cluster.zookeeper() as zookeeper:
        assert zookeeper.exists("/brokers/ids/0") is not None


def test_topics_when_the_controller_has_moved(cluster: LocalCluster) -> None:
    """A client that knows the one before asks who it is now, and creates the topic there."""
    with closing(AdminTopics({"bootstrap.servers": cluster.bootstrap_servers})) as topics, cluster.zookeeper() as zookeeper:
        topics.create("before-the-move", {0: [0]}, {})
        before = json.loads(zookeeper.get("/controller")[0])["brokerid"]

        def moved() -> bool:
            with suppress(NoNodeError):
                if json.loads(zookeeper.get("/controller")[0])["brokerid"] != before:
                    return True
                zookeeper.delete("/controller")
            return False

        assert eventually(moved)
        topics.create("after-the-move", {0: [0]}, {})
    assert cluster.wait_for_leader("after-the-move", 0) == 0


def test_two_at_once_with_own_settings(cluster: LocalCluster) -> None:
    """A second cluster beside the first has its own ports, chroot and folder; extra listeners and ports are filled in."""
    settings = {"broker_config": {"log.dirs": "{data}/own", "auto.create.topics.enable": "true"}}
    zookeeper = {
        "secureClientPort": "{port:tls}",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    }
    with LocalCluster(brokers=1, listeners={"SECOND": "PLAINTEXT"}, zookeeper_config=zookeeper, **settings) as second:
        assert second.zookeeper_connect != cluster.zookeeper_connect
        second.create_topic("orders")
        assert second.produce("orders", [{"value": b"x"}]) == {0: [0]}
        second_listener = {"bootstrap.servers": second.listener_servers("SECOND")}
        assert second.produce("orders", [{"value": b"x"}], second_listener) == {0: [1]}
        folder = second.log(0).parent
        assert (folder / "broker-0" / "own" / "orders-0").is_dir()
        assert second.port("zookeeper", "tls") not in (0, second.port("zookeeper"))
        pids = [second.pid(s) for s in ("zookeeper", 0)]
    assert not folder.exists()
    assert not any(alive(p) for p in pids if p is not None)


@pytest.mark.parametrize("version", ["1.1.1", "0.8.2.2"])
def test_old_versions(version: str) -> None:
    """Old brokers start, take topics, partitions and records, move leaders, and delete topics."""
    with LocalCluster(brokers=2, kafka_version=version) as old:
        old.create_topic("orders", partitions=2, replication=2, config={"retention.ms": "-1"})
        assert old.produce("orders", [(b"k", b"v", 0), (b"k", b"v", 1)]) == {0: [0], 1: [0]}
        old.add_partitions("orders", 3)
        old.stop(0)
        assert old.wait_for_leader("orders", 0, not_broker=0) == 1
        old.restart(0)
        old.elect_preferred_leaders("orders")
        assert old.wait_for_leader("orders", 0) == 0
        old.delete_topic("orders")


def test_broker_that_dies(tmp_path: Path) -> None:
    """A broker that cannot start is an error with its status and the end of its log, and nothing stays."""
    with pytest.raises(LocalClusterError, match=r"SERVER_DIED.*broker-0 ended with exit status 1(?s:.*)num\.io\.threads"):
        LocalCluster(brokers=1, broker_config={"num.io.threads": "many"}).start()
    with pytest.raises(LocalClusterError, match=r"SERVER_DIED.*zookeeper ended(?s:.*)Unrecognized (VM )?option"):
        LocalCluster(brokers=1, zookeeper_jvm_options=["-XX:+NoSuchOption"]).start()


def test_not_ready_in_time() -> None:
    """A cluster that is not ready in time is an error that names what is missing."""
    with pytest.raises(LocalClusterError, match="NOT_READY"):
        LocalCluster(brokers=1, startup_timeout_s=0.01).start()


KILLED = """
import sys, time
from pyspark_zkafka.testing import LocalCluster
cluster = LocalCluster(brokers=2).start()
cluster.pause(1)
print(cluster.log(0).parent, *[cluster.pid(s) for s in ("zookeeper", 0, 1)], flush=True)
time.sleep(100)
"""


def test_killed_parent_leaves_nothing() -> None:
    """After SIGKILL of the process with the cluster, its servers, one of them paused, and their data are gone."""
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        assert all(alive(int(p)) for p in pids)
        parent.send_signal(signal.SIGKILL)
    assert eventually(lambda: not any(alive(int(p)) for p in pids))
    assert eventually(lambda: not Path(folder).exists())


FETCH = "from pyspark_zkafka.testing import fetch_jars; print(*fetch_jars('org.apache.kafka:kafka-clients:0.8.2.2'))"


def test_two_fetch_at_once(tmp_path: Path) -> None:
    """Two processes that need the same jars at the same moment, with an empty cache, both get all of them."""
    environ = {**os.environ, "ZKAFKA_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True, env=environ) for _ in "ab"]
    said = [process.communicate()[0].split() for process in both]
    assert said[0] == said[1]
    assert any(name.endswith("/kafka-clients-0.8.2.2.jar") for name in said[0])
    assert len([p for p in (tmp_path / "jars").iterdir() if p.is_dir()]) == 1


@pytest.fixture
def zkafka(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs the command with a cache folder of the test's own, which has the jars of the user's."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(cache_folder() / "jars")
    environ = {**os.environ, "ZKAFKA_CACHE": str(tmp_path / "cache")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from pyspark_zkafka.cli import main; main()", "cluster", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    yield run
    run("down")


def test_command(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A cluster that was brought up stays after the command, is shown by status, and is gone after down."""
    assert json.loads(zkafka("status", "--json").stdout) == []
    up = zkafka("up", "--brokers", "1", "--json")
    assert up.returncode == 0, up.stderr
    (state,) = json.loads(up.stdout)
    assert json.loads(zkafka("status", "--json").stdout) == [state]
    assert state["listening"] == {"zookeeper": True, "broker-0": True}
    assert "listens" in zkafka("status").stdout
    again = zkafka("up")
    assert (again.returncode, "CLUSTER_ALREADY_UP" in again.stderr) == (1, True)
    assert zkafka("down").returncode == 0
    assert eventually(lambda: not alive(state["pid"]))
    assert not Path(state["folder"]).exists()
    assert json.loads(zkafka("status", "--json").stdout) == []
    assert "NO_CLUSTER_UP" in zkafka("down").stderr


def test_daemon_killed(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """When the daemon of a cluster is killed, the cluster goes with it, and status and up know."""
    (state,) = json.loads(zkafka("up", "--brokers", "1", "--json").stdout)
    os.kill(state["pid"], signal.SIGKILL)
    assert eventually(lambda: not Path(state["folder"]).exists())
    assert json.loads(zkafka("status", "--json").stdout) == []
    assert zkafka("up", "--brokers", "1").returncode == 0


def test_command_failure(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A cluster that cannot start is reported with its reason by the command, and leaves no state."""
    done = zkafka("up", "--brokers", "1", "--config", "num.io.threads=many")
    assert done.returncode == 1
    assert "broker-0 ended with exit status 1" in done.stderr
    assert json.loads(zkafka("status", "--json").stdout) == []
    assert "KEY=VALUE" in zkafka("up", "--config", "nonsense").stderr
