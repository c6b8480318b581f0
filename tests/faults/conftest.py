"""A cluster to break: its brokers compact, delete and give up fast."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_zkafka.testing import LocalCluster

FAST = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "auto.create.topics.enable": "true",
}


@pytest.fixture(scope="session")
def zkafka_cluster() -> Iterator[LocalCluster]:
    """Three brokers; a test that stops one starts it again."""
    with LocalCluster(brokers=3, broker_config=FAST) as cluster:
        yield cluster
