"""What a stream does when its progress cannot be committed now."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.group.commits import CommitResult, commit_offsets
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.protocol.model import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.stream.commits import StreamCommits
from pyspark_zkafka.stream.planner import PartitionProgress, StreamState
from pyspark_zkafka.stream.warnings import StreamWarnings
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Operation, Outcome

if TYPE_CHECKING:
    from conftest import Chroot

T0 = TopicPartition("t", 0)


class Meddled(ZooKeeperClient):
    """A client before whose transactions something happens."""

    def __init__(self, config: ZooKeeperConfig, before: Callable[[], object]) -> None:
        super().__init__(config)
        self.before = before

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        self.before()
        return super().transact(operations)


@dataclass
class Offsets:
    """A group's offsets in ZooKeeper, which are committed without pauses."""

    client: ZooKeeperClient

    def commit(
        self, offsets: Mapping[TopicPartition, int], owner: ClaimOwner | None, resets: Collection[TopicPartition]
    ) -> CommitResult:
        return commit_offsets(self.client, "g", offsets, owner=owner, resets=resets, sleep=lambda seconds: None)


@dataclass
class Session:
    """What a stream that is no member of its group keeps open."""

    offsets: Offsets
    member: None = None


def test_contention_passes(chroot: Chroot, caplog: pytest.LogCaptureFixture) -> None:
    """While somebody else keeps writing the offset, progress is not committed, which is logged; later it is."""
    path = "/consumers/g/offsets/t/0"
    chroot.other.create(path, b"0", makepath=True)
    options: Any = parse_stream({"zookeeper.connect": "zk", "subscribe": "t", "group.id": "g", "groupMembership": "none"})
    with Meddled(chroot.config, before=lambda: chroot.other.set(path, b"0")) as client:
        session: Any = Session(Offsets(client))
        commits = StreamCommits(options, session, StreamWarnings(fail_on_data_loss=True, clock=time.monotonic))
        state = StreamState().assign({T0: Claim("", 0)}, {T0: PartitionProgress(5)})
        assert commits.commit(state) == state
        assert "offsets not committed, retrying later: [COMMIT_CONTENDED]" in caplog.text
        assert chroot.other.get(path)[0] == b"0"
        client.before = lambda: None
        assert not commits.commit(state).due()
    assert chroot.other.get(path)[0] == b"5"
