"""Sessions, commits and partitions of queries in a group while members and brokers come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.group.commits import commit_offsets, proof_of
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import SubscribePattern
from tests.support.eventually import eventually
from tests.support.members import SESSION_S, settled
from tests.support.options import group_options
from tests.support.topic_group import Gate, TopicGroup, halted

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from pyspark_zkafka.testing import LocalCluster

NewGroup = Callable[..., TopicGroup]
NewStream = Callable[..., Any]


@pytest.mark.long
def test_reading_on_after_expiry(
    new_group: NewGroup,
    stream: NewStream,
    planner_pid: Callable[[], int],
) -> None:
    """A query whose session expired drops its partitions, registers anew by its id, and reads no other member's records."""
    group = new_group(partitions=2)
    group.produce(5, 0, 1)
    member = group.member("c2")
    query = stream(group.options("c1"))
    query.start()
    query.wait_for(5)
    eventually(lambda: group.owners() == {0: "c1", 1: "c2"})
    registered = group.registered("c1")
    with halted(planner_pid()):
        eventually(lambda: group.owners() == {0: "c2", 1: "c2"}, timeout_s=SESSION_S + 10)
        group.produce(5, 0, 1)
    eventually(lambda: settled([member], 1) and group.owners() == {0: "c1", 1: "c2"})
    assert (group.registered("c1") or "") > (registered or "")
    query.wait_for(10)
    assert query.offsets(0) == list(range(10))
    assert query.offsets(1) == []


@pytest.mark.long
def test_partition_without_leader(zkafka_cluster: LocalCluster, new_group: NewGroup, stream: NewStream) -> None:
    """A partition without a leader stays owned and waits for one, while the other partitions are read."""
    group = new_group(assignment={0: [0], 1: [1]})
    group.produce(3, 0, 1)
    zkafka_cluster.stop(1)
    try:
        query = stream(group.options("c1"))
        query.start()
        query.wait_for(3)
        assert group.owners() == {0: "c1", 1: "c1"}
        assert query.offsets(1) == []
    finally:
        zkafka_cluster.restart(1)
    assert query.wait_for(6).isActive
    assert query.offsets(1) == [0, 1, 2]


@pytest.mark.long
def test_new_partitions_and_topics(zkafka_cluster: LocalCluster, new_group: NewGroup, stream: NewStream) -> None:
    """Partitions and topics created while a query runs are claimed in numerical order and read from their beginning."""
    group = new_group(partitions=2)
    group.produce(2, 0, 1)
    options = group.options("c1", subscribePattern=f"{group.topic}.*")
    del options["subscribe"]
    query = stream(options)
    query.start()
    query.wait_for(4)
    peer = GroupMember(
        group.config, group_options(group.name, consumer_id="c2", backoff_ms=200), SubscribePattern(f"{group.topic}.*")
    )
    group.opened.enter_context(peer)
    zkafka_cluster.add_partitions(group.topic, 12)
    group.produce(2, 2, 5, 10)
    shares = dict.fromkeys(range(6), "c1") | dict.fromkeys(range(6, 12), "c2")
    eventually(lambda: group.owners() == shares)
    query.wait_for(8)
    assert query.offsets(2) == [0, 1]
    assert query.offsets(5) == [0, 1]
    assert query.offsets(10) == []
    zkafka_cluster.create_topic(f"{group.topic}-more")
    zkafka_cluster.produce(f"{group.topic}-more", [{"value": b"v"}] * 3)
    query.wait_for(11)
    assert query.offsets(0, f"{group.topic}-more") == [0, 1, 2]
    assert group.owners(f"{group.topic}-more") == {0: "c1"}


def test_commit_by_a_member_that_lost_ownership(
    new_group: NewGroup,
    stream: NewStream,
    gate: Gate,
    planner_pid: Callable[[], int],
) -> None:
    """A query that was halted beyond its session does not commit its finished work over the new owner's progress."""
    group = new_group()
    group.produce(10, 0)
    query = stream(group.options("c2"))
    query.in_batch = gate.hold
    query.start()
    query.wait_until(gate.waiting.is_set)
    with halted(planner_pid()):
        member = group.member("c1")
        eventually(lambda: settled([member], 1), timeout_s=SESSION_S + 10)
        partition = TopicPartition(group.topic, 0)
        assert commit_offsets(member.client, group.name, {partition: 7}, proof_of(member.owner)).written == {partition: 7}
        gate.open()
    eventually(lambda: group.registered("c2") is not None)
    assert group.owners() == {0: "c1"}
    member.leave()
    group.produce(2, 0)
    query.wait_for(15)
    assert query.offsets(0) == [
        *range(10),
        *range(7, 12),
    ]  # it resumes from the new owner's 7, not from its own 10
    eventually(lambda: group.offsets() == {0: 12})


def test_commit_during_a_rebalance(new_group: NewGroup, stream: NewStream, gate: Gate) -> None:
    """A rebalance commits nothing of a running micro-batch; a query commits only what it finished and still owns."""
    group = new_group(partitions=2)
    group.produce(4, 0, 1)
    query = stream(group.options("c1", rebalance_hold_ms="500"))
    query.in_batch = gate.hold
    query.start()
    query.wait_until(gate.waiting.is_set)
    assert group.owners() == {0: "c1", 1: "c1"}
    member = group.member("c2")
    eventually(lambda: settled([member], 1) and group.owners() == {0: "c1", 1: "c2"})
    assert group.offsets() == {0: 0, 1: 0}  # the starting offsets
    gate.open()
    eventually(lambda: group.offsets() == {0: 4, 1: 0})
    group.produce(1, 0)
    eventually(lambda: group.offsets() == {0: 5, 1: 0})


def test_more_consumers_than_partitions(
    new_group: NewGroup,
    stream: NewStream,
) -> None:
    """A query without partitions idles, takes over when the owner leaves, and leaves the group when it is stopped."""
    group = new_group()
    group.produce(3, 0)
    member = group.member("c1")
    query = stream(group.options("c2", zookeeper_session_timeout_ms="30000"))
    running: StreamingQuery = query.begin()
    assert group.registered("c2") is not None
    assert group.owners() == {0: "c1"}
    member.leave()
    query.wait_for(3)
    assert sum(not batch for batch in query.batches) <= 1  # the first may be empty
    assert group.owners() == {0: "c2"}
    eventually(lambda: group.offsets() == {0: 3})
    running.stop()
    eventually(lambda: group.registered("c2") is None and group.owners() == {}, timeout_s=15)
