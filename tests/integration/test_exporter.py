"""The exporter on a real cluster, scraped over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.exporters import running_exporter, value
from tests.support.wire import Wire

pytestmark = pytest.mark.server


def test_a_scrape(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """A scrape has a group's offset, lag, owner, last commit and members, and the cluster's partitions and brokers."""
    topic, group = new_topic(partitions=2, replication=2), "exported"
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": 0}] * 10)
    with zkafka_cluster.zookeeper() as znodes:
        subscription = f'{{"version":1,"subscription":{{"{topic}":1}},"pattern":"static","timestamp":"1795227256228"}}'
        root = f"/consumers/{group}"
        znodes.create(f"{root}/ids/{group}_c", subscription.encode(), ephemeral=True, makepath=True)
        znodes.create(f"{root}/owners/{topic}/0", f"{group}_c-0".encode(), ephemeral=True, makepath=True)
        znodes.create(f"{root}/offsets/{topic}/0", b"4", makepath=True)
        committed = znodes.get(f"{root}/offsets/{topic}/0")[1].mtime / 1000
        leader = zkafka_cluster.assignment(topic)[0][0]
        with running_exporter(
            "--group-filter", f"^{group}$", ZKAFKA_ZOOKEEPER=zkafka_cluster.zookeeper_connect
        ) as exporter:
            found = exporter.scrape()
        znodes.delete(root, recursive=True)
    place = {"topic": topic, "partition": 0}
    owned = {"consumergroup": group, **place}
    assert value(found, "zkafka_up") == value(found, "zkafka_brokers_up") == 1
    assert value(found, "kafka_brokers") == len(zkafka_cluster.broker_ids)
    assert value(found, "zkafka_controller_id") in zkafka_cluster.broker_ids
    assert value(found, "zkafka_controller_epoch")
    assert value(found, "kafka_topic_partitions", topic=topic) == 2
    assert value(found, "kafka_topic_partition_leader", **place) == leader
    assert value(found, "kafka_topic_partition_replicas", **place) == 2
    assert value(found, "kafka_topic_partition_current_offset", **place) == 10
    assert value(found, "kafka_topic_partition_oldest_offset", **place) == 0
    assert value(found, "kafka_consumergroup_current_offset", **owned) == 4
    assert value(found, "kafka_consumergroup_lag", **owned) == 6
    assert value(found, "kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 6
    assert value(found, "kafka_consumergroup_members", consumergroup=group) == 1
    assert value(found, "zkafka_consumergroup_last_commit_timestamp_seconds", **owned) == committed
    assert value(found, "zkafka_consumergroup_owner_info", **owned, consumer_id=f"{group}_c", host="") == 1
    assert value(found, "zkafka_consumergroup_partition_owned", **{**owned, "partition": 1}) == 0


@pytest.mark.long
def test_zookeeper_fails(zkafka_cluster: LocalCluster) -> None:
    """While ZooKeeper is unreachable, scrapes return zkafka_up 0; the exporter recovers afterwards."""
    _, _, chroot = zkafka_cluster.zookeeper_connect.partition("/")
    with (
        Wire(zkafka_cluster.port("zookeeper")) as wire,
        running_exporter(ZKAFKA_ZOOKEEPER=f"{wire.address}/{chroot}") as exporter,
    ):
        assert value(exporter.scrape(), "zkafka_up") == 1
        wire.cut()
        cut = exporter.scrape()
        assert value(cut, "zkafka_up") == 0
        assert value(cut, "kafka_brokers") is None
        wire.mend()
        assert value(exporter.scrape(), "zkafka_up") == 1
    assert "ZooKeeper cannot be read" in exporter.log
    assert "Connection dropped" not in exporter.log  # one line for each attempt to connect
