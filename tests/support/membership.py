"""Joins, shares and znodes of members of the group ``g``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_zkafka.group.member import GroupMember
from tests.support.eventually import eventually
from tests.support.members import settled

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

IDS = "/consumers/g/ids"
OWNERS = "/consumers/g/owners/t"


def shares(*members: GroupMember) -> list[int]:
    """Return the numbers of partitions that members own."""
    return [len(member.owned()) for member in members]


def created(chroot: Chroot, path: str) -> int:
    """Return the transaction that created a znode, which identifies it."""
    return int(chroot.other.exists(path).czxid)


def tries_in_vain(member: GroupMember) -> None:
    """Wait until a member has rebalanced twice more without claiming what it is assigned."""
    enough = member.rebalances + 2
    eventually(lambda: member.rebalances >= enough, timeout_s=10)
    assert not member.settled


def join_all(*members: GroupMember, partitions: int) -> None:
    """Join members one after another; wait until all are settled, and together own this many partitions."""
    for member in members:
        member.join()
    eventually(lambda: settled(members, partitions), timeout_s=10)
