"""Commits of a member of a group that Kafka coordinates: their order, retries and ends.

Pure: values in, values out. `pyspark_zkafka.group.kafka_turns` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark_zkafka.errors import BrokersUnavailable, GroupContended, ZKafkaError
from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.kafka.group_client import CommitAnswer
from pyspark_zkafka.protocol.model import Claim, TopicPartition

__all__ = ["COMMIT_S", "Commit", "CommitQueue", "Outcome", "Step"]

COMMIT_S = 30.0
_RETRY_S = 0.1


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that is to be sent, or was; `sent` are the offsets whose answer is awaited.

    `incarnation` is the member's that planned it, and `claims` are those with which it did, if only these count. One
    `of_group` is not limited to the member's own partitions. `error` is the reason why it is sent again.
    """

    number: int
    offsets: Mapping[TopicPartition, int]
    incarnation: int
    deadline: float
    claims: Mapping[TopicPartition, Claim] | None = None
    of_group: bool = False
    next_at: float = 0.0
    sent: Mapping[TopicPartition, int] | None = None
    error: ZKafkaError | None = None

    def sendable(self, state: MemberState) -> Mapping[TopicPartition, int]:
        """The offsets that the member may commit now."""
        if self.of_group and self.incarnation == state.assignment.incarnation and state.is_member:
            return self.offsets
        ours = state.assignment.committable(self.offsets, self.incarnation)
        if self.claims is None:
            return ours
        owned = state.assignment.owned
        return {tp: offset for tp, offset in ours.items() if owned[tp] == self.claims.get(tp)}


class Outcome(NamedTuple):
    """The end of a commit: the partitions that were left out, or an error."""

    number: int
    lost: frozenset[TopicPartition] = frozenset()
    error: ZKafkaError | None = None


class Step(NamedTuple):
    """A step of a queue: what it is then, the commits that have ended, offsets to send.

    `is_fenced` is True if the coordinator does not know the member any more.
    """

    queue: CommitQueue
    outcomes: tuple[Outcome, ...] = ()
    send: Mapping[TopicPartition, int] | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class CommitQueue:
    """The commits of a member, of which the first is under way; `unanswered` counts those given up after they were sent."""

    group: str
    waiting: tuple[Commit, ...] = ()
    unanswered: int = 0

    def add(self, commit: Commit) -> CommitQueue:
        """The queue with one more commit."""
        return replace(self, waiting=(*self.waiting, commit))

    @property
    def has_stray(self) -> bool:
        """True if the client may still send a commit, or repeat it."""
        return self.unanswered > 0 or bool(self.under_way)

    @property
    def under_way(self) -> frozenset[TopicPartition]:
        """The partitions of which a commit was sent, and its answer may still come in time."""
        return frozenset(tp for commit in self.waiting for tp in commit.sent or ())

    def advance(self, state: MemberState, now: float) -> Step:
        """End commits whose time is over, or of which nothing is the member's; send the next one, if it is due.

        >>> t0 = TopicPartition("t", 0)
        >>> state = MemberState().assign([t0], "c")
        >>> queue = CommitQueue("g").add(Commit(1, {t0: 5}, incarnation=0, deadline=30.0))
        >>> queue.advance(state, now=1.0).send == {t0: 5}
        True
        >>> queue.advance(state.expel(), now=1.0).outcomes
        (Outcome(number=1, lost=frozenset({TopicPartition(topic='t', partition=0)}), error=None),)
        """
        outcomes: list[Outcome] = []
        queue = self
        while queue.waiting:
            first = queue.waiting[0]
            if now >= first.deadline:
                outcomes.append(Outcome(first.number, error=first.error or _unanswered(self.group)))
                queue = replace(queue._rest(), unanswered=queue.unanswered + (first.sent is not None))
            elif first.sent is not None or now < first.next_at:
                break
            elif ours := first.sendable(state):
                return Step(queue._with(replace(first, sent=dict(ours))), tuple(outcomes), dict(ours))
            else:
                outcomes.append(Outcome(first.number, frozenset(first.offsets)))
                queue = queue._rest()
        return Step(queue, tuple(outcomes))

    def answer(self, answer: CommitAnswer, now: float) -> Step:
        """End the commit that was sent, or have it sent again a little later; passes over answers to those given up.

        The group's starts are not sent again: another member may have committed meanwhile.
        """
        first = self.waiting[0] if self.waiting else None
        if first is None or first.sent is None or first.sent != answer.offsets:
            return Step(replace(self, unanswered=max(0, self.unanswered - 1)))
        if answer.standing == "again" and first.of_group:
            return Step(self._rest(), (Outcome(first.number, error=_contended(self.group, answer.error)),))
        if answer.standing == "again":
            return Step(self._with(replace(first, sent=None, error=answer.error, next_at=now + _RETRY_S)))
        if answer.standing == "fenced":
            return Step(self._rest(), (Outcome(first.number, frozenset(first.offsets)),), is_fenced=True)
        left_out = frozenset(first.offsets.keys() - first.sent.keys())
        return Step(self._rest(), (Outcome(first.number, left_out, answer.error),))

    def expel(self) -> CommitQueue:
        """The queue of the next incarnation, which awaits no answer; nothing that the last one has read is sent again."""
        return replace(self, waiting=tuple(replace(commit, sent=None) for commit in self.waiting), unanswered=0)

    def _rest(self) -> CommitQueue:
        return replace(self, waiting=self.waiting[1:])

    def _with(self, first: Commit) -> CommitQueue:
        return replace(self, waiting=(first, *self.waiting[1:]))


def _contended(group: str, found: ZKafkaError | None) -> GroupContended:
    return GroupContended(
        "GROUP_REBALANCES", f"committing the start of group {group}: {found}; it rebalances, or its coordinator moves"
    )


def _unanswered(group: str) -> BrokersUnavailable:
    return BrokersUnavailable(
        "BROKERS_UNAVAILABLE",
        f"committing the offsets of group {group}: no answer within {COMMIT_S:g} s; the group has no coordinator now, or "
        "it does not answer; check that the brokers with __consumer_offsets run and are reachable from here",
    )
