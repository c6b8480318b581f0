"""Metrics of a cluster and its groups, from made-up values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.inspect.groups import (
    GroupReport,
    GroupReports,
    LogBounds,
    LogsReport,
    Member,
    Owner,
    PartitionReport,
    UnreadableZnode,
)
from pyspark_zkafka.inspect.metrics import Gauge, cluster_metrics, group_metrics, log_metrics, partition_metrics
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
SNAPSHOT = ClusterSnapshot(
    brokers={1: Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),)), 2: Broker(2, ())},
    topics={"t": Topic("t", {0: (1, 2), 1: (2, 1), 2: (3,)})},
    states={T0: PartitionState(1, 0, (1, 2)), T1: PartitionState(1, 0, (1,)), T2: PartitionState(3, 0, (3,))},
    controller=2,
)
CONSUMER = "g_vm-1-1795228857340-a1264592"
GROUP = GroupReport(
    "g",
    members={CONSUMER: Member(ConsumerRegistration({"t": 1})), "idle": Member(ConsumerRegistration({}))},
    owners={T0: Owner(f"{CONSUMER}-0")},
    offsets={T0: StoredOffset(3, modified_ms=5_000), T1: StoredOffset(10, modified_ms=7_500)},
    topics=frozenset("t"),
)


def values(gauges: Iterable[Gauge]) -> dict[str, dict[tuple[str, ...], float]]:
    return {gauge.name: dict(gauge.values) for gauge in gauges}


def described(bounds: dict[TopicPartition, LogBounds]) -> list[PartitionReport]:
    return GroupReports({"g": GROUP}, logs=LogsReport(bounds)).partitions


def test_brokers_and_controller() -> None:
    """Metrics show the number of live brokers, the addresses of registered brokers, and the controller."""
    found = values(cluster_metrics(ClusterReport(SNAPSHOT, controller_epoch=7)))
    assert found["kafka_brokers"] == {(): 2}
    assert found["kafka_broker_info"] == {("1", "h:9092"): 1}
    assert found["zkafka_active_controllers"] == {(): 1}
    assert found["zkafka_controller_id"] == {(): 2}
    assert found["zkafka_controller_epoch"] == {(): 7}


def test_without_a_controller() -> None:
    """If no broker is the controller, the controller's id is absent."""
    found = values(cluster_metrics(ClusterReport()))
    assert found["zkafka_active_controllers"] == {(): 0}
    assert found["zkafka_controller_id"] == {}


def test_partitions() -> None:
    """Each partition has its leader, preferred leader, replicas and ISR; without a live leader, it is offline."""
    found = values(cluster_metrics(ClusterReport(SNAPSHOT)))
    assert found["kafka_topic_partitions"] == {("t",): 3}
    assert found["kafka_topic_partition_leader"] == {("t", "0"): 1, ("t", "1"): 1}
    assert list(found["kafka_topic_partition_leader_is_preferred"].values()) == [1, 0, 0]
    assert list(found["kafka_topic_partition_replicas"].values()) == [2, 2, 1]
    assert list(found["kafka_topic_partition_in_sync_replica"].values()) == [2, 1, 1]
    assert list(found["kafka_topic_partition_under_replicated_partition"].values()) == [0, 1, 0]
    assert list(found["zkafka_topic_partition_offline"].values()) == [0, 0, 1]


def test_partitions_during_a_migration() -> None:
    """A leader that has left ZooKeeper for KRaft counts as alive, as ZooKeeper still has its partitions' states."""
    left = replace(SNAPSHOT, brokers={2: SNAPSHOT.brokers[2]}, kraft_epoch=3)
    found = values(cluster_metrics(ClusterReport(left)))
    assert found["kafka_topic_partition_leader"][("t", "0")] == 1
    assert found["kafka_topic_partition_leader_is_preferred"][("t", "0")] == 1
    assert list(found["zkafka_topic_partition_offline"].values())[:2] == [0, 0]


