"""Commits of a stream's positions, with a fake session."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.errors import PartitionOwned, UnknownTopic, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.group.commits import CommitResult
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.read.stream_driver import commit_positions
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_session import StreamWarnings
from tests.support import planned_stream
from tests.support.planned_stream import T0, T1, Member

OWNER = ClaimOwner("c", 1)


class Session(planned_stream.Session):
    """A session whose commits have an `answer`."""

    stores = ("kafka",)

    def __init__(self, answer: CommitResult | Exception, member: Member | None = None) -> None:
        super().__init__(member)
        self.answer = answer
        self.asked: list[Any] = []

    def commit(self, offsets: Mapping[TopicPartition, int], owner: object, resets: Any) -> CommitResult:
        self.asked.append((dict(offsets), owner, list(resets)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


STATE = StreamState(
    {T0: PartitionProgress(5, claim=0), T1: PartitionProgress(7, StoredOffset(9), resets=True, claim=1)},
)


@pytest.fixture
def member() -> Member:
    """A member that owns both partitions by the claims of the state."""
    return Member(T0, T1)


def commit(state: StreamState, session: Any) -> StreamState:
    """Commit the state's positions."""
    return commit_positions(state, session, StreamWarnings(True, lambda: 0.0))


def test_commit(member: Member) -> None:
    """The owner commits due positions, as resets if their log no longer exists. Afterwards no position is due."""
    session = Session(CommitResult({T0: 5, T1: 7}, mzxids={T0: 70}), member)
    done = commit(STATE, session)
    assert session.asked == [({T0: 5, T1: 7}, OWNER, [T1])]
    assert done.due() == {}
    assert done.committed == {T0: StoredOffset(5, 70), T1: StoredOffset(7)}


@pytest.mark.parametrize("has_session", [False, True])
def test_member_without_partitions(member: Member, has_session: bool) -> None:
    """A member without a session, or without partitions, commits nothing."""
    if has_session:
        member.claims = {}
    else:
        member.owner = None
    session = Session(CommitResult(), member)
    assert commit(STATE, session) is STATE
    assert not session.asked


def test_nothing_due() -> None:
    """Without a due position there is no request."""
    session = Session(CommitResult())
    assert commit(StreamState(), session) == StreamState()
    assert not session.asked


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PartitionOwned("PARTITION_OWNED", "t-0 has an owner"), "Offsets are not committed: [PARTITION_OWNED]"),
        (ZooKeeperError("ZOOKEEPER_UNAVAILABLE", "no answer"), "Offsets are not committed yet, retrying: "),
        (UnknownTopic("UNKNOWN_TOPIC", "t was deleted"), "Offsets are not committed yet, retrying: "),
    ],
)
def test_commit_that_may_succeed_later(error: Exception, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Another owner, a lost connection and a deleted topic do not end the query. The positions stay due."""
    with caplog.at_level(logging.WARNING):
        assert commit(STATE, Session(error)) is STATE
    assert text in caplog.text


def test_refused_commit() -> None:
    """An error that is not retriable ends the query."""
    with pytest.raises(ZooKeeperRefused):
        commit(STATE, Session(ZooKeeperRefused("ZOOKEEPER_REFUSED", "an ACL denies it")))


def test_lost_partitions(member: Member) -> None:
    """A member that no longer owns a partition checks its claims. The position stays due."""
    done = commit(STATE, Session(CommitResult({T0: 5}, lost=frozenset({T1})), member))
    assert member.requests == 1
    assert done.due() == {T1: 7}


@pytest.mark.parametrize("claims", [{}, {T1: Claim("c-0", 2)}], ids=["lost", "gained again"])
def test_partitions_of_another_claim(member: Member, claims: dict[TopicPartition, Claim]) -> None:
    """The position of a partition that was revoked, or revoked and assigned again, is not committed."""
    member.claims = {T0: member.claims[T0], **claims}
    session = Session(CommitResult({T0: 5}), member)
    done = commit(STATE, session)
    assert session.asked == [({T0: 5}, OWNER, [])]
    assert member.requests == 1
    assert done.due() == {T1: 7}


def test_all_of_another_claim(member: Member) -> None:
    """If all claims have changed, no commit is requested."""
    member.claims = dict.fromkeys((T0, T1), Claim("c-0", 2))
    session = Session(CommitResult(), member)
    assert commit(STATE, session) is STATE
    assert not session.asked


def test_moved_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """An offset that another client has moved ahead is kept, with a warning, until the query reaches it."""
    with caplog.at_level(logging.WARNING):
        done = commit(STATE, Session(CommitResult({T1: 7}, kept={T0: 20})))
    assert "ahead of this query: t-0 to 20 (this query is at 5). The query continues at" in caplog.text
    assert done.due() == {}
    assert T0 not in done.committed
    for position, due in (19, {}), (20, {T0: 20}):
        reached = replace(done, assigned={**done.assigned, T0: replace(done.assigned[T0], position=position)})
        assert reached.due() == due


def test_offsets_that_move_with_each_micro_batch(caplog: pytest.LogCaptureFixture) -> None:
    """Offsets that another client moves again and again are logged in one line, once a minute."""
    now = 0.0
    reports = StreamWarnings(True, lambda: now)
    for ahead in range(20, 30):
        now = 7.0 * (ahead - 20)
        session: Any = Session(CommitResult(kept={T0: ahead, T1: ahead}))
        commit_positions(STATE, session, reports)
    assert [text.partition(": ")[2].partition(". ")[0] for text in caplog.messages] == [
        f"t-0 to {ahead} (this query is at 5), t-1 to {ahead} (this query is at 7)" for ahead in (20, 29)
    ]
