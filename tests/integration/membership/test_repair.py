"""Members whose znodes are deleted by other clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.eventually import eventually
from tests.support.members import numbers, settled
from tests.support.membership import IDS, OWNERS, created

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


class TestRepair:
    """Znodes that other clients delete."""

    @pytest.mark.usefixtures("no_sweeps")
    def test_registration(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """A member whose registration is deleted registers again at once with the same id, and keeps its claims."""
        chroot.topic("t", 4)
        with new_member("c1", "t") as first, new_member("c2", "t") as second:
            eventually(lambda: settled([first, second], 4))
            claims, znode, before = first.owned(), created(chroot, f"{OWNERS}/0"), created(chroot, f"{IDS}/g_c1")
            chroot.other.delete(f"{IDS}/g_c1")
            eventually(lambda: chroot.other.exists(f"{IDS}/g_c1"))
            eventually(lambda: settled([first, second], 4))
            assert first.owned() == claims
            assert created(chroot, f"{OWNERS}/0") == znode
            assert created(chroot, f"{IDS}/g_c1") > before
        assert "g_c1: another client has deleted the registration. Registering again" in caplog.text

    def test_claim(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """The sweep notices a deleted claim, which triggers no watch; the member logs it and claims again."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            before = member.owned()
            chroot.other.delete(f"{OWNERS}/1")
            eventually(lambda: chroot.other.exists(f"{OWNERS}/1"))
            eventually(lambda: settled([member], 3))
            lost = TopicPartition("t", 1)
            assert member.owned()[lost].sequence > before[lost].sequence
            assert {tp: c for tp, c in member.owned().items() if tp != lost} == {
                tp: c for tp, c in before.items() if tp != lost
            }
        assert "g_c1: another client has deleted the claims on t-1. Claiming again" in caplog.text

    @pytest.mark.usefixtures("no_sweeps")
    def test_claim_that_is_looked_for(self, chroot: Chroot, new_member: NewMember) -> None:
        """`request_rebalance` restores a missing claim at once."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            chroot.other.delete(f"{OWNERS}/1")
            member.request_rebalance()
            eventually(lambda: chroot.other.exists(f"{OWNERS}/1"))

    def test_claim_that_another_takes(self, chroot: Chroot, new_member: NewMember) -> None:
        """A claim that another session took is no longer owned, and is claimed again once it is free."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            chroot.other.delete(f"{OWNERS}/1")
            chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0")
            eventually(lambda: numbers(member) == [0, 2])
            assert not member.settled
            chroot.other.delete(f"{OWNERS}/1")
            eventually(lambda: numbers(member) == [0, 1, 2])

    def test_registration_again_and_again(self, chroot: Chroot, new_member: NewMember, third: KazooClient) -> None:
        """A member that is unregistered in the middle of a rebalance keeps its claims."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as member:
            znode = created(chroot, f"{OWNERS}/0")
            for _ in range(300):
                if third.exists(f"{IDS}/g_c1"):
                    third.delete(f"{IDS}/g_c1")
            eventually(lambda: settled([member], 2))
            assert created(chroot, f"{OWNERS}/0") == znode

    def test_everything(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member restores its registration and claims after all znodes of the group were deleted."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            purge = chroot.other.transaction()
            for path in (
                f"{IDS}/g_c1",
                IDS,
                *(f"{OWNERS}/{n}" for n in range(3)),
                OWNERS,
                "/consumers/g/owners",
                "/consumers/g",
            ):
                purge.delete(path)
            purge.delete("/consumers")
            assert purge.commit() == [True] * 9
            eventually(lambda: len(chroot.owners("g")) == 3 and set(chroot.ids("g")) == {"g_c1"})
            eventually(lambda: settled([member], 3))
