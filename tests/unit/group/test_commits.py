"""Commits of offsets, on an ensemble of values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupContended, OptionError, PartitionOwned, ZooKeeperError
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.commits import CommitResult, commit_offsets, commit_starts
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.zookeeper.transactions import Create
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"


@pytest.fixture
def client() -> EnsembleClient:
    """A client of an ensemble without any znode."""
    return EnsembleClient()


def member(client: EnsembleClient, *partitions: TopicPartition) -> ClaimOwner:
    """A member that has claimed partitions."""
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
    assert (client.data(PATH_0), client.data("/consumers/g/offsets/t")) == (b"5", None)


def test_never_backwards(client: EnsembleClient) -> None:
    """A stored offset that is as high is kept, unless it belongs to a log that no longer exists."""
    client.put(PATH_0, b"9")
    assert commit_offsets(client, "g", {T0: 5, T1: 1}) == CommitResult(written={T1: 1}, kept={T0: 9})
    assert commit_offsets(client, "g", {T0: 5}, resets=[T0]) == CommitResult(written={T0: 5})


def test_nothing_to_write(client: EnsembleClient) -> None:
    """If all offsets are stored, there is no transaction."""
    client.put(PATH_0, b"5")
    before = dict(client.ensemble.nodes)
    assert commit_offsets(client, "g", {T0: 5}).kept == {T0: 5}
    assert client.ensemble.nodes == before


def test_owned_by_another(client: EnsembleClient) -> None:
    """A member commits what it owns, and the rest is lost; without a member, an owner prevents the commit."""
    owner = member(client, T0)
    assert commit_offsets(client, "g", {T0: 5, T1: 6}, owner=owner) == CommitResult(written={T0: 5}, lost=frozenset({T1}))
    with pytest.raises(PartitionOwned, match="t-0"):
        commit_offsets(client, "g", {T0: 7, T1: 7})
    assert client.data(PATH_0) == b"5"


def test_owner_that_appears(client: EnsembleClient) -> None:
    """A claim that is made after the partitions were looked at fails the transaction."""

    def claim_once() -> None:
        client.meanwhile = lambda: None
        claim_by_jvm(client)

    client.meanwhile = claim_once
    with pytest.raises(PartitionOwned):
        commit_offsets(client, "g", {T0: 5}, sleep=lambda s: None)
    assert PATH_0 not in client.ensemble.nodes


def test_several_transactions(client: EnsembleClient) -> None:
    """More partitions than fit into a transaction go in several, and an owner of any prevents all of them."""
    offsets = {TopicPartition("t", number): number for number in range(20)}
    assert commit_offsets(client, "g", offsets, max_transaction_bytes=2_000).written == offsets
    assert client.transactions > 2
    member(client, TopicPartition("t", 19))
    with pytest.raises(PartitionOwned):
        commit_offsets(client, "g", {tp: 99 for tp in offsets}, max_transaction_bytes=2_000)
    assert client.data(PATH_0) == b"0"


def test_lost_answer(client: EnsembleClient) -> None:
    """A commit that was applied without an answer is reported as written."""
    client.lost_answers = 1
    pauses: list[float] = []
    assert commit_offsets(client, "g", {T0: 5}, sleep=pauses.append, jitter=lambda: 0.5).written == {T0: 5}
    assert pauses == [0.04]


def test_no_answers(client: EnsembleClient) -> None:
    """The third transaction in sequence without an answer is the last one."""
    client.lost_answers = 9
    with pytest.raises(ZooKeeperError):
        commit_offsets(client, "g", {T0: 5}, resets=[T0], sleep=lambda s: None)
    assert client.transactions == 3


def test_contention(client: EnsembleClient) -> None:
    """A commit that others always overtake is given up, and the error names the znode."""
    client.put(PATH_0, b"0")
    client.meanwhile = lambda: client.put(PATH_0, b"1")
    with pytest.raises(GroupContended, match=r"changed them 2 times meanwhile, the last time /consumers/g/offsets/t/0"):
        commit_offsets(client, "g", {T0: 5}, attempts=2, sleep=lambda s: None)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_invalid_offsets(client: EnsembleClient, offset: int) -> None:
    """Only offsets that Kafka can have are committed."""
    with pytest.raises(OptionError, match=f"t-0 at {offset}"):
        commit_offsets(client, "g", {T0: offset})


def test_starts(client: EnsembleClient) -> None:
    """A start is committed where the group has no offset, or a negative one, whoever of this package owns the partition."""
    member(client, T0)
    client.put("/consumers/g/offsets/t/1", b"3")
    client.put("/consumers/g/offsets/t/2", b"-1")
    commit_starts(client, "g", {T0: 7, T1: 8, TopicPartition("t", 2): 9})
    stored = [client.data(f"/consumers/g/offsets/t/{number}") for number in range(3)]
    assert stored == [b"7", b"3", b"9"]


def test_starts_of_a_jvm_consumer(client: EnsembleClient) -> None:
    """The start of a partition that a JVM consumer owns is left to it; -1 stands for a start that is not known yet."""
    claim_by_jvm(client)
    commit_starts(client, "g", {T0: 7, T1: -1})
    assert PATH_0 not in client.ensemble.nodes
    assert client.data("/consumers/g/offsets/t/1") == b"-1"
