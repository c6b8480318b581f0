"""Decisions of a member of a group that Kafka coordinates: what it owns, and until when it keeps what is revoked.

Pure: values in, values out. `pyspark_zkafka.group.kafka_turns` acts on these decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark_zkafka.protocol.model import Claim, TopicPartition

__all__ = ["Assignment", "Hold", "hold_s", "is_final"]

_SHARE_OF_POLL_INTERVAL = 0.8


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member owns.

    `sequence` numbers the claims, and `incarnation` the times that the coordinator has expelled the member: what an earlier
    incarnation has planned must not be committed, even where the same partitions are assigned again.
    """

    owned: Mapping[TopicPartition, Claim] = field(default_factory=dict)
    sequence: int = 0
    incarnation: int = 0

    def assign(self, partitions: Collection[TopicPartition], consumer: str) -> Assignment:
        """The assignment with partitions that the coordinator has added.

        >>> t0 = TopicPartition("t", 0)
        >>> Assignment().assign([t0], "c").revoke([t0]).assign([t0], "c").owned[t0].sequence
        2
        """
        sequence = self.sequence + 1
        return replace(
            self, owned={**self.owned, **dict.fromkeys(partitions, Claim(consumer, sequence))}, sequence=sequence
        )

    def revoke(self, partitions: Collection[TopicPartition]) -> Assignment:
        """The assignment without partitions that the member has released."""
        leaving = set(partitions)
        return replace(self, owned={tp: claim for tp, claim in self.owned.items() if tp not in leaving})

    def expel(self) -> Assignment:
        """The assignment of a member that the coordinator has expelled."""
        return replace(self, owned={}, incarnation=self.incarnation + 1)

    def committable(self, offsets: Mapping[TopicPartition, int], incarnation: int) -> dict[TopicPartition, int]:
        """Those of the offsets that the member may commit: brokers check the member, but not what it owns.

        >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> assigned = Assignment().assign([t0], "c")
        >>> assigned.committable({t0: 5, t1: 7}, incarnation=0) == {t0: 5}
        True
        >>> assigned.expel().assign([t0], "c").committable({t0: 5}, incarnation=0)
        {}
        """
        if incarnation != self.incarnation:
            return {}
        return {tp: offset for tp, offset in offsets.items() if tp in self.owned}


@dataclass(frozen=True, slots=True)
class Hold:
    """Partitions that the coordinator revokes, and the time until which the running micro-batch may keep them."""

    revoking: frozenset[TopicPartition]
    until: float

    def kept(self, reading: Collection[TopicPartition], now: float) -> frozenset[TopicPartition]:
        """The partitions that keep the revocation waiting; none once the time is over.

        >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> hold = Hold(frozenset([t0]), until=5.0)
        >>> hold.kept([t0, t1], now=4.0), hold.kept([t1], now=4.0), hold.kept([t0], now=5.0)
        (frozenset({TopicPartition(topic='t', partition=0)}), frozenset(), frozenset())
        """
        return self.revoking.intersection(reading) if now < self.until else frozenset()


def is_final(
    assigned: Mapping[str, Collection[TopicPartition]],
    member: str,
    owned: Collection[TopicPartition],
    partitions: Collection[TopicPartition],
) -> bool:
    """True if a stable group, as its coordinator describes it, has nothing more to assign to the member.

    While a cooperative rebalance waits for a member to release partitions, the group is stable, too, but nobody is assigned
    them. `partitions` are all those of the member's topics.

    >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> is_final({"a": [t0], "b": []}, "b", [], [t0, t1])
    False
    >>> is_final({"a": [t0], "b": [t1]}, "b", [], [t0, t1]), is_final({"a": [t0], "b": [t1]}, "b", [t1], [t0, t1])
    (False, True)
    """
    everyones = {tp for places in assigned.values() for tp in places}
    return set(assigned.get(member, ())) == set(owned) and everyones.issuperset(partitions)


def hold_s(hold_ms: int, max_poll_interval_ms: int) -> float:
    """The time for which a revocation may wait: a member that waits for the whole poll interval is expelled.

    >>> hold_s(30_000, 300_000), hold_s(60_000, 50_000)
    (30.0, 40.0)
    """
    return min(hold_ms, max_poll_interval_ms * _SHARE_OF_POLL_INTERVAL) / 1000
