"""Decisions of a stream, on values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.conditions import PARTITIONS_GONE
from pyspark_zkafka.model.checkpoint import LeftOffset, StreamOffset, TopicIdentity
from pyspark_zkafka.model.checkpoint import PlannedRange as Range
from pyspark_zkafka.model.nouns import Claim, ClusterSnapshot, OffsetRange, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset, resume
from pyspark_zkafka.read.stream_planner import (
    Loss,
    MicroBatchFacts,
    MicroBatchPlan,
    PartitionProgress,
    StreamState,
    check_fixed_ends,
    check_topics,
    lagging_partitions,
    plan_micro_batch,
    replaced_topics,
)

STORES = ("zookeeper",)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def state(*, bounds: dict[TopicPartition, int] | None = None, **positions: Any) -> StreamState:
    """Return a stream with positions in the topic t: ``state(p0=5)``."""
    assigned = {TopicPartition("t", int(name[1:])): PartitionProgress(at) for name, at in positions.items()}
    return StreamState(assigned, bounds=bounds)


def cluster(czxid: int = 7, name: str = "t") -> ClusterSnapshot:
    """Return a cluster with one topic of two partitions."""
    states = {TopicPartition(name, n): PartitionState(1, 0, (1,)) for n in range(2)}
    return ClusterSnapshot({}, {name: Topic(name, dict.fromkeys(range(2), (1,)), None, czxid)}, states)


def finished(*partitions: TopicPartition, czxid: int = 7) -> StreamOffset:
    """Return the end of a micro-batch ``[0, 5)`` of each partition."""
    names = {tp.topic for tp in partitions}
    return StreamOffset(dict.fromkeys(partitions, Range(0, 5, 0)), {name: TopicIdentity(None, czxid, 2) for name in names})


def facts(finished: StreamOffset, ends: dict[TopicPartition, int]) -> MicroBatchFacts:
    """Return facts about the cluster with the topic t, whose logs have these ends, after a finished micro-batch."""
    return MicroBatchFacts(finished, finished, snapshot=cluster(), ends=ends)


def unlimited(ranges: Mapping[TopicPartition, OffsetRange]) -> Mapping[TopicPartition, OffsetRange]:
    """Return the ranges unchanged."""
    return ranges


def end(plan: MicroBatchPlan) -> StreamOffset:
    """Return the end of a planned micro-batch."""
    assert plan.end is not None
    return plan.end


class TestProgress:
    """Progress of a partition that is due for a commit."""

    @pytest.mark.parametrize(
        ("progress", "is_due"),
        [
            (PartitionProgress(5), True),
            (PartitionProgress(5, StoredOffset(5)), False),
            (PartitionProgress(5, StoredOffset(3)), True),
            (PartitionProgress(5, StoredOffset(3), moved_to=9), False),
            (PartitionProgress(9, StoredOffset(3), moved_to=9), True),
            (PartitionProgress(5, StoredOffset(8), resets=True), True),
            (PartitionProgress(5, StoredOffset(5), resets=True), True),
            (PartitionProgress(5, StoredOffset(8), resets=True, moved_to=9), True),
        ],
    )
    def test_due(self, progress: PartitionProgress, is_due: bool) -> None:
        """A position is due unless it is stored, or another client has set the offset ahead of it."""
        assert progress.is_due is is_due

    def test_planned_range(self) -> None:
        """The checkpoint has the committed offset, if any, and the transaction that wrote it."""
        assert PartitionProgress(5).planned_range(9) == Range(5, 9)
        assert PartitionProgress(5, StoredOffset(5)).planned_range(9) == Range(5, 9, 5)
        assert PartitionProgress(5, StoredOffset(3, 77)).planned_range(9) == Range(5, 9, 3, 77)


class TestState:
    """State of a stream between micro-batches."""

    def test_finish(self) -> None:
        """After a micro-batch, assigned partitions are at its end."""
        assert state(p0=0).finish({T0: Range(0, 5), T1: Range(0, 5)}) == state(p0=5)

    def test_revoke(self) -> None:
        """A partition that was revoked, even if it was assigned again, is no longer assigned."""
        owned = {T0: Claim("c-0", 1), T1: Claim("c-0", 1)}
        before = state().assign(owned, {T0: PartitionProgress(1), T1: PartitionProgress(2)}, {})
        assert before.revoke(owned) is before
        assert set(before.revoke({T0: owned[T0], T1: Claim("c-0", 2)}).assigned) == {T0}
        assert before.revoke({}).assigned == {}

    @pytest.mark.parametrize(("ours", "theirs"), [((20, 8), (50, 12)), ((20, 8), (20, 12)), ((20, None), (50, None))])
    def test_offset_of_another_member(self, ours: tuple[int, int | None], theirs: tuple[int, int | None]) -> None:
        """A partition that another member has committed keeps its offset in the checkpoint, not this run's last one."""
        before = replace(state(), committed={T0: StoredOffset(*ours), T1: StoredOffset(7)})
        after = before.assign({T0: Claim("c-0", 3)}, {T0: PartitionProgress(50, StoredOffset(*theirs))}, {})
        assert after.committed == {T1: StoredOffset(7)}
        finished = after.assigned[T0].planned_range(60)
        idle = after.finish({T0: finished}).revoke({}).idle_range(T0, finished)
        assert idle == Range(60, 60, *theirs)
        assert resume(idle, StoredOffset(*theirs)) == 60
        again = before.assign({T0: Claim("c-0", 3)}, {T0: PartitionProgress(20, StoredOffset(*ours))}, {})
        assert again.committed == before.committed

    def test_adopted_offset_that_is_committed_again(self) -> None:
        """An offset of another member stays that member's when it is committed again, until this run has read on."""
        adopted = state().assign({T0: Claim("c-0", 3)}, {T0: PartitionProgress(50, StoredOffset(50))}, {})
        again, _ = adopted.with_commits(adopted.due(again=True), {}, STORES)
        assert again.committed == {}
        assert resume(Range(10, 20, 10), StoredOffset(50), again.committed.get(T0)) == 50
        read_on = again.finish({T0: Range(50, 60)})
        after, _ = read_on.with_commits(read_on.due(), {}, STORES)
        assert after.committed == {T0: StoredOffset(60)}

    def test_start(self) -> None:
        """The start that the group has committed replaces the query's own, if the partition is still assigned."""
        starts = {T0: PartitionProgress(3, StoredOffset(3, 77)), T1: PartitionProgress(4)}
        assert state(p0=5).start(starts).assigned == {T0: PartitionProgress(3, StoredOffset(3, 77))}
        owned = {T0: Claim("c-0", 3)}
        before = state().assign(owned, {T0: PartitionProgress(5)}, {})
        assert before.start(starts).revoke(owned).assigned.keys() == {T0}

    def test_commit(self) -> None:
        """Committed offsets are remembered as this run's; an offset that another client set ahead is not."""
        after, moved = state(p0=5, p1=5).with_commits({T0: 5, T1: 40}, {T0: 77}, STORES)
        assert moved == {T1: 40}
        assert after.committed == {T0: StoredOffset(5, 77)}
        assert after.due() == {}
        assert after.finish({T1: Range(5, 60)}).due() == {T1: 60}
        assert after.assigned[T1].planned_range(9) == Range(5, 9)

    def test_commit_of_what_was_left(self) -> None:
        """A commit replaces what the query had left in the stores, and is repeated, also to lower it, until it succeeds."""
        left = LeftOffset("kafka", 50, None, (60,)), LeftOffset("zookeeper", 50, 7, (60,))
        before = StreamState({T0: PartitionProgress(30, StoredOffset(20), resets=True, elsewhere=left)})
        assert before.without_resets([T0, T1]) == []
        assert before.assigned[T0].planned_range(40) == Range(30, 40, 20, elsewhere=left)
        after, _ = before.with_commits(before.due(), {}, ("kafka",))
        assert after.assigned == {T0: PartitionProgress(30, StoredOffset(30), elsewhere=left[1:])}
        assert after.without_resets([T0, T1]) == [T0]

    def test_commit_without_an_answer(self) -> None:
        """An equal offset that is found is this run's own, by an earlier commit: the last known one is forgotten."""
        first, _ = state(p0=5).with_commits({T0: 5}, {T0: 77}, STORES)
        again, _ = first.with_commits({T0: 5}, {}, STORES)
        assert again.committed == {T0: StoredOffset(5, 77)}
        later, _ = first.finish({T0: Range(5, 9)}).with_commits({T0: 9}, {}, STORES)
        assert later.committed == {T0: StoredOffset(9)}

    def test_repeated_commit(self) -> None:
        """An offset of this run that is committed again, to outlast its retention, is this run's with its new `mzxid`."""
        first, _ = state(p0=5).with_commits({T0: 5}, {T0: 77}, STORES)
        again, _ = first.with_commits(first.due(again=True), {T0: 78}, STORES)
        assert again.committed == {T0: StoredOffset(5, 78)}

    def test_commit_of_a_reset(self) -> None:
        """A committed offset is this run's, even if the group's offset for a deleted log happened to be the same."""
        before = StreamState({T0: PartitionProgress(5, StoredOffset(5), resets=True)})
        after, _ = before.with_commits(before.due(), {}, STORES)
        assert after.committed == {T0: StoredOffset(5)}

    def test_behind(self) -> None:
        """A stream is behind the fixed ends of existing partitions that it has not reached, or does not read."""
        before = state(p0=5, p1=3, bounds={U0: 2, T1: 7, T0: 5, TopicPartition("v", 0): 1})
        assert list(before.behind([T0, T1, U0]).items()) == [(T1, 7), (U0, 2)]

    def test_known_end(self) -> None:
        """A log is known to reach to the position or the fixed end, whichever is later."""
        assert state(p0=0).known_end(T0) == 0
        assert [state(p0=5, bounds={T0: end}).known_end(T0) for end in (3, 9)] == [5, 9]

    def test_epochs(self) -> None:
        """The leader epoch of the log with the position is remembered."""
        assert state(p0=5).with_epochs({T0: 3, U0: 4}).assigned[T0].leader_epoch == 3


