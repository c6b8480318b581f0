"""A cluster with one broker that accepts the login and one that refuses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.server, pytest.mark.long]

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LETS_IN, REFUSES = 0, 1
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": f"sesame-{LETS_IN}",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers with different passwords, and a topic with one partition on each."""
    config = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_alice="sesame-{{id}}";',
        "offsets.topic.replication.factor": "1",
    }
    with LocalCluster(brokers=2, listeners={"LOGIN": "SASL_PLAINTEXT"}, broker_config=config) as cluster:
        cluster.create_topic("t", assignment={0: [LETS_IN], 1: [REFUSES]})
        yield cluster


@pytest.fixture(scope="module")
def servers(cluster: LocalCluster) -> str:
    """The address of the broker that accepts the login."""
    return next(s for s in cluster.listener_servers("LOGIN").split(",") if s.endswith(f":{cluster.port(LETS_IN, 'LOGIN')}"))


@pytest.fixture(scope="module")
def group(cluster: LocalCluster) -> str:
    """A group whose coordinator is the broker that refuses the login."""
    plain = {"bootstrap.servers": cluster.bootstrap_servers}
    consumer = Consumer({**plain, "group.id": "first"})
    # Creates the topic of offsets: without it, an admin client aborts the process some time after a request has timed out.
    consumer.committed([KafkaTopicPartition("t", 0)], timeout=60)
    consumer.close()

    def coordinator(admin: AdminClient, name: str) -> int:
        return int(admin.describe_consumer_groups([name], request_timeout=60)[name].result(60).coordinator.id)

    with AdminClient(plain) as admin:
        return next(name for name in (f"g{n}" for n in range(20)) if coordinator(admin, name) == REFUSES)


@pytest.mark.parametrize("timeout_ms", [1000, 10_000])
def test_a_leader_that_refuses(servers: str, timeout_ms: int) -> None:
    """A leader that refuses the login fails its partition, next to one that answers, however short the time-out is."""
    wanted = {TopicPartition("t", number): LATEST for number in (0, 1)}
    with KafkaAdmin(servers, {**LOGIN, "socket.timeout.ms": timeout_ms}) as admin:
        _, failed = admin.list_offsets_each(wanted)
    error = failed[TopicPartition("t", 1)]
    assert error.condition == "REFUSED_BY_BROKER"
    assert not error.retriable
    assert error.message.startswith("listing the offsets of t-1")


@pytest.mark.parametrize("doing", ["reading", "committing"])
def test_a_coordinator_that_refuses(servers: str, group: str, doing: str) -> None:
    """Offsets in Kafka cannot be read or committed if the coordinator refuses the login."""
    place = TopicPartition("t", 0)
    with KafkaGroupOffsets(servers, LOGIN, group) as offsets:
        with pytest.raises(ClusterStateError, match=rf"REFUSED_BY_BROKER\] {doing} the offsets of group {group}") as caught:
            _ = offsets.committed([place]) if doing == "reading" else offsets.commit({place: 1})
        assert not caught.value.retriable
