"""Cluster for the schedules of use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.faults.use.topics import BROKER_CONFIG


@pytest.fixture(scope="module")
def one_broker() -> Iterator[LocalCluster]:
    """A cluster that no other test uses, because schedules pause its servers."""
    with LocalCluster(brokers=1, broker_config=BROKER_CONFIG) as cluster:
        yield cluster
