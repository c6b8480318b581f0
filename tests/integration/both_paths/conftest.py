"""Fixtures for reads and writes by both transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.both_paths_reads import Read
from tests.support.both_paths_writes import Write
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]


@pytest.fixture
def read(zkafka_cluster: LocalCluster) -> Read:
    """Reads by both paths: ``read(topic, until, start=3, columns=schema("value"))``."""
    return Read(zkafka_cluster)


@pytest.fixture
def topic_of(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Callable[..., str]:
    """Makes a topic with records: ``topic_of([{"value": b"v"}], config={...}, producer={...})``."""

    def make(
        records: Sequence[Any], config: Mapping[str, str] | None = None, producer: Mapping[str, Any] | None = None
    ) -> str:
        topic = new_topic(config={**KEPT, **(config or {})})
        in_order = {"enable.idempotence": True}
        zkafka_cluster.produce(topic, records, {**in_order, **(producer or {})})
        return topic

    return make


@pytest.fixture
def write(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Write:
    """Writes by both paths: ``write([(batch, [0, 1, 0])], partitions=2)``."""
    return Write(zkafka_cluster, new_topic)
