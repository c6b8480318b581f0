"""Offsets in Kafka for users who may not describe ``__consumer_offsets``, as is usual."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long

T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def hidden() -> Iterator[LocalCluster]:
    """A cluster with a topic, in which only the unused user admin may describe ``__consumer_offsets``."""
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalCluster(brokers=1, broker_config=config) as cluster:
        cluster.create_topic("t")
        with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            topic = (ResourceType.TOPIC, "__consumer_offsets", ResourcePatternType.LITERAL)
            acl = AclBinding(*topic, "User:admin", "*", AclOperation.ALL, AclPermissionType.ALLOW)
            admin.create_acls([acl])[acl].result(30)
        yield cluster


def test_hidden_offsets_topic(hidden: LocalCluster) -> None:
    """Offsets and states come from the coordinator, even if it has to create __consumer_offsets first."""
    servers = hidden.bootstrap_servers
    with GroupAdmin(servers, {}) as brokers:
        assert "__consumer_offsets" not in brokers.topic_names()
        assert brokers.committed("new") == {}
    with KafkaGroupOffsets(servers, {}, "g") as consumer:
        consumer.commit({T0: 7})
    with GroupAdmin(servers, {}) as brokers:
        assert brokers.committed_many(["g", "new"]) == {"g": {T0: 7}, "new": {}}
        assert brokers.group_states(["g"])["g"].name == "Empty"
        assert brokers.alter_offsets("g", {T0: 8}) == {}
        assert brokers.committed("g") == {T0: 8}
