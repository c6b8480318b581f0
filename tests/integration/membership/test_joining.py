"""Members that join their group, share its topics and leave."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.errors import ConsumerIdTaken
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.chroot import JVM
from tests.support.eventually import eventually
from tests.support.members import numbers, settled
from tests.support.membership import IDS, OWNERS, created, join_all, shares

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


class TestJoin:
    """Joining, sharing and leaving."""

    def test_alone(self, chroot: Chroot, new_member: NewMember) -> None:
        """A single member owns all partitions when `join` returns, and leaving removes its ephemeral znodes."""
        chroot.topic("t", 12)
        with new_member("c1", "t") as member:
            assert member.consumer == "g_c1"
            assert member.settled
            assert numbers(member) == list(range(12))
            assert chroot.owners("g") == dict.fromkeys(range(12), "g_c1-0")
            assert set(chroot.ids("g")) == {"g_c1"}
        assert chroot.ids("g") == {}
        assert chroot.owners("g") == {}
        assert member.owned() == {}

    def test_generated_id(self, chroot: Chroot, new_member: NewMember) -> None:
        """Without consumer.id, the id is generated from group, host, time and a random part."""
        chroot.topic("t", 1)
        with new_member(None, "t") as member:
            assert list(chroot.ids("g")) == [member.consumer]
            assert member.consumer.startswith("g_")
            assert len(member.consumer.rsplit("-", 1)[1]) == 8

    def test_threads(self, chroot: Chroot, new_member: NewMember) -> None:
        """Each thread owns its share under its own id; ids sort as texts, so thread 10 comes before thread 2."""
        chroot.topic("t", 12)
        with new_member("c1", "t", threads=12):
            owners = chroot.owners("g")
            assert [owners[n] for n in (0, 1, 2, 3, 4, 11)] == [f"g_c1-{n}" for n in (0, 1, 10, 11, 2, 9)]

    def test_sharing(self, chroot: Chroot, new_member: NewMember) -> None:
        """Members share a topic as the JVM's range assignor does, and take over partitions of members that leave."""
        chroot.topic("t", 10)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        join_all(first, second, partitions=10)
        assert numbers(first) == [0, 1, 2, 3, 4]
        assert numbers(second) == [5, 6, 7, 8, 9]
        third = new_member("c3", "t")
        third.join()
        eventually(lambda: settled([first, second, third], 10))
        assert numbers(first) == [0, 1, 2, 3]
        assert numbers(second) == [4, 5, 6]
        assert numbers(third) == [7, 8, 9]
        first.leave()
        eventually(lambda: settled([second, third], 10))

    def test_what_stays_is_not_touched(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member that keeps a partition keeps its claim while others join and leave, unlike a JVM consumer."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        first.join()
        claims, znode = first.owned(), created(chroot, f"{OWNERS}/0")
        second.join()
        eventually(lambda: settled([first, second], 4))
        second.leave()
        eventually(lambda: settled([first], 4))
        assert created(chroot, f"{OWNERS}/0") == znode
        kept = TopicPartition("t", 0)
        assert first.owned()[kept] == claims[kept]
        regained = TopicPartition("t", 3)
        assert first.owned()[regained].sequence > claims[regained].sequence

    def test_more_members_than_partitions(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member without an assigned partition is settled, with nothing."""
        chroot.topic("t", 1)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        join_all(first, second, partitions=1)
        assert shares(first, second) == [1, 0]
        assert second.wait_settled(30)

    @pytest.mark.usefixtures("no_sweeps")
    def test_leave_while_another_waits(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member that leaves frees its partitions at once, long before its session would expire."""
        chroot.topic("t", 6)
        first, second = new_member("c1", "t", session_ms=30_000), new_member("c2", "t")
        join_all(first, second, partitions=6)
        first.leave()
        eventually(lambda: numbers(second) == list(range(6)), timeout_s=15)

    @pytest.mark.usefixtures("no_sweeps")
    def test_twice(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member can leave twice, join again, and then follow its group."""
        member = new_member("c1", "t")
        for _ in range(2):
            chroot.topic("t", 1)
            member.join()
            assert shares(member) == [1]
            chroot.topic("t", 2)
            eventually(lambda: shares(member) == [2])
            member.leave()
            member.leave()
            assert shares(member) == [0]


class TestConsumerIdTaken:
    """Two sessions with one consumer id."""

    def test_waits_in_vain(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """A member waits up to twice the session time-out for an id in use, then fails."""
        chroot.topic("t", 1)
        chroot.register("g", "g_c1", JVM)
        begin = time.monotonic()
        with pytest.raises(ConsumerIdTaken, match=r"give this member another consumer\.id"):
            new_member("c1", "t", session_ms=1000).join()
        assert 3 <= time.monotonic() - begin < 10
        assert caplog.text.count("waiting for the other session to expire") == 1
        assert chroot.owners("g") == {}

    def test_waits_for_its_ghost(
        self, chroot: Chroot, new_member: NewMember, third: KazooClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A member joins when the session of its dead predecessor with the same id expires."""
        chroot.topic("t", 2)
        chroot.register("g", "g_c1", JVM, third)
        chroot.claim("g", TopicPartition("t", 0), b"g_c1-0", third)

        def end() -> None:
            eventually(lambda: "waiting for the other session to expire" in caplog.text)
            third.stop()

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(end)
            with new_member("c1", "t") as member:
                assert numbers(member) == [0, 1]
            ended.result()

    def test_stolen(
        self,
        chroot: Chroot,
        new_member: NewMember,
        third: KazooClient,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A member whose id and claims another session takes owns nothing, logs the reason, and recovers afterwards."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as member:
            steal = third.transaction()
            for path in (f"{IDS}/g_c1", f"{OWNERS}/0", f"{OWNERS}/1"):
                steal.delete(path)
                steal.create(path, JVM if path.startswith(IDS) else b"g_c1-0", ephemeral=True)
            assert steal.commit()[-1] == f"{OWNERS}/1"
            eventually(lambda: shares(member) == [0])
            eventually(lambda: "has a member g_c1 already" in caplog.text)
            third.stop()
            eventually(lambda: settled([member], 2))
