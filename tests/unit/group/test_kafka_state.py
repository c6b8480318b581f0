"""State of a member in a group that Kafka coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.brokers.group_consumer import CommitAnswer
from pyspark_zkafka.errors import BrokersUnavailable, GroupContended, ZKafkaError
from pyspark_zkafka.group.kafka_state import (
    CommitOutcome,
    CommitQueue,
    MemberState,
    PendingCommit,
    hold_s,
    stall_s,
)
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.options import group_options, kafka_group_options

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
NEVER = float("inf")


def test_assignment_ends_a_revocation() -> None:
    """An assignment makes the member a member, ends a revocation, and counts as a rebalance."""
    state = MemberState().revoke([T0], NEVER).assign([T1], "c")
    assert state.is_member
    assert state.is_assigned
    assert state.rebalances == 1
    assert not state.is_holding([T0], now=0.0)


def test_revocation_waits_for_what_is_read() -> None:
    """A member keeps revoked partitions while they are read, within the hold, and is not settled meanwhile."""
    state = MemberState().assign([T0, T1], "c").revoke([T0], until=10.0)
    assert not state.is_assigned
    assert state.owned(now=1.0).keys() == {T0, T1}
    assert state.is_holding([T0], now=9.9)
    assert not state.is_holding([T1], now=9.9)
    assert not state.is_holding([T0], now=10.0)


def test_release() -> None:
    """A release ends the ownership of exactly the revoked partitions, and the others keep their claims."""
    state = MemberState().assign([T0, T1], "c").revoke([T0, T2], NEVER)
    assert state.overdue([T0, T1]) == {T0}
    released = state.release(is_assigned=True)
    assert released.claims == {T1: state.claims[T1]}
    assert released.owned(0.0).keys() == {T1}
    assert released.is_assigned
    assert released.rebalances == 2
    assert released.revoking is None
    assert released.incarnation == 0
    assert released.overdue([T0]) == frozenset()


def test_expulsion() -> None:
    """An expelled member owns and holds nothing, and is another incarnation."""
    expelled = MemberState().assign([T0], "c").revoke([T0], NEVER).expel()
    assert expelled.owned(0.0) == {}
    assert not expelled.is_holding([T0], now=0.0)
    assert not expelled.is_member
    assert not expelled.is_assigned
    assert expelled.incarnation == 1


def test_process_that_stood_still() -> None:
    """A paused process owns nothing, from before its first step until two seconds after it."""
    state = MemberState(seen_at=100.0).assign([T0], "c")
    assert state.owned(104.9).keys() == {T0}
    assert state.owned(105.1) == {}
    state, stopped_s = state.see(107.0)
    assert stopped_s == 7.0
    assert state.owned(108.9) == {}
    assert state.see(109.0)[0].owned(109.0).keys() == {T0}


def test_expulsion_ends_the_doubt() -> None:
    """A member that knows of its expulsion owns its next assignment at once."""
    state, _ = MemberState(seen_at=100.0).assign([T0], "c").see(110.0)
    assert state.expel().assign([T0], "c").owned(110.1).keys() == {T0}


def test_assignments_add_up() -> None:
    """Assignments accumulate, and partitions that stay keep their claims."""
    first = MemberState().assign([T0], "c")
    both = first.assign([T1], "c")
    assert both.claims[T0] == first.claims[T0]
    assert both.claims[T1].sequence > first.claims[T0].sequence
    assert both.assign([], "c").claims == both.claims


def test_hold_within_the_poll_interval() -> None:
    """A hold is shorter than the time after which the coordinator expels a member."""
    assert hold_s(4_000, 300_000) == 4.0
    assert hold_s(300_000, 10_000) == 8.0


MEMBER = MemberState().assign([T0], "c")
AGAIN = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moved; try again")


def queue(**given: Any) -> CommitQueue:
    """Return a queue with one commit, for an owned and a foreign partition."""
    commit = PendingCommit(**{"number": 1, "offsets": {T0: 5, T1: 6}, "incarnation": 0, "deadline": 30.0, **given})
    return CommitQueue("g").add(commit)


def sent(**given: Any) -> CommitQueue:
    """Return the queue after its commit was sent at time 0."""
    return queue(**given).advance(MEMBER, 0.0).queue


def test_nothing_to_commit() -> None:
    """An empty queue has nothing to send."""
    assert CommitQueue("g").advance(MEMBER, 0.0).send is None


def test_owned_partitions() -> None:
    """Only offsets of owned partitions are sent; the others are left out."""
    step = queue().advance(MEMBER, 0.0)
    assert step.send == {T0: 5}
    ended = step.queue.answer(CommitAnswer({T0: 5}), 0.1)
    assert ended.outcomes == (CommitOutcome(1, frozenset({T1})),)
    assert ended.queue == CommitQueue("g")


def test_incarnation() -> None:
    """Plans from before an expulsion stay forbidden even when the member owns the same partitions again."""
    again = MEMBER.expel().assign([T0], "c")
    assert queue(incarnation=0).advance(again, 0.0).outcomes == (CommitOutcome(1, frozenset({T0, T1})),)
    assert queue(incarnation=1).advance(again, 0.0).send == {T0: 5}


def test_starts_of_the_group() -> None:
    """A group's starts are sent for all partitions, by a member in the incarnation that planned them."""
    assert queue(of_group=True).advance(MEMBER, 0.0).send == {T0: 5, T1: 6}
    assert queue(of_group=True).advance(MemberState(), 0.0).outcomes == (CommitOutcome(1, frozenset({T0, T1})),)
    assert queue(of_group=True).advance(MEMBER.expel().assign([T0], "c"), 0.0).send is None


