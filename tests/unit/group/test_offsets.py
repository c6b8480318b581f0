"""Offsets of a group in its stores, and of a group that Kafka coordinates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from pyspark_zkafka.errors import CodecError, DataLoss, GroupContended, OptionError, PartitionLost
from pyspark_zkafka.group import offsets as group_offsets
from pyspark_zkafka.group.commits import CommitResult
from pyspark_zkafka.group.offsets import GroupOffsets, KafkaMemberOffsets, report_outdated, require_none_lost
from pyspark_zkafka.model.checkpoint import LeftOffset
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.batch import parse_connection
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
CONNECTION = parse_connection({"kafka.bootstrap.servers": "broker1:9092"})


@pytest.fixture
def offsets(client: EnsembleClient) -> GroupOffsets:
    """The group's offsets, only in ZooKeeper."""
    return GroupOffsets(CONNECTION, "broker1:9092", "g", ("zookeeper",), client)


def test_no_zookeeper() -> None:
    """A store in ZooKeeper needs its address."""
    with pytest.raises(OptionError, match=r"need zookeeper\.connect"):
        GroupOffsets(CONNECTION, "broker1:9092", "g", ("zookeeper",), None)


def test_committed(client: EnsembleClient, offsets: GroupOffsets) -> None:
    """Offsets come with the transactions that wrote them; negative ones are left out."""
    client.put(PATH_0, b"5")
    client.put("/consumers/g/offsets/t/1", b"-1")
    assert offsets.committed([T0, T1]) == {T0: StoredOffset(5, client.ensemble.nodes[PATH_0].stat.mzxid)}


def test_malformed(client: EnsembleClient, offsets: GroupOffsets, caplog: pytest.LogCaptureFixture) -> None:
    """A malformed offset is an error for the partition's owner, and 0 with a warning for others."""
    client.put(PATH_0, b"five")
    with pytest.raises(CodecError, match=PATH_0):
        offsets.committed([T0])
    with caplog.at_level(logging.WARNING):
        assert offsets.committed([T0], skip_malformed=True)[T0].offset == 0
    assert PATH_0 in caplog.text


def test_marks_of_a_commit(client: EnsembleClient, offsets: GroupOffsets) -> None:
    """The transaction of a first offset, which has no id in its response, is read from ZooKeeper."""
    first = offsets.commit({T0: 5})
    assert first.mzxids == {T0: client.ensemble.nodes[PATH_0].stat.mzxid}
    second = offsets.commit({T0: 6})
    assert second.mzxids[T0] > first.mzxids[T0]


def test_begin(client: EnsembleClient, offsets: GroupOffsets) -> None:
    """The first member to call `begin` decides the starts."""
    client.put(PATH_0, b"5")
    begun = offsets.begin({T0: 9, T1: 7})
    assert {tp: stored.offset for tp, stored in begun.items()} == {T0: 5, T1: 7}


class KafkaStore:
    """Offsets of the group in Kafka."""

    def __init__(self, **by_partition: int) -> None:
        self.offsets = {TopicPartition("t", int(name[1:])): offset for name, offset in by_partition.items()}
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.unanswered: Callable[[], None] | None = None

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: offset for tp, offset in self.offsets.items() if tp in partitions}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        due: Callable[[Collection[TopicPartition]], Collection[TopicPartition]],
    ) -> None:
        offsets = {tp: offsets[tp] for tp in due(offsets)}
        if self.unanswered is not None:
            self.unanswered()
            offsets = {tp: offsets[tp] for tp in due(offsets)}
        self.offsets |= offsets
        self.commits.append(offsets)


OpenOffsets = Callable[..., GroupOffsets]


@pytest.fixture
def open_offsets(monkeypatch: pytest.MonkeyPatch) -> OpenOffsets:
    """Opens the group's offsets with a store in Kafka: ``open_offsets(kafka, stores, client)``."""

    def make(kafka: KafkaStore, stores: Any = ("kafka",), client: Any = None) -> GroupOffsets:
        monkeypatch.setattr(group_offsets, "KafkaGroupOffsets", lambda *arguments: kafka)
        return GroupOffsets(CONNECTION, "broker1:9092", "g", stores, client)

    return make


