"""LocalCluster in KRaft mode: nodes, topics and their leaders."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalCluster, run_kafka_tool


@pytest.mark.parametrize("kraft_cluster", ["4.3.1"], indirect=True)
def test_no_zookeeper(kraft_cluster: LocalCluster) -> None:
    """LocalCluster refuses whatever needs ZooKeeper, with the reason and a version that has it."""
    for request in (
        lambda: kraft_cluster.zookeeper_connect,
        kraft_cluster.zookeeper,
        lambda: kraft_cluster.stop("zookeeper"),
        lambda: kraft_cluster.expire_session(1, b""),
    ):
        with pytest.raises(LocalClusterError, match=r"NO_ZOOKEEPER.*KRaft mode.*3\.9\.1"):
            request()


@pytest.mark.long
@pytest.mark.parametrize("kraft_cluster", ["4.3.1"], indirect=True)
def test_features(kraft_cluster: LocalCluster) -> None:
    """LocalCluster has a real cluster's features, such as KIP-848 groups, because Kafka's tool formats its storage."""
    tool = "org.apache.kafka.tools.FeatureCommand"
    described = run_kafka_tool("4.3.1", tool, "--bootstrap-server", kraft_cluster.bootstrap_servers, "describe")
    (groups,) = [line for line in described.splitlines() if "group.version" in line and "share" not in line]
    assert "FinalizedVersionLevel: 1" in groups


@pytest.mark.long
@pytest.mark.parametrize("kraft_cluster", ["4.3.1"], indirect=True)
def test_brokers_that_are_controllers(kraft_cluster: LocalCluster) -> None:
    """A topic's leader moves when its broker, also a controller, is stopped or killed, and back by an election."""
    cluster = kraft_cluster
    assert cluster.controller_ids == cluster.broker_ids == [0, 1, 2]
    cluster.create_topic("moved", partitions=3, replication=2)
    cluster.add_partitions("moved", 4)
    assert cluster.assignment("moved") == {0: [0, 1], 1: [1, 2], 2: [2, 0], 3: [0, 1]}
    cluster.stop(0)
    assert cluster.running_broker_ids == [1, 2]
    assert cluster.wait_for_leader("moved", 0) == 1
    cluster.restart(0)
    cluster.elect_preferred_leaders("moved")
    cluster.kill(0)
    assert cluster.wait_for_leader("moved", 0, not_broker=0) == 1
    assert cluster.produce("moved", [{"value": b"x", "partition": 0}]) == {0: [0]}
    cluster.restart(0)
    cluster.elect_preferred_leaders("moved")
    cluster.delete_topic("moved")
    with pytest.raises(LocalClusterError, match="NO_SUCH_TOPIC"):
        cluster.assignment("moved")


@pytest.mark.long
@pytest.mark.parametrize("kraft_cluster", ["3.9.1"], indirect=True)
def test_separate_controller(kraft_cluster: LocalCluster) -> None:
    """A separate controller can be killed and restarted; records are written without it."""
    (controller,) = kraft_cluster.controller_ids
    kraft_cluster.create_topic("before")
    kraft_cluster.kill(controller)
    assert kraft_cluster.produce("before", [{"value": b"x"}]) == {0: [0]}
    kraft_cluster.restart(controller)
    kraft_cluster.create_topic("after")
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_SERVER.*brokers \[0\].*controllers \[3000\]"):
        kraft_cluster.stop(7)
