"""Members whose connections break or whose sessions expire."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.testing.processes import Wait
from tests.support.chroot import JVM
from tests.support.eventually import eventually
from tests.support.members import settled
from tests.support.membership import IDS, OWNERS, created, shares
from tests.support.wire import Wire
from tests.support.zookeeper_sessions import session_of

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.support.chroot import Chroot


NewMember = Callable[..., GroupMember]


@pytest.fixture(scope="session")
def zkafka_cluster(breakable_cluster: LocalCluster) -> LocalCluster:
    """The cluster whose ZooKeeper may be paused."""
    return breakable_cluster


class TestSession:
    """Interrupted connections and expired sessions."""

    def test_expired(
        self, zkafka_cluster: LocalCluster, chroot: Chroot, new_member: NewMember, wire: Wire, third: KazooClient
    ) -> None:
        """An expired session voids the assignment at once; the member registers again with its id, and claims again."""
        chroot.topic("t", 3)
        with new_member("c1", "t", session_ms=30_000, hosts=wire.address) as member:
            before, owner = member.owned(), member.owner
            timestamp = json.loads(chroot.ids("g")["g_c1"])["timestamp"]
            wire.cut()
            zkafka_cluster.expire_session(*session_of(wire.greetings[-1]))
            assert chroot.ids("g") == {}
            chroot.register("g", "g_c1", JVM, third)  # until this session ends, the member cannot register
            wire.mend()
            eventually(lambda: member.owned() == {}, timeout_s=20)
            third.stop()
            eventually(lambda: settled([member], 3), timeout_s=20)
            assert member.owner not in (None, owner)
            assert {claim.sequence for claim in before.values()}.isdisjoint(
                claim.sequence for claim in member.owned().values()
            )
            assert json.loads(chroot.ids("g")["g_c1"])["timestamp"] > timestamp
            assert chroot.other.exists(f"{OWNERS}/0").ephemeralOwner == member.owner.session

    def test_expired_unnoticed(self, chroot: Chroot, new_member: NewMember, wire: Wire) -> None:
        """A member cut off from ZooKeeper owns nothing by the time that others may claim its partitions."""
        chroot.topic("t", 4)
        with new_member("c2", "t") as second, new_member("c1", "t", session_ms=2000, hosts=wire.address) as first:
            eventually(lambda: settled([first, second], 4))
            wire.silence()
            eventually(lambda: chroot.owners("g").get(0) == "g_c2-0")
            assert first.owned() == {}
            wire.mend()
            eventually(lambda: settled([first, second], 4))
            assert shares(first, second) == [2, 2]

    @pytest.mark.long
    def test_suspended(self, zkafka_cluster: LocalCluster, chroot: Chroot, new_member: NewMember) -> None:
        """A pause of ZooKeeper shorter than the session time-out changes no znode and no claim."""
        chroot.topic("t", 4)
        with new_member("c1", "t", session_ms=10_000) as first, new_member("c2", "t", session_ms=10_000) as second:
            eventually(lambda: settled([first, second], 4))
            paths = [f"{IDS}/g_c1", f"{IDS}/g_c2", *(f"{OWNERS}/{n}" for n in range(4))]
            before = [created(chroot, path) for path in paths]
            owners, claims = [first.owner, second.owner], [first.owned(), second.owned()]
            zkafka_cluster.pause("zookeeper")
            try:
                # Usually noticed after a third to two thirds of the session time-out; a request in between delays it.
                Wait(6).until(lambda: not first.client.connected)
                assert first.owned() == claims[0]
            finally:
                zkafka_cluster.resume("zookeeper")
            eventually(lambda: first.client.connected)
            eventually(lambda: settled([first, second], 4))
            assert [first.owner, second.owner] == owners
            assert [first.owned(), second.owned()] == claims
            assert [created(chroot, path) for path in paths] == before
        zkafka_cluster.wait_ready()  # the brokers' sessions of 6 s may have expired

    def test_reconnected(self, chroot: Chroot, new_member: NewMember, wire: Wire) -> None:
        """A member finds changes made while it was disconnected, although its watches may be lost."""
        chroot.topic("t", 2)
        with new_member("c1", "t", session_ms=6000, hosts=wire.address) as member:
            before = member.owner
            wire.cut()
            chroot.topic("t", 5)
            wire.mend()
            eventually(lambda: settled([member], 5))
            assert member.owner == before

    def test_leave_while_cut_off(self, chroot: Chroot, new_member: NewMember, wire: Wire) -> None:
        """Leaving without ZooKeeper takes only seconds and raises no error; the znodes expire with the session."""
        chroot.topic("t", 2)
        member = new_member("c1", "t", session_ms=2000, hosts=wire.address)
        member.join()
        wire.silence()
        begin = time.monotonic()
        member.leave()
        assert time.monotonic() - begin < 6  # a request would fail after this time
        assert member.owned() == {}
        eventually(lambda: chroot.ids("g") == {} and chroot.owners("g") == {})
