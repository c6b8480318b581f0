"""Migration of groups between the stores, on an ensemble and brokers of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.brokers.group_admin import GroupState
from pyspark_zkafka.errors import ClusterStateError, GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.migrate import Migration, Store, failures, require_offsets
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
ACTIVE = GroupState("STABLE", ("m1",))


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with a topic, and a group that has one offset of it."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    client.put(PATH_0, b"50")
    client.put("/consumers/idle/ids")
    return client


@pytest.fixture
def brokers() -> GroupBrokers:
    """Brokers of the topic, with the group's offset of the other partition."""
    return GroupBrokers({T0: (10, 100), T1: (0, 20)}, {"g": {T1: 5}, "unused": {}})


def migration(
    client: EnsembleClient, brokers: Any, to: Store, *, force: bool = False, sleep: Callable[[float], None] = lambda s: None
) -> Migration:
    """A migration whose clock advances by a second at each look."""
    seconds = iter(range(1_000))
    return Migration(client, brokers, to, force, sleep, lambda: next(seconds))


def test_groups(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """All groups are those that have offsets in the source."""
    client.put("/consumers/zk/offsets/t/0", b"1")
    assert migration(client, brokers, "kafka").groups() == ["g", "zk"]
    assert migration(client, brokers, "zookeeper").groups() == ["g"]


@pytest.mark.parametrize("to", ["kafka", "zookeeper"])
def test_copy(client: EnsembleClient, brokers: GroupBrokers, to: Store) -> None:
    """What the target lacks is copied; what only the target has stays, and is reported as ahead."""
    found = migration(client, brokers, to).copy("g")
    states = {T0: "copied", T1: "ahead"} if to == "kafka" else {T0: "ahead", T1: "copied"}
    assert {outcome.partition: outcome.state for outcome in found} == states
    assert brokers.stored["g"] == ({T0: 50, T1: 5} if to == "kafka" else {T1: 5})
    assert ("/consumers/g/offsets/t/1" in client.ensemble.nodes) == (to == "zookeeper")


def test_copy_back(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """With force, the target is set back to the source."""
    brokers.stored["g"] = {T0: 70}
    assert [o.state for o in migration(client, brokers, "kafka").copy("g")] == ["ahead"]
    assert [o.state for o in migration(client, brokers, "kafka", force=True).copy("g")] == ["copied"]
    assert brokers.stored["g"] == {T0: 50}


def test_topic_created_again(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """An offset that is older than its topic is copied only with force."""
    client.put("/consumers/g/offsets/u/0", b"7")
    client.put_topic("u")
    place = TopicPartition("u", 0)
    for force, state in ((False, "failed"), (True, "copied")):
        found = {o.partition: o.state for o in migration(client, brokers, "kafka", force=force).copy("g")}
        assert found[place] == state
        assert (place in brokers.stored["g"]) == force


def test_refused_partitions(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A partition that the brokers refuse has failed, with their reason."""
    brokers.refused = {T0: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}
    found = {o.partition: (o.state, o.reason) for o in migration(client, brokers, "kafka").copy("g")}
    assert found[T0] == ("failed", "an ACL denies it")


def test_active_groups(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Nothing is copied while a consumer of either kind is active, and the error fits the direction."""
    brokers.states["g"] = ACTIVE
    with pytest.raises(GroupError, match="brokers accept offsets from these alone"):
        migration(client, brokers, "kafka").copy("g")
    with pytest.raises(GroupError, match="its consumers go on committing there; stop them, or use --live"):
        migration(client, brokers, "zookeeper").copy("g")
    client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="were not copied, as --live was not given: group g must be inactive"):
        migration(client, brokers, "kafka").copy("g")
    assert brokers.stored["g"] == {T1: 5}


def test_follow_until_both_agree(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """While members commit to ZooKeeper, offsets are copied again, until both stores agree."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter([b"60", b"70"])

    def commit(seconds: float) -> None:
        offset = next(offsets, None)
        if offset is not None:
            client.put(PATH_0, offset)

    (found,) = migration(client, brokers, "kafka", sleep=commit).follow("g", 1.0, 500.0)
    assert (found.state, found.after, brokers.stored["g"]) == ("copied", 70, {T0: 70})


def test_follow_until_the_consumers_leave(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """When the last member has left, its last offsets are copied."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}

    def leave(seconds: float) -> None:
        client.put(PATH_0, b"60")
        del client.ensemble.nodes["/consumers/g/ids/g_a"]

    (found,) = migration(client, brokers, "kafka", sleep=leave).follow("g", 1.0, 500.0)
    assert (found.state, found.before, found.after) == ("copied", None, 60)


def test_follow_without_an_end(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A group that commits faster than it is copied is followed until the timeout."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter(range(51, 1_000))
    found = migration(client, brokers, "kafka", sleep=lambda s: client.put(PATH_0, str(next(offsets)).encode()))
    (outcome,) = found.follow("g", 1.0, 20.0)
    assert (outcome.state, outcome.reason) == ("failed", "the source has moved on meanwhile; run this again")
    assert outcome.after == brokers.stored["g"][T0]


def test_follow_consumers_of_the_target(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets cannot be copied to Kafka beside consumers that it coordinates."""
    brokers.states["g"] = ACTIVE
    with pytest.raises(GroupError, match="is STABLE in Kafka"):
        migration(client, brokers, "kafka").follow("g", 1.0, 500.0)


def test_follow_to_zookeeper(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets that members commit to Kafka are copied to ZooKeeper beside them; a commit of theirs there is no error."""
    brokers.states["g"] = ACTIVE
    del client.ensemble.nodes[PATH_0]
    client.meanwhile = lambda: client.put("/consumers/g/offsets/t/1", b"5")
    (found,) = migration(client, brokers, "zookeeper").follow("g", 1.0, 500.0)
    assert (found.partition, found.after) == (T1, 5)


def test_unknown_groups(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Groups without an offset in either store are named."""
    looks = migration(client, brokers, "kafka").look(["g", "idle"])
    require_offsets({"g": looks["g"]})
    with pytest.raises(GroupError, match="The groups idle have no offsets"):
        require_offsets(looks)


def test_failures(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Of a group that was not copied at all, what was to be copied has failed, for the reason of the error."""
    look = migration(client, brokers, "kafka").look(["g"])["g"]
    found = failures(GroupError("GROUP_ACTIVE", "members are active"), look)
    assert [(o.partition, o.state, o.reason) for o in found] == [
        (T0, "failed", "members are active"),
        (T1, "ahead", "members are active"),
    ]
