"""Writes of offsets over those that were read, on an ensemble of values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupContended, GroupError
from pyspark_zkafka.inspect.offsets import StoredOffsets, stored_offsets
from pyspark_zkafka.operations.offset_writes import OffsetWriter
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes.groups import LegacyPartition
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with a group that has one offset."""
    client = EnsembleClient()
    client.put(PATH_0, b"5")
    return client


def writer(client: EnsembleClient, **settings: object) -> OffsetWriter:
    """A writer that does not pause."""
    return OffsetWriter(client, sleep=lambda s: None, **settings)  # type: ignore[arg-type]


def read(client: EnsembleClient) -> StoredOffsets:
    """What is stored now."""
    return stored_offsets(client, ["g"])["g"]


def test_write(client: EnsembleClient) -> None:
    """Offsets are set, back and forth, and those of Kafka 0.7 keep their place."""
    writer(client).write("g", {T0: 3, T1: 7, LegacyPartition("t", 1, 0): 99}, read(client))
    assert [client.data(f"/consumers/g/offsets/t/{key}") for key in ("0", "1", "1-0")] == [b"3", b"7", b"99"]


def test_changed_since(client: EnsembleClient) -> None:
    """An offset that somebody has committed since it was read is not overwritten."""
    before = read(client)
    client.put(PATH_0, b"6")
    with pytest.raises(GroupContended, match=rf"changed by somebody else .*{PATH_0}: .*; nothing was written"):
        writer(client).write("g", {T0: 3}, before)
    assert client.data(PATH_0) == b"6"


def test_created_since(client: EnsembleClient) -> None:
    """So is one that did not exist when it was read."""
    before = read(client)
    client.put("/consumers/g/offsets/t/1", b"6")
    with pytest.raises(GroupContended):
        writer(client).write("g", {T1: 3}, before)


@pytest.mark.parametrize("inactive_only", [True, False])
def test_members(client: EnsembleClient, inactive_only: bool) -> None:
    """A group with members is refused, unless the writer follows these."""
    client.put("/consumers/g/ids/g_a")
    wanted = writer(client, inactive_only=inactive_only)
    if inactive_only:
        with pytest.raises(GroupError, match="Refused, nothing was written"):
            wanted.write("g", {T0: 3}, read(client))
    else:
        wanted.write("g", {T0: 3}, read(client))
    assert client.data(PATH_0) == (b"5" if inactive_only else b"3")


def test_member_that_joins(client: EnsembleClient) -> None:
    """A member that registers after the group was looked at makes the write fail."""
    client.meanwhile = lambda: client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        writer(client).write("g", {T0: 3}, read(client))
    assert client.data(PATH_0) == b"5"


def test_several_transactions(client: EnsembleClient) -> None:
    """If a later transaction fails, the error says which partitions are written."""
    offsets = {TopicPartition("t", number): 1 for number in range(20)}
    before = read(client)
    client.put("/consumers/g/offsets/t/19", b"6")
    with pytest.raises(GroupContended, match=r"first \d+ of 20 partitions, up to t-1\d, are written, the others are not"):
        writer(client, max_transaction_bytes=2_000).write("g", offsets, before)
    assert client.data(PATH_0) == b"1"


def test_lost_answer(client: EnsembleClient) -> None:
    """A transaction that was applied without an answer is not repeated."""
    client.lost_answers = 1
    writer(client).write("g", {T0: 3}, read(client))
    assert (client.data(PATH_0), client.transactions) == (b"3", 1)