def test_logs() -> None:
    """The bounds of a log are absent if its leader did not respond."""
    found = values(log_metrics({T0: LogBounds(2, 9), T1: LogBounds()}))
    assert found["kafka_topic_partition_current_offset"] == {("t", "0"): 9}
    assert found["kafka_topic_partition_oldest_offset"] == {("t", "0"): 2}


def test_members() -> None:
    """Each member has its number of partitions, which may be 0, and its host if its id contains one."""
    found = values(group_metrics([GROUP], ["t"]))
    assert found["kafka_consumergroup_members"] == {("g",): 2}
    assert found["zkafka_consumergroup_member_partitions"] == {("g", CONSUMER, "vm-1"): 1, ("g", "idle", ""): 0}


@pytest.mark.parametrize(
    ("members", "unreadable", "left"),
    [
        ({"a": {"t": 1}}, (), {("g", "u"): 1}),
        ({"a": {"t": 1}, "b": {"u": 1}}, (), {}),
        ({}, (), {}),
        ({"a": {"t": 1}}, ("b",), {}),
    ],
)
def test_topics_that_members_left(
    members: dict[str, dict[str, int]], unreadable: tuple[str, ...], left: dict[tuple[str, ...], int]
) -> None:
    """Existing topics of a group are marked if its members are known, and none subscribes to the topic."""
    paths = {name: f"/consumers/g/ids/{name}" for name in unreadable}
    group = GroupReport(
        "g",
        members={name: Member(ConsumerRegistration(topics)) for name, topics in members.items()},
        topics=frozenset({"t", "u", "deleted"}),
        unreadable_members={name: UnreadableZnode(path, CodecError(path, b"", "JSON")) for name, path in paths.items()},
    )
    assert values(group_metrics([group], ["t", "u", "v"]))["zkafka_consumergroup_unsubscribed_topic"] == left


def test_partitions_of_groups() -> None:
    """Each partition of a group has its offset, lag, owner and last commit, and each topic has sums."""
    found = values(partition_metrics(described({T0: LogBounds(0, 9), T1: LogBounds(0, 10), T2: LogBounds(0, 5)})))
    lag = {("g", "t", "0"): 6, ("g", "t", "1"): 0}
    assert found["kafka_consumergroup_current_offset"] == {("g", "t", "0"): 3, ("g", "t", "1"): 10}
    assert found["kafka_consumergroup_lag"] == found["kafka_consumergroupzookeeper_lag_zookeeper"] == lag
    assert found["kafka_consumergroup_lag_sum"] == {("g", "t"): 6}
    assert found["kafka_consumergroup_current_offset_sum"] == {("g", "t"): 13}
    assert list(found["zkafka_consumergroup_partition_owned"].values()) == [1, 0, 0]
    assert found["zkafka_consumergroup_owner_info"] == {("g", "t", "0", CONSUMER, "vm-1"): 1}
    assert list(found["zkafka_consumergroup_last_commit_timestamp_seconds"].values()) == [5.0, 7.5]


def test_offset_beyond_its_log() -> None:
    """An offset beyond the end of its log has a negative lag, which does not make up for another one in the sum."""
    found = values(partition_metrics(described({T0: LogBounds(0, 9), T1: LogBounds(0, 4), T2: LogBounds(0, 5)})))
    assert found["kafka_consumergroup_lag"] == {("g", "t", "0"): 6, ("g", "t", "1"): -6}
    assert found["kafka_consumergroup_lag_sum"] == {("g", "t"): 6}


@pytest.mark.parametrize("end", [None, 9])
def test_unknown_lags_are_absent(end: int | None) -> None:
    """If the end of a log is unknown, its lag is absent, and so is the topic's sum of lags, which would otherwise drop."""
    found = values(partition_metrics(described({T0: LogBounds(), T1: LogBounds(None, end)})))
    assert "kafka_consumergroup_lag" in found
    assert ("g", "t", "0") not in found["kafka_consumergroup_lag"]
    assert found["kafka_consumergroup_lag_sum"] == {}
    assert found["kafka_consumergroup_current_offset_sum"] == {("g", "t"): 13}
    assert found["kafka_consumergroup_current_offset"] == {("g", "t", "0"): 3, ("g", "t", "1"): 10}
