"""A member of a group in ZooKeeper, without a session or with one that may be over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.retries import Timing


def new_member(timing: Timing | None = None) -> GroupMember:
    """Return a member that has not joined its group."""
    options = parse_stream({"zookeeper.connect": "zk:2181", "group.id": "g", "subscribe": "t"})
    zookeeper = options.read.connection.zookeeper
    assert zookeeper is not None
    assert options.group is not None
    return GroupMember(zookeeper, options.group, options.read.subscription, timing)


def test_without_a_session() -> None:
    """A member without a session owns nothing, and `require_owner` raises a retriable error."""
    member = new_member()
    assert member.owner is None
    with pytest.raises(ZKafkaError, match=r"\[NO_SESSION\] The member has no session with ZooKeeper") as caught:
        member.require_owner()
    assert caught.value.retriable


def test_session_that_may_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member cut off from ZooKeeper owns nothing from the moment when its session may have expired."""
    now, claims = 10.0, {TopicPartition("t", 0): Claim("g_c-0", 1)}
    module = "pyspark_zkafka.group.member"
    monkeypatch.setattr(f"{module}.ZooKeeperClient", lambda config, **others: SimpleNamespace(session_ends_at=16.0))
    monkeypatch.setattr(f"{module}.Claims", lambda client, group: SimpleNamespace(owned=claims))
    member = new_member(Timing(clock=lambda: now))
    assert member.owned() == {}
    member.owner = ClaimOwner("g_c", 1)
    assert member.owned() == claims
    now = 16.0
    assert member.owned() == {}
