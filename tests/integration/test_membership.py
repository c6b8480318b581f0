"""`GroupMember` against a real ZooKeeper: how it joins, follows its group, keeps what it reads, and leaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.errors import ConsumerIdTaken, GroupError
from pyspark_zkafka.group.member import GroupMember, Timing
from pyspark_zkafka.group.registration import Registration, registration_of
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Assign, Subscribe, SubscribeExcept, SubscribePattern
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from tests.support.wire import Wire

if TYPE_CHECKING:
    from conftest import Chroot

    from pyspark_zkafka.testing import LocalCluster

Eventually = Callable[..., bool]
NewMember = Callable[..., GroupMember]

JVM = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
IDS = "/consumers/g/ids"
OWNERS = "/consumers/g/owners/t"


def numbers(member: GroupMember) -> list[int]:
    """The partitions that a member owns, in order."""
    return sorted(tp.partition for tp in member.owned())


def shares(*members: GroupMember) -> list[int]:
    """How many partitions each owns."""
    return [len(member.owned()) for member in members]


def settled(*members: GroupMember, partitions: int) -> bool:
    """Whether all members have what they are given, and together own so many partitions."""
    return all(m.settled for m in members) and sum(shares(*members)) == partitions


def created(chroot: Chroot, path: str) -> int:
    """The transaction that created a znode: another one is another znode."""
    return int(chroot.other.exists(path).czxid)


@pytest.fixture
def third(chroot: Chroot) -> Iterator[KazooClient]:
    """One more session, to end at will."""
    client = KazooClient(chroot.config.connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def wire(zkafka_cluster: LocalCluster) -> Iterator[Wire]:
    """A way to ZooKeeper that can be cut."""
    with Wire(zkafka_cluster.port("zookeeper")) as way:
        yield way


class TestRegistration:
    """``/consumers/G/ids/C``."""

    def register(self, chroot: Chroot, content: ConsumerRegistration) -> bytes:
        with ZooKeeperClient(chroot.config) as client:
            registration = Registration("g", "g_c1", content, clock=lambda: 1795227256.2289)
            registration.write(client, client.session_id or 0)
            data, stat = chroot.other.get(f"{IDS}/g_c1")
            assert stat.ephemeralOwner == client.session_id
            return bytes(data)

    def test_bytes(self, chroot: Chroot) -> None:
        """The bytes are those of a JVM's consumer: compact, in its order of keys, the timestamp a text of milliseconds."""
        content = registration_of(GroupOptions("g", threads=2), Subscribe(("peer-a", "peer-b")))
        assert self.register(chroot, content) == (
            b'{"version":1,"subscription":{"peer-a":2,"peer-b":2},"pattern":"static","timestamp":"1795227256228"}'
        )

    @pytest.mark.parametrize(
        ("subscription", "pattern"),
        [(SubscribePattern(" a.*, b"), b"white_list"), (SubscribeExcept(" a.*, b"), b"black_list")],
    )
    def test_filter(self, chroot: Chroot, subscription: Any, pattern: bytes) -> None:
        """A pattern is registered as a filter, with the number of threads, normalised as the JVM does it."""
        assert self.register(chroot, registration_of(GroupOptions("g", threads=3), subscription)) == (
            b'{"version":1,"subscription":{"a.*|b":3},"pattern":"%s","timestamp":"1795227256228"}' % pattern
        )

    def test_sticky(self, chroot: Chroot) -> None:
        """A member with the assignor that JVMs do not know says so, in a key that they skip."""
        content = registration_of(GroupOptions("g", strategy="sticky"), Subscribe(("t",)))
        assert json.loads(self.register(chroot, content))["assignor"] == "sticky"

    def test_assign(self) -> None:
        """Named partitions leave nothing to share out."""
        with pytest.raises(GroupError, match="ASSIGN_IN_GROUP"):
            registration_of(GroupOptions("g"), Assign((TopicPartition("t", 0),)))

    def test_parents(self, chroot: Chroot) -> None:
        """Missing parents are made as 1.1.1 makes them: group and ids with empty data, /consumers with null."""
        chroot.other.delete("/consumers")
        self.register(chroot, ConsumerRegistration({"t": 1}))
        data = {path: chroot.other.get(path)[0] for path in ("/consumers", "/consumers/g", IDS)}
        assert data == {"/consumers": None, "/consumers/g": b"", IDS: b""}

    def test_twice(self, chroot: Chroot) -> None:
        """Registering again in the same session leaves the znode as it is; the existing parents are not touched."""
        with ZooKeeperClient(chroot.config) as client:
            registration = Registration("g", "g_c1", ConsumerRegistration({"t": 1}))
            session = client.session_id or 0
            assert not registration.is_there(client, session)
            registration.write(client, session)
            before = created(chroot, f"{IDS}/g_c1")
            registration.write(client, session)
            assert registration.is_there(client, session)
            assert created(chroot, f"{IDS}/g_c1") == before
            assert not registration.is_there(client, session + 1)

    def test_taken(self, chroot: Chroot) -> None:
        """An id that another session has is an error that names group, member and session."""
        chroot.register("g", "g_c1", JVM)
        session = f"0x{chroot.other.client_id[0]:x}"
        with (
            ZooKeeperClient(chroot.config) as client,
            pytest.raises(ConsumerIdTaken, match=rf"group g has a member g_c1 already, of session {session};"),
        ):
            Registration("g", "g_c1", ConsumerRegistration({"t": 1})).write(client, client.session_id or 0)


