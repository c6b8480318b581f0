"""`Claims` on a real ZooKeeper: claims are all or nothing, and commits respect a new owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.errors import GroupContended, ZooKeeperError
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.commits import CommitResult, commit_offsets, proof_of
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper.transactions import Create
from tests.support.meddled import Meddled, lose

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
P = [TopicPartition("t", n) for n in range(6)]
ME, PEER = "g_c1", "g_c2"


class Session:
    """A member's session and claims, without the rest of a member."""

    def __init__(self, config: ZooKeeperConfig, consumer: str) -> None:
        self.client = Meddled(config)
        self.claims = Claims(self.client, "g")
        self.consumer = consumer

    @property
    def owner(self) -> ClaimOwner:
        return ClaimOwner(self.consumer, self.client.session_id or 0)

    def take(self, partitions: Sequence[TopicPartition], thread: int = 0) -> list[str]:
        """Claim partitions for one thread; return the owners that prevent it."""
        return list(map(str, self.claims.claim(dict.fromkeys(partitions, f"{self.consumer}-{thread}"), self.owner)))


@pytest.fixture
def new_session(chroot: Chroot) -> Iterator[Callable[[str], Session]]:
    """Opens sessions of members, by the member's id."""
    with ExitStack() as opened:

        def make(consumer: str) -> Session:
            session = Session(chroot.config, consumer)
            opened.enter_context(session.client)
            return session

        yield make


@pytest.fixture
def mine(new_session: Callable[[str], Session]) -> Session:
    """The session under test."""
    return new_session(ME)


def path(partition: TopicPartition) -> str:
    """Return the path of a partition's claim."""
    return f"/consumers/g/owners/{partition.topic}/{partition.partition}"


def session_of(client: KazooClient) -> str:
    """Return a session as messages show it."""
    return f"0x{client.client_id[0]:x}"


class TestTake:
    """Claiming partitions, all or none."""

    def test_znodes(self, chroot: Chroot, mine: Session) -> None:
        """A claim is ephemeral and holds the thread's id; its parents have null data, as those of a JVM consumer."""
        assert mine.take(P[:2]) == []
        for partition in P[:2]:
            data, stat = chroot.other.get(path(partition))
            assert data == b"g_c1-0"
            assert stat.ephemeralOwner == mine.owner.session
        for parent in ("/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t"):
            assert chroot.other.get(parent)[0] is None
        assert {tp: claim.thread for tp, claim in mine.claims.owned.items()} == dict.fromkeys(P[:2], "g_c1-0")

    def test_all_or_none(self, chroot: Chroot, mine: Session) -> None:
        """One partition claimed by another owner prevents the whole claim, and the owner is named."""
        chroot.claim("g", P[4], b"g_jvm-0")
        assert mine.take(P) == [f"t-4 is owned by g_jvm-0 (session {session_of(chroot.other)})"]
        assert chroot.owners("g") == {4: "g_jvm-0"}
        assert mine.claims.owned == {}

    def test_nameless(self, chroot: Chroot, mine: Session) -> None:
        """A claim with null data, or with bytes that are not text, counts as another's claim."""
        chroot.claim("g", P[0], None)
        chroot.claim("g", P[1], b"\xff\xfe")
        assert [text.split(" (")[0] for text in mine.take(P)] == [
            "t-0 is owned by a nameless owner",
            "t-1 is owned by \ufffd\ufffd",
        ]

    def test_overtaken(self, chroot: Chroot, mine: Session) -> None:
        """A claim made by another owner between check and transaction prevents the whole claim."""
        mine.client.before = lambda transaction: transaction == 1 and chroot.claim("g", P[3], b"g_jvm-0")
        assert mine.take(P) == [f"t-3 is owned by g_jvm-0 (session {session_of(chroot.other)})"]
        assert chroot.owners("g") == {3: "g_jvm-0"}
        assert len(mine.client.sent) == 1

    def test_parents_that_others_make_meanwhile(self, chroot: Chroot, mine: Session) -> None:
        """A claim is retried when its parent znodes are created between check and transaction."""
        mine.client.before = lambda transaction: chroot.other.ensure_path("/consumers/g/owners/t")
        assert mine.take(P) == []
        assert len(mine.client.sent) == 2

    def test_many(self, chroot: Chroot, mine: Session) -> None:
        """Claims that fill several transactions are released if the last one fails."""
        many = [TopicPartition("t", n) for n in range(2500)]
        chroot.claim("g", many[-1], b"g_jvm-0")
        assert len(mine.take(many)) == 1
        assert chroot.owners("g") == {2499: "g_jvm-0"}
        assert mine.claims.owned == {}
        assert mine.take(many[:-1]) == []
        assert len(chroot.other.get_children("/consumers/g/owners/t")) == 2500

    def test_other_topics(self, chroot: Chroot, mine: Session) -> None:
        """Claims of several topics take one transaction."""
        wanted = [TopicPartition(topic, n) for topic in ("t", "u", "v") for n in (0, 1)]
        assert mine.take(wanted) == []
        assert len(mine.client.sent) == 1
        assert chroot.owners("g", "v") == {0: "g_c1-0", 1: "g_c1-0"}

    def test_contended(self, chroot: Chroot, mine: Session) -> None:
        """A claim that changes before each attempt raises an error after ten attempts."""
        first = Session(chroot.config, ME)  # its claims are replaced at the version that was read
        with first.client:
            first.take(P[:1])
            mine.client.before = lambda transaction: chroot.other.set(path(P[0]), b"g_c1-0")
            with pytest.raises(GroupContended, match="CLAIMS_CONTENDED"):
                mine.take(P[:1])
            assert len(mine.client.sent) == 10


