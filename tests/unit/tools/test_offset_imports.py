"""Imports of offsets, on an ensemble and brokers of values."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.tools.offset_files import GroupOffset
from pyspark_zkafka.tools.offset_imports import OffsetImports
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BROKERS: Any = GroupBrokers({T0: (10, 100), T1: (0, 20)})


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with a topic, and a group that has one offset of it."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    client.put("/consumers/g/offsets/t/0", b"50")
    return client


def test_import(client: EnsembleClient) -> None:
    """Each group gets its offsets; those outside of the logs are moved to the nearer end, with a warning."""
    imports = OffsetImports(client, BROKERS)
    planned = imports.plan([GroupOffset("g", T0, 5), GroupOffset("h", T1, 7)])
    assert planned.offsets == {"g": {T0: 10}, "h": {T1: 7}}
    assert len(planned.warnings) == 1
    assert planned.warnings[0].startswith("g: ")
    assert (planned.current("g", T0), planned.current("h", T1)) == (50, None)
    imports.apply(planned, "h")
    assert (client.data("/consumers/h/offsets/t/1"), client.data("/consumers/g/offsets/t/0")) == (b"7", b"50")


def test_unchecked(client: EnsembleClient) -> None:
    """Unchecked offsets, of unknown partitions, too, are taken as they are."""
    gone = TopicPartition("gone", 3)
    planned = OffsetImports(client, BROKERS, checked=False).plan([GroupOffset("g", T0, 5), GroupOffset("g", gone, 1)])
    assert (planned.offsets, planned.warnings) == ({"g": {T0: 5, gone: 1}}, ())


def test_unknown_partition(client: EnsembleClient) -> None:
    """A partition that does not exist is refused before anything is written."""
    with pytest.raises(ClusterStateError, match="t-9"):
        OffsetImports(client, BROKERS).plan([GroupOffset("g", T0, 5), GroupOffset("g", TopicPartition("t", 9), 5)])


def test_positions_of_kafka_07(client: EnsembleClient) -> None:
    """Byte positions of Kafka 0.7 are not compared with logs."""
    legacy = LegacyPartition("t", 1, 0)
    client.put("/consumers/g/offsets/t/1-0", b"4096")
    planned = OffsetImports(client, BROKERS).plan([GroupOffset("g", legacy, 8192)])
    assert (planned.offsets, planned.current("g", legacy)) == ({"g": {legacy: 8192}}, 4096)


def test_active_group(client: EnsembleClient) -> None:
    """A group with a member prevents the whole import."""
    client.put("/consumers/h/ids/h_a")
    with pytest.raises(GroupError, match="The offsets were not imported: group h must be inactive"):
        OffsetImports(client, BROKERS).plan([GroupOffset("g", T0, 50), GroupOffset("h", T0, 50)])
