"""Members next to members of other software."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.member import GroupMember
from tests.support.chroot import JVM
from tests.support.eventually import eventually
from tests.support.members import numbers, settled
from tests.support.membership import shares

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


class TestOthers:
    """Groups with members of other software."""

    def test_unreadable(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """A member ignores an unreadable registration with a warning, and counts it once it is repaired."""
        chroot.topic("t", 4)
        path = chroot.register("g", "g_bad", b"t")
        with new_member("c1", "t") as member:
            assert numbers(member) == [0, 1, 2, 3]
            chroot.other.delete(path)
            chroot.register("g", "g_jvm", JVM)
            eventually(lambda: numbers(member) == [0, 1])
        assert caplog.text.count("left out of the assignment, and stops JVM consumers") == 1
        assert "Znode /consumers/g/ids/g_bad cannot be read: found b't'" in caplog.text

    def test_older_forms(self, chroot: Chroot, new_member: NewMember) -> None:
        """Registrations in the formats of 0.8.0 and 0.7 count as members."""
        chroot.topic("t", 3)
        chroot.register("g", "g_c0", b'{ "pattern":"static", "subscription":{ "t":1 }, "timestamp":"1", "version":1 }')
        chroot.register("g", "g_c2", b'{ "t": 1 }')
        with new_member("c1", "t") as member:
            assert numbers(member) == [1]

    def test_a_filter(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member with a topic filter counts for each topic that the filter matches."""
        chroot.topic("t", 4)
        chroot.topic("u", 4)
        chroot.register("g", "g_c0", b'{"version":1,"subscription":{"[u-z]":1},"pattern":"white_list","timestamp":"1"}')
        with new_member("c1", "t", "u") as member:
            assert sorted(map(str, member.owned())) == ["t-0", "t-1", "t-2", "t-3", "u-2", "u-3"]

    def test_sticky_among_others(self, chroot: Chroot, new_member: NewMember) -> None:
        """The sticky assignor refuses a group with a member that lacks it; the error names it, and nothing is claimed."""
        chroot.topic("t", 4)
        chroot.register("g", "g_jvm", JVM)
        with pytest.raises(GroupError, match=r"NOT_STICKY.*another strategy: g_jvm\. Set"):
            new_member("c1", "t", strategy="sticky").join()
        assert chroot.owners("g") == {}
        assert set(chroot.ids("g")) == {"g_jvm"}

    def test_others_come_to_sticky(self, chroot: Chroot, new_member: NewMember) -> None:
        """A foreign member that joins a sticky group makes rebalances fail until it leaves."""
        chroot.topic("t", 4)

        def refused(member: GroupMember) -> bool:
            try:
                member.rebalance()
            except GroupError as error:
                return error.condition == "NOT_STICKY"
            return False

        with new_member("c1", "t", strategy="sticky") as member:
            path = chroot.register("g", "g_jvm", JVM)
            eventually(lambda: refused(member))
            assert not member.settled
            chroot.other.delete(path)
            eventually(lambda: not refused(member) and member.settled)
            assert numbers(member) == [0, 1, 2, 3]

    def test_sticky(self, chroot: Chroot, new_member: NewMember) -> None:
        """With the sticky assignor a new member gets its share, and no partition moves between the old members."""
        chroot.topic("t", 12)
        with new_member("c1", "t", strategy="sticky") as first, new_member("c2", "t", strategy="sticky") as second:
            eventually(lambda: settled([first, second], 12))
            before = [set(numbers(first)), set(numbers(second))]
            with new_member("c0", "t", strategy="sticky") as third:
                eventually(lambda: settled([first, second, third], 12))
                assert shares(first, second, third) == [4, 4, 4]
                assert set(numbers(first)) < before[0]
                assert set(numbers(second)) < before[1]
            eventually(lambda: settled([first, second], 12))

    @pytest.mark.parametrize("claim", [("t/0", None), ("t/0", b"\xff"), ("t/x y", b"g_c9-0"), ("t/1-0", b"g_c9-0")])
    def test_sticky_among_malformed_claims(
        self, chroot: Chroot, new_member: NewMember, claim: tuple[str, bytes | None]
    ) -> None:
        """A malformed claim keeps a sticky member only from that claim's partition, until the claim is gone."""
        chroot.topic("t", 3)
        name, data = claim
        chroot.other.ensure_path("/consumers/g/owners/t")
        chroot.other.create(f"/consumers/g/owners/{name}", data, ephemeral=True)
        with new_member("c1", "t", strategy="sticky") as member:
            chroot.other.delete(f"/consumers/g/owners/{name}")
            assert member.wait_settled(30)
            assert numbers(member) == [0, 1, 2]