class TestOwnClaims:
    """Claims under the member's own name."""

    def test_twice(self, mine: Session) -> None:
        """Claiming owned partitions again changes nothing."""
        mine.take(P)
        before = mine.claims.owned
        assert mine.take(P) == []
        assert len(mine.client.sent) == 1
        assert mine.claims.owned == before

    def test_of_an_earlier_session(self, chroot: Chroot, mine: Session, new_session: Callable[[str], Session]) -> None:
        """Claims of the member's earlier session are taken over at once, and belong to the new session."""
        earlier = new_session(ME)
        earlier.take(P)
        assert mine.take(P) == []
        assert {chroot.other.exists(path(tp)).ephemeralOwner for tp in P} == {mine.owner.session}
        earlier.client.close()
        assert len(chroot.owners("g")) == 6

    def test_of_a_jvm(self, chroot: Chroot, mine: Session) -> None:
        """A JVM consumer's claim with the same text is not taken over: it belongs to the JVM's session."""
        chroot.claim("g", P[0], b"g_c1-0")
        assert mine.take(P) == [f"t-0 is owned by g_c1-0 (session {session_of(chroot.other)})"]
        assert mine.claims.owned == {}

    def test_another_thread(self, chroot: Chroot, mine: Session) -> None:
        """A partition that moves to another thread of the member stays claimed and keeps its sequence."""
        mine.take(P[:1])
        created, sequence = chroot.other.exists(path(P[0])).czxid, mine.claims.owned[P[0]].sequence
        assert mine.take(P[:1], thread=7) == []
        data, stat = chroot.other.get(path(P[0]))
        assert data == b"g_c1-7"
        assert stat.czxid == created
        assert mine.claims.owned[P[0]].thread == "g_c1-7"
        assert mine.claims.owned[P[0]].sequence == sequence

    def test_forget(self, mine: Session) -> None:
        """After `forget` the member owns nothing."""
        mine.take(P)
        mine.claims.forget()
        assert mine.claims.owned == {}


