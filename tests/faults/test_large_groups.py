"""Groups of many members and partitions that lose half of their members and gain as many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.group.member import GroupMember
from tests.support.eventually import eventually
from tests.support.members import settled, together

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

pytestmark = pytest.mark.long

MEMBERS, PARTITIONS = 50, 2_000
SETTLED_S = 30
MOST_REBALANCES = 30


def test_half_of_the_members(chroot: Chroot, new_member: Callable[..., GroupMember]) -> None:
    """A group of 50 members settles within 30 seconds after each change of half its members, with few rebalances."""
    chroot.topic("t", PARTITIONS)
    first, second, third = (
        [new_member(f"{name}{n:02}", "t", session_ms=10_000) for n in range(MEMBERS // 2)] for name in "abc"
    )
    together([*first, *second], GroupMember.join)
    eventually(lambda: settled([*first, *second], PARTITIONS), SETTLED_S)
    together(first, GroupMember.leave)
    eventually(lambda: settled(second, PARTITIONS), SETTLED_S)
    together(third, GroupMember.join)
    eventually(lambda: settled([*second, *third], PARTITIONS), SETTLED_S)
    assert {len(member.owned()) for member in [*second, *third]} == {PARTITIONS // MEMBERS}
    assert max(member.rebalances for member in [*first, *second, *third]) <= MOST_REBALANCES
