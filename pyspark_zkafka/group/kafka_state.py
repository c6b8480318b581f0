"""State of a member of a group that Kafka coordinates: what it owns, what it releases, what it commits.

Pure: values in, values out. `pyspark_zkafka.group.kafka_ownership` and `kafka_loop` act on the state.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, GROUP_REBALANCES
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.options.values import GroupOptions

if TYPE_CHECKING:  # the state machine needs no librdkafka
    from pyspark_zkafka.brokers.group_consumer import CommitAnswer

COMMIT_S = 30.0
_RETRY_S = 0.1
_SHARE_OF_POLL_INTERVAL = 0.8
_STOPPED_S = 5.0  # after a pause of this length, the member may have been expelled
_DOUBT_S = 2.0  # librdkafka notices an expulsion within this time
_STALL_S = 10.0  # the leader of a group notices added partitions sooner


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit that has not ended."""

    number: int
    offsets: Mapping[TopicPartition, int]
    incarnation: int  # the incarnation that planned the commit
    deadline: float
    claims: Mapping[TopicPartition, Claim] | None = None  # claims of the plan: a partition with another claim is left out
    of_group: bool = False  # True for the group's starts, in partitions of all members
    next_at: float = 0.0
    sent: Mapping[TopicPartition, int] | None = None  # the offsets that were sent and not answered
    error: ZKafkaError | None = None  # the reason to send the commit again, at `next_at` or later

    def sendable(self, state: MemberState) -> dict[TopicPartition, int]:
        """Select the offsets that the member may commit now. Brokers check the member, but not which partitions it owns.

        >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> commit, state = PendingCommit(1, {t0: 5, t1: 7}, incarnation=0, deadline=30.0), MemberState().assign([t0], "c")
        >>> commit.sendable(state) == {t0: 5}, commit.sendable(state.expel().assign([t0], "c"))
        (True, {})
        """
        if self.incarnation != state.incarnation:
            return {}
        if self.of_group and state.is_member:
            return dict(self.offsets)
        ours = {tp: offset for tp, offset in self.offsets.items() if tp in state.claims}
        if self.claims is None:
            return ours
        return {tp: offset for tp, offset in ours.items() if state.claims[tp] == self.claims.get(tp)}


class CommitOutcome(NamedTuple):
    """The end of a commit: the partitions that were left out, or an error."""

    number: int
    lost: frozenset[TopicPartition] = frozenset()
    error: ZKafkaError | None = None