class TestJoin:
    """From nothing to a share."""

    def test_alone(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member alone owns all partitions when `join` returns, and leaves nothing ephemeral when it leaves."""
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
        """Without consumer.id it is made of group, host, time and chance."""
        chroot.topic("t", 1)
        with new_member(None, "t") as member:
            assert list(chroot.ids("g")) == [member.consumer]
            assert member.consumer.startswith("g_")
            assert len(member.consumer.rsplit("-", 1)[1]) == 8

    def test_threads(self, chroot: Chroot, new_member: NewMember) -> None:
        """Each thread owns its share under its own id; ids sort as texts, so that thread 10 comes before thread 2."""
        chroot.topic("t", 12)
        with new_member("c1", "t", threads=12):
            owners = chroot.owners("g")
            assert [owners[n] for n in (0, 1, 2, 3, 4, 11)] == [f"g_c1-{n}" for n in (0, 1, 10, 11, 2, 9)]

    def test_sharing(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """Members share a topic as the JVM's range assignor has it, and go on alone when others leave."""
        chroot.topic("t", 10)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        first.join()
        second.join()
        assert eventually(lambda: settled(first, second, partitions=10))
        assert (numbers(first), numbers(second)) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
        third = new_member("c3", "t")
        third.join()
        assert eventually(lambda: settled(first, second, third, partitions=10))
        assert (numbers(first), numbers(second), numbers(third)) == ([0, 1, 2, 3], [4, 5, 6], [7, 8, 9])
        first.leave()
        assert eventually(lambda: settled(second, third, partitions=10))

    def test_what_stays_is_not_touched(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A member that keeps a partition keeps the very claim while others come and go, unlike a JVM's."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        first.join()
        claims, znode = first.owned(), created(chroot, f"{OWNERS}/0")
        second.join()
        assert eventually(lambda: settled(first, second, partitions=4))
        second.leave()
        assert eventually(lambda: settled(first, partitions=4))
        assert created(chroot, f"{OWNERS}/0") == znode
        kept = TopicPartition("t", 0)
        assert first.owned()[kept] == claims[kept]
        regained = TopicPartition("t", 3)
        assert first.owned()[regained].generation > claims[regained].generation

    def test_more_members_than_partitions(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A member that is given nothing is settled with nothing."""
        chroot.topic("t", 1)
        first, second = new_member("c1", "t"), new_member("c2", "t")
        first.join()
        second.join()
        assert eventually(lambda: settled(first, second, partitions=1))
        assert shares(first, second) == [1, 0]
        assert second.wait_settled(5)

    def test_leave_while_another_waits(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """Leaving frees all at once: the others have it long before any session would expire."""
        chroot.topic("t", 6)
        first, second = new_member("c1", "t", session_ms=30_000), new_member("c2", "t")
        first.join()
        second.join()
        assert eventually(lambda: settled(first, second, partitions=6))
        begin = time.monotonic()
        first.leave()
        assert eventually(lambda: numbers(second) == list(range(6)), timeout_s=2)
        assert time.monotonic() - begin < 2

    def test_twice(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A member that has left can leave again, and join again, and follows its group then."""
        member = new_member("c1", "t")
        for _ in range(2):
            chroot.topic("t", 1)
            member.join()
            assert shares(member) == [1]
            chroot.topic("t", 2)
            assert eventually(lambda: shares(member) == [2], timeout_s=2)
            member.leave()
            member.leave()
            assert shares(member) == [0]


class TestConsumerIdTaken:
    """One id, two sessions."""

    def test_waits_in_vain(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """An id that somebody else keeps is waited for, twice the session's timeout, and then is an error."""
        chroot.topic("t", 1)
        chroot.register("g", "g_c1", JVM)
        begin = time.monotonic()
        with pytest.raises(ConsumerIdTaken, match=r"give this one another consumer\.id"):
            new_member("c1", "t", session_ms=1000).join()
        assert 3 <= time.monotonic() - begin < 6
        assert caplog.text.count("waiting for it to expire") == 1
        assert chroot.owners("g") == {}

    def test_waits_for_its_ghost(self, chroot: Chroot, new_member: NewMember, third: KazooClient) -> None:
        """When the other session ends meanwhile, as that of a member that died does, the member joins."""
        chroot.topic("t", 2)
        chroot.register("g", "g_c1", JVM, third)
        chroot.claim("g", TopicPartition("t", 0), b"g_c1-0", third)
        ends = threading.Timer(0.5, third.stop)
        ends.start()
        with new_member("c1", "t") as member:
            assert numbers(member) == [0, 1]
        ends.join()

    def test_stolen(
        self,
        chroot: Chroot,
        new_member: NewMember,
        third: KazooClient,
        eventually: Eventually,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A member whose id and claims another session takes owns nothing, says why, and is back when that one goes."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as member:
            steal = third.transaction()
            for path in (f"{IDS}/g_c1", f"{OWNERS}/0", f"{OWNERS}/1"):
                steal.delete(path)
                steal.create(path, JVM if path.startswith(IDS) else b"g_c1-0", ephemeral=True)
            assert steal.commit()[-1] == f"{OWNERS}/1"
            assert eventually(lambda: shares(member) == [0], timeout_s=5)
            assert eventually(lambda: "has a member g_c1 already" in caplog.text)
            third.stop()
            assert eventually(lambda: settled(member, partitions=2), timeout_s=5)


class TestRepair:
    """What third parties delete."""

    def test_registration(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A member whose registration is deleted registers again at once, by the same id, and keeps its claims."""
        chroot.topic("t", 4)
        with new_member("c1", "t") as first, new_member("c2", "t") as second:
            assert eventually(lambda: settled(first, second, partitions=4))
            claims, znode, before = first.owned(), created(chroot, f"{OWNERS}/0"), created(chroot, f"{IDS}/g_c1")
            chroot.other.delete(f"{IDS}/g_c1")
            assert eventually(lambda: chroot.other.exists(f"{IDS}/g_c1"), timeout_s=2)
            assert eventually(lambda: settled(first, second, partitions=4))
            assert first.owned() == claims
            assert created(chroot, f"{OWNERS}/0") == znode
            assert created(chroot, f"{IDS}/g_c1") > before
        assert "g_c1: another client has deleted the registration; registering again" in caplog.text

    def test_claim(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A claim that is deleted, which no watch tells, is noticed by the sweep, told of, and made anew."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            before = member.owned()
            chroot.other.delete(f"{OWNERS}/1")
            assert eventually(lambda: chroot.other.exists(f"{OWNERS}/1"), timeout_s=5)
            assert eventually(lambda: settled(member, partitions=3))
            lost = TopicPartition("t", 1)
            assert member.owned()[lost].generation > before[lost].generation
            assert {tp: c for tp, c in member.owned().items() if tp != lost} == {
                tp: c for tp, c in before.items() if tp != lost
            }
        assert "g_c1: another client has deleted the claims on t-1; claiming again" in caplog.text

    def test_claim_that_is_looked_for(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """Who finds a claim missing can have it mended at once."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            chroot.other.delete(f"{OWNERS}/1")
            member.look_again()
            assert eventually(lambda: chroot.other.exists(f"{OWNERS}/1"), timeout_s=1)

    def test_claim_that_another_takes(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A claim that was deleted and taken by another session is not owned, and claimed again as soon as it is free."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            chroot.other.delete(f"{OWNERS}/1")
            chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0")
            assert eventually(lambda: numbers(member) == [0, 2], timeout_s=5)
            assert not member.settled
            chroot.other.delete(f"{OWNERS}/1")
            assert eventually(lambda: numbers(member) == [0, 1, 2], timeout_s=1)

    def test_registration_again_and_again(
        self, chroot: Chroot, new_member: NewMember, third: KazooClient, eventually: Eventually
    ) -> None:
        """A member that finds itself unregistered in the middle of a rebalance does not take that for its share."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as member:
            znode = created(chroot, f"{OWNERS}/0")
            for _ in range(300):
                if third.exists(f"{IDS}/g_c1"):
                    third.delete(f"{IDS}/g_c1")
            assert eventually(lambda: settled(member, partitions=2))
            assert created(chroot, f"{OWNERS}/0") == znode

    def test_everything(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A group whose znodes are all deleted is built again."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            purge = chroot.other.transaction()
            for path in (
                f"{IDS}/g_c1",
                IDS,
                *(f"{OWNERS}/{n}" for n in range(3)),
                OWNERS,
                "/consumers/g/owners",
                "/consumers/g",
            ):
                purge.delete(path)
            purge.delete("/consumers")
            assert purge.commit() == [True] * 9
            assert eventually(lambda: len(chroot.owners("g")) == 3 and set(chroot.ids("g")) == {"g_c1"}, timeout_s=5)
            assert eventually(lambda: settled(member, partitions=3))


class TestOthers:
    """Members that are not of this package."""

    def test_unreadable(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A registration that nobody can read is left out, with a warning; mended, and noticed, it counts."""
        chroot.topic("t", 4)
        path = chroot.register("g", "g_bad", b"t")
        with new_member("c1", "t") as member:
            assert numbers(member) == [0, 1, 2, 3]
            chroot.other.delete(path)
            chroot.register("g", "g_jvm", JVM)
            assert eventually(lambda: numbers(member) == [0, 1])
        assert caplog.text.count("left out of the assignment, which stops JVM consumers altogether") == 1
        assert "Znode /consumers/g/ids/g_bad cannot be read: found b't'" in caplog.text

    def test_older_forms(self, chroot: Chroot, new_member: NewMember) -> None:
        """Registrations of 0.8.0 and 0.7 count like all others."""
        chroot.topic("t", 3)
        chroot.register("g", "g_c0", b'{ "pattern":"static", "subscription":{ "t":1 }, "timestamp":"1", "version":1 }')
        chroot.register("g", "g_c2", b'{ "t": 1 }')
        with new_member("c1", "t") as member:
            assert numbers(member) == [1]

    def test_a_filter(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member with a filter counts for each topic that it matches."""
        chroot.topic("t", 4)
        chroot.topic("u", 4)
        chroot.register("g", "g_c0", b'{"version":1,"subscription":{"[u-z]":1},"pattern":"white_list","timestamp":"1"}')
        with new_member("c1", "t", "u") as member:
            assert sorted(map(str, member.owned())) == ["t-0", "t-1", "t-2", "t-3", "u-2", "u-3"]

    def test_sticky_among_others(self, chroot: Chroot, new_member: NewMember) -> None:
        """The sticky assignor is refused in a group with a member that does not know it, by name; nothing is claimed."""
        chroot.topic("t", 4)
        chroot.register("g", "g_jvm", JVM)
        with pytest.raises(GroupError, match=r"NOT_STICKY.*found g_jvm without it"):
            new_member("c1", "t", strategy="sticky").join()
        assert chroot.owners("g") == {}
        assert set(chroot.ids("g")) == {"g_jvm"}

    def test_others_come_to_sticky(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A stranger that joins a sticky group later is an error of the next rebalance; when it has gone, all is well."""
        chroot.topic("t", 4)

        def refused(member: GroupMember) -> bool:
            try:
                member.rebalance()
            except GroupError as error:
                return error.condition == "NOT_STICKY"
            return False

        with new_member("c1", "t", strategy="sticky") as member:
            path = chroot.register("g", "g_jvm", JVM)
            assert eventually(lambda: refused(member))
            assert not member.settled
            chroot.other.delete(path)
            assert eventually(lambda: not refused(member) and member.settled)
            assert numbers(member) == [0, 1, 2, 3]

    def test_sticky(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """With the sticky assignor a newcomer gets its share, and nobody else's partitions move."""
        chroot.topic("t", 12)
        with new_member("c1", "t", strategy="sticky") as first, new_member("c2", "t", strategy="sticky") as second:
            assert eventually(lambda: settled(first, second, partitions=12))
            before = [set(numbers(first)), set(numbers(second))]
            with new_member("c0", "t", strategy="sticky") as third:
                assert eventually(lambda: settled(first, second, third, partitions=12))
                assert shares(first, second, third) == [4, 4, 4]
                assert set(numbers(first)) < before[0]
                assert set(numbers(second)) < before[1]
            assert eventually(lambda: settled(first, second, partitions=12))

    @pytest.mark.parametrize("claim", [("t/0", None), ("t/0", b"\xff"), ("t/x y", b"g_c9-0"), ("t/1-0", b"g_c9-0")])
    def test_sticky_among_malformed_claims(
        self, chroot: Chroot, new_member: NewMember, claim: tuple[str, bytes | None]
    ) -> None:
        """Claims that nobody can read keep a sticky member from nothing but those partitions."""
        chroot.topic("t", 3)
        name, data = claim
        chroot.other.ensure_path("/consumers/g/owners/t")
        chroot.other.create(f"/consumers/g/owners/{name}", data, ephemeral=True)
        with new_member("c1", "t", strategy="sticky") as member:
            chroot.other.delete(f"/consumers/g/owners/{name}")
            assert member.wait_settled(5)
            assert numbers(member) == [0, 1, 2]


class TestTopics:
    """What there is to share out."""

    def test_created_later(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A topic that does not exist yet is waited for."""
        with new_member("c1", "t") as member:
            assert numbers(member) == []
            assert "subscribed topics that do not exist yet: t" in caplog.text
            chroot.topic("t", 2)
            assert eventually(lambda: numbers(member) == [0, 1], timeout_s=2)

    def test_more_partitions(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """Added partitions are shared out at once."""
        chroot.topic("t", 2)
        with new_member("c1", "t") as first, new_member("c2", "t") as second:
            chroot.topic("t", 11)
            assert eventually(lambda: settled(first, second, partitions=11), timeout_s=2)
            assert numbers(first) == [0, 1, 2, 3, 4, 5]

    def test_deleted(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """The claims on a deleted topic are released, the others stay."""
        chroot.topic("t", 2)
        chroot.topic("u", 2)
        with new_member("c1", "t", "u") as member:
            chroot.other.delete("/brokers/topics/t")
            assert eventually(lambda: sorted(map(str, member.owned())) == ["u-0", "u-1"], timeout_s=2)
            assert eventually(lambda: chroot.owners("g") == {}, timeout_s=2)
            chroot.topic("t", 1)
            assert eventually(lambda: sorted(map(str, member.owned())) == ["t-0", "u-0", "u-1"], timeout_s=2)

    def test_filter(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """A filter takes in each new topic that it matches, and no other; internal ones never."""
        chroot.topic("t1", 1)
        with new_member("c1", SubscribePattern("t.*|__.*")) as member:
            chroot.topic("u1", 1)
            chroot.topic("__consumer_offsets", 1)
            chroot.topic("t2", 1)
            assert eventually(lambda: sorted(map(str, member.owned())) == ["t1-0", "t2-0"], timeout_s=2)

    def test_roundrobin_of_topics_that_only_others_read(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually
    ) -> None:
        """With roundrobin every topic of the group counts: when one grows, all members find the new shares."""
        chroot.topic("s", 1)
        chroot.topic("t", 4)
        plain = new_member("c1", "t", strategy="roundrobin")
        others = [new_member(name, SubscribePattern("[st].*"), strategy="roundrobin") for name in ("c2", "c3")]
        with plain, others[0], others[1]:
            assert eventually(lambda: settled(plain, *others, partitions=5))
            assert numbers(plain) == [1]
            chroot.topic("s", 6)
            assert eventually(lambda: settled(plain, *others, partitions=10), timeout_s=3)
            assert numbers(plain) == [0, 3]
            chroot.topic("s2", 7)
            assert eventually(lambda: settled(plain, *others, partitions=17), timeout_s=3)


class TestHold:
    """Partitions that are being read."""

    P3 = TopicPartition("t", 3)

    def test_until_read(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """What is being read is kept when it is another's turn, and given away once it is not read any more."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000), new_member("c2", "t")
        with first:
            first.read([self.P3])
            with second:
                assert eventually(lambda: numbers(first) == [0, 1, 3])
                assert not second.wait_settled(0.5)
                assert numbers(first) == [0, 1, 3]
                assert shares(second) == [0]  # all or nothing
                first.read(())
                assert eventually(lambda: settled(first, second, partitions=4), timeout_s=1)
                assert numbers(second) == [2, 3]

    def test_part_of_it(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """Of several that are held, each is given away when it is done."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000), new_member("c2", "t")
        with first:
            first.read(list(first.owned()))
            with second:
                assert not second.wait_settled(0.5)
                first.read([self.P3])
                assert eventually(lambda: numbers(first) == [0, 1, 3], timeout_s=1)

    def test_until_the_next_rebalance(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """`rebalance` keeps all until the next call of it, unless `read` says less meanwhile."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=60_000), new_member("c2", "t")
        with first:
            assert len(first.rebalance()) == 4
            with second:
                assert not second.wait_settled(0.5)
                assert shares(first, second) == [4, 0]
                assert sorted(tp.partition for tp in first.rebalance()) == [0, 1]
                assert eventually(lambda: settled(first, second, partitions=4), timeout_s=1)

    def test_not_for_ever(
        self, chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
    ) -> None:
        """After rebalance.hold.ms a partition is given away even if it is being read, with a warning."""
        chroot.topic("t", 4)
        first, second = new_member("c1", "t", hold_ms=700), new_member("c2", "t")
        with first:
            first.read([self.P3])
            with second:
                begin = time.monotonic()
                assert eventually(lambda: settled(first, second, partitions=4))
                assert 0.5 < time.monotonic() - begin < 3
        assert "g_c1 released t-3 after rebalance.hold.ms" in caplog.text

    def test_called_off(self, chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
        """When the partition is ours again before it was given away, it was never gone."""
        chroot.topic("t", 4)
        with new_member("c1", "t", hold_ms=60_000) as first:
            first.read([self.P3])
            before = first.owned()[self.P3]
            with new_member("c2", "t"):
                assert eventually(lambda: numbers(first) == [0, 1, 3])
            assert eventually(lambda: settled(first, partitions=4))
            assert first.owned()[self.P3] == before


class TestSession:
    """Connections and sessions that end."""

    def test_expired(
        self, zkafka_cluster: LocalCluster, chroot: Chroot, new_member: NewMember, eventually: Eventually
    ) -> None:
        """A session that expires voids the assignment at once; the member registers anew by its id, and claims again."""
        chroot.topic("t", 3)
        with new_member("c1", "t") as member:
            before, owner = member.owned(), member.owner
            timestamp = json.loads(chroot.ids("g")["g_c1"])["timestamp"]
            seen: list[list[int]] = []
            # LOST has been told to all by the time that the next session begins, before the member can register by it.
            member.client._kazoo.add_listener(lambda state: seen.append(shares(member)) if state == "CONNECTED" else None)
            zkafka_cluster.expire_session(*member.client._kazoo.client_id)
            assert eventually(lambda: member.owner not in (None, owner) and settled(member, partitions=3))
            assert seen[-1:] == [[0]]
            assert {claim.generation for claim in before.values()}.isdisjoint(
                claim.generation for claim in member.owned().values()
            )
            assert json.loads(chroot.ids("g")["g_c1"])["timestamp"] > timestamp
            assert chroot.other.exists(f"{OWNERS}/0").ephemeralOwner == member.owner.session

    def test_expired_unnoticed(self, chroot: Chroot, new_member: NewMember, wire: Wire, eventually: Eventually) -> None:
        """A member that is cut off holds nothing by the time that others may have it, though nobody could tell it so."""
        chroot.topic("t", 4)
        with new_member("c2", "t") as second, new_member("c1", "t", session_ms=2000, hosts=wire.address) as first:
            assert eventually(lambda: settled(first, second, partitions=4))
            wire.silence()
            assert eventually(lambda: chroot.owners("g").get(0) == "g_c2-0", timeout_s=8)
            assert first.owned() == {}
            wire.mend()
            assert eventually(lambda: settled(first, second, partitions=4))
            assert shares(first, second) == [2, 2]

    def test_suspended(
        self, zkafka_cluster: LocalCluster, chroot: Chroot, new_member: NewMember, eventually: Eventually
    ) -> None:
        """A ZooKeeper that halts for less than the session's timeout changes nothing: the same znodes, the same claims."""
        chroot.topic("t", 4)
        with new_member("c1", "t", session_ms=6000) as first, new_member("c2", "t", session_ms=6000) as second:
            assert eventually(lambda: settled(first, second, partitions=4))
            paths = [f"{IDS}/g_c1", f"{IDS}/g_c2", *(f"{OWNERS}/{n}" for n in range(4))]
            before = [created(chroot, path) for path in paths]
            claims = [first.owned(), second.owned()]
            states: list[str] = []
            first.client._kazoo.add_listener(states.append)
            zkafka_cluster.pause("zookeeper")
            try:
                assert eventually(lambda: "SUSPENDED" in states, timeout_s=5)
                assert first.owned() == claims[0]
            finally:
                zkafka_cluster.resume("zookeeper")
            assert eventually(lambda: states[-1] == "CONNECTED")
            assert eventually(lambda: settled(first, second, partitions=4))
            assert [first.owned(), second.owned()] == claims
            assert [created(chroot, path) for path in paths] == before
            assert "LOST" not in states

    def test_reconnected(self, chroot: Chroot, new_member: NewMember, wire: Wire, eventually: Eventually) -> None:
        """What changes while the connection is away is found when it is back, as watches may be lost with it."""
        chroot.topic("t", 2)
        with new_member("c1", "t", session_ms=6000, hosts=wire.address) as member:
            before = member.owner
            wire.cut()
            chroot.topic("t", 5)
            wire.mend()
            assert eventually(lambda: settled(member, partitions=5), timeout_s=5)
            assert member.owner == before

    def test_leave_while_cut_off(self, chroot: Chroot, new_member: NewMember, wire: Wire, eventually: Eventually) -> None:
        """Leaving takes some seconds at the most without ZooKeeper, and makes no noise; the znodes go with the session."""
        chroot.topic("t", 2)
        member = new_member("c1", "t", session_ms=2000, hosts=wire.address)
        member.join()
        wire.silence()
        begin = time.monotonic()
        member.leave()
        assert time.monotonic() - begin < 4.5
        assert member.owned() == {}
        assert eventually(lambda: chroot.ids("g") == {} and chroot.owners("g") == {}, timeout_s=5)


def test_rebalances_are_counted(chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
    """A member counts how often it has looked at its group; one that nothing happens to looks no more."""
    chroot.topic("t", 2)
    with new_member("c1", "t") as first:
        assert first.rebalances == 1
        first.rebalance()
        assert first.rebalances == 1
        with new_member("c2", "t") as second:
            assert eventually(lambda: settled(first, second, partitions=2))
            assert first.rebalances > 1


def test_warnings_come_with_the_back_off(
    chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """Events in quick succession are no tries: the warning of a blocked member comes after so many back-offs."""
    chroot.topic("t", 1)
    path = chroot.claim("g", TopicPartition("t", 0), b"g_jvm-0")
    timing = Timing(jitter=lambda: 0.5)
    with new_member("c1", "t", backoff_ms=400, max_retries=3, timing=timing) as member:
        begin = time.monotonic()
        for n in range(8):
            chroot.register("g", f"g_d{n}", b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}')
        assert eventually(lambda: member.rebalances > 3)
        assert eventually(lambda: "cannot claim its partitions" in caplog.text)
        assert time.monotonic() - begin > 0.6
        assert "g_c1 cannot claim its partitions after 3 tries, and goes on trying: t-0 is owned by g_jvm-0" in caplog.text
        chroot.other.delete(path)
        assert eventually(lambda: settled(member, partitions=1), timeout_s=0.4)
