"""Clients for groups that stay open while the groups' coordinators change."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.kafka.group_admin import GroupAdmin
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually


@pytest.fixture
def admin(zkafka_cluster: LocalCluster) -> Iterator[GroupAdmin]:
    """A client that is open for the whole test."""
    with GroupAdmin(zkafka_cluster.bootstrap_servers, {}) as opened:
        yield opened


def coordinator(cluster: LocalCluster, group: str) -> int:
    """The broker that coordinates a group, as a new client finds it once the brokers agree on one."""
    (found,) = eventually(lambda: _coordinators(cluster, group), poll_s=0.3)
    return found


def _coordinators(cluster: LocalCluster, group: str) -> list[int]:
    """None while the broker that was asked names one that answers that it is none."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as fresh:
        try:
            return [int(fresh.describe_consumer_groups([group])[group].result(30).coordinator.id)]
        except KafkaException:
            return []


def test_replaced_coordinator(zkafka_cluster: LocalCluster, admin: GroupAdmin) -> None:
    """A client finds the next coordinator of a group whose last one runs again, and is it no more."""
    topic, group = f"topic-{secrets.token_hex(4)}", f"group-{secrets.token_hex(4)}"
    zkafka_cluster.create_topic(topic, replication=3)
    place = TopicPartition(topic, 0)
    admin.alter_offsets(group, {place: 1})
    assert admin.committed(group) == {place: 1}
    first = coordinator(zkafka_cluster, group)
    zkafka_cluster.wait_in_sync("__consumer_offsets")
    zkafka_cluster.restart(first)
    eventually(lambda: coordinator(zkafka_cluster, group) != first, poll_s=0.3)
    assert admin.group_states([group])[group].name == "EMPTY"
    assert admin.committed(group) == {place: 1}
    assert admin.alter_offsets(group, {place: 2}) == {}
    assert admin.committed(group) == {place: 2}
