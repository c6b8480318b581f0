"""Resets of a group's offsets in each store, on an ensemble and brokers of values."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.brokers.group_admin import GroupState
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, CodecError, GroupError, NoLeader
from pyspark_zkafka.inspect.groups import OffsetsStorage
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.tools.offset_reset import FromFile, ShiftBy, ToPosition
from pyspark_zkafka.tools.reset import LeaderLogs, OffsetResets
from pyspark_zkafka.tools.topics import parse_scope
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
NO_LEADER = NoLeader("NO_LEADER", "t-1 has no leader")


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with a topic, and a group that has one offset of it."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    client.put(PATH_0, b"50")
    return client


@pytest.fixture
def brokers() -> GroupBrokers:
    """Brokers of the topic, with the group's offset of the other partition."""
    return GroupBrokers({T0: (10, 100), T1: (0, 20)}, {"g": {T1: 5}})


def resets(storage: OffsetsStorage, client: EnsembleClient | None, brokers: Any) -> OffsetResets:
    """Resets in a store."""
    return OffsetResets(storage, client, brokers)


@pytest.mark.parametrize(("storage", "offsets"), [("zookeeper", {T0: 10}), ("kafka", {T1: 0}), ("both", {T0: 10, T1: 0})])
def test_partitions_of_the_stores(
    client: EnsembleClient, brokers: GroupBrokers, storage: OffsetsStorage, offsets: dict[TopicPartition, int]
) -> None:
    """Without a scope, the partitions are those of which the store has an offset, or either of both."""
    assert resets(storage, client, brokers).plan("g", None, ToPosition(EARLIEST)).plan.offsets == offsets


def test_apply_to_both(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A reset in both stores writes each of them."""
    both = resets("both", client, brokers)
    both.apply(both.plan("g", parse_scope(["t"]), ToPosition(LATEST)))
    assert (client.data(PATH_0), client.data("/consumers/g/offsets/t/1")) == (b"100", b"20")
    assert brokers.stored["g"] == {T0: 100, T1: 20}


def test_shift_of_two_stores(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A shift starts at the larger of two offsets, where consumers with dual commits continue."""
    brokers.stored["g"][T0] = 60
    assert resets("both", client, brokers).plan("g", parse_scope(["t:0"]), ShiftBy(1)).plan.offsets == {T0: 61}


def test_gone_partitions(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets of partitions that no longer exist stay, with a note."""
    client.put("/consumers/g/offsets/gone/0", b"1")
    planned = resets("zookeeper", client, brokers).plan("g", None, ToPosition(EARLIEST))
    assert planned.plan.offsets == {T0: 10}
    assert planned.notes == ("Left as they are: the offsets of gone-0, which do not exist any more.",)


def test_group_without_offsets(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A group without offsets needs named topics, and that it has none is noted."""
    zookeeper = resets("zookeeper", client, brokers)
    with pytest.raises(GroupError, match=r"\[UNKNOWN_GROUP\] The group has no offsets to reset"):
        zookeeper.plan("new", None, ToPosition(EARLIEST))
    assert zookeeper.plan("new", parse_scope(["t"]), ToPosition(EARLIEST)).notes == ("The group has no offsets yet.",)


def test_file(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A file names the partitions, which must exist."""
    zookeeper = resets("zookeeper", client, brokers)
    assert zookeeper.plan("g", None, FromFile({T1: 7})).plan.offsets == {T1: 7}
    with pytest.raises(ClusterStateError, match="t-9"):
        zookeeper.plan("g", None, FromFile({TopicPartition("t", 9): 7}))


def test_unreadable_offset(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """An offset that cannot be read prevents a shift, and no scenario that does not need it."""
    client.put(PATH_0, b"five")
    zookeeper = resets("zookeeper", client, brokers)
    with pytest.raises(CodecError):
        zookeeper.plan("g", parse_scope(["t"]), ShiftBy(1))
    assert zookeeper.plan("g", parse_scope(["t:0"]), ToPosition(EARLIEST)).plan.offsets == {T0: 10}


def test_active_in_zookeeper(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A member in ZooKeeper prevents a reset in Kafka, too, as it may commit there."""
    client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="The offsets were not reset: group g must be inactive"):
        resets("kafka", client, brokers).plan("g", None, ToPosition(EARLIEST))


@pytest.mark.parametrize(("storage", "is_refused"), [("zookeeper", False), ("kafka", True), ("both", True)])
def test_active_in_kafka(client: EnsembleClient, brokers: GroupBrokers, storage: OffsetsStorage, is_refused: bool) -> None:
    """Members that Kafka coordinates prevent a reset of the offsets that they commit."""
    brokers.states["g"] = GroupState("STABLE", ("m1",))
    wanted = resets(storage, client, brokers)
    if is_refused:
        with pytest.raises(GroupError, match="the current state is STABLE, with 1 member"):
            wanted.plan("g", None, ToPosition(EARLIEST))
    else:
        wanted.plan("g", None, ToPosition(EARLIEST))


def test_without_zookeeper(brokers: GroupBrokers) -> None:
    """Offsets in Kafka alone are reset without ZooKeeper."""
    kafka = resets("kafka", None, brokers)
    kafka.apply(kafka.plan("g", None, ToPosition(LATEST)))
    assert brokers.stored["g"] == {T1: 20}


def test_partly_refused(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """If the brokers refuse some partitions, the error names these, and says that the others are written."""
    brokers.refused = {T1: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}
    kafka = resets("kafka", client, brokers)
    with pytest.raises(GroupError, match=r"refused the offsets of 1 of 2 partition\(s\) of group g, t-1, the others are"):
        kafka.apply(kafka.plan("g", parse_scope(["t"]), ToPosition(LATEST)))


class Unreachable(GroupBrokers):
    """Brokers that no longer answer when offsets are committed."""

    def alter_offsets(self, group: str, offsets: object) -> Any:
        raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")


@pytest.mark.parametrize(
    ("storage", "error", "text"),
    [("kafka", BrokersUnavailable, "no broker answered"), ("both", GroupError, "are reset in ZooKeeper, but not in Kafka")],
)
def test_unreachable_brokers(client: EnsembleClient, storage: OffsetsStorage, error: type[Exception], text: str) -> None:
    """If only ZooKeeper was written, the error says so, and what must not be repeated."""
    wanted = resets(storage, client, Unreachable({T0: (10, 100)}, {"g": {T0: 50}}))
    with pytest.raises(error, match=text):
        wanted.apply(wanted.plan("g", None, ShiftBy(1)))
    assert client.data(PATH_0) == (b"51" if storage == "both" else b"50")


def test_logs_of_leaders(brokers: Any) -> None:
    """All ends of logs, or the error of partitions without a leader; any other error comes first."""
    logs = LeaderLogs(brokers)
    assert logs.list_offsets({}) == {}
    assert logs.bounds([T0]).list_offsets({T0: LATEST}) == {T0: 100}
    brokers.offline = {T1: NO_LEADER}
    with pytest.raises(NoLeader, match="The partitions t-1 have no leader"):
        logs.list_offsets({T0: LATEST, T1: LATEST})
    brokers.offline = {T0: BrokersUnavailable("BROKERS_UNAVAILABLE", "silent"), T1: NO_LEADER}
    with pytest.raises(BrokersUnavailable):
        logs.list_offsets({T0: LATEST, T1: LATEST})