class QueueStep(NamedTuple):
    """The queue after a step, the commits that have ended, and offsets to send.

    `is_fenced` is True if the coordinator no longer knows the member.
    """

    queue: CommitQueue
    outcomes: tuple[CommitOutcome, ...] = ()
    send: Mapping[TopicPartition, int] | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class CommitQueue:
    """The commits of a member, in the order of sending. `unanswered` counts commits that were sent and given up."""

    group: str
    waiting: tuple[PendingCommit, ...] = ()
    unanswered: int = 0

    def add(self, commit: PendingCommit) -> CommitQueue:
        return replace(self, waiting=(*self.waiting, commit))

    @property
    def has_stray(self) -> bool:
        """True if the client may still send a commit, or repeat it."""
        return self.unanswered > 0 or bool(self.under_way)

    @property
    def under_way(self) -> frozenset[TopicPartition]:
        """The partitions of commits that were sent and not given up."""
        return frozenset(tp for commit in self.waiting for tp in commit.sent or ())

    def advance(self, state: MemberState, now: float) -> QueueStep:
        """End commits that are overdue, or have no partition of the member. Send the next commit if it is due.

        >>> t0 = TopicPartition("t", 0)
        >>> state = MemberState().assign([t0], "c")
        >>> queue = CommitQueue("g").add(PendingCommit(1, {t0: 5}, incarnation=0, deadline=30.0))
        >>> queue.advance(state, now=1.0).send == {t0: 5}
        True
        >>> queue.advance(state.expel(), now=1.0).outcomes
        (CommitOutcome(number=1, lost=frozenset({TopicPartition(topic='t', partition=0)}), error=None),)
        """
        outcomes: list[CommitOutcome] = []
        queue = self
        while queue.waiting:
            first = queue.waiting[0]
            if now >= first.deadline:
                outcomes.append(CommitOutcome(first.number, error=first.error or _unanswered(self.group)))
                queue = replace(queue._rest(), unanswered=queue.unanswered + (first.sent is not None))
            elif first.sent is not None or now < first.next_at:
                break
            elif ours := first.sendable(state):
                return QueueStep(queue._with(replace(first, sent=ours)), tuple(outcomes), ours)
            else:
                outcomes.append(CommitOutcome(first.number, frozenset(first.offsets)))
                queue = queue._rest()
        return QueueStep(queue, tuple(outcomes))

    def answer(self, answer: CommitAnswer, now: float) -> QueueStep:
        """End the commit that was sent, or send it again later. Ignores answers to commits that were given up.

        The group's starts are not sent again: another member may have committed meanwhile.
        """
        first = self.waiting[0] if self.waiting else None
        if first is None or first.sent is None or first.sent != answer.offsets:
            return QueueStep(replace(self, unanswered=max(0, self.unanswered - 1)))
        if answer.status == "again" and first.of_group:
            contended = GROUP_REBALANCES(
                f"committing the start of group {self.group}: {answer.error}. The group rebalances or its coordinator moves"
            )
            return QueueStep(self._rest(), (CommitOutcome(first.number, error=contended),))
        if answer.status == "again":
            return QueueStep(self._with(replace(first, sent=None, error=answer.error, next_at=now + _RETRY_S)))
        if answer.status == "fenced":
            return QueueStep(self._rest(), (CommitOutcome(first.number, frozenset(first.offsets)),), is_fenced=True)
        left_out = frozenset(first.offsets.keys() - first.sent.keys())
        return QueueStep(self._rest(), (CommitOutcome(first.number, left_out, answer.error),))

    def expel(self) -> CommitQueue:
        """Wait for no answer. The next incarnation does not commit records that the last incarnation read."""
        return replace(self, waiting=tuple(replace(commit, sent=None) for commit in self.waiting), unanswered=0)

    def _rest(self) -> CommitQueue:
        return replace(self, waiting=self.waiting[1:])

    def _with(self, first: PendingCommit) -> CommitQueue:
        return replace(self, waiting=(first, *self.waiting[1:]))


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member between two iterations of its thread.

    `incarnation` counts the expulsions by the coordinator. Plans of earlier incarnations must not be committed, even if the
    same partitions are assigned again.
    """

    claims: Mapping[TopicPartition, Claim] = field(default_factory=dict)  # the member owns them, unless in doubt
    sequence: int = 0  # the number of the last claim
    incarnation: int = 0
    is_assigned: bool = False  # False before an assignment and during a revocation
    is_member: bool = False  # False until the coordinator has admitted the member
    rebalances: int = 0  # changes of the assignment
    revoking: frozenset[TopicPartition] | None = None  # the partitions of a pending revocation
    hold_until: float = 0.0  # the time until which the running micro-batch may keep these partitions
    seen_at: float = 0.0  # the time of the last iteration
    doubted_until: float = 0.0  # the time until which `owned` is empty
    commits: CommitQueue = CommitQueue("")
    must_replace_client: bool = False  # the client may send a commit of another incarnation, or waits for a lost answer

    def see(self, now: float) -> tuple[MemberState, float]:
        """Start an iteration. Also returns the seconds for which the process did not run, or 0.

        >>> stopped, for_s = MemberState(seen_at=10.0).see(17.5)
        >>> for_s, stopped.doubted_until, stopped.see(17.6)[1]
        (7.5, 19.5, 0.0)
        """
        stopped_s = self._unseen_s(now)
        doubted_until = now + _DOUBT_S if stopped_s else self.doubted_until
        return replace(self, seen_at=now, doubted_until=doubted_until), stopped_s

    def is_doubtful(self, now: float) -> bool:
        """True after a pause of the process, until librdkafka has noticed an expulsion."""
        return self._unseen_s(now) > 0 or now < self.doubted_until

    def owned(self, now: float) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns. Empty while the member may have been expelled without notice."""
        return {} if self.is_doubtful(now) else self.claims

    def assign(self, partitions: Collection[TopicPartition], consumer: str) -> MemberState:
        """Add partitions that the coordinator has assigned.

        >>> t0 = TopicPartition("t", 0)
        >>> once = MemberState().assign([t0], "c").revoke([t0], until=9.0).release(is_assigned=False)
        >>> once.assign([t0], "c").claims[t0].sequence
        2
        """
        claim = Claim(consumer, self.sequence + 1)
        return replace(
            self,
            claims={**self.claims, **dict.fromkeys(partitions, claim)},
            sequence=claim.sequence,
            is_assigned=True,
            is_member=True,
            rebalances=self.rebalances + 1,
            revoking=None,
        )

    def revoke(self, partitions: Collection[TopicPartition], until: float) -> MemberState:
        """Start a revocation, which waits for the running micro-batch until this time."""
        return replace(self, is_assigned=False, revoking=frozenset(partitions), hold_until=until)

    def is_holding(self, reading: Collection[TopicPartition], now: float) -> bool:
        """True while a revocation waits for partitions that are being read, or for the answer to a commit.

        >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
        >>> state = MemberState().assign([t0], "c").revoke([t0], until=5.0)
        >>> state.is_holding([t0, t1], now=4.0), state.is_holding([t1], now=4.0), state.is_holding([t0], now=5.0)
        (True, False, False)
        """
        return now < self.hold_until and bool(self.overdue(self.commits.under_way.union(reading)))

    def overdue(self, reading: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """The partitions of the revocation that are being read."""
        return frozenset() if self.revoking is None else self.revoking.intersection(reading)

    def release(self, *, is_assigned: bool) -> MemberState:
        """End the revocation. `is_assigned` is True if no assignment has to follow."""
        revoking = self.revoking or frozenset()
        return replace(
            self,
            claims={tp: claim for tp, claim in self.claims.items() if tp not in revoking},
            is_assigned=is_assigned,
            rebalances=self.rebalances + 1,
            revoking=None,
        )

    def expel(self) -> MemberState:
        """Own nothing, and start another incarnation. A commit that was sent is now a stray."""
        return replace(
            self,
            claims={},
            incarnation=self.incarnation + 1,
            is_assigned=False,
            is_member=False,
            rebalances=self.rebalances + 1,
            revoking=None,
            doubted_until=0.0,
            commits=self.commits.expel(),
            must_replace_client=self.must_replace_client or self.commits.has_stray,
        )

    def has_released_too_early(self, released: Collection[TopicPartition]) -> bool:
        """True if the client may still send a commit of released partitions, or a commit that was given up."""
        return self.commits.unanswered > 0 or not self.commits.under_way.isdisjoint(released)

    def _unseen_s(self, now: float) -> float:
        unseen_s = now - self.seen_at
        return unseen_s if unseen_s > _STOPPED_S else 0.0


def is_final(
    assigned: Mapping[str, Collection[TopicPartition]],
    member: str,
    owned: Collection[TopicPartition],
    partitions: Collection[TopicPartition],
) -> bool:
    """True if the coordinator of a stable group has nothing more to assign to the member.

    While a cooperative rebalance waits for a member to release partitions, the group is stable, but nobody is assigned
    these partitions. `partitions` has all partitions of the member's topics.

    >>> t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> is_final({"a": [t0], "b": []}, "b", [], [t0, t1])
    False
    >>> is_final({"a": [t0], "b": [t1]}, "b", [], [t0, t1]), is_final({"a": [t0], "b": [t1]}, "b", [t1], [t0, t1])
    (False, True)
    """
    all_assigned = {tp for found in assigned.values() for tp in found}
    return set(assigned.get(member, ())) == set(owned) and all_assigned.issuperset(partitions)


def hold_s(hold_ms: int, max_poll_interval_ms: int) -> float:
    """The time for which a revocation may wait: less than the poll interval, after which the member is expelled.

    >>> hold_s(30_000, 300_000), hold_s(60_000, 50_000)
    (30.0, 40.0)
    """
    return min(hold_ms, max_poll_interval_ms * _SHARE_OF_POLL_INTERVAL) / 1000


def stall_s(options: GroupOptions) -> float:
    """The time without a final assignment after which a member joins again. Infinite except for static classic members.

    An incremental rebalance also leaves partitions without an owner while it waits for a member to release them.
    """
    kafka = options.kafka
    if kafka.instance_id is None or kafka.protocol == "consumer":
        return math.inf
    return _STALL_S + kafka.is_incremental * hold_s(kafka.hold_ms, kafka.max_poll_interval_ms)


def _unanswered(group: str) -> BrokersUnavailable:
    return BROKERS_UNAVAILABLE(
        f"committing the offsets of group {group}: no answer within {COMMIT_S:g} s. The group has no coordinator, or the "
        "coordinator does not answer: check that the brokers with __consumer_offsets run and are reachable from here",
    )
