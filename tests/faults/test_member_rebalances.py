"""Rebalances of members: how many there are, what causes them, and what a failed claim leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import SubscribePattern
from pyspark_zkafka.retries import Timing
from tests.support.chroot import IDLE_JVM, JVM
from tests.support.eventually import eventually
from tests.support.members import StoppingClock, at_rest, caught_up, settled, together

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


def test_partial_claim_left_behind(chroot: Chroot, new_member: NewMember, third: KazooClient) -> None:
    """A failed claim leaves no owner znode behind, try after try, so the peer in the way can claim its partitions."""
    chroot.topic("t", 6)
    chroot.claim("g", TopicPartition("t", 4), b"g_jvm-0", third)
    member = new_member("c1", "t", backoff_ms=50)
    seen: list[dict[int, str]] = []
    with member:
        eventually(lambda: seen.append(chroot.owners("g")) or member.rebalances >= 5)
        assert seen == [{4: "g_jvm-0"}] * len(seen)
        assert member.owned() == {}
        chroot.claim("g", TopicPartition("t", 3), b"g_jvm-0", third)
        eventually(lambda: member.rebalances >= 7)
        assert chroot.owners("g") == {3: "g_jvm-0", 4: "g_jvm-0"}
        third.stop()
        eventually(lambda: settled([member], 6))


def test_a_member_that_registers_during_a_rebalance(chroot: Chroot, new_member: NewMember) -> None:
    """Twenty members that join at the same moment settle within 30 seconds and at most 30 rebalances each."""
    chroot.topic("t", 50)
    members = [new_member(f"c{n:02}", "t", session_ms=10_000) for n in range(20)]
    together(members, GroupMember.join)
    eventually(lambda: settled(members, 50), timeout_s=30)
    assert [len(m.owned()) for m in members] == [3] * 10 + [2] * 10
    assert max(m.rebalances for m in members) <= 30
    together(members[::2], GroupMember.leave)
    eventually(lambda: settled(members[1::2], 50), timeout_s=30)


def test_herd(chroot: Chroot, new_member: NewMember) -> None:
    """Changes that concern no member cause no rebalance; a burst of 120 changes causes fewer than 30."""
    chroot.topic("t", 6)
    chroot.topic("p-1", 3)
    lasting = 20_000  # an expired session would change the group
    members = [
        new_member(name, what, session_ms=lasting)
        for name, what in (("c1", "t"), ("c2", "t"), ("c3", SubscribePattern("p-.*")))
    ]
    for member in members:
        member.join()
    eventually(lambda: settled(members, 9))
    eventually(lambda: at_rest(members))
    before = caught_up(members)
    for n in range(10):
        chroot.topic(f"unread-{n}", 1)
        chroot.register("h", f"h_{n}", JVM)
        chroot.claim("g", TopicPartition("unread", n), b"g_jvm-0")
    assert caught_up(members) == before
    # Does not wait for answers: on a busy machine, changes made one by one would be no burst.
    burst = []
    for n in range(60):
        path = f"/consumers/g/ids/g_{n}"
        burst += [chroot.other.create_async(path, IDLE_JVM, ephemeral=True), chroot.other.delete_async(path)]
    for change in burst:
        change.get(timeout=30)
    chroot.topic("t", 8)
    eventually(lambda: settled(members, 11))
    assert max(now - was for now, was in zip(caught_up(members), before, strict=True)) < 30


def test_retries_too_few(
    chroot: Chroot, new_member: NewMember, third: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that cannot claim warns with the owner's name, retries, and claims as soon as the partition is released."""
    chroot.topic("t", 3)
    chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0", third)
    session = f"0x{third.client_id[0]:x}"
    clock = StoppingClock()
    with new_member("c1", "t", max_retries=3, timing=Timing(clock=clock)) as member:
        holder = f"t-1 is owned by g_jvm-0 (session {session})"
        warning = f"g_c1 cannot claim its partitions after 6 tries, and continues to try: {holder}"
        eventually(lambda: warning in caplog.text)
        assert member.owned() == {}
        assert not member.settled
        clock.stop()  # no further try comes due
        third.stop()
        eventually(lambda: settled([member], 3))


def test_leader_in_the_path(chroot: Chroot, new_member: NewMember) -> None:
    """Owner znodes are named after the partition alone: a leader change orphans no claim and causes no rebalance."""
    chroot.topic("t", 3)
    state = '{{"controller_epoch":1,"leader":{},"version":1,"leader_epoch":0,"isr":[2,1]}}'
    for n in range(3):
        chroot.other.create(f"/brokers/topics/t/partitions/{n}/state", state.format(1).encode(), makepath=True)
    with new_member("c1", "t") as member:
        claims, before = member.owned(), caught_up([member])
        for n in range(3):
            chroot.other.set(f"/brokers/topics/t/partitions/{n}/state", state.format(2).encode())
        assert caught_up([member]) == before
        assert sorted(chroot.other.get_children("/consumers/g/owners/t")) == ["0", "1", "2"]
        assert member.owned() == claims