def checked(state: StreamState, finished: StreamOffset, now: ClusterSnapshot) -> tuple[StreamState, list[Loss]]:
    """Check the topics, none of which other members have read again."""
    return check_topics(state, finished, now, replaced_topics(state, finished, now))


class TestTopics:
    """Topics that were deleted or created again."""

    def test_same(self) -> None:
        """Unchanged topics are no loss."""
        before = state(p0=5)
        assert checked(before, finished(T0), cluster()) == (before, [])

    def test_gone(self) -> None:
        """Partitions of a deleted topic are reported as lost once, whether or not they are still assigned."""
        gone, both = cluster(name="u"), finished(T0, T1)
        after, [loss] = checked(state(p0=5), both, gone)
        assert loss == (PARTITIONS_GONE, "t-0, t-1 no longer exist: the topic was deleted")
        assert after.assigned == {}
        assert checked(after, both, gone) == (after, [])
        assert checked(state(), both, gone)[1] == [loss]

    def test_created_again(self) -> None:
        """A topic with another identity is reported as lost, and read as a new topic."""
        after, [loss] = checked(state(p0=5), finished(T0, czxid=6), cluster())
        assert loss.condition.name == "TOPIC_REPLACED"
        assert after.assigned == {}
        assert after.replaced == {"t": TopicIdentity(None, 7)}
        assert checked(after, finished(T0, czxid=6), cluster()) == (after, [])

    def test_created_again_twice(self) -> None:
        """A topic created again twice is reported twice, and a topic back after a reported deletion is not reported."""
        after, _ = checked(state(p0=5), finished(T0, czxid=5), cluster())
        twice = replace(after, replaced={"t": TopicIdentity(None, 6)}, assigned=state(p0=3).assigned)
        later, [loss] = checked(twice, finished(T0, czxid=5), cluster())
        assert loss.condition.name == "TOPIC_REPLACED"
        assert later.assigned == {}
        assert later.replaced == {"t": TopicIdentity(None, 7)}
        back = replace(after, replaced={"t": TopicIdentity()})
        assert checked(back, finished(T0, czxid=5), cluster()) == (later, [])


