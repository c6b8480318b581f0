"""A member's claims."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.group import claims as claims_module
from pyspark_zkafka.group.claims import Blocker, Claims, is_claim_by, is_claim_of, thread_of
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat
from pyspark_zkafka.zookeeper.transactions import Create, Delete
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0, PATH_1 = "/consumers/g/owners/t/0", "/consumers/g/owners/t/1"
THREADS = {T0: "g_a-0", T1: "g_a-0"}


@pytest.fixture
def owner(client: EnsembleClient) -> ClaimOwner:
    """The member in its session."""
    return ClaimOwner("g_a", client.session_id)


@pytest.fixture
def claims(client: EnsembleClient) -> Claims:
    """The member's claims."""
    return Claims(client, "g")


def claim_by_jvm(client: EnsembleClient, path: str) -> None:
    """Claim a partition as a JVM consumer in another session does."""
    client.put(path.rpartition("/")[0])
    client.ensemble.apply([Create(path, b"g_jvm-0", ephemeral=True)], session=99)


def test_claim(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """Claims are written twice, with their parents, and belong to the session."""
    assert claims.claim(THREADS, owner) == []
    assert claims.owned == {T0: Claim("g_a-0", 1), T1: Claim("g_a-0", 1)}
    stat = client.ensemble.nodes[PATH_0].stat
    assert client.data(PATH_0) == b"g_a-0"
    assert stat.version == 1
    assert stat.ephemeral_owner == client.session_id


def test_data_above_a_claim(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """Foreign data in the claims' parent is kept, unless it is too large for a transaction."""
    for data, kept in ((b"note", b"note"), (b"x" * 1_000_000, None)):
        client.put("/consumers/g/owners/t", data)
        assert claims.claim(THREADS, owner) == []
        assert client.data("/consumers/g/owners/t") == kept
        claims.release(THREADS, owner)


def test_blocked(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """If another consumer owns one of the partitions, none is claimed, and the owner is returned."""
    claim_by_jvm(client, PATH_1)
    blockers = claims.claim(THREADS, owner)
    assert blockers == [Blocker(T1, "g_jvm-0", 99)]
    assert str(blockers[0]) == "t-1 is owned by g_jvm-0 (session 0x63)"
    assert not claims.owned
    assert PATH_0 not in client.ensemble.nodes


def test_blocked_in_a_later_transaction(
    client: EnsembleClient, claims: Claims, owner: ClaimOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims of earlier transactions are released again, except of partitions that were owned before."""
    monkeypatch.setattr(claims_module, "pieces", lambda partitions, *more: ([tp] for tp in partitions))
    assert claims.claim({T1: "g_a-0"}, owner) == []
    t2 = TopicPartition("t", 2)
    claim_by_jvm(client, "/consumers/g/owners/t/2")
    assert claims.claim({T0: "g_a-0", T1: "g_a-1", t2: "g_a-1"}, owner) == [Blocker(t2, "g_jvm-0", 99)]
    assert claims.owned == {T1: Claim("g_a-1", 1)}
    assert PATH_0 not in client.ensemble.nodes
    assert client.data(PATH_1) == b"g_a-1"


def test_claim_of_an_earlier_session(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """A claim left by an earlier session of the same member is replaced."""
    earlier = EnsembleClient(client.ensemble)
    Claims(earlier, "g").claim({T0: "g_a-0"}, ClaimOwner("g_a", earlier.session_id))
    assert claims.claim({T0: "g_a-0"}, owner) == []
    assert client.ensemble.nodes[PATH_0].stat.ephemeral_owner == client.session_id


def test_another_thread(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """A claim for another thread is changed in place, and stays the same claim."""
    claims.claim({T0: "g_a-0"}, owner)
    created = client.ensemble.nodes[PATH_0].stat.czxid
    claims.claim({T0: "g_a-1"}, owner)
    assert claims.owned == {T0: Claim("g_a-1", 1)}
    assert client.data(PATH_0) == b"g_a-1"
    assert client.ensemble.nodes[PATH_0].stat.czxid == created


def test_release(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """Only the session's own claims are deleted; all released partitions leave `owned`."""
    claims.claim(THREADS, owner)
    client.ensemble.apply([Delete(PATH_1)], 0)
    claim_by_jvm(client, PATH_1)
    claims.release(THREADS, owner)
    assert not claims.owned
    assert PATH_0 not in client.ensemble.nodes
    assert client.data(PATH_1) == b"g_jvm-0"


def test_lost_claims(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """A deleted claim leaves `owned`, and is returned."""
    claims.claim(THREADS, owner)
    client.ensemble.apply([Delete(PATH_1)], 0)
    assert claims.verify(owner) == [T1]
    assert list(claims.owned) == [T0]


def test_claims_without_an_answer(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """A claim whose creation received no response is found afterwards, as a new one."""
    client.lost_answers = 1
    with pytest.raises(ZooKeeperError):
        claims.claim({T0: "g_a-0"}, owner)
    assert not claims.owned
    assert claims.verify(owner) == []
    assert claims.owned == {T0: Claim("g_a-0", 1)}


def test_release_without_an_answer(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """A partition leaves `owned` before its claim is deleted, with or without a response."""
    claims.claim({T0: "g_a-0"}, owner)
    client.lost_answers = 1
    with pytest.raises(ZooKeeperError):
        claims.release([T0], owner)
    assert not claims.owned
    assert claims.verify(owner) == []
    assert not claims.owned


def test_another_session(client: EnsembleClient, claims: Claims, owner: ClaimOwner) -> None:
    """After a session nothing is owned, and its claims do not belong to the next session."""
    claims.claim({T0: "g_a-0"}, owner)
    claims.forget()
    assert not claims.owned
    assert claims.verify(ClaimOwner("g_a", client.session_id + 1)) == []
    assert not claims.owned


OWNER = ClaimOwner("g_c1", 7)


def claim(thread: bytes = b"g_c1-0", version: int = 1, session: int = 7) -> Znode:
    """Return a claim's znode."""
    return Znode(thread, ZnodeStat(1, version, 0, session))


@pytest.mark.parametrize(
    ("node", "by_member", "of_session"),
    [
        (claim(), True, True),
        (claim(session=8), True, False),
        (claim(version=0), False, False),
        (claim(thread=b"g_c2-0"), False, False),
    ],
)
def test_claims(node: Znode, by_member: bool, of_session: bool) -> None:
    """A claim is the member's if it names the member and was written twice, and the session's if that created it."""
    assert is_claim_by(node, "g_c1") is by_member
    assert is_claim_of(node, OWNER) is of_session
    assert not is_claim_of(None, OWNER)


def test_undecodable_threads() -> None:
    """The thread of a claim that is not UTF-8 is decoded with replacement characters."""
    assert thread_of(claim(thread=b"g_\xff-0")) == "g_\N{REPLACEMENT CHARACTER}-0"
