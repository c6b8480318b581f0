"""Group clients that stay open while the groups' coordinators change."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster


@pytest.fixture
def admin(zkafka_cluster: LocalCluster) -> Iterator[GroupAdmin]:
    """A client that stays open for the whole test."""
    with GroupAdmin(zkafka_cluster.bootstrap_servers, {}) as opened:
        yield opened


def coordinator(cluster: LocalCluster, group: str) -> int:
    """Return the broker that coordinates a group, as a new client finds it."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as fresh:
        return int(fresh.describe_consumer_groups([group])[group].result(30).coordinator.id)


def test_replaced_coordinator(zkafka_cluster: LocalCluster, admin: GroupAdmin) -> None:
    """A client finds a group's new coordinator after the former one has restarted and lost the role."""
    topic, group = f"topic-{secrets.token_hex(4)}", f"group-{secrets.token_hex(4)}"
    zkafka_cluster.create_topic(topic, replication=3)
    place = TopicPartition(topic, 0)
    admin.alter_offsets(group, {place: 1})
    assert admin.committed(group) == {place: 1}
    first = coordinator(zkafka_cluster, group)
    zkafka_cluster.wait_in_sync("__consumer_offsets")  # lets another broker become the coordinator
    zkafka_cluster.restart(first)
    assert coordinator(zkafka_cluster, group) != first
    assert admin.group_states([group])[group].name == "Empty"
    assert admin.committed(group) == {place: 1}
    assert admin.alter_offsets(group, {place: 2}) == {}
    assert admin.committed(group) == {place: 2}