class TestRelease:
    """Releasing claims that the member still owns."""

    def test_some(self, chroot: Chroot, mine: Session) -> None:
        """Released claims are gone at once, others stay, and partitions that are not owned are ignored."""
        mine.take(P[:4])
        mine.claims.release([P[1], P[2], P[5]], mine.owner)
        assert set(chroot.owners("g")) == {0, 3}
        assert set(mine.claims.owned) == {P[0], P[3]}

    def test_not_what_another_has(self, chroot: Chroot, mine: Session) -> None:
        """A partition that a JVM consumer has claimed instead keeps that claim."""
        mine.take(P[:2])
        chroot.other.delete(path(P[0]))
        chroot.claim("g", P[0], b"g_jvm-0")
        mine.claims.release(P[:2], mine.owner)
        assert chroot.owners("g") == {0: "g_jvm-0"}
        assert mine.claims.owned == {}

    def test_not_what_another_has_got_meanwhile(
        self, chroot: Chroot, mine: Session, new_session: Callable[[str], Session]
    ) -> None:
        """A claim that another member makes between check and transaction of a release stays."""
        mine.take(P[:2])
        peer = new_session(PEER)

        def hand_over(transaction: int) -> None:
            if transaction == 2:
                chroot.other.delete(path(P[0]))
                peer.take(P[:1])

        mine.client.before = hand_over
        mine.claims.release(P[:2], mine.owner)
        assert chroot.owners("g") == {0: "g_c2-0"}

    def test_unanswered(self, chroot: Chroot, mine: Session) -> None:
        """After a release whose response was lost, nothing is owned, and `verify` reports no claim as deleted."""
        mine.take(P[:2])
        mine.client.after = lose(2)
        with pytest.raises(ZooKeeperError, match="lost"):
            mine.claims.release(P[:2], mine.owner)
        assert mine.claims.owned == {}
        assert mine.claims.verify(mine.owner) == []
        assert chroot.owners("g") == {}

    def test_undone(self, chroot: Chroot, mine: Session) -> None:
        """`verify` finds a release that never happened, and owns the claims again."""
        mine.take(P[:2])
        mine.client.before = lose(2)
        with pytest.raises(ZooKeeperError, match="lost"):
            mine.claims.release(P[:1], mine.owner)
        assert mine.claims.verify(mine.owner) == []
        assert set(mine.claims.owned) == set(P[:2])


class TestVerify:
    """Comparing the claims in ZooKeeper with those in memory."""

    def test_lost(self, chroot: Chroot, mine: Session) -> None:
        """A claim deleted by another client is reported once, no longer owned, and has a new sequence if claimed again."""
        mine.take(P[:3])
        before = mine.claims.owned
        chroot.other.delete(path(P[1]))
        assert mine.claims.verify(mine.owner) == [P[1]]
        assert set(mine.claims.owned) == {P[0], P[2]}
        assert mine.claims.verify(mine.owner) == []
        mine.take(P[:3])
        assert mine.claims.owned[P[0]] == before[P[0]]
        assert mine.claims.owned[P[1]].sequence > before[P[1]].sequence

    def test_unanswered(self, chroot: Chroot, mine: Session) -> None:
        """`verify` finds claims whose response was lost, and owns them."""
        mine.client.after = lose(1)
        with pytest.raises(ZooKeeperError, match="lost"):
            mine.take(P)
        assert mine.claims.owned == {}
        assert mine.claims.verify(mine.owner) == []
        assert {claim.thread for claim in mine.claims.owned.values()} == {"g_c1-0"}
        assert set(mine.claims.owned) == set(P)


class TestForeignData:
    """The member's znodes after another client has written to them."""

    def test_thread_that_is_no_text(self, chroot: Chroot, mine: Session) -> None:
        """A claim of the member with an undecodable thread is found by `verify`, and repaired by the next claim."""
        mine.take(P[:1])
        chroot.other.set(path(P[0]), b"g_c1-\xff")
        mine.claims.forget()
        assert mine.claims.verify(mine.owner) == []
        assert mine.claims.owned.keys() == set(P[:1])
        assert mine.take(P[:1]) == []
        assert chroot.owners("g") == {0: "g_c1-0"}

    def test_parent_with_data(self, chroot: Chroot, mine: Session) -> None:
        """Data in ``owners/T``, where no consumer writes any, is kept unless it is too large for the claim's request."""
        parent = "/consumers/g/owners/t"
        chroot.other.create(parent, b"note", makepath=True)
        assert mine.take(P[:1]) == []
        assert chroot.other.get(parent)[0] == b"note"
        chroot.other.set(parent, bytes(1_000_000))
        assert mine.take([TopicPartition("t", n) for n in range(1000)]) == []
        assert len(mine.claims.owned) == 1000


