"""Decisions of a member that Kafka coordinates."""

from __future__ import annotations

from pyspark_zkafka.group.kafka_rebalance import Assignment, Hold, hold_s
from pyspark_zkafka.protocol.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def test_assignments_add_up() -> None:
    """Each assignment adds to those before, and what stays keeps its claim."""
    first = Assignment().assign([T0], "c")
    both = first.assign([T1], "c")
    assert both.owned[T0] == first.owned[T0]
    assert both.owned[T1].sequence > first.owned[T0].sequence
    assert both.assign([], "c").owned == both.owned


def test_revocation() -> None:
    """What is revoked is owned no more; the rest stays as it was."""
    assigned = Assignment().assign([T0, T1], "c")
    left = assigned.revoke([T1, T2])
    assert left.owned == {T0: assigned.owned[T0]}
    assert left.incarnation == assigned.incarnation


def test_expulsion() -> None:
    """An expelled member owns nothing, and what it planned before stays forbidden when it owns the same again."""
    expelled = Assignment().assign([T0, T1], "c").expel()
    assert expelled.owned == {}
    again = expelled.assign([T0, T1], "c")
    assert again.committable({T0: 5}, incarnation=0) == {}
    assert again.committable({T0: 5}, incarnation=1) == {T0: 5}


def test_committable() -> None:
    """Only offsets of owned partitions can be committed."""
    assert Assignment().assign([T0, T1], "c").committable({T1: 1, T2: 2}, 0) == {T1: 1}


def test_hold() -> None:
    """A revocation waits for what is read of the revoked partitions, until its time is over."""
    hold = Hold(frozenset([T0, T1]), until=10.0)
    assert hold.kept([T1, T2], now=9.9) == {T1}
    assert hold.kept([T2], now=0.0) == frozenset()
    assert hold.kept([T1], now=10.0) == frozenset()


def test_hold_within_the_poll_interval() -> None:
    """A hold is shorter than the time after which the coordinator expels the member."""
    assert hold_s(4_000, 300_000) == 4.0
    assert hold_s(300_000, 10_000) == 8.0
