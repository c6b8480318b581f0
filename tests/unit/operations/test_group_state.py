"""States of groups from znodes, and their descriptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_zkafka.operations.group_state import (
    Committed,
    GroupState,
    LogBounds,
    Member,
    Owner,
    PartitionDescription,
    consumer_host,
    describe_groups,
    group_states,
)
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat

CHILDREN = {
    "/consumers/g": ["ids", "owners", "offsets"],
    "/consumers/g/owners": ["t", "empty"],
    "/consumers/g/offsets": ["t"],
}
REGISTRATION = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"5"}'
T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def znode(data: bytes | None, session: int = 7) -> Znode:
    """A znode of a session, last written one second after the epoch by transaction 3."""
    return Znode(data, ZnodeStat(1, 0, 1000, session, 0, mzxid=3))


def states(nodes: dict[str, Znode]) -> GroupState:
    """The state of the group g."""
    return group_states(["g", "missing"], CHILDREN, nodes)["g"]


def test_znodes() -> None:
    """Registrations, claims and offsets are decoded with their sessions, times and transactions."""
    group = states(
        {
            "/consumers/g/ids/g_c1": znode(REGISTRATION),
            "/consumers/g/owners/t/0": znode(b"g_c1-0"),
            "/consumers/g/offsets/t/0": znode(b"17", 0),
        }
    )
    assert group == GroupState(
        "g",
        {"g_c1": Member(ConsumerRegistration({"t": 2}, "static", "5"), 7)},
        {T0: Owner("g_c1-0", 7)},
        {T0: Committed(17, 1000, 3)},
        frozenset({"t", "empty"}),
    )
    assert (group.state, group.member_count) == ("Stable", 1)


@pytest.mark.parametrize(
    ("path", "data"),
    [("ids/g_x", b"t"), ("owners/t/0", b""), ("offsets/t/0", b"7\n"), ("offsets/t/1-0", b"7"), ("owners/t/x", b"g_c1-0")],
)
def test_unreadable_znodes(path: str, data: bytes) -> None:
    """A znode that cannot be decoded, or is of Kafka 0.7, is an error by its path."""
    group = states({f"/consumers/g/{path}": znode(data)})
    assert list(group.unreadable) == [f"/consumers/g/{path}"]
    assert (group.members, group.owners, group.offsets) == ({}, {}, {})
    assert group.member_count == (1 if path.startswith("ids") else 0)
    assert group.unreadable_offsets == (1 if path.startswith("offsets") else 0)


def test_states_of_groups_without_members() -> None:
    """A group is Empty while it has traces of topics, and Dead without them; one that does not exist is left out."""
    assert states({}).state == "Empty"
    found = group_states(["g", "missing"], {"/consumers/g": ["ids"]}, {})
    assert {name: group.state for name, group in found.items()} == {"g": "Dead"}


GROUP = GroupState(
    "g",
    {
        "g_c1": Member(ConsumerRegistration({"t": 1})),
        "g_vm-1-2-1795228857340-a1264592": Member(ConsumerRegistration({"t": 1})),
    },
    {T0: Owner("g_c1-0")},
    {T0: Committed(4, 1000), T1: Committed(-1, 2000), TopicPartition("gone", 0): Committed(9, 3000)},
    frozenset({"t", "gone"}),
)
LOGS = {T0: LogBounds(2, 10), T1: LogBounds(0, 5), T2: LogBounds(), TopicPartition("other", 0): LogBounds(0, 1)}


def test_description() -> None:
    """Every partition of the group's topics is a row, also one that is gone, without a claim, an offset or a leader."""
    assert describe_groups([GROUP], LOGS)["g"] == (
        PartitionDescription("g", "gone", 0, 9, committed_us=3_000_000, zookeeper_offset=9),
        PartitionDescription("g", "t", 0, 4, 10, 2, "g_c1-0", None, 1_000_000, 4, None, "g_c1"),
        PartitionDescription("g", "t", 1, None, 5, 0, committed_us=2_000_000),
        PartitionDescription("g", "t", 2),
        PartitionDescription("g", host="vm-1-2", consumer_id="g_vm-1-2-1795228857340-a1264592"),
    )


def test_lag() -> None:
    """The lag is what the log has after the offset; it is negative beyond the log, and unknown without one of the two."""
    row = PartitionDescription("g", "t", 0, 4, 10)
    assert [replace(row, current_offset=offset).lag for offset in (4, 10, 12, None)] == [6, 0, -2, None]
    assert replace(row, log_end_offset=None).lag is None


def test_offsets_in_both_stores() -> None:
    """The larger offset is the current one, as for consumers with dual commits; partitions that only Kafka has are rows."""
    rows = describe_groups([GROUP], LOGS, {"g": {T0: 6, TopicPartition("other", 0): 1}})["g"]
    found = {(r.topic, r.partition): (r.current_offset, r.zookeeper_offset, r.kafka_offset) for r in rows if r.topic}
    assert found["t", 0] == (6, 4, 6)
    assert found["other", 0] == (1, None, 1)
    assert found["gone", 0] == (9, 9, None)


def test_topics_of_filters() -> None:
    """The topics of a group are those that it names, matches, owns or has offsets of."""
    members = {"g_c1": Member(ConsumerRegistration({"a.*": 1}, "white_list"))}
    group = GroupState("g", members, topics=frozenset({"t"}))
    assert group.has_filters
    assert group.all_topics(["a1", "b"]) == {"a1", "t"}


def test_host_of_a_consumer() -> None:
    """Only ids that Kafka generates have a host."""
    assert consumer_host("g", "g_c1") is None
    assert consumer_host("g", "g_h_1-1795228857340-ab") == "h_1"
