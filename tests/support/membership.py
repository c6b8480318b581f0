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
    """The numbers of partitions that members own."""
    return [len(member.owned()) for member in members]


def created(chroot: Chroot, path: str) -> int:
    """The transaction that created a znode: another one is another znode."""
    return int(chroot.other.exists(path).czxid)


def tries_in_vain(member: GroupMember) -> None:
    """Return when a member has looked at its group twice more, and could not claim what it is assigned."""
    enough = member.rebalances + 2
    eventually(lambda: member.rebalances >= enough, timeout_s=10)
    assert not member.settled


def join_all(*members: GroupMember, partitions: int) -> None:
    """Join members one after the other; returns when all are settled, and together own so many partitions."""
    for member in members:
        member.join()
    eventually(lambda: settled(members, partitions), timeout_s=10)
