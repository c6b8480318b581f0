"""Proofs of ownership, over results that were read."""

from __future__ import annotations

import pytest

from pyspark_zkafka.group.ownership import NoJvmOwner, OwnedBy, claim_paths, is_claim_by, is_claim_of, thread_of
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZnodeStat
from pyspark_zkafka.zookeeper.transactions import Check
from tests.support.ensemble_client import EnsembleClient

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_A, PATH_B = claim_paths("g", [A, B])
OWNER = ClaimOwner("g_c1", 7)
CLIENT = EnsembleClient()


def claim(thread: bytes = b"g_c1-0", version: int = 1, session: int = 7) -> Znode:
    """A claim's znode."""
    return Znode(thread, ZnodeStat(1, version, 0, session, 0))


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
    """A claim is the member's if it names the member and was written twice, and the session's if the session made it."""
    assert is_claim_by(node, "g_c1") is by_member
    assert is_claim_of(node, OWNER) is of_session
    assert not is_claim_of(None, OWNER)


def test_undecodable_threads() -> None:
    """A claim that is not UTF-8 names a thread all the same."""
    assert thread_of(claim(thread=b"g_\xff-0")) == "g_\N{REPLACEMENT CHARACTER}-0"


def test_owned_by_a_session() -> None:
    """A partition is lost unless the session's claim exists; the transaction checks the versions that were read."""
    proof = OwnedBy(OWNER)
    found = Results({PATH_A: claim()}, {}, {"/consumers/g/owners/t": ZnodeStat(1, 5, 0, 0, 1)})
    assert proof.lost(CLIENT, "g", [A, B], found) == {B}
    assert proof.operations(CLIENT, "g", [A], found) == [Check("/consumers/g/owners/t", 5), Check(PATH_A, 1)]


def test_a_missing_znode_is_never_checked_successfully() -> None:
    """A claim that did not exist must not come into being meanwhile."""
    checks = OwnedBy(OWNER).operations(CLIENT, "g", [B], Results())
    assert checks == [Check("/consumers/g/owners/t", 2**31 - 1), Check(PATH_B, 2**31 - 1)]


def test_owned_by_a_jvm_consumer() -> None:
    """A claim that was written once is a JVM consumer's, and its partition is left out."""
    found = Results({PATH_A: claim(version=0), PATH_B: claim()})
    assert NoJvmOwner().lost(CLIENT, "g", [A, B], found) == {A}
