"""Start, failed start and clean-up of real LocalClusters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jars import cache_folder
from tests.support.eventually import eventually
from tests.support.processes import alive


@pytest.mark.long
def test_two_at_once_with_own_settings(breakable_cluster: LocalCluster) -> None:
    """A second cluster has its own ports, chroot and folder; placeholders for listeners and ports are filled in."""
    settings = {"broker_config": {"log.dirs": "{data}/own", "auto.create.topics.enable": "true"}}
    zookeeper = {
        "secureClientPort": "{port:tls}",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    }
    with LocalCluster(brokers=1, listeners={"SECOND": "PLAINTEXT"}, zookeeper_config=zookeeper, **settings) as second:
        assert second.zookeeper_connect != breakable_cluster.zookeeper_connect
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


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1"])
def test_old_versions(version: str) -> None:
    """Old brokers start, create topics, add partitions, store records, move leaders, and delete topics."""
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


def test_servers_share_archived_classes(breakable_cluster: LocalCluster) -> None:
    """The servers map the archives of their classes from the cache folder."""
    for server, main in (("zookeeper", "QuorumPeerMain"), (0, "kafka.Kafka")):
        maps = Path(f"/proc/{breakable_cluster.pid(server)}/maps").read_text(encoding="utf-8")
        assert re.search(rf"{cache_folder()}/archives/\S*{main}-[0-9a-f]+\.jsa", maps)


def test_broker_that_dies(tmp_path: Path) -> None:
    """A server that cannot start raises an error with its exit status and the end of its log."""
    with pytest.raises(LocalClusterError, match=r"SERVER_DIED.*broker-0 ended with exit status 1(?s:.*)num\.io\.threads"):
        LocalCluster(brokers=1, broker_config={"num.io.threads": "many"}).start()
    with pytest.raises(LocalClusterError, match=r"SERVER_DIED.*zookeeper ended(?s:.*)Unrecognized (VM )?option"):
        LocalCluster(brokers=1, zookeeper_jvm_options=["-XX:+NoSuchOption"]).start()


def test_not_ready_in_time() -> None:
    """A cluster that is not ready in time raises an error."""
    with pytest.raises(LocalClusterError, match="NOT_READY"):
        LocalCluster(brokers=1, startup_timeout_s=0.01).start()


KILLED = """
import sys, time
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jars import cache_folder
cluster = LocalCluster(brokers=2).start()
cluster.pause(1)
print(cluster.log(0).parent, *[cluster.pid(s) for s in ("zookeeper", 0, 1)], flush=True)
time.sleep(100)
"""


@pytest.mark.long
def test_killed_parent_leaves_nothing() -> None:
    """When the process with the cluster is killed, its servers, even a paused one, and their data disappear."""
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        assert all(alive(int(p)) for p in pids)
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not any(alive(int(p)) for p in pids))
    eventually(lambda: not Path(folder).exists())


FETCH = "from pyspark_zkafka.testing import fetch_jars; print(*fetch_jars('org.apache.kafka:kafka-clients:0.8.2.2'))"


@pytest.mark.long
def test_two_fetch_at_once(tmp_path: Path) -> None:
    """Two processes that fetch the same jars at the same time into an empty cache both get all of them."""
    environ = {**os.environ, "ZKAFKA_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True, env=environ) for _ in "ab"]
    said = [process.communicate()[0].split() for process in both]
    assert said[0] == said[1]
    assert any(name.endswith("/kafka-clients-0.8.2.2.jar") for name in said[0])
    assert len([p for p in (tmp_path / "jars").iterdir() if p.is_dir()]) == 1
