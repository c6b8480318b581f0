"""A member's assignment: its view of the group, its next step, and the time of that step."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from pyspark_zkafka.errors import CodecError, GroupError
from pyspark_zkafka.group.assignment import GroupView, GroupWatch, RebalanceSchedule, RebalanceStep, step
from pyspark_zkafka.model.assignors import Subscribers
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.options import ensemble_config

OWN = ConsumerRegistration({"t": 1})
VIEW = GroupView({"g_c1": OWN, "g_c2": OWN}, ("t",), Subscribers({"t": ("g_c1-0", "g_c2-0")}, {"t": (0, 1, 2)}))


def watch(strategy: str, own: ConsumerRegistration) -> GroupWatch:
    """Return a member's watch on its group, which is never read."""
    client = ZooKeeperClient(ensemble_config("zk1:2181"))
    return GroupWatch(client, "g", own, strategy, lambda event: None, lambda event: None)


def test_assignment() -> None:
    """Each member gets its own threads' partitions."""
    found = watch("range", OWN)
    assert found.assignment(VIEW, "g_c1") == {TopicPartition("t", 0): "g_c1-0", TopicPartition("t", 1): "g_c1-0"}
    assert found.assignment(VIEW, "g_c2") == {TopicPartition("t", 2): "g_c2-0"}


def test_sticky_among_others() -> None:
    """The sticky assignor raises an error unless all members have it."""
    own = ConsumerRegistration({"t": 1}, assignor="sticky")
    with pytest.raises(GroupError, match=r"\[NOT_STICKY\].*members have another strategy: g_c1, g_c2\. Set"):
        watch("sticky", own).assignment(VIEW, "g_c3")


def test_ids() -> None:
    """Members with an unreadable registration count as members."""
    unreadable = CodecError("/consumers/g/ids/g_c2", b"?", "a registration")
    assert GroupView({"g_c1": OWN}, unreadable={"g_c2": unreadable}).ids == {"g_c1", "g_c2"}


A, B, C = (TopicPartition("t", n) for n in range(3))
CLAIMS = {tp: Claim("c-0", 1) for tp in (A, B, C)}


def leaving(
    partitions: Collection[TopicPartition],
    reading: Collection[TopicPartition],
    now: float,
    revoking: Mapping[TopicPartition, float] | None = None,
) -> RebalanceStep:
    """Return the step of a member that must release partitions, and keeps each for 10 s."""
    target = {tp: claim.thread for tp, claim in CLAIMS.items() if tp not in partitions}
    return step(target, CLAIMS, reading, revoking or {}, now, 10)


def test_claims() -> None:
    """Assigned partitions that are unclaimed, or claimed for another thread, are to be claimed."""
    assert step({A: "c-0", B: "c-1"}, {B: Claim("c-0", 1)}, [], {}, 0, 10).claim == {A: "c-0", B: "c-1"}
    assert step({A: "c-0"}, {A: Claim("c-0", 1)}, [A], {}, 0, 10) == RebalanceStep()


def test_what_nobody_reads_goes_at_once() -> None:
    """Partitions that nobody reads are released at once."""
    found = leaving({A, B}, [], 100)
    assert found == RebalanceStep(release=frozenset({A, B}))


def test_what_is_read_is_kept_until_it_is_not_read_any_more() -> None:
    """Each partition is released as soon as it is no longer read."""
    found = leaving({A, B, C}, [A, B], 100)
    assert found == RebalanceStep(release=frozenset({C}), revoking={A: 110, B: 110})
    found = leaving({A, B}, [B], 101, found.revoking)
    assert found == RebalanceStep(release=frozenset({A}), revoking={B: 110})


def test_the_time_counts_from_the_first_step() -> None:
    """The hold counts from the first step; when it is over, the partition is released as overdue."""
    found = leaving({A}, [A], 105, leaving({A}, [A], 100).revoking)
    assert found == RebalanceStep(revoking={A: 110})
    found = leaving({A}, [A], 110, found.revoking)
    assert found == RebalanceStep(release=frozenset({A}), overdue=frozenset({A}))


def test_called_off() -> None:
    """A partition that may stay again is not held; if it must go later, its hold starts anew."""
    first = leaving({A}, [A], 100)
    second = leaving(set(), [A], 108, first.revoking)
    assert second == RebalanceStep()
    assert leaving({A}, [A], 108, second.revoking).revoking == {A: 118}


def test_tries_to_claim() -> None:
    """A blocked member tries again after the back-off. Rebalances before then are no tries; a success ends the count."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    assert [schedule.end_rebalance(now, (), is_blocked=True) for now in (0.0, 1.0, 2.0, 3.9, 4.0)] == [1, 0, 2, 0, 3]
    assert [schedule.must_rebalance(now) for now in (5.9, 6.0)] == [False, True]
    assert schedule.end_rebalance(6.0, (), is_blocked=False) == 0
    assert not schedule.must_rebalance(1e9)
    assert schedule.end_rebalance(7.0, (), is_blocked=True) == 1


def test_end_of_a_hold() -> None:
    """A member rebalances at the end of the first hold, if the back-off does not end sooner."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(0.0, [4.0, 3.0], is_blocked=False)
    assert [schedule.must_rebalance(now) for now in (2.9, 3.0)] == [False, True]
    schedule.end_rebalance(3.0, [9.0], is_blocked=True)
    assert [schedule.must_rebalance(now) for now in (4.9, 5.0)] == [False, True]


def test_times_of_checks() -> None:
    """A group is checked three seconds after a rebalance or a check, or later if a check takes long."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(10.0, (), is_blocked=False)
    assert schedule.due_s(10.0) == 3.0
    assert not schedule.must_sweep(12.9)
    assert schedule.must_sweep(13.0)
    schedule.end_sweep(13.0, 13.125)
    assert schedule.due_s(13.125) == 3.0
    schedule.end_sweep(20.0, 21.0)
    assert schedule.due_s(21.0) == 20.0
    assert schedule.due_s(99.0) == 0.0


def test_failed_rebalance() -> None:
    """A rebalance that failed, or was interrupted, is due again after half a second."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(10.0, (), is_blocked=False)
    schedule.start_rebalance(10.0)
    assert [schedule.must_rebalance(now) for now in (10.4, 10.5)] == [False, True]
    schedule.fail(11.0)
    assert not schedule.must_sweep(11.4)
    assert schedule.must_sweep(11.5)
    assert schedule.must_rebalance(11.5)