def test_begin_in_kafka(client: EnsembleClient, open_offsets: OpenOffsets) -> None:
    """Starts in Kafka leave out partitions of JVM consumers, and, in a further attempt, others' offsets."""
    client.put("/consumers/g/owners/t/0", b"g_jvm-0")
    kafka = KafkaStore()
    begun = open_offsets(kafka, ("kafka",), client).begin({T0: 9, T1: 7})
    assert {tp: stored.offset for tp, stored in begun.items()} == kafka.offsets == {T1: 7}
    kafka.unanswered = lambda: kafka.offsets.update({T0: 200})
    begun = open_offsets(kafka).begin({T0: 9})
    assert {tp: stored.offset for tp, stored in begun.items()} == {T0: 200}


def test_equal_offset_in_kafka(open_offsets: OpenOffsets) -> None:
    """An equal offset in Kafka is committed again, since brokers forget old ones. A higher one is kept."""
    kafka = KafkaStore(p0=7, p1=8)
    done = open_offsets(kafka).commit({T0: 7, T1: 7})
    assert done.written == {T0: 7}
    assert done.kept == {T1: 8}
    assert kafka.commits == [{T0: 7}]


def test_further_attempt_in_kafka(open_offsets: OpenOffsets) -> None:
    """Without an answer, a further attempt leaves out what another member has committed meanwhile."""
    kafka = KafkaStore()
    kafka.unanswered = lambda: kafka.offsets.update({T0: 200})
    done = open_offsets(kafka).commit({T0: 100, T1: 100})
    assert kafka.offsets == {T0: 200, T1: 100}
    assert done.written == {T1: 100}
    assert done.kept == {T0: 200}


def test_two_stores(client: EnsembleClient, open_offsets: OpenOffsets) -> None:
    """The larger offset of two stores counts, except ZooKeeper's offset of a deleted topic, which is neither read nor
    copied.

    Two equal offsets were committed together, so that ZooKeeper's shows that both belong to the deleted topic.
    """
    for number, offset in enumerate((b"5", b"100", b"100", b"7", b"8")):
        client.put(f"/consumers/g/offsets/t/{number}", offset)
    for number in (1, 2, 4):
        client.put(f"/brokers/topics/t/partitions/{number}/state", b"{}")
    kafka = KafkaStore(p0=9, p1=20, p3=7, p4=8)
    offsets = open_offsets(kafka, ("kafka", "zookeeper"), client)
    parts = [TopicPartition("t", number) for number in range(5)]
    found = offsets.committed(parts)
    assert [found[tp].offset for tp in parts] == [9, 20, 100, 7, 8]
    assert [found[tp].mzxid is None for tp in parts] == [True, True, False, False, False]
    left = {parts[1]: [LeftOffset("kafka", 20, None, ())], parts[3]: [LeftOffset("kafka", 6, None, (7,))]}
    found = offsets.committed(parts, left=left)
    assert [(found[tp].offset, found[tp].mzxid is None) for tp in parts[1:4:2]] == [(100, False), (7, False)]
    offsets.copy_to_lagging_store(parts)
    assert kafka.offsets == {parts[0]: 9, parts[1]: 20, parts[3]: 7, parts[4]: 8}
    assert client.ensemble.nodes[PATH_0].data == b"9"


def test_higher_offset_in_one_store(client: EnsembleClient, open_offsets: OpenOffsets) -> None:
    """An offset that another client has set ahead in one store is reported, although the other store was written."""
    for stores in ("kafka", "zookeeper"), ("zookeeper", "kafka"):
        client.put(PATH_0, b"3")
        done = open_offsets(KafkaStore(p0=50, p1=5), stores, client).commit({T0: 7, T1: 7})
        assert done.written == {T1: 7}
        assert done.kept == {T0: 50}


