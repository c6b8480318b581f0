"""Claims with long names, which together exceed the size of a request to ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
NewMember = Callable[..., GroupMember]

GROUP = "group-" * 180
HOST = "host-" * 40
TOPIC = "t" * 249


def test_joining(chroot: Chroot, new_member: NewMember) -> None:
    """A member claims a thousand partitions although all names have their maximal length."""
    chroot.topic(TOPIC, 1000)
    with new_member(HOST, TOPIC, name=GROUP) as member:
        assert len(member.owned()) == 1000
        assert chroot.owners(GROUP, TOPIC) == dict.fromkeys(range(1000), f"{GROUP}_{HOST}-0")


@pytest.mark.long
def test_releasing(chroot: Chroot) -> None:
    """A thousand claims made in several calls can be released in one."""
    partitions = [TopicPartition(TOPIC, n) for n in range(1000)]
    with ZooKeeperClient(chroot.config) as client:
        claims, owner = Claims(client, GROUP), ClaimOwner(f"{GROUP}_{HOST}", client.session_id or 0)
        for first in range(0, 1000, 100):
            assert claims.claim(dict.fromkeys(partitions[first : first + 100], f"{owner.consumer}-0"), owner) == []
        assert len(claims.owned) == 1000
        claims.release(partitions, owner)
        assert claims.owned == {}
        assert chroot.owners(GROUP, TOPIC) == {}


@pytest.mark.long
def test_topics_of_a_claim(chroot: Chroot) -> None:
    """Claims of 300 topics with separate parents can be made, verified and released."""
    wanted = {TopicPartition(f"{n:04}-{'t' * 240}", 0): f"{GROUP}_{HOST}-0" for n in range(300)}
    with ZooKeeperClient(chroot.config) as client:
        claims, owner = Claims(client, GROUP), ClaimOwner(f"{GROUP}_{HOST}", client.session_id or 0)
        assert claims.claim(wanted, owner) == []
        assert claims.verify(owner) == []
        assert claims.owned.keys() == wanted.keys()
        claims.release(wanted, owner)
        assert claims.verify(owner) == []
        assert claims.owned == {}