def test_one_at_a_time() -> None:
    """The next commit with something to send is sent when the previous one has ended."""
    both = queue().add(PendingCommit(2, {T1: 7}, 0, 30.0)).add(PendingCommit(3, {T0: 8}, 0, 30.0))
    first = both.advance(MEMBER, 0.0).queue
    assert first.advance(MEMBER, 0.0).send is None
    rest = first.answer(CommitAnswer({T0: 5}), 0.1).queue.advance(MEMBER, 0.1)
    assert rest.outcomes == (CommitOutcome(2, frozenset({T1})),)
    assert rest.send == {T0: 8}


def test_commit_refused_by_a_rebalance_is_sent_again() -> None:
    """A commit refused because of a rebalance is sent again later, with the partitions owned then."""
    again = sent().answer(CommitAnswer({T0: 5}, "again", AGAIN), 1.0).queue
    assert again.advance(MEMBER, 1.05).send is None
    assert again.advance(MEMBER.assign([T1], "c"), 1.2).send == {T0: 5, T1: 6}
    released = MEMBER.revoke([T0], 0.0).release(is_assigned=False)
    assert again.advance(released, 1.2).outcomes == (CommitOutcome(1, frozenset({T0, T1})),)


def test_claims() -> None:
    """A partition lost and gained again since its offset was read is left out."""
    claimed = queue(claims=MEMBER.claims)
    assert claimed.advance(MEMBER, 0.0).send == {T0: 5}
    again = MEMBER.revoke([T0], 0.0).release(is_assigned=False).assign([T0, T1], "c")
    assert claimed.advance(again, 0.0).outcomes == (CommitOutcome(1, frozenset({T0, T1})),)


def test_starts_are_not_sent_again() -> None:
    """A group's starts refused because of a rebalance are not sent again, since others may have committed meanwhile."""
    step = sent(of_group=True).answer(CommitAnswer({T0: 5, T1: 6}, "again", AGAIN), 1.0)
    assert isinstance(step.outcomes[0].error, GroupContended)
    assert step.queue.waiting == ()


@pytest.mark.parametrize("error", [None, AGAIN])
def test_time_is_over(error: ZKafkaError | None) -> None:
    """A commit whose time is over ends with the error of its last retry, or a new one."""
    waiting = queue(error=error)
    (outcome,) = waiting.advance(MEMBER, 30.0).outcomes
    assert isinstance(outcome.error, BrokersUnavailable)
    assert (outcome.error is error) == (error is not None)
    assert waiting.advance(MEMBER, 30.0).queue.unanswered == 0


def test_awaited_answer() -> None:
    """Sent partitions count as in progress until the commit is given up."""
    assert queue().under_way == frozenset()
    assert sent().under_way == {T0}
    assert sent().advance(MEMBER, 30.0).queue.under_way == frozenset()


def test_answer_that_comes_too_late() -> None:
    """A late response to a commit that was given up is ignored, and no longer awaited."""
    given_up = sent().advance(MEMBER, 30.0).queue
    assert given_up.has_stray
    late = given_up.answer(CommitAnswer({T0: 5}), 31.0)
    assert late.outcomes == ()
    assert not late.queue.has_stray


def test_refusal_ends_the_commit() -> None:
    """A refusal that does not concern the member ends the commit with its error."""
    assert sent().answer(CommitAnswer({T0: 5}, "done", AGAIN), 1.0).outcomes[0].error is AGAIN


def test_fenced() -> None:
    """A commit of a member unknown to the coordinator ends with all partitions lost."""
    step = sent().answer(CommitAnswer({T0: 5}, "fenced", AGAIN), 1.0)
    assert step.is_fenced
    assert step.outcomes == (CommitOutcome(1, frozenset({T0, T1})),)
    assert step.queue.waiting == ()


def test_commit_under_way_at_an_expulsion() -> None:
    """After an expulsion, a commit in progress ends with all partitions lost, and a new client awaits no answer to it."""
    under_way = sent()
    assert under_way.has_stray
    expelled = under_way.expel()
    assert not expelled.has_stray
    assert replace(MEMBER, commits=under_way).expel().must_replace_client
    again = MEMBER.expel().assign([T0, T1], "c")
    assert expelled.advance(again, 1.0).outcomes == (CommitOutcome(1, frozenset({T0, T1})),)


def test_patience_of_a_static_member() -> None:
    """A static member of a cooperative group waits as long as another member may hold partitions, and ten seconds."""
    kafka = kafka_group_options(instance_id="one")
    assert stall_s(group_options("g", membership="kafka", kafka=kafka)) == 10 + 30
