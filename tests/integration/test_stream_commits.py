"""Streams that cannot commit their progress for now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.group.commits import CommitResult, commit_offsets, proof_of
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.read.stream_driver import commit_positions
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_session import StreamWarnings
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.meddled import Meddled

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
T0 = TopicPartition("t", 0)


@dataclass
class Offsets:
    """A group's offsets in ZooKeeper, with commits that do not pause."""

    client: ZooKeeperClient

    def commit(
        self, offsets: Mapping[TopicPartition, int], owner: ClaimOwner | None, resets: Collection[TopicPartition]
    ) -> CommitResult:
        return commit_offsets(self.client, "g", offsets, proof_of(owner), resets=resets, sleep=lambda seconds: None)


@dataclass
class Session:
    """The session of a stream that is not a member of its group."""

    store: Offsets
    member: None = None
    stores: tuple[str, ...] = ("zookeeper",)

    def group_offsets(self) -> Offsets:
        return self.store


def test_contention_passes(chroot: Chroot, caplog: pytest.LogCaptureFixture) -> None:
    """While another client keeps writing the offset, commits are postponed with a log line, and succeed later."""
    path = "/consumers/g/offsets/t/0"
    chroot.other.create(path, b"0", makepath=True)
    with Meddled(chroot.config, before=lambda transaction: chroot.other.set(path, b"0")) as client:
        session: Any = Session(Offsets(client))
        reports = StreamWarnings(fail_on_data_loss=True, clock=time.monotonic)
        state = StreamState().assign({T0: Claim("", 0)}, {T0: PartitionProgress(5)}, {})
        assert commit_positions(state, session, reports) == state
        assert "Offsets are not committed yet, retrying: [COMMIT_CONTENDED]" in caplog.text
        assert chroot.other.get(path)[0] == b"0"
        client.before = lambda transaction: None
        assert not commit_positions(state, session, reports).due()
    assert chroot.other.get(path)[0] == b"5"
