"""Commits of offsets, and the proofs that allow them, with a fake ensemble."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import GroupContended, GroupError, OptionError, PartitionOwned, ZooKeeperError
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.commits import CommitResult, NoJvmOwner, OwnedBy, Unchanged, commit_offsets
from pyspark_zkafka.inspect.groups import StoredOffsets
from pyspark_zkafka.inspect.reads import stored_offsets
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZnodeStat
from pyspark_zkafka.zookeeper.transactions import Check, Create
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"


def member(client: EnsembleClient, *partitions: TopicPartition) -> ClaimOwner:
    """Claim partitions for a member, and return it."""
    owner = ClaimOwner("g_a", client.session_id)
    Claims(client, "g").claim(dict.fromkeys(partitions, "g_a-0"), owner)
    return owner


def claim_by_jvm(client: EnsembleClient) -> None:
    """Claim the first partition as a JVM consumer does."""
    client.put("/consumers/g/owners/t")
    client.ensemble.apply([Create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True)], session=99)


def test_first_commit(client: EnsembleClient) -> None:
    """Missing parents are created with null data, as the old consumer does."""
    assert commit_offsets(client, "g", {T0: 5}) == CommitResult(written={T0: 5})
    assert client.data(PATH_0) == b"5"
    assert client.data("/consumers/g/offsets/t") is None


def test_never_backwards(client: EnsembleClient) -> None:
    """A stored offset that is as high or higher is kept, unless it belongs to a log that no longer exists."""
    client.put(PATH_0, b"9")
    assert commit_offsets(client, "g", {T0: 5, T1: 1}) == CommitResult(written={T1: 1}, kept={T0: 9})
    assert commit_offsets(client, "g", {T0: 5}, resets=[T0]) == CommitResult(written={T0: 5})


def test_nothing_to_write(client: EnsembleClient) -> None:
    """If all offsets are stored, there is no transaction."""
    client.put(PATH_0, b"5")
    before = dict(client.ensemble.nodes)
    assert commit_offsets(client, "g", {T0: 5}).kept == {T0: 5}
    assert client.ensemble.nodes == before
    assert client.transactions == 0


def test_owned_by_another(client: EnsembleClient) -> None:
    """A member commits only what it owns; without a member, an owner prevents the commit."""
    owner = member(client, T0)
    assert commit_offsets(client, "g", {T0: 5, T1: 6}, OwnedBy(owner)) == CommitResult(
        written={T0: 5}, lost=frozenset({T1})
    )
    with pytest.raises(PartitionOwned, match="t-0"):
        commit_offsets(client, "g", {T0: 7, T1: 7})
    assert client.data(PATH_0) == b"5"


def test_owner_that_appears(client: EnsembleClient) -> None:
    """A claim made between check and transaction fails the transaction."""

    def claim_once() -> None:
        client.meanwhile = lambda: None
        claim_by_jvm(client)

    client.meanwhile = claim_once
    with pytest.raises(PartitionOwned):
        commit_offsets(client, "g", {T0: 5}, sleep=lambda s: None)
    assert PATH_0 not in client.ensemble.nodes


def test_several_transactions(client: EnsembleClient) -> None:
    """Partitions that exceed a transaction are committed in several, and an owner of any prevents all of them."""
    offsets = {TopicPartition("t", number): number for number in range(20)}
    assert commit_offsets(client, "g", offsets, max_transaction_bytes=2_000).written == offsets
    assert client.transactions > 2
    member(client, TopicPartition("t", 19))
    with pytest.raises(PartitionOwned):
        commit_offsets(client, "g", {tp: 99 for tp in offsets}, max_transaction_bytes=2_000)
    assert client.data(PATH_0) == b"0"


def test_lost_answer(client: EnsembleClient) -> None:
    """A commit that was applied without a response is reported as written."""
    client.lost_answers = 1
    pauses: list[float] = []
    assert commit_offsets(client, "g", {T0: 5}, sleep=pauses.append, jitter=lambda: 0.5).written == {T0: 5}
    assert pauses == [0.04]


def test_no_answers(client: EnsembleClient) -> None:
    """Three consecutive transactions without a response end the commit with an error."""
    client.lost_answers = 9
    with pytest.raises(ZooKeeperError):
        commit_offsets(client, "g", {T0: 5}, resets=[T0], sleep=lambda s: None)
    assert client.transactions == 3


def test_contention(client: EnsembleClient) -> None:
    """A commit that is always overtaken is given up, and the error names the znode."""
    client.put(PATH_0, b"0")
    client.meanwhile = lambda: client.put(PATH_0, b"1")
    expected = "failed in 10 attempts: others changed the group's znodes meanwhile, the last time /consumers/g/offsets/t/0"
    with pytest.raises(GroupContended, match=expected):
        commit_offsets(client, "g", {T0: 5}, sleep=lambda s: None)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_invalid_offsets(client: EnsembleClient, offset: int) -> None:
    """Only offsets that Kafka can have are committed."""
    with pytest.raises(OptionError, match=f"t-0 at {offset}"):
        commit_offsets(client, "g", {T0: offset})


def test_starts(client: EnsembleClient) -> None:
    """A start is committed if the group has no or a negative offset, even if this package's member owns the partition."""
    member(client, T0)
    client.put("/consumers/g/offsets/t/1", b"3")
    client.put("/consumers/g/offsets/t/2", b"-1")
    commit_offsets(client, "g", {T0: 7, T1: 8, TopicPartition("t", 2): 9}, NoJvmOwner())
    stored = [client.data(f"/consumers/g/offsets/t/{number}") for number in range(3)]
    assert stored == [b"7", b"3", b"9"]


