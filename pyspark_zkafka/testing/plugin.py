"""The pytest plugin: a cluster, mock brokers and a schema registry. They start when a test requests them.

Importing it must stay cheap, because every pytest run loads it where this package is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark_zkafka.testing.local_cluster import LocalCluster
    from pyspark_zkafka.testing.mock_cluster import MockCluster
    from pyspark_zkafka.testing.servers import LocalSchemaRegistry


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the `zkafka_cluster` fixture."""
    group = parser.getgroup("zkafka", "local Kafka cluster")
    group.addoption("--zkafka-kafka-version", default="3.9.1", metavar="VERSION", help="Kafka's version [3.9.1]")
    group.addoption("--zkafka-brokers", default=3, type=int, metavar="N", help="number of brokers [3]")
    group.addoption("--zkafka-cluster", metavar="NAME", help="use the cluster that `zkafka cluster up` started, by name")


@pytest.fixture(scope="session")
def zkafka_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Real brokers, with ZooKeeper before Kafka 4, started at first use. All tests and workers of pytest-xdist share them.

    With workers or ``--zkafka-cluster``, tests can use the servers but not stop them (see `attach`).
    """
    from pyspark_zkafka.testing.detached import attach, share
    from pyspark_zkafka.testing.local_cluster import LocalCluster

    options = {
        "kafka_version": request.config.getoption("--zkafka-kafka-version"),
        "brokers": request.config.getoption("--zkafka-brokers"),
        # The default of 6 s is too short on a busy machine.
        "broker_config": {"zookeeper.session.timeout.ms": "18000"},
    }
    if name := request.config.getoption("--zkafka-cluster"):
        yield attach(name)
    elif hasattr(request.config, "workerinput"):
        controller = os.getppid()
        yield share(f"pytest-{controller}", options, controller)
    else:
        with LocalCluster(**options) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def zkafka_schema_registry() -> Iterator[LocalSchemaRegistry]:
    """A real schema registry, started at first use, in each worker of pytest-xdist."""
    from pyspark_zkafka.testing.servers import LocalSchemaRegistry

    with LocalSchemaRegistry() as registry:
        yield registry


@pytest.fixture
def zkafka_mock_cluster() -> Iterator[MockCluster]:
    """Three mock brokers in this process, without Java and without ZooKeeper. Each test gets new brokers."""
    from pyspark_zkafka.testing.mock_cluster import MockCluster

    with MockCluster(brokers=3) as cluster:
        yield cluster
