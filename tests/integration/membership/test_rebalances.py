"""Partitions that are kept while they are read, and the count and pace of rebalances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.retries import Timing
from tests.support.eventually import eventually
from tests.support.members import StoppingClock, numbers, settled
from tests.support.membership import shares, tries_in_vain

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


@pytest.fixture
def clock() -> StoppingClock:
    """A member's clock that can be stopped, so that only events make the member act."""
    return StoppingClock()


class TestHold:
    """Partitions that are being read."""

    P3 = TopicPartition("t", 3)

    def test_until_read(self, chroot: Chroot, new_member: NewMember, clock: StoppingClock) -> None:
        """A partition being read is kept when another member should get it, and released when it is no longer read."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000, timing=Timing(clock=clock)), new_member("c2", "t")
        with first:
            first.set_reading([self.P3])
            with second:
                eventually(lambda: numbers(first) == [0, 1, 3])
                tries_in_vain(second)
                assert numbers(first) == [0, 1, 3]
                assert shares(second) == [0]  # a member claims all its partitions or none
                clock.stop()
                first.set_reading(())
                eventually(lambda: settled([first, second], 4))
                assert numbers(second) == [2, 3]

    def test_part_of_it(self, chroot: Chroot, new_member: NewMember, clock: StoppingClock) -> None:
        """Each held partition is released as soon as it is no longer read."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000, timing=Timing(clock=clock)), new_member("c2", "t")
        with first:
            first.set_reading(list(first.owned()))
            with second:
                eventually(lambda: not first.settled)
                tries_in_vain(second)
                clock.stop()
                first.set_reading([self.P3])
                eventually(lambda: numbers(first) == [0, 1, 3])

    def test_until_the_next_rebalance(self, chroot: Chroot, new_member: NewMember) -> None:
        """Between two calls, `rebalance` keeps all partitions unless `read` names fewer."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000), new_member("c2", "t")
        with first:
            assert len(first.rebalance()) == 4
            with second:
                eventually(lambda: not first.settled)
                tries_in_vain(second)
                assert shares(first, second) == [4, 0]
                assert sorted(tp.partition for tp in first.rebalance()) == [0, 1]
                eventually(lambda: settled([first, second], 4))

    def test_not_for_ever(
        self, chroot: Chroot, new_member: NewMember, clock: StoppingClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        """After rebalance.hold.ms a partition is released with a warning even while it is read."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=700, timing=Timing(clock=clock)), new_member("c2", "t")
        with first:
            first.set_reading([self.P3])
            clock.stop()
            with second:
                eventually(lambda: numbers(first) == [0, 1, 3])
                clock.pass_s(0.69)
                tries_in_vain(second)
                assert numbers(first) == [0, 1, 3]
                clock.pass_s(0.02)
                eventually(lambda: settled([first, second], 4))
        assert "g_c1 released t-3 after rebalance.hold.ms" in caplog.text

    def test_called_off(self, chroot: Chroot, new_member: NewMember) -> None:
        """A held partition keeps its claim if it is assigned back before its release."""
        chroot.topic("t", 4)
        with new_member("c1", "t", hold_ms=60_000) as first:
            first.set_reading([self.P3])
            before = first.owned()[self.P3]
            with new_member("c2", "t"):
                eventually(lambda: numbers(first) == [0, 1, 3])
            eventually(lambda: settled([first], 4))
            assert first.owned()[self.P3] == before


def test_rebalances_are_counted(chroot: Chroot, new_member: NewMember) -> None:
    """`rebalances` counts a member's rebalances, and does not grow without an event."""
    chroot.topic("t", 2)
    with new_member("c1", "t") as first:
        assert first.rebalances == 1
        first.rebalance()
        assert first.rebalances == 1
        with new_member("c2", "t") as second:
            eventually(lambda: settled([first, second], 2))
            assert first.rebalances > 1


def test_warnings_come_with_the_back_off(
    chroot: Chroot, new_member: NewMember, clock: StoppingClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A blocked member warns after as many back-offs as it may retry; events in quick succession are not retries.

    It claims when the partition is released, without waiting for the next back-off.
    """
    chroot.topic("t", 1)
    path = chroot.claim("g", TopicPartition("t", 0), b"g_jvm-0")
    timing = Timing(clock=clock, jitter=lambda: 0.5)
    begin = clock()  # before the first try, at which the back-off starts
    with new_member("c1", "t", backoff_ms=400, max_retries=3, timing=timing) as member:
        for n in range(8):
            chroot.register("g", f"g_d{n}", b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}')
        eventually(lambda: member.rebalances > 3)
        eventually(lambda: "cannot claim its partitions" in caplog.text)
        assert clock() - begin > 0.8  # two back-offs
        warning = "g_c1 cannot claim its partitions after 3 tries, and continues to try: t-0 is owned by g_jvm-0"
        assert warning in caplog.text
        clock.stop()
        chroot.other.delete(path)
        eventually(lambda: settled([member], 1))
