"""Members of groups in Kafka on brokers with ACLs: the rights they need, and the errors when one is missing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.testing import LocalCluster
from tests.support.acls import CONFIG, LOGIN, Right, grant, withdraw
from tests.support.fill import fill
from tests.support.memberships import PROMPT, MemberGroup
from tests.support.stream import Stream
from tests.support.tiers import seldom

pytestmark = pytest.mark.long

KRAFT = {**PROMPT, **CONFIG, "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
MISSED = {
    "topic": r"an ACL must allow (Read, Write or Describe|Read) on the topic",
    "group": r"an ACL must allow Read on the group",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """A broker of Kafka 4 whose listener LOGIN allows a user only what tests grant."""
    listeners = {"LOGIN": "SASL_PLAINTEXT"}
    with LocalCluster(kafka_version="4.3.1", brokers=1, listeners=listeners, broker_config=KRAFT) as cluster:
        yield cluster


@pytest.fixture(params=["consumer", *seldom("cooperative-sticky")])
def group(request: pytest.FixtureRequest, guarded: LocalCluster) -> MemberGroup:
    """A group with a topic of four partitions with three records each."""
    topic = f"guarded-{secrets.token_hex(4)}"
    guarded.create_topic(topic, partitions=4)
    fill(guarded, topic, 3, range(4))
    return MemberGroup(guarded, request.param, topic)


@pytest.fixture
def allow(group: MemberGroup) -> Iterator[Callable[..., None]]:
    """Grants the user documented rights until the test ends: ``allow("topic", "group")``."""
    documented = {
        "topic": Right(ResourceType.TOPIC, group.topic, AclOperation.READ),
        "group": Right(ResourceType.GROUP, group.name, AclOperation.READ),
    }
    with AdminClient({"bootstrap.servers": group.cluster.bootstrap_servers}) as admin:
        yield lambda *names: grant(admin, [documented[name] for name in names])
        withdraw(admin, documented.values())


def user_options(group: MemberGroup, **more: str) -> dict[str, str]:
    """Return the options of the user's query."""
    return {**group.options(**more), **LOGIN, "kafka.bootstrap.servers": group.cluster.listener_servers("LOGIN")}


def test_documented_rights(group: MemberGroup, allow: Callable[..., None], stream: Callable[..., Stream]) -> None:
    """The documented rights suffice to join, read and commit."""
    allow("topic", "group")
    query = stream(user_options(group), connection={})
    query.run()
    assert len(query.rows) == 12
    with GroupAdmin(group.cluster.bootstrap_servers, {}) as admin:
        assert admin.committed(group.name) == {TopicPartition(group.topic, n): 3 for n in range(4)}


@pytest.mark.parametrize("missing", MISSED)
def test_missing_right(group: MemberGroup, allow: Callable[..., None], missing: str) -> None:
    """Without one of the documented rights, the query fails within seconds, and the error names the right."""
    allow(*(name for name in MISSED if name != missing))

    def ask(driver: StreamDriver) -> Any:
        return driver.latest(driver.initial(), limited=False)

    with closing(StreamDriver(parse_stream(user_options(group)))) as driver:
        with pytest.raises(ZKafkaError, match=MISSED[missing]) as refused:
            ask(driver)
        assert not refused.value.retriable
