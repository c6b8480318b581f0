"""Reads and writes on brokers with ACLs: the documented rights, and the errors when one is missing."""

from __future__ import annotations

from itertools import count

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.testing import LocalCluster
from tests.support.acls import LOGIN, Right, grant
from tests.support.security import TEN, Options, fails_soon, read_values, write_values
from tests.support.tiers import seldom

TO_READ = r"an ACL must allow Read, Write or Describe on the topic"
TO_WRITE = r"an ACL must allow (Read, Write or Describe|Write) on the topic"
ON_GROUP = r"an ACL must allow Read on the group"
_numbers = count()


@pytest.fixture
def topic(guarded_cluster: LocalCluster) -> str:
    """An empty topic with two partitions, without rights for the user."""
    name = f"topic-{next(_numbers)}"
    guarded_cluster.create_topic(name, partitions=2)
    return name


@pytest.fixture(params=["zookeeper", *seldom("bootstrap")])
def login(request: pytest.FixtureRequest, guarded_cluster: LocalCluster) -> Options:
    """The user's options, with ZooKeeper (which has no ACL) or with brokers only."""
    if request.param == "zookeeper":
        return {"zookeeper.connect": guarded_cluster.zookeeper_connect, **LOGIN}
    return {"kafka.bootstrap.servers": guarded_cluster.listener_servers("LOGIN"), **LOGIN}


def allow(cluster: LocalCluster, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Grant the user one operation."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        grant(admin, [Right(kind, name, operation)])


def fill_with_ten(cluster: LocalCluster, topic: str) -> None:
    """Write ten records, five to each partition."""
    cluster.produce(topic, [{"value": value, "partition": number % 2} for number, value in enumerate(TEN)])


@pytest.mark.parametrize("transport", ["direct", *seldom("librdkafka")])
def test_read(guarded_cluster: LocalCluster, topic: str, login: Options, transport: str) -> None:
    """A read needs only Read on its topics."""
    fill_with_ten(guarded_cluster, topic)
    options = {**login, "subscribe": topic, "transport": transport}
    fails_soon(ZKafkaError, TO_READ, lambda: read_values(options))
    allow(guarded_cluster, ResourceType.TOPIC, topic, AclOperation.READ)
    assert read_values(options) == TEN


@pytest.mark.parametrize("path", ["direct", *seldom("librdkafka")])
def test_write(guarded_cluster: LocalCluster, topic: str, login: Options, path: str) -> None:
    """A write needs only Write on its topic."""
    options = {**login, "topic": topic, "transport": path}
    fails_soon(ZKafkaError, TO_WRITE, lambda: write_values(options, TEN))
    allow(guarded_cluster, ResourceType.TOPIC, topic, AclOperation.WRITE)
    write_values(options, TEN)
    assert read_values({"kafka.bootstrap.servers": guarded_cluster.bootstrap_servers, "subscribe": topic}) == TEN


@pytest.mark.parametrize("login", ["zookeeper", "bootstrap"], indirect=True)
def test_offsets_in_kafka(guarded_cluster: LocalCluster, topic: str, login: Options) -> None:
    """Reading and committing offsets in Kafka also needs Read on the group."""
    fill_with_ten(guarded_cluster, topic)
    group = f"group-{topic}"
    with GroupAdmin(guarded_cluster.bootstrap_servers, {}) as superuser:
        superuser.alter_offsets(group, {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 3})
    committed = {"group.id": group, "offsets.storage": "kafka", "startingOffsets": "committed"}
    options = {**login, "subscribe": topic, **committed}
    allow(guarded_cluster, ResourceType.TOPIC, topic, AclOperation.READ)
    fails_soon(ZKafkaError, ON_GROUP, lambda: read_values(options))
    allow(guarded_cluster, ResourceType.GROUP, group, AclOperation.READ)
    assert read_values(options) == [b"7", b"9"]
    properties = parse_read(options).connection.kafka
    with KafkaGroupOffsets(guarded_cluster.listener_servers("LOGIN"), properties, group) as offsets:
        offsets.commit({TopicPartition(topic, 1): 5})
    assert read_values(options) == []
