"""Members whose topics are created, grow and are deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.planning import SubscribePattern
from tests.support.eventually import eventually
from tests.support.members import numbers, settled

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


@pytest.mark.usefixtures("no_sweeps")
class TestTopics:
    """Topics and partitions to assign."""

    def test_created_later(self, chroot: Chroot, new_member: NewMember) -> None:
        """A topic created after the member joined is assigned."""
        with new_member("c1", "t") as member:
            assert numbers(member) == []
            chroot.topic("t", 2)
            eventually(lambda: numbers(member) == [0, 1])

    def test_more_partitions(self, chroot: Chroot, new_member: NewMember) -> None:
        """Added partitions are assigned at once."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as first, new_member("c2", "t") as second:
            chroot.topic("t", 11)
            eventually(lambda: settled([first, second], 11))
            assert numbers(first) == [0, 1, 2, 3, 4, 5]

    def test_deleted(self, chroot: Chroot, new_member: NewMember) -> None:
        """Claims on a deleted topic are released; other claims stay."""
        chroot.topic("t", 2)
        chroot.topic("u", 2)
        with new_member("c1", "t", "u") as member:
            chroot.other.delete("/brokers/topics/t")
            eventually(lambda: sorted(map(str, member.owned())) == ["u-0", "u-1"])
            eventually(lambda: chroot.owners("g") == {})
            chroot.topic("t", 1)
            eventually(lambda: sorted(map(str, member.owned())) == ["t-0", "u-0", "u-1"])

    def test_filter(self, chroot: Chroot, new_member: NewMember) -> None:
        """A filter adds each new topic that it matches, and no other; internal topics never match."""
        chroot.topic("t1", 1)
        with new_member("c1", SubscribePattern("t.*|__.*")) as member:
            chroot.topic("u1", 1)
            chroot.topic("__consumer_offsets", 1)
            chroot.topic("t2", 1)
            eventually(lambda: sorted(map(str, member.owned())) == ["t1-0", "t2-0"])

    def test_roundrobin_of_topics_that_only_others_read(self, chroot: Chroot, new_member: NewMember) -> None:
        """With roundrobin every topic of the group counts: when one grows, all members recompute their shares."""
        chroot.topic("s", 1)
        chroot.topic("t", 4)
        plain = new_member("c1", "t", strategy="roundrobin")
        others = [new_member(name, SubscribePattern("[st].*"), strategy="roundrobin") for name in ("c2", "c3")]
        with plain, others[0], others[1]:
            eventually(lambda: settled([plain, *others], 5))
            assert numbers(plain) == [1]
            chroot.topic("s", 6)
            eventually(lambda: settled([plain, *others], 10))
            assert numbers(plain) == [0, 3]
            chroot.topic("s2", 7)
            eventually(lambda: settled([plain, *others], 17))
