"""Znodes of a member: its registration, and traces of its subscription."""

from __future__ import annotations

import re

import pytest

from pyspark_zkafka.errors import GroupContended, GroupError, ZooKeeperError
from pyspark_zkafka.group.registration import (
    RegisteredSession,
    consumer_id_of,
    create_owner_znodes,
    created_after_subscription,
    registration_of,
    subscribed_since,
)
from pyspark_zkafka.model.nouns import ClaimOwner, ClusterSnapshot, PartitionState, TopicPartition
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from tests.support.ensemble_client import EnsembleClient
from tests.support.options import group_options


def test_topics() -> None:
    """Each named topic is registered with the number of threads."""
    found = registration_of(group_options("g", threads=2), Subscribe(("a", "b")))
    assert found == ConsumerRegistration({"a": 2, "b": 2})


def test_filters() -> None:
    """A filter is registered as the JVM consumer normalises it."""
    assert registration_of(group_options("g"), SubscribePattern("a, b")) == ConsumerRegistration({"a|b": 1}, "white_list")
    assert registration_of(group_options("g"), SubscribePattern("a", excludes=True)) == ConsumerRegistration(
        {"a": 1}, "black_list"
    )


def test_assigned_partitions() -> None:
    """A member cannot subscribe to named partitions."""
    with pytest.raises(GroupError, match=r"\[ASSIGN_IN_GROUP\]"):
        registration_of(group_options("g"), Assign((TopicPartition("t", 0),)))


def test_ids() -> None:
    """The id is the one in the options, or is made of host name, time and a random number."""
    assert consumer_id_of(group_options("g", consumer_id="c1")) == "g_c1"
    generated = consumer_id_of(group_options("g"), lambda: 1.5)
    assert re.fullmatch(r"g_.+-1500-[0-9a-f]{1,8}", generated)


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """A client of an ensemble with the group."""
    client.put("/consumers/g")
    return client


def czxid(client: EnsembleClient, path: str) -> int:
    """Return the transaction that created a znode."""
    return client.ensemble.nodes[path].stat.czxid


def test_trace(client: EnsembleClient) -> None:
    """The trace of a topic is created once, so that the first member's time stays."""
    create_owner_znodes(client, "g", ["t"])
    since = subscribed_since(client, "g", ["t", "u"], by_pattern=False)
    create_owner_znodes(client, "g", ["t", "u"])
    assert since == {"t": czxid(client, "/consumers/g/owners/t")}
    assert subscribed_since(client, "g", ["t"], by_pattern=False) == since


def test_committed_before(client: EnsembleClient) -> None:
    """A committed offset is also a trace; the older of the two counts."""
    client.put("/consumers/g/offsets/t/0", b"5")
    create_owner_znodes(client, "g", ["t"])
    assert subscribed_since(client, "g", ["t"], by_pattern=False) == {"t": czxid(client, "/consumers/g/offsets/t")}


def test_pattern(client: EnsembleClient) -> None:
    """A pattern covers all topics since the group was created."""
    assert subscribed_since(client, "g", ["t", "new"], by_pattern=True) == dict.fromkeys(
        ["t", "new"], czxid(client, "/consumers/g")
    )


def test_younger() -> None:
    """A partition of unknown creation, or in a topic without a trace, does not count as newer than the subscription."""
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("gone", 0)]
    created = {partitions[0]: 70, partitions[1]: None, partitions[2]: 70}
    states = {tp: PartitionState(1, 0, (1,), czxid=czxid) for tp, czxid in created.items()}
    assert created_after_subscription(partitions, ClusterSnapshot({}, states=states), {"t": 60}) == {partitions[0]}


def test_created_by_others(client: EnsembleClient) -> None:
    """A trace that another member creates at the same time is accepted."""
    client.meanwhile = lambda: client.put("/consumers/g/owners/t")
    create_owner_znodes(client, "g", ["t"])
    assert client.transactions == 2


def test_group_that_is_gone(client: EnsembleClient) -> None:
    """Without the group's znode, creating a trace raises an error."""
    client.ensemble.nodes.clear()
    with pytest.raises(GroupContended, match=r"/owners was not created, because .*does not exist\)\. Try again"):
        create_owner_znodes(client, "g", ["t"])


def test_registered_session() -> None:
    """An owner ends with its session, also if the session was lost while the member registered, but not with a pause."""
    session, owner = RegisteredSession(), ClaimOwner("g_c", 1)
    session.register(owner, session.losses)
    session.note_state("SUSPENDED")
    assert session.is_suspended
    assert session.owner == owner
    session.require(owner)
    before = session.losses
    session.note_state("LOST")
    session.note_state("CONNECTED")
    assert not session.is_suspended
    assert session.owner is None
    with pytest.raises(ZooKeeperError, match="NO_SESSION"):
        session.require(owner)
    session.register(ClaimOwner("g_c", 2), before)
    assert session.owner is None
    session.register(ClaimOwner("g_c", 2), session.losses)
    with pytest.raises(ZooKeeperError, match="NO_SESSION"):
        session.require(owner)
    session.end()
    assert session.owner is None
