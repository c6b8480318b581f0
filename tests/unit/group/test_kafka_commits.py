"""Commits of a member that Kafka coordinates."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, GroupContended, ZKafkaError
from pyspark_zkafka.group.kafka_commits import Commit, CommitQueue, Outcome
from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.kafka.group_client import CommitAnswer
from pyspark_zkafka.protocol.model import TopicPartition

T0, T1 = (TopicPartition("t", n) for n in range(2))
MEMBER = MemberState().assign([T0], "c")
AGAIN = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moved; try again")


def queue(**given: Any) -> CommitQueue:
    """A queue with one commit, of what is owned and what is not."""
    commit = Commit(**{"number": 1, "offsets": {T0: 5, T1: 6}, "incarnation": 0, "deadline": 30.0, **given})
    return CommitQueue("g").add(commit)


def sent(**given: Any) -> CommitQueue:
    """The queue after its commit was sent, at 0."""
    return queue(**given).advance(MEMBER, 0.0).queue


def test_nothing_to_commit() -> None:
    """An empty queue has nothing to send."""
    assert CommitQueue("g").advance(MEMBER, 0.0).send is None


def test_owned_partitions() -> None:
    """Only what the member owns is sent; the rest is left out."""
    step = queue().advance(MEMBER, 0.0)
    assert step.send == {T0: 5}
    ended = step.queue.answer(CommitAnswer({T0: 5}), 0.1)
    assert ended.outcomes == (Outcome(1, frozenset({T1})),)
    assert ended.queue == CommitQueue("g")


def test_starts_of_the_group() -> None:
    """A group's starts are sent for all partitions, by a member, in the incarnation that planned them."""
    assert queue(of_group=True).advance(MEMBER, 0.0).send == {T0: 5, T1: 6}
    assert queue(of_group=True).advance(MemberState(), 0.0).outcomes == (Outcome(1, frozenset({T0, T1})),)
    assert queue(of_group=True).advance(MEMBER.expel().assign([T0], "c"), 0.0).send is None


def test_one_at_a_time() -> None:
    """The next commit is sent when the one before has ended, and passes over those with nothing to send."""
    both = queue().add(Commit(2, {T1: 7}, 0, 30.0)).add(Commit(3, {T0: 8}, 0, 30.0))
    first = both.advance(MEMBER, 0.0).queue
    assert first.advance(MEMBER, 0.0).send is None
    rest = first.answer(CommitAnswer({T0: 5}), 0.1).queue.advance(MEMBER, 0.1)
    assert rest.outcomes == (Outcome(2, frozenset({T1})),)
    assert rest.send == {T0: 8}


def test_again() -> None:
    """A commit that comes during a rebalance is sent again a little later, with what is owned then."""
    again = sent().answer(CommitAnswer({T0: 5}, "again", AGAIN), 1.0).queue
    assert again.advance(MEMBER, 1.05).send is None
    assert again.advance(MEMBER.assign([T1], "c"), 1.2).send == {T0: 5, T1: 6}
    released = MEMBER.revoke([T0], 0.0).release(is_assigned=False)
    assert again.advance(released, 1.2).outcomes == (Outcome(1, frozenset({T0, T1})),)


def test_claims() -> None:
    """A partition that was lost and gained again since the offsets were read is left out."""
    claimed = queue(claims=MEMBER.assignment.owned)
    assert claimed.advance(MEMBER, 0.0).send == {T0: 5}
    again = MEMBER.revoke([T0], 0.0).release(is_assigned=False).assign([T0, T1], "c")
    assert claimed.advance(again, 0.0).outcomes == (Outcome(1, frozenset({T0, T1})),)


def test_starts_are_not_sent_again() -> None:
    """The group's starts that come during a rebalance are not sent again, as others may have committed meanwhile."""
    step = sent(of_group=True).answer(CommitAnswer({T0: 5, T1: 6}, "again", AGAIN), 1.0)
    assert isinstance(step.outcomes[0].error, GroupContended)
    assert step.queue.waiting == ()


@pytest.mark.parametrize("error", [None, AGAIN])
def test_time_is_over(error: ZKafkaError | None) -> None:
    """A commit whose time is over ends with the reason for its last retry, or with one of its own."""
    waiting = queue(error=error)
    (outcome,) = waiting.advance(MEMBER, 30.0).outcomes
    assert isinstance(outcome.error, BrokersUnavailable)
    assert (outcome.error is error) == (error is not None)
    assert waiting.advance(MEMBER, 30.0).queue.unanswered == 0


def test_awaited_answer() -> None:
    """An answer is awaited for what was sent, until the commit is given up."""
    assert queue().under_way == frozenset()
    assert sent().under_way == {T0}
    assert sent().advance(MEMBER, 30.0).queue.under_way == frozenset()


def test_answer_that_comes_too_late() -> None:
    """An answer to a commit that was given up is passed over, and is not awaited any more."""
    given_up = sent().advance(MEMBER, 30.0).queue
    assert given_up.has_stray
    late = given_up.answer(CommitAnswer({T0: 5}), 31.0)
    assert late.outcomes == ()
    assert not late.queue.has_stray


def test_refused() -> None:
    """A refusal that is not of the member ends the commit with its error."""
    assert sent().answer(CommitAnswer({T0: 5}, "done", AGAIN), 1.0).outcomes[0].error is AGAIN


def test_fenced() -> None:
    """A commit of a member that the coordinator does not know ends without a partition."""
    step = sent().answer(CommitAnswer({T0: 5}, "fenced", AGAIN), 1.0)
    assert step.is_fenced
    assert step.outcomes == (Outcome(1, frozenset({T0, T1})),)
    assert step.queue.waiting == ()


def test_expulsion() -> None:
    """After an expulsion, a commit under way is a stray, and ends without a partition."""
    under_way = sent()
    assert under_way.has_stray
    expelled = under_way.expel()
    assert not expelled.has_stray
    again = MEMBER.expel().assign([T0, T1], "c")
    assert expelled.advance(again, 1.0).outcomes == (Outcome(1, frozenset({T0, T1})),)