class TestFixedEnds:
    """Partitions that were deleted before they were read to their fixed ends."""

    @pytest.mark.parametrize("position", [3, 5])
    def test_read(self, position: int) -> None:
        """A deleted partition is no loss if it was read to its fixed end, and neither is a partition that exists."""
        before = state(bounds={T0: position, T1: 9})
        assert check_fixed_ends(before, finished(T0), [T1]) == (before, [])

    def test_unread(self) -> None:
        """Deleted partitions that were not read to their fixed ends are lost, and their ends are dropped."""
        before = state(bounds={T0: 6, T1: 9, U0: 1})
        after, losses = check_fixed_ends(before, finished(T0, T1), [T1])
        text = "t-0, u-0 were deleted before they were read to the ends fixed when the query started"
        assert losses == [(PARTITIONS_GONE, text)]
        assert after == state(bounds={T1: 9})

    def test_no_fixed_ends(self) -> None:
        """Without fixed ends, there is nothing to lose."""
        assert check_fixed_ends(state(), finished(T0), []) == (state(), [])


class TestPlan:
    """Ends of micro-batches, and losses found on the way."""

    def test_ranges(self) -> None:
        """A micro-batch reads from each position to the end of the log. A log without a known end has no records."""
        plan = plan_micro_batch(state(p0=5, p1=3), facts(finished(T0), {T0: 9}), unlimited)
        assert end(plan).ranges == {T0: Range(5, 9), T1: Range(3, 3)}
        assert plan_micro_batch(state(p0=0), facts(finished(), {T0: 0}), unlimited).losses == []

    def test_limit(self) -> None:
        """A limit shortens ranges. If it leaves no records, there is no micro-batch."""
        known = facts(finished(T0), {T0: 9})
        assert end(plan_micro_batch(state(p0=5), known, lambda r: {T0: OffsetRange(T0, 5, 6)})).ranges == {T0: Range(5, 6)}
        assert plan_micro_batch(state(p0=5), known, lambda r: {}).end is None

    def test_range_to_limit(self) -> None:
        """A limit gets the whole range of each partition."""
        given: list[Mapping[TopicPartition, OffsetRange]] = []
        plan_micro_batch(state(p0=5, p1=3), facts(finished(T0), {T0: 9}), lambda ranges: given.append(ranges) or ranges)
        assert given == [{T0: OffsetRange(T0, 5, 9), T1: OffsetRange(T1, 3, 3)}]

    def test_fixed(self) -> None:
        """A fixed end limits its partition, and partitions without one are not read."""
        plan = plan_micro_batch(state(p0=5, p1=3, bounds={T0: 7}), facts(finished(T0), {T0: 9, T1: 9}), unlimited)
        assert end(plan).ranges == {T0: Range(5, 7), T1: Range(3, 3)}

    def test_nothing_new(self) -> None:
        """Without records, the checkpoint has all that a restart needs."""
        assert plan_micro_batch(state(p0=5), facts(finished(T0), {T0: 5}), unlimited) == (state(p0=5), None, [])

    @pytest.mark.parametrize(
        ("before", "known"),
        [
            pytest.param(
                state(p0=5), {"finished": replace(finished(T0), stores=frozenset({"kafka"}))}, id="commits to another store"
            ),
            pytest.param(state(p0=5).replace_topic("t", TopicIdentity(None, 8)), {}, id="topic created again"),
            pytest.param(state(p0=3), {}, id="a loss has moved a position"),
            pytest.param(state(p1=0, p0=3), {}, id="a loss has moved a position, next to a new partition"),
            pytest.param(
                StreamState({T0: PartitionProgress(5, StoredOffset(9))}),
                {"finished": replace(finished(T0), ranges={T0: Range(0, 5, 0, left=7)}), "has_group": True},
                id="the group that the query had left has moved on",
            ),
        ],
    )
    def test_state_to_record(self, before: StreamState, known: dict[str, Any]) -> None:
        """A micro-batch without records keeps in the checkpoint what a restart needs."""
        plan = plan_micro_batch(before, replace(facts(finished(T0), {}), **known), unlimited)
        assert not any(r.size for r in end(plan).ranges.values())

    def test_truncated(self) -> None:
        """A log that ends before the position is a loss, and is read on from its end."""
        plan = plan_micro_batch(state(p0=5, p1=3), facts(finished(T0), {T0: 4, T1: 3}), unlimited)
        [loss] = plan.losses
        assert loss.condition.name == "OFFSET_WENT_BACK"
        assert loss.text.startswith("t-0: the log ends at 4, and was read or planned up to 5")
        assert plan.state.assigned == {T0: PartitionProgress(4, resets=True), T1: PartitionProgress(3)}
        assert plan.state.bounds is None

    @pytest.mark.parametrize(("position", "bound", "left"), [(5, 9, 8), (9, 9, 8), (9, 7, 7)])
    def test_truncated_before_the_fixed_end(self, position: int, bound: int, left: int) -> None:
        """A log that ends before its position or fixed end is a loss, and its fixed end is not beyond the log's end."""
        before = state(p0=position, p1=3, bounds={T0: bound, T1: 4})
        plan = plan_micro_batch(before, facts(finished(T0), {T0: 8, T1: 4}), unlimited)
        [loss] = plan.losses
        assert loss.condition.name == "OFFSET_WENT_BACK"
        assert plan.state.bounds == {T0: left, T1: 4}

    def test_remembered(self) -> None:
        """Unassigned partitions are remembered with this run's last commit, while they exist."""
        before = replace(state(p0=5), committed={T1: StoredOffset(4, 77)}, uncommitted_starts={U0: Range(1, 1)})
        plan = plan_micro_batch(before, facts(finished(T0, T1, U0), {T0: 9}), unlimited)
        assert end(plan).ranges == {T0: Range(5, 9), T1: Range(5, 5, 4, 77)}
        assert end(plan).topics == {"t": TopicIdentity(None, 7, 2)}
        assert plan.state.uncommitted_starts == {}
        assert plan.state.replaced == {}

    def test_unsubscribed(self) -> None:
        """Topics to which the query no longer subscribes stay in the checkpoint with their positions."""
        known = replace(facts(finished(T0, U0), {T0: 9}), unsubscribed=frozenset({"u"}))
        plan = plan_micro_batch(state(p0=5), known, unlimited)
        assert end(plan).ranges == {T0: Range(5, 9), U0: Range(5, 5, 0)}
        assert end(plan).topics == {"t": TopicIdentity(None, 7, 2), "u": TopicIdentity(None, 7, 2)}
        assert known.current == finished(T0)

    def test_stores(self) -> None:
        """The stores of the group's offsets, and what the query has left in others, stay in the checkpoint."""
        left = (LeftOffset("kafka", 3, None, (4,)),)
        before = replace(state(p0=5), committed={T1: StoredOffset(4, 77)})
        before = replace(before, assigned={T0: replace(before.assigned[T0], elsewhere=left)})
        offset = StreamOffset({T1: Range(3, 5, elsewhere=left)}, finished(T0).topics, frozenset({"zookeeper"}))
        plan = plan_micro_batch(before, facts(offset, {T0: 9}), unlimited)
        assert end(plan).ranges == {T0: Range(5, 9, elsewhere=left), T1: Range(5, 5, 4, 77, elsewhere=left)}
        assert end(plan).stores == {"zookeeper"}

    def test_partitions_that_a_broker_does_not_know_yet(self) -> None:
        """A partition that was added and read keeps its position, if the snapshot lacks it."""
        added = TopicPartition("t", 2)
        plan = plan_micro_batch(state(p0=5), facts(finished(T0, added), {T0: 9}), unlimited)
        assert end(plan).ranges == {T0: Range(5, 9), added: Range(5, 5, 0)}

    def test_replaced(self) -> None:
        """Nothing of a topic that was created again is remembered."""
        replaced = state(p0=0).replace_topic("t", TopicIdentity(None, 8))
        before = replaced.assign({T0: Claim("", 0)}, {T0: PartitionProgress(0)}, {})
        known = replace(facts(finished(T0, T1), {T0: 2}), snapshot=cluster(czxid=8))
        plan = plan_micro_batch(before, known, unlimited)
        assert plan.end == StreamOffset({T0: Range(0, 2)}, {"t": TopicIdentity(None, 8, 0)})
        assert plan.state.replaced == {}

    def test_newly_assigned(self) -> None:
        """Once a micro-batch has a topic, its identity at the assignment does not matter any more."""
        before = state().assign({T0: Claim("", 0)}, {T0: PartitionProgress(0)}, cluster(czxid=7).topics)
        assert before.newly_assigned == {"t": TopicIdentity(None, 7)}
        assert plan_micro_batch(before, facts(finished(), {T0: 2}), unlimited).state.newly_assigned == {}


@pytest.mark.parametrize(
    ("planned", "lagging"),
    [
        pytest.param(finished(T0), [TopicPartition("t", 2)], id="the same topic"),
        pytest.param(finished(T0, czxid=6), [], id="created again"),
        pytest.param(finished(U0), [], id="a topic that was not planned"),
    ],
)
def test_lagging_partitions(planned: StreamOffset, lagging: list[TopicPartition]) -> None:
    """A broker that lacks a partition of a known topic lags, unless it has another topic of this name, or no such topic."""
    ranges = [OffsetRange(tp, 0, 1) for tp in (T0, TopicPartition("t", 2), U0)]
    assert lagging_partitions(ranges, planned, cluster()) == lagging
