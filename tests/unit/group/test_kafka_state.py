"""State of a member that Kafka coordinates."""

from __future__ import annotations

from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.protocol.model import TopicPartition

T0, T1 = (TopicPartition("t", n) for n in range(2))
NEVER = float("inf")


def test_assignment_ends_a_revocation() -> None:
    """A member that is assigned partitions is one, waits for nothing, and counts a rebalance."""
    state = MemberState().revoke([T0], NEVER).assign([T1], "c")
    assert (state.is_member, state.is_assigned, state.rebalances) == (True, True, 1)
    assert not state.is_holding([T0], now=0.0)


def test_revocation_waits_for_what_is_read() -> None:
    """A member keeps what is revoked until it is not read any more, or the time is over, and is not settled meanwhile."""
    state = MemberState().assign([T0, T1], "c").revoke([T0], until=10.0)
    assert not state.is_assigned
    assert state.owned(now=1.0).keys() == {T0, T1}
    assert state.is_holding([T0], now=9.9)
    assert not state.is_holding([T1], now=9.9)
    assert not state.is_holding([T0], now=10.0)


def test_release() -> None:
    """A release ends the ownership of what was revoked, and of nothing else."""
    state = MemberState().assign([T0, T1], "c").revoke([T0], NEVER)
    assert state.overdue([T0, T1]) == {T0}
    released = state.release(is_assigned=True)
    assert released.owned(0.0).keys() == {T1}
    assert (released.is_assigned, released.rebalances, released.hold) == (True, 2, None)
    assert released.overdue([T0]) == frozenset()


def test_expulsion() -> None:
    """An expelled member owns nothing, holds nothing, and is another incarnation."""
    expelled = MemberState().assign([T0], "c").revoke([T0], NEVER).expel()
    assert expelled.owned(0.0) == {}
    assert not expelled.is_holding([T0], now=0.0)
    assert (expelled.is_member, expelled.is_assigned, expelled.assignment.incarnation) == (False, False, 1)


def test_process_that_stood_still() -> None:
    """After a process stood still it owns nothing, from before its first turn until two seconds after."""
    state = MemberState(seen_at=100.0).assign([T0], "c")
    assert state.owned(104.9).keys() == {T0}
    assert state.owned(105.1) == {}
    state, stopped_s = state.see(107.0)
    assert stopped_s == 7.0
    assert state.owned(108.9) == {}
    assert state.see(109.0)[0].owned(109.0).keys() == {T0}


def test_expulsion_ends_the_doubt() -> None:
    """A member that knows that it was expelled owns what it is assigned then."""
    state, _ = MemberState(seen_at=100.0).assign([T0], "c").see(110.0)
    assert state.expel().assign([T0], "c").owned(110.1).keys() == {T0}


def test_admission() -> None:
    """A member that is admitted without an assignment is one; a member without topics waits for nothing."""
    assert MemberState().admit() == MemberState(is_assigned=True, is_member=True)
    assert MemberState().idle() == MemberState(is_assigned=True)
    assert not MemberState().idle().await_assignment().is_assigned
