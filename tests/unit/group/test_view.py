"""A member's assignment, from the view of its group."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.view import GroupView, GroupWatch
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.protocol.assignors import Subscribers
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

OWN = ConsumerRegistration({"t": 1})
VIEW = GroupView({"g_c1": OWN, "g_c2": OWN}, ("t",), Subscribers({"t": ("g_c1-0", "g_c2-0")}, {"t": (0, 1, 2)}))


def watch(strategy: str, own: ConsumerRegistration) -> GroupWatch:
    """A member's watch on its group, which is not read."""
    client = ZooKeeperClient(ZooKeeperConfig("zk1:2181"))
    return GroupWatch(client, "g", own, strategy, lambda event: None, lambda event: None)


def test_assignment() -> None:
    """Each member gets its own threads' partitions."""
    found = watch("range", OWN)
    assert found.assignment(VIEW, "g_c1") == {TopicPartition("t", 0): "g_c1-0", TopicPartition("t", 1): "g_c1-0"}
    assert found.assignment(VIEW, "g_c2") == {TopicPartition("t", 2): "g_c2-0"}


def test_sticky_among_others() -> None:
    """The sticky assignor is an error unless all members have it."""
    own = ConsumerRegistration({"t": 1}, assignor="sticky")
    with pytest.raises(GroupError, match=r"\[NOT_STICKY\].*found g_c1, g_c2 without it"):
        watch("sticky", own).assignment(VIEW, "g_c3")


def test_ids() -> None:
    """Members whose registration is unreadable are members, too."""
    assert GroupView({"g_c1": OWN}).ids == {"g_c1"}
