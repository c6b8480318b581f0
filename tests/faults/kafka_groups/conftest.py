"""Groups coordinated by Kafka, on clusters whose brokers may be stopped and killed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.kafka_members import KafkaMemberProcess
from tests.support.memberships import PROMPT, MemberGroup

NewProcess = Callable[..., KafkaMemberProcess]


@pytest.fixture(scope="session")
def faulty_kafka4() -> Iterator[LocalCluster]:
    """Three Kafka 4 brokers and a separate controller; KIP-848 members expire as fast as others."""
    config = {**PROMPT, "offsets.topic.replication.factor": "3"}
    with LocalCluster(kafka_version="4.3.1", brokers=3, controllers=1, broker_config=config) as cluster:
        yield cluster


@pytest.fixture(params=["cooperative-sticky", "consumer"])
def group(request: pytest.FixtureRequest, faulty_kafka4: LocalCluster) -> Iterator[MemberGroup]:
    """A group that reads a topic with four partitions and three replicas."""
    topic = f"faulty-{secrets.token_hex(4)}"
    faulty_kafka4.create_topic(topic, partitions=4, replication=3)
    made = MemberGroup(faulty_kafka4, request.param, topic)
    yield made
    made.close()


@pytest.fixture
def new_process(group: MemberGroup) -> Iterator[NewProcess]:
    """Function that starts members as processes: ``new_process(instance_id="one")``."""
    with ExitStack() as ending:

        def start(**options: Any) -> KafkaMemberProcess:
            servers = group.cluster.bootstrap_servers
            process = KafkaMemberProcess(servers, group.name, group.topic, group.kind, **options)
            ending.callback(process.kill)
            return process

        yield start
