"""Stopped, killed and paused servers of a real LocalCluster, and expired sessions."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.topics import AdminTopics
from tests.support.eventually import eventually
from tests.support.processes import alive
from tests.support.zookeeper_sessions import connections


@pytest.fixture(autouse=True)
def _all_up(breakable_cluster: LocalCluster) -> Iterator[None]:
    yield
    for server in ("zookeeper", *breakable_cluster.broker_ids):
        if breakable_cluster.pid(server) is None:
            breakable_cluster.restart(server)


def test_stop_and_restart(breakable_cluster: LocalCluster) -> None:
    """A stopped broker's znode is gone and another leads; restarted, it keeps port and data, and can lead again."""
    breakable_cluster.create_topic("moved", replication=2)
    breakable_cluster.produce("moved", [{"value": b"x"}])
    port = breakable_cluster.port(0)
    breakable_cluster.stop(0)
    assert breakable_cluster.pid(0) is None
    assert breakable_cluster.running_broker_ids == [1, 2]
    with breakable_cluster.zookeeper() as zookeeper:
        assert sorted(zookeeper.get_children("/brokers/ids")) == ["1", "2"]
    assert breakable_cluster.wait_for_leader("moved", 0, not_broker=0) == 1
    breakable_cluster.restart(0)
    assert breakable_cluster.port(0) == port
    breakable_cluster.elect_preferred_leaders("moved")
    assert breakable_cluster.wait_for_leader("moved", 0) == 0
    assert breakable_cluster.produce("moved", [{"value": b"y"}]) == {0: [1]}


@pytest.mark.long
def test_kill(breakable_cluster: LocalCluster) -> None:
    """After a kill the process is gone, a new leader follows when the session has expired, and restart waits for that."""
    breakable_cluster.create_topic("killed", assignment={0: [1, 2]})
    pid = breakable_cluster.pid(1)
    assert pid is not None
    breakable_cluster.kill(1)
    assert not alive(pid)
    assert breakable_cluster.wait_for_leader("killed", 0, not_broker=1) == 2
    breakable_cluster.restart(1)
    breakable_cluster.wait_in_sync("killed")


@pytest.mark.long
def test_session_that_expires_at_the_start() -> None:
    """A restart succeeds even if the broker loses its session during startup, ends, and is started again."""
    with LocalCluster(brokers=1, broker_config={"zookeeper.session.timeout.ms": "1000"}) as cluster:

        def connected() -> bool:
            return any("to=1000," in line for line in connections(cluster.port("zookeeper")))

        for _ in range(5):
            cluster.stop(0)
            restart = threading.Thread(target=cluster.restart, args=(0,))
            restart.start()
            eventually(connected)
            pid = cluster.pid(0)
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            eventually(lambda: not connected())  # the session has expired
            os.kill(pid, signal.SIGCONT)
            restart.join()
            assert cluster.running_broker_ids == [0]
            if cluster.pid(0) != pid:
                break
        else:
            pytest.fail("the session did not expire")


@pytest.mark.long
def test_pause_and_resume(breakable_cluster: LocalCluster) -> None:
    """A paused broker loses its leadership, and is in sync again after `resume`."""
    breakable_cluster.create_topic("paused", assignment={0: [2, 0]})
    breakable_cluster.pause(2)
    assert breakable_cluster.running_broker_ids == [0, 1]
    assert breakable_cluster.wait_for_leader("paused", 0, not_broker=2) == 0
    breakable_cluster.resume(2)
    breakable_cluster.wait_ready()
    breakable_cluster.wait_in_sync("paused")


@pytest.mark.long
def test_kill_while_paused(breakable_cluster: LocalCluster) -> None:
    """A paused broker can be killed and restarted; a stopped server cannot be paused."""
    breakable_cluster.pause(2)
    breakable_cluster.kill(2)
    with pytest.raises(LocalClusterError, match=r"SERVER_NOT_RUNNING.*broker-2"):
        breakable_cluster.pause(2)
    breakable_cluster.restart(2)
    assert breakable_cluster.running_broker_ids == [0, 1, 2]


def test_zookeeper_faults(breakable_cluster: LocalCluster) -> None:
    """ZooKeeper can be paused, killed and restarted, and brokers and topics are still there afterwards."""
    breakable_cluster.create_topic("survives", replication=3)
    breakable_cluster.pause("zookeeper")
    breakable_cluster.resume("zookeeper")
    breakable_cluster.kill("zookeeper")
    breakable_cluster.restart("zookeeper")
    assert breakable_cluster.wait_for_leader("survives", 0) in breakable_cluster.broker_ids
    breakable_cluster.restart(0, "zookeeper", 1)
    assert breakable_cluster.produce("survives", [{"value": b"x"}]) == {0: [0]}


def test_expire_session(breakable_cluster: LocalCluster) -> None:
    """The owner of an expired session sees it lost, and its ephemeral znode is deleted at once."""
    states: list[str] = []
    client = KazooClient(breakable_cluster.zookeeper_connect)
    client.add_listener(states.append)
    client.start()
    try:
        client.create("/mine", ephemeral=True)
        breakable_cluster.expire_session(*client.client_id)
        with breakable_cluster.zookeeper() as other:
            assert other.exists("/mine") is None
        eventually(lambda: KazooState.LOST in states)
    finally:
        client.stop()
        client.close()


@pytest.mark.long
def test_session_expiry_of_a_broker_is_survived(breakable_cluster: LocalCluster) -> None:
    """`wait_ready` returns only when a broker that lost its session is registered again."""
    breakable_cluster.pause(0)
    with breakable_cluster.zookeeper() as zookeeper:
        eventually(lambda: zookeeper.exists("/brokers/ids/0") is None)
    breakable_cluster.resume(0)
    breakable_cluster.wait_ready()
    with breakable_cluster.zookeeper() as zookeeper:
        assert zookeeper.exists("/brokers/ids/0") is not None


@pytest.mark.long
def test_topics_when_the_controller_has_moved(breakable_cluster: LocalCluster) -> None:
    """A client finds a controller that has moved, and creates a topic there."""
    with (
        AdminClient({"bootstrap.servers": breakable_cluster.bootstrap_servers}) as admin,
        breakable_cluster.zookeeper() as zookeeper,
    ):
        topics = AdminTopics(admin)
        topics.create("before-the-move", {0: [0]}, {})
        before = json.loads(zookeeper.get("/controller")[0])["brokerid"]

        def moved() -> bool:
            with suppress(NoNodeError):
                if json.loads(zookeeper.get("/controller")[0])["brokerid"] != before:
                    return True
                zookeeper.delete("/controller")
            return False

        eventually(moved)
        topics.create("after-the-move", {0: [0]}, {})
    assert breakable_cluster.wait_for_leader("after-the-move", 0) == 0
