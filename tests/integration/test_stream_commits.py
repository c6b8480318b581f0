"""What a stream does when its progress cannot be committed now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.group.commits import CommitResult, commit_offsets
from pyspark_zkafka.model.nouns import Claim, TopicPartition
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
    """A group's offsets in ZooKeeper, which are committed without pauses."""

    client: ZooKeeperClient

    def commit(self, offsets: Mapping[TopicPartition, int], proof: Any, resets: Collection[TopicPartition]) -> CommitResult:
        return commit_offsets(self.client, "g", offsets, proof, resets=resets, sleep=lambda seconds: None)


@dataclass
class Session:
    """What a stream that is no member of its group keeps open."""

    offsets: Offsets
    member: None = None


def test_contention_passes(chroot: Chroot, caplog: pytest.LogCaptureFixture) -> None:
    """While somebody else keeps writing the offset, progress is not committed, which is logged; later it is."""
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