def test_starts_of_a_jvm_consumer(client: EnsembleClient) -> None:
    """The start of a partition owned by a JVM consumer is left to that consumer."""
    claim_by_jvm(client)
    assert commit_offsets(client, "g", {T0: 7, T1: 8}, NoJvmOwner()) == CommitResult({T1: 8}, lost=frozenset({T0}))
    assert PATH_0 not in client.ensemble.nodes


@pytest.fixture
def stored(client: EnsembleClient) -> EnsembleClient:
    """An ensemble with a group that has one offset."""
    client.put(PATH_0, b"5")
    return client


def read(client: EnsembleClient) -> StoredOffsets:
    """Return the currently stored offsets."""
    return stored_offsets(client, ["g"])["g"]


def put(client: EnsembleClient, offsets: Any, before: StoredOffsets, inactive_only: bool = True, **settings: Any) -> None:
    """Replace offsets read before, without pauses."""
    proof = Unchanged(before.versions, inactive_only)
    commit_offsets(client, "g", offsets, proof, sleep=lambda s: None, **settings)


class TestUnchanged:
    """Offsets that an operator sets over those read before."""

    def test_write(self, stored: EnsembleClient) -> None:
        """Offsets can be set in both directions; offsets of Kafka 0.7 keep their place."""
        put(stored, {T0: 3, T1: 7, LegacyPartition("t", 1, 0): 99}, read(stored))
        assert [stored.data(f"/consumers/g/offsets/t/{key}") for key in ("0", "1", "1-0")] == [b"3", b"7", b"99"]

    def test_changed_since(self, stored: EnsembleClient) -> None:
        """An offset committed by another client since the read is not overwritten."""
        before = read(stored)
        stored.put(PATH_0, b"6")
        with pytest.raises(GroupContended, match=rf"changed by somebody else .*{PATH_0}: .*; nothing was written"):
            put(stored, {T0: 3}, before)
        assert stored.data(PATH_0) == b"6"

    def test_created_since(self, stored: EnsembleClient) -> None:
        """An offset created by another client since the read is not overwritten."""
        before = read(stored)
        stored.put("/consumers/g/offsets/t/1", b"6")
        with pytest.raises(GroupContended):
            put(stored, {T1: 3}, before)

    @pytest.mark.parametrize("inactive_only", [True, False])
    def test_members(self, stored: EnsembleClient, inactive_only: bool) -> None:
        """A group with members is refused, unless the writer works with active groups."""
        stored.put("/consumers/g/ids/g_a")
        if inactive_only:
            with pytest.raises(GroupError, match="Refused, nothing was written"):
                put(stored, {T0: 3}, read(stored), inactive_only)
        else:
            put(stored, {T0: 3}, read(stored), inactive_only)
        assert stored.data(PATH_0) == (b"5" if inactive_only else b"3")

    def test_member_that_joins(self, stored: EnsembleClient) -> None:
        """A member that registers after the check makes the write fail."""
        stored.meanwhile = lambda: stored.put("/consumers/g/ids/g_a")
        with pytest.raises(GroupError, match="GROUP_ACTIVE"):
            put(stored, {T0: 3}, read(stored))
        assert stored.data(PATH_0) == b"5"

    def test_several_transactions(self, stored: EnsembleClient) -> None:
        """If a later transaction fails, the error says which partitions are written."""
        offsets = {TopicPartition("t", number): 1 for number in range(20)}
        before = read(stored)
        stored.put("/consumers/g/offsets/t/19", b"6")
        with pytest.raises(
            GroupContended, match=r"first \d+ of 20 partitions, up to t-1\d, are written, the others are not"
        ):
            put(stored, offsets, before, max_transaction_bytes=2_000)
        assert stored.data(PATH_0) == b"1"

    def test_lost_answer(self, stored: EnsembleClient) -> None:
        """A transaction that was applied without a response is not repeated."""
        stored.lost_answers = 1
        put(stored, {T0: 3}, read(stored))
        assert stored.data(PATH_0) == b"3"
        assert stored.transactions == 1


CLAIM_0, CLAIM_1 = "/consumers/g/owners/t/0", "/consumers/g/owners/t/1"


def claim(version: int = 1) -> Znode:
    """Return the znode of a claim of ``g_c1``."""
    return Znode(b"g_c1-0", ZnodeStat(1, version, 0, 7))


def test_owned_by_a_session() -> None:
    """A partition is lost unless the session's claim exists; the transaction checks the versions that were read."""
    proof = OwnedBy(ClaimOwner("g_c1", 7))
    found = Results({CLAIM_0: claim()}, {}, {"/consumers/g/owners/t": ZnodeStat(1, 5, 0, 0)})
    assert proof.lost(EnsembleClient(), "g", [T0, T1], found) == {T1}
    assert proof.operations(EnsembleClient(), "g", [T0], found) == [Check("/consumers/g/owners/t", 5), Check(CLAIM_0, 1)]


def test_a_missing_znode_is_never_checked_successfully() -> None:
    """The check of a missing claim fails even if the claim is created meanwhile."""
    checks = OwnedBy(ClaimOwner("g_c1", 7)).operations(EnsembleClient(), "g", [T1], Results())
    assert checks == [Check("/consumers/g/owners/t", 2**31 - 1), Check(CLAIM_1, 2**31 - 1)]


def test_owned_by_a_jvm_consumer() -> None:
    """A claim written once belongs to a JVM consumer, and its partition is left out."""
    found = Results({CLAIM_0: claim(version=0), CLAIM_1: claim()})
    assert NoJvmOwner().lost(EnsembleClient(), "g", [T0, T1], found) == {T0}
