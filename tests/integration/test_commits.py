"""`commit_offsets` on a real ZooKeeper: commits only raise offsets, are all or nothing, and respect owners."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from pyspark_zkafka.errors import CodecError, GroupContended, OptionError, PartitionOwned, ZooKeeperRefused
from pyspark_zkafka.group.commits import CommitResult, commit_offsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.meddled import Meddled, lose

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
VECTORS = Path(__file__).parents[1] / "vectors" / "znodes.json"
P0, P1 = TopicPartition("peer-a", 0), TopicPartition("peer-a", 1)


def tree(other: KazooClient, path: str) -> dict[str, bytes | None]:
    """Return all znodes from a path down, with their data."""
    found = {path: other.get(path)[0]}
    for child in other.get_children(path):
        found |= tree(other, f"{path}/{child}")
    return found


def own(other: KazooClient, group: str, partition: TopicPartition) -> str:
    """Claim a partition as a live consumer does."""
    path = f"/consumers/{group}/owners/{partition.topic}/{partition.partition}"
    other.create(path, f"{group}_c1-0".encode(), ephemeral=True, makepath=True)
    return path


def test_a_first_commit_leaves_the_znodes_that_the_old_consumer_leaves(chroot: Chroot) -> None:
    """A first commit creates the znodes recorded from 0.8.2.2, byte for byte, and leaves no owners."""
    recorded = json.loads(VECTORS.read_text())["v0822_static"]["znodes"]
    golden = {
        z["path"].replace("/g-082", "/g"): None if z["value"] is None else z["value"].encode()
        for z in recorded
        if "/ids" not in z["path"] and "/owners" not in z["path"]
    }
    offsets = {TopicPartition(*path.split("/")[-2:]): int(data) for path, data in golden.items() if data is not None}
    offsets = {TopicPartition(tp.topic, int(tp.partition)): offset for tp, offset in offsets.items()}
    with ZooKeeperClient(chroot.config) as client:
        assert commit_offsets(client, "g", offsets) == CommitResult(offsets, {})
    assert tree(chroot.other, "/consumers/g") == golden


def test_an_offset_only_rises(chroot: Chroot) -> None:
    """A higher offset is written; an equal or lower one is kept and reported; a negative one counts as none."""
    with ZooKeeperClient(chroot.config) as client:
        commit_offsets(client, "g", {P0: 20, P1: 20})
        assert commit_offsets(client, "g", {P0: 21, P1: 20}) == CommitResult({P0: 21}, {P1: 20})
        assert commit_offsets(client, "g", {P0: 5}) == CommitResult({}, {P0: 21})
        assert client.group_offsets("g") == {P0: 21, P1: 20}
        chroot.other.set("/consumers/g/offsets/peer-a/1", b"-1")
        assert commit_offsets(client, "g", {P1: 0}) == CommitResult({P1: 0}, {})
    assert chroot.other.get("/consumers/g/offsets/peer-a/0")[1].version == 1


def test_the_transaction_that_wrote_an_offset_is_known(chroot: Chroot) -> None:
    """A commit that overwrites an offset returns the transaction of all offsets it wrote; a first commit returns none."""
    with ZooKeeperClient(chroot.config) as client:
        assert commit_offsets(client, "g", {P0: 1}).mzxids == {}
        done = commit_offsets(client, "g", {P0: 2, P1: 2})
        again = commit_offsets(client, "g", {P0: 3, P1: 1})
    stats = [chroot.other.get(f"/consumers/g/offsets/{P0.topic}/{tp.partition}")[1] for tp in (P0, P1)]
    assert done.mzxids == {P0: stats[1].mzxid, P1: stats[1].czxid}
    assert again.mzxids == {P0: stats[0].mzxid}


def test_nothing_to_commit_creates_nothing(chroot: Chroot) -> None:
    """A commit without offsets creates no znode."""
    with ZooKeeperClient(chroot.config) as client:
        assert commit_offsets(client, "g", {}) == CommitResult({}, {})
    assert not chroot.other.exists("/consumers/g")


@pytest.mark.parametrize("offset", [-1, -2, 2**63])
def test_an_offset_out_of_range_is_refused(chroot: Chroot, offset: int) -> None:
    """An offset of -1, -2 or beyond 64 bits is an option error that names the partition."""
    with ZooKeeperClient(chroot.config) as client, pytest.raises(OptionError, match=f"peer-a-1 at {offset}"):
        commit_offsets(client, "g", {P0: 5, P1: offset})
    assert not chroot.other.exists("/consumers/g")


def test_a_live_owner_of_one_partition_forbids_the_whole_commit(chroot: Chroot) -> None:
    """A live owner of one partition prevents the whole commit; the error names partition, owner and session."""
    with ZooKeeperClient(chroot.config) as client:
        commit_offsets(client, "g", {P0: 1, P1: 1})
        path = own(chroot.other, "g", P1)
        session = chroot.other.client_id[0]
        with pytest.raises(PartitionOwned, match=rf"peer-a-1 \(g_c1-0, session 0x{session:x}\)"):
            commit_offsets(client, "g", {P0: 2, P1: 2})
        with pytest.raises(PartitionOwned):
            commit_offsets(client, "g", {P1: 0})
        assert client.group_offsets("g") == {P0: 1, P1: 1}
        assert chroot.other.exists(path)
        chroot.other.delete(path)
        assert commit_offsets(client, "g", {P0: 2, P1: 2}) == CommitResult({P0: 2, P1: 2}, {})
    assert tree(chroot.other, "/consumers/g/owners") == {"/consumers/g/owners": b"", "/consumers/g/owners/peer-a": b""}


def test_an_owner_of_another_partition_or_group_does_not_matter(chroot: Chroot) -> None:
    """Owners of other partitions or of other groups do not prevent a commit."""
    own(chroot.other, "g", P1)
    own(chroot.other, "h", P0)
    with ZooKeeperClient(chroot.config) as client:
        assert commit_offsets(client, "g", {P0: 2}).written == {P0: 2}


def test_an_owner_that_comes_between_reading_and_writing_forbids_the_commit(chroot: Chroot) -> None:
    """An owner that appears between check and transaction prevents the commit, which leaves no znodes of its own."""

    def claim(transaction: int) -> None:
        if transaction == 1:
            own(chroot.other, "g", P1)

    with Meddled(chroot.config, before=claim) as client, pytest.raises(PartitionOwned, match=r"peer-a-1 \(g_c1-0"):
        commit_offsets(client, "g", {P0: 2, P1: 2}, sleep=lambda seconds: None)
    assert set(tree(chroot.other, "/consumers/g")) == {
        "/consumers/g",
        "/consumers/g/owners",
        "/consumers/g/owners/peer-a",
        "/consumers/g/owners/peer-a/1",
    }


def test_an_offset_that_rises_between_reading_and_writing_is_kept(chroot: Chroot) -> None:
    """A higher offset that another client commits between check and transaction is kept."""

    def commit(transaction: int) -> None:
        if transaction == 1:
            chroot.other.create("/consumers/g/offsets/peer-a/0", b"50", makepath=True)
        if transaction == 2:
            chroot.other.set("/consumers/g/offsets/peer-a/0", b"60")

    with Meddled(chroot.config, before=commit) as client:
        pauses: list[float] = []
        result = commit_offsets(client, "g", {P0: 55, P1: 7}, sleep=pauses.append, jitter=lambda: 0.5)
        assert client.group_offsets("g") == {P0: 60, P1: 7}
    assert result == CommitResult({P1: 7}, {P0: 60})
    assert pauses == pytest.approx([0.04, 0.08])


def test_a_commit_that_is_always_overtaken_gives_up(chroot: Chroot) -> None:
    """A commit that is overtaken in each attempt raises a retriable error that names the changing znode."""
    chroot.other.create("/consumers/g/offsets/peer-a/0", b"0", makepath=True)

    def touch(transaction: int) -> None:
        chroot.other.set("/consumers/g/offsets/peer-a/0", b"0")

    with (
        Meddled(chroot.config, before=touch) as client,
        pytest.raises(GroupContended, match=r"in 10 attempts.*/offsets/peer-a/0: the znode was changed") as caught,
    ):
        commit_offsets(client, "g", {P0: 5}, sleep=lambda seconds: None)
    assert caught.value.retriable


def test_commits_of_many_at_the_same_time_end_at_the_highest(chroot: Chroot) -> None:
    """When eight sessions commit to a new group at once, the highest offsets remain, and each result is correct."""
    partitions = [TopicPartition(f"t{n % 3}", n) for n in range(12)]
    wanted = [{tp: random.Random(f"{seed} {tp}").randrange(1000) for tp in partitions} for seed in range(8)]

    def commit(offsets: dict[TopicPartition, int]) -> CommitResult:
        with ZooKeeperClient(chroot.config) as client:
            return commit_offsets(client, "g", offsets)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(commit, wanted))
    highest = {tp: max(offsets[tp] for offsets in wanted) for tp in partitions}
    with ZooKeeperClient(chroot.config) as client:
        assert client.group_offsets("g") == highest
        assert client.group_owners("g") == {}
    for offsets, result in zip(wanted, results, strict=True):
        assert result.written.keys() | result.kept.keys() == offsets.keys()
        assert all(offsets[tp] == offset for tp, offset in result.written.items())
        assert all(offsets[tp] <= stored <= highest[tp] for tp, stored in result.kept.items())


def test_more_than_a_megabyte_goes_in_several_transactions(chroot: Chroot) -> None:
    """6,000 partitions with long names, too many for one request, are committed in several transactions."""
    offsets = {TopicPartition(f"{'long-' * 20}{n % 2}", n): n for n in range(6000)}
    with Meddled(chroot.config) as client:
        assert commit_offsets(client, "g", offsets) == CommitResult(offsets, {})
        assert 3 < len(client.sent) < 12
        assert client.group_offsets("g") == offsets
        assert commit_offsets(client, "g", offsets) == CommitResult({}, offsets)
    assert not chroot.other.exists("/consumers/g/owners")


def test_a_request_beyond_the_servers_limit_is_an_error_that_ends(chroot: Chroot) -> None:
    """A transaction larger than jute.maxbuffer raises an error without a second attempt."""
    offsets = {TopicPartition(f"{'long-' * 20}{n % 2}", n): n for n in range(6000)}
    with Meddled(chroot.config) as client:
        with pytest.raises(ZooKeeperRefused, match=r"REQUEST_TOO_LARGE\] A transaction"):
            commit_offsets(client, "g", offsets, max_transaction_bytes=100_000_000)
        assert len(client.sent) == 1
        assert client.group_offsets("g") == {}


def test_an_owner_of_a_late_chunk_is_found_before_the_first(chroot: Chroot) -> None:
    """A commit of several transactions checks all owners before it writes anything."""
    partitions = [TopicPartition("t", n) for n in range(40)]
    own(chroot.other, "g", partitions[-1])
    with Meddled(chroot.config) as client:
        with pytest.raises(PartitionOwned, match=r"t-39 \(g_c1-0"):
            commit_offsets(client, "g", dict.fromkeys(partitions, 1), max_transaction_bytes=2000)
        assert client.sent == []


def test_an_answer_that_got_lost_does_not_hide_what_was_written(chroot: Chroot) -> None:
    """A commit whose response was lost is reported as written."""
    with Meddled(chroot.config, after=lose(1)) as client:
        assert commit_offsets(client, "g", {P0: 9}, sleep=lambda seconds: None) == CommitResult({P0: 9}, {})
        assert client.group_offsets("g") == {P0: 9}


def test_a_malformed_offset_is_not_written_over(chroot: Chroot) -> None:
    """A malformed stored offset raises an error that names the znode."""
    chroot.other.create("/consumers/g/offsets/peer-a/0", b"7\n", makepath=True)
    with ZooKeeperClient(chroot.config) as client, pytest.raises(CodecError, match="/consumers/g/offsets/peer-a/0"):
        commit_offsets(client, "g", {P0: 9})


def test_who_may_only_read_is_told_which_znode_it_is(chroot: Chroot) -> None:
    """A commit without the right to write is refused, and the error names the znode; with credentials it succeeds."""
    alice = ("digest", "alice:open-sesame")
    chroot.other.ensure_path("/consumers/g")
    chroot.other.set_acls("/consumers/g", [*READ_ACL_UNSAFE, make_digest_acl("alice", "open-sesame", all=True)])
    try:
        with (
            ZooKeeperClient(chroot.config) as client,
            pytest.raises(ZooKeeperRefused, match=r"Create .*/consumers/g/offsets in a transaction was refused"),
        ):
            commit_offsets(client, "g", {P0: 9})
        with ZooKeeperClient(replace(chroot.config, auth=alice)) as client:
            assert commit_offsets(client, "g", {P0: 9}).written == {P0: 9}
    finally:
        chroot.other.add_auth(*alice)
        chroot.other.set_acls("/consumers/g", OPEN_ACL_UNSAFE)


def test_who_watches_the_ids_of_the_group_sees_nothing(chroot: Chroot) -> None:
    """A commit does not trigger a watch on the group's ids, which old consumers set."""
    fired: list[object] = []
    chroot.other.ensure_path("/consumers/g/ids")
    chroot.other.get_children("/consumers/g/ids", watch=fired.append)
    with ZooKeeperClient(chroot.config) as client:
        commit_offsets(client, "g", {P0: 9})
    later = threading.Event()
    chroot.other.exists("/later", watch=lambda event: later.set())
    chroot.other.create("/later")
    assert later.wait(30)  # a session's watches fire in the order of the changes
    assert fired == []
