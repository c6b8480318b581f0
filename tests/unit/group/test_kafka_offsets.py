"""Offsets of a group that Kafka coordinates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.group.kafka_offsets import KafkaMemberOffsets
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset

T0, T1 = (TopicPartition("t", n) for n in range(2))


class Group:
    """A member and its group's stored offsets; `refusals` are the offsets that others commit before each refusal."""

    owner = ClaimOwner("c", 0)

    def __init__(self, *refusals: Mapping[TopicPartition, int]) -> None:
        self.refusals = list(refusals)
        self.offsets: dict[TopicPartition, int] = {}
        self.begun: list[dict[TopicPartition, int]] = []
        self.is_member = True

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The stored offsets."""
        return {tp: self.offsets[tp] for tp in partitions if tp in self.offsets}

    def begin(self, starts: Mapping[TopicPartition, int], incarnation: int) -> bool:
        """Note the starts, and commit them."""
        self.begun.append(dict(starts))
        if self.refusals:
            self.offsets |= self.refusals.pop(0)
            raise GroupContended("GROUP_REBALANCES", "the group rebalances")
        return self.is_member

    def wait(self, timeout_s: float) -> None:
        """Do not wait."""


def offsets_of(group: Any) -> KafkaMemberOffsets:
    """The group's offsets."""
    return KafkaMemberOffsets(group, group)


def test_start_during_a_rebalance() -> None:
    """A start is tried again after a rebalance, without the partitions that another member has committed meanwhile."""
    group = Group({}, {T1: 9})
    assert offsets_of(group).begin({T0: 5, T1: 6}) == {T0: StoredOffset(5), T1: StoredOffset(9)}
    assert group.begun == [{T0: 5, T1: 6}, {T0: 5, T1: 6}, {T0: 5}]


def test_start_that_others_commit() -> None:
    """Nothing is committed where the group has all offsets."""
    group = Group({T0: 3})
    assert offsets_of(group).begin({T0: 5}) == {T0: StoredOffset(3)}
    assert group.begun == [{T0: 5}]


def test_start_of_an_expelled_member() -> None:
    """The start of a member that was expelled is none."""
    group = Group()
    group.is_member = False
    assert offsets_of(group).begin({T0: 5}) == {}


def test_start_in_an_endless_rebalance() -> None:
    """A start that no pause helps is refused in the end."""
    with pytest.raises(GroupContended, match="GROUP_REBALANCES"):
        offsets_of(Group(*[{}] * 1_000)).begin({T0: 5})
