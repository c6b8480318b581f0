"""A member of a group without a session with ZooKeeper."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.stream import parse_stream


def test_without_a_session() -> None:
    """A member that has no session owns nothing; to need one fails with an error that is worth another try."""
    options = parse_stream({"zookeeper.connect": "zk:2181", "group.id": "g", "subscribe": "t"})
    zookeeper = options.read.connection.zookeeper
    assert zookeeper is not None
    assert options.group is not None
    member = GroupMember(zookeeper, options.group, options.read.subscription)
    assert member.owner is None
    with pytest.raises(ZKafkaError, match=r"\[NO_SESSION\] The member has no session with ZooKeeper") as caught:
        member.require_owner()
    assert caught.value.retriable