class TestIdentity:
    """A claim deleted and created again belongs to another owner, although path and version are equal."""

    def commit_while(self, mine: Session, happens: Callable[[], object]) -> CommitResult:
        """Commit 9 for two partitions stored at 5, and let something happen between check and transaction."""
        mine.take(P[:2])
        assert commit_offsets(mine.client, "g", dict.fromkeys(P[:2], 5), proof_of(mine.owner)).lost == frozenset()
        first = len(mine.client.sent) + 1
        mine.client.before = lambda transaction: happens() if transaction == first else None
        return commit_offsets(mine.client, "g", dict.fromkeys(P[:2], 9), proof_of(mine.owner), sleep=lambda seconds: None)

    def offsets(self, chroot: Chroot) -> list[bytes]:
        return [chroot.other.get(f"/consumers/g/offsets/t/{n}")[0] for n in (0, 1)]

    def test_claimed_by_a_jvm(self, chroot: Chroot, mine: Session) -> None:
        """A commit does not overwrite the offset of a partition that a JVM consumer took over, and reports it as lost."""

        def hand_over() -> None:
            chroot.other.delete(path(P[0]))
            chroot.claim("g", P[0], b"g_jvm-0")

        assert self.commit_while(mine, hand_over) == CommitResult({P[1]: 9}, {}, {P[0]})
        assert self.offsets(chroot) == [b"5", b"9"]

    def test_claimed_by_another_member(self, chroot: Chroot, mine: Session, new_session: Callable[[str], Session]) -> None:
        """A commit reports a partition as lost that another member claimed with an equal claim version."""
        peer, versions = new_session(PEER), []

        def hand_over() -> None:
            versions.append(chroot.other.exists(path(P[0])).version)
            chroot.other.delete(path(P[0]))
            peer.take(P[:1])
            versions.append(chroot.other.exists(path(P[0])).version)

        assert self.commit_while(mine, hand_over) == CommitResult({P[1]: 9}, {}, {P[0]})
        assert self.offsets(chroot) == [b"5", b"9"]
        assert versions == [1, 1]  # a check of the claim's version alone would have allowed the commit

    def test_claimed_by_our_next_session(
        self, chroot: Chroot, mine: Session, new_session: Callable[[str], Session]
    ) -> None:
        """An old session cannot commit partitions that the member's next session has taken over."""
        successor = new_session(ME)
        assert self.commit_while(mine, lambda: successor.take(P[:2])) == CommitResult({}, {}, set(P[:2]))
        assert self.offsets(chroot) == [b"5", b"5"]

    def test_deleted(self, chroot: Chroot, mine: Session) -> None:
        """A partition that nobody claims any more is reported as lost, although its offset could be written."""
        assert self.commit_while(mine, lambda: chroot.other.delete(path(P[0]))) == CommitResult({P[1]: 9}, {}, {P[0]})
        assert self.offsets(chroot) == [b"5", b"9"]

    def test_everything_is_gone(self, chroot: Chroot, mine: Session) -> None:
        """A commit writes nothing if all owner znodes were deleted and another member created them again."""

        def start_over() -> None:
            chroot.other.delete("/consumers/g/owners", recursive=True)
            chroot.claim("g", P[0], b"g_jvm-0")

        assert self.commit_while(mine, start_over) == CommitResult({}, {}, set(P[:2]))
        assert self.offsets(chroot) == [b"5", b"5"]

    def test_other_claims_do_not_disturb(self, mine: Session, new_session: Callable[[str], Session]) -> None:
        """A commit is retried and succeeds if another member claims other partitions of the topic meanwhile."""
        peer = new_session(PEER)
        assert self.commit_while(mine, lambda: peer.take(P[2:])) == CommitResult(dict.fromkeys(P[:2], 9))


def test_a_claim_is_written_twice(mine: Session) -> None:
    """A claim is created and rewritten in one transaction, so its version is 1, while that of a JVM's claim stays at 0."""
    mine.take(P[:1])
    creates = [o for o in mine.client.sent[0] if isinstance(o, Create) and o.ephemeral]
    assert [o.path for o in creates] == [path(P[0])]
    assert mine.client.get_many([path(P[0])])[path(P[0])].stat.version == 1
