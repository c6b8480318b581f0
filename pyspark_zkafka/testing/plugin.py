"""The pytest plugin: a local cluster for a whole test session, on request of a test.

Cheap to import, as it is loaded in every pytest run where this package is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark_zkafka.testing.cluster import LocalCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the `zkafka_cluster` fixture."""
    group = parser.getgroup("zkafka", "local Kafka cluster")
    group.addoption("--zkafka-kafka-version", default="3.9.1", metavar="VERSION", help="Kafka's version [3.9.1]")
    group.addoption("--zkafka-brokers", default=3, type=int, metavar="N", help="number of brokers [3]")


@pytest.fixture(scope="session")
def zkafka_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A real ZooKeeper and real brokers, started at first use and shared by the session."""
    from pyspark_zkafka.testing.cluster import LocalCluster

    version = request.config.getoption("--zkafka-kafka-version")
    brokers = request.config.getoption("--zkafka-brokers")
    patient = {"zookeeper.session.timeout.ms": "18000"}  # 6 s are too short on a machine that tests keep busy
    with LocalCluster(brokers=brokers, kafka_version=version, broker_config=patient) as cluster:
        yield cluster