def test_partition_lost_between_two_stores(
    client: EnsembleClient, open_offsets: OpenOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that is lost after the commit to the first store is only lost."""
    monkeypatch.setattr(group_offsets, "commit_offsets", lambda *given, **named: CommitResult(lost={T0, T1}))
    done = open_offsets(KafkaStore(p1=50), ("kafka", "zookeeper"), client).commit({T0: 7, T1: 7})
    assert done == CommitResult(lost={T0, T1})


def test_commit_over_an_offset_of_a_deleted_topic(client: EnsembleClient, open_offsets: OpenOffsets) -> None:
    """With two stores, ZooKeeper's offset of a deleted topic does not prevent a commit, nor hide what it wrote."""
    offsets = open_offsets(KafkaStore(p0=50), ("kafka", "zookeeper"), client)
    client.put(PATH_0, b"1000")
    client.put("/brokers/topics/t/partitions/0/state", b"{}")
    assert offsets.committed([T0])[T0].offset == 50
    done = offsets.commit({T0: 60, T1: 7})
    assert done.written == {T0: 60, T1: 7}
    assert done.kept == {}
    assert client.ensemble.nodes[PATH_0].data == b"60"
    assert done.mzxids.keys() == {T0, T1}


def test_outdated(caplog: pytest.LogCaptureFixture) -> None:
    """Offsets of a deleted topic are data loss, unless they are 0."""
    stored = {T0: StoredOffset(5), T1: StoredOffset(0)}
    report_outdated([T1], stored, fail_on_data_loss=True)
    with pytest.raises(DataLoss, match="t-0 at 5 are older than the topic"):
        report_outdated([T0, T1], stored, fail_on_data_loss=True)
    with caplog.at_level(logging.WARNING):
        report_outdated([T0], stored, fail_on_data_loss=False)
    assert "Reading the topic from its beginning" in caplog.text


def test_lost_partitions() -> None:
    """A commit that left out partitions raises an error that names them."""
    require_none_lost(CommitResult(written={T0: 1}), "g")
    with pytest.raises(PartitionLost, match=r"offsets of t-1 were not committed: this member of group g .* 1 partition"):
        require_none_lost(CommitResult(written={T0: 1}, lost=frozenset({T1})), "g")


class Group:
    """A member and its group's stored offsets; `refusals` has the offsets that others commit before each refusal."""

    owner = ClaimOwner("c", 0)

    def __init__(self, *refusals: Mapping[TopicPartition, int]) -> None:
        self.refusals = list(refusals)
        self.offsets: dict[TopicPartition, int] = {}
        self.begun: list[dict[TopicPartition, int]] = []
        self.is_member = True

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.offsets[tp] for tp in partitions if tp in self.offsets}

    def commit(
        self, starts: Mapping[TopicPartition, int], incarnation: int, *, of_group: bool
    ) -> Collection[TopicPartition]:
        self.begun.append(dict(starts))
        if self.refusals:
            self.offsets |= self.refusals.pop(0)
            raise GroupContended("GROUP_REBALANCES", "the group rebalances")
        return () if self.is_member else starts.keys()

    def wait(self, timeout_s: float) -> None: ...


def offsets_of(group: Any) -> KafkaMemberOffsets:
    """Return the group's offsets."""
    return KafkaMemberOffsets(group, group)


def test_start_during_a_rebalance() -> None:
    """A start is retried after a rebalance, without partitions that another member has committed meanwhile."""
    group = Group({}, {T1: 9})
    assert offsets_of(group).begin({T0: 5, T1: 6}) == {T0: StoredOffset(5), T1: StoredOffset(9)}
    assert group.begun == [{T0: 5, T1: 6}, {T0: 5, T1: 6}, {T0: 5}]


def test_start_that_others_commit() -> None:
    """`begin` returns the group's offsets, and sends no start again once all are stored."""
    group = Group({T0: 3})
    assert offsets_of(group).begin({T0: 5}) == {T0: StoredOffset(3)}
    assert group.begun == [{T0: 5}]


def test_start_of_an_expelled_member() -> None:
    """The start of an expelled member is empty."""
    group = Group()
    group.is_member = False
    assert offsets_of(group).begin({T0: 5}) == {}


def test_start_in_an_endless_rebalance() -> None:
    """A start fails after enough retries during an endless rebalance."""
    with pytest.raises(GroupContended, match="GROUP_REBALANCES"):
        offsets_of(Group(*[{}] * 1_000)).begin({T0: 5})
