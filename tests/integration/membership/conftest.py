"""Groups of each kind, for tests that apply to any membership."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support.memberships import BY_KIP_848, MemberGroup


@pytest.fixture
def no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members in ZooKeeper of this process that learn of changes from watches only, not from their sweeps."""
    monkeypatch.setattr("pyspark_zkafka.group.assignment._SWEEP_S", 3600.0)


@pytest.fixture(params=["zookeeper", "cooperative-sticky", pytest.param("range", marks=pytest.mark.long), BY_KIP_848])
def group(request: pytest.FixtureRequest) -> Iterator[MemberGroup]:
    """A group with a topic of four partitions, of each kind."""
    cluster = request.getfixturevalue("kafka4" if request.param == "consumer" else "zkafka_cluster")
    topic = f"shared-{secrets.token_hex(4)}"
    cluster.create_topic(topic, partitions=4)
    made = MemberGroup(cluster, request.param, topic)
    yield made
    made.close()
