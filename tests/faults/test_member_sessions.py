"""Members whose session, connection or process ends: live members soon own their partitions."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.errors import ConsumerIdTaken
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, SubscribePattern
from tests.support.chroot import IDLE_JVM
from tests.support.eventually import eventually
from tests.support.members import FORKING, SESSION_S, MemberProcesses, numbers, seconds, settled
from tests.support.options import group_options
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]

IDS = "/consumers/g/ids"


def test_ghost_of_the_old_session(chroot: Chroot, new_member: NewMember, processes: MemberProcesses) -> None:
    """A consumer id in use is refused and its session named; after its holder is killed, a new member takes the id over."""
    chroot.topic("t", 3)
    process, session = processes.joined("c1", session_s=2.5)  # long enough not to expire on a busy machine
    with pytest.raises(ConsumerIdTaken, match=rf"group g has a member g_c1 already, of session {session}\."):
        new_member("c1", "t", session_ms=1000).join()
    process.kill()
    member = new_member("c1", "t", session_ms=4000)
    assert seconds(member.join) < 8
    assert numbers(member) == [0, 1, 2]
    assert {chroot.other.exists(f"/consumers/g/owners/t/{n}").ephemeralOwner for n in range(3)} == {member.owner.session}
    eventually(lambda: settled([member], 3))


def test_unowned_after_a_network_failure(chroot: Chroot, new_member: NewMember, wire: Wire) -> None:
    """After a network failure that ended all sessions, live members own every partition again without a restart."""
    chroot.topic("t", 7)
    members = [new_member(f"c{n}", "t", session_ms=1000, hosts=wire.address) for n in range(3)]
    for member in members:
        member.join()
    for break_wire in (wire.silence, wire.cut):
        eventually(lambda: settled(members, 7))
        break_wire()
        eventually(lambda: chroot.owners("g") == {} and chroot.ids("g") == {})
        assert [member.owned() for member in members] == [{}] * 3
        wire.mend()

    def owned_by_live_sessions() -> bool:
        claims = [chroot.other.exists(f"/consumers/g/owners/t/{n}") for n in range(7)]
        live = {owner.session for member in members if (owner := member.owner)}  # none after another expiry
        return {claim and claim.ephemeralOwner for claim in claims} == live

    eventually(lambda: settled(members, 7) and owned_by_live_sessions())


def test_lost_watches(chroot: Chroot, new_member: NewMember, wire: Wire) -> None:
    """A member that reconnects in the same session finds every change made while it was disconnected."""
    chroot.topic("t", 4)
    chroot.topic("p-1", 1)
    lasting = 20_000  # longer than the cut, in which another member joins
    with (
        new_member("c1", "t", hosts=wire.address, session_ms=lasting) as plain,
        new_member("c2", SubscribePattern("p-.*"), hosts=wire.address, session_ms=lasting) as by_filter,
    ):
        sessions = [plain.owner, by_filter.owner]
        wire.cut()
        chroot.topic("t", 6)
        chroot.topic("p-2", 1)
        chroot.other.delete(f"{IDS}/g_c1")
        with new_member("c3", "t") as newcomer:
            wire.mend()
            eventually(lambda: settled([plain, by_filter, newcomer], 8))
            assert numbers(plain) == [0, 1, 2]
            assert numbers(newcomer) == [3, 4, 5]
            assert [plain.owner, by_filter.owner] == sessions


@pytest.mark.long
def test_stop_and_fork(chroot: Chroot, new_member: NewMember, wire: Wire, processes: MemberProcesses) -> None:
    """Members leave within 6 seconds though ZooKeeper is silent; a forked child is a separate member."""
    chroot.topic("t", 4)
    members = [new_member(f"c{n}", "t", hosts=wire.address, session_ms=int(SESSION_S * 1000)) for n in range(3)]
    for member in members:
        member.join()
    wire.silence()
    threading.Thread(target=members[0].request_rebalance).start()
    with ThreadPoolExecutor(3) as pool:
        assert max(pool.map(lambda member: seconds(member.leave), members)) < 6  # a request would fail after this time
    eventually(lambda: chroot.ids("g") == {}, timeout_s=SESSION_S + 10)
    output, _ = processes.start("parent", program=FORKING).communicate(timeout=90)
    assert output.split("\n") == ["child 2", "parent 4", ""]


def test_dead_consumers_that_live_on(chroot: Chroot, new_member: NewMember, processes: MemberProcesses) -> None:
    """A member that has left leaves no thread and no object; a killed member disappears with its session."""
    chroot.topic("t", 4)
    process, _ = processes.joined("c2")
    survivor = new_member("c3", "t")
    survivor.join()
    before = set(threading.enumerate())  # a member of an earlier test may have the same name
    leaver = GroupMember(chroot.config, group_options("g", consumer_id="c1"), Subscribe(("t",)))
    leaver.join()
    assert "zkafka-member-g_c1" in {thread.name for thread in set(threading.enumerate()) - before}
    leaver.leave()
    chroot.other.delete(chroot.register("g", "g_after", IDLE_JVM))
    ghost = weakref.ref(leaver)
    del leaver
    gc.collect()
    assert ghost() is None
    assert "zkafka-member-g_c1" not in {thread.name for thread in set(threading.enumerate()) - before}
    eventually(lambda: numbers(survivor) == [2, 3])
    process.kill()
    eventually(lambda: set(chroot.ids("g")) == {"g_c3"}, timeout_s=SESSION_S + 10)
    eventually(lambda: numbers(survivor) == [0, 1, 2, 3])


def test_shutdown_races(
    zkafka_cluster: LocalCluster, chroot: Chroot, processes: MemberProcesses, third: KazooClient
) -> None:
    """SIGTERM ends a member within seconds, both while it retries a claim and while ZooKeeper is halted."""
    chroot.topic("t", 3)
    path = chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0", third)
    trying, _ = processes.joined("c1", session_s=30)
    trying.terminate()
    assert seconds(lambda: trying.wait(30)) < 4  # leaving without ZooKeeper would take as long
    assert trying.returncode == 128 + signal.SIGTERM
    eventually(lambda: chroot.ids("g") == {}, timeout_s=15)
    chroot.other.delete(path)
    owning, _ = processes.joined("c2")
    zkafka_cluster.pause("zookeeper")
    try:
        owning.terminate()
        assert seconds(lambda: owning.wait(30)) < 7
    finally:
        zkafka_cluster.resume("zookeeper")
    eventually(lambda: chroot.ids("g") == {} and chroot.owners("g") == {}, timeout_s=SESSION_S + 10)
    zkafka_cluster.wait_ready()  # the brokers' sessions of 6 s may have expired
