"""The cluster of the schedules of use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_zkafka.testing import LocalCluster


@pytest.fixture(scope="module")
def one_broker() -> Iterator[LocalCluster]:
    """A cluster that nobody else uses: schedules pause its servers."""
    with LocalCluster(brokers=1) as cluster:
        yield cluster
