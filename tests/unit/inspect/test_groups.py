"""Reports of groups and their partitions, from znodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_zkafka.inspect.groups import (
    GroupReport,
    GroupReports,
    LogBounds,
    LogsReport,
    Member,
    Owner,
    PartitionReport,
    consumer_host,
    decode_groups,
    member_notes,
    stored_in,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, LegacyPartition
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat
from tests.support.group_brokers import active

CHILDREN = {
    "/consumers/g": ["ids", "owners", "offsets"],
    "/consumers/g/owners": ["t", "empty"],
    "/consumers/g/offsets": ["t"],
}
REGISTRATION = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"5"}'
T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def znode(data: bytes | None, session: int = 7) -> Znode:
    """Return a znode of a session, last written one second after the epoch as version 2 by transaction 3."""
    return Znode(data, ZnodeStat(1, 2, 1000, session, mzxid=3))


def decoded(nodes: dict[str, Znode]) -> GroupReport:
    """Return the report of the group g."""
    return decode_groups(["g", "other"], CHILDREN, nodes)["g"]


def test_znodes() -> None:
    """Registrations, claims and offsets are decoded with their sessions, times and transactions."""
    group = decoded(
        {
            "/consumers/g/ids/g_c1": znode(REGISTRATION),
            "/consumers/g/owners/t/0": znode(b"g_c1-0"),
            "/consumers/g/offsets/t/0": znode(b"17", 0),
        }
    )
    assert group == GroupReport(
        "g",
        {"g_c1": Member(ConsumerRegistration({"t": 2}, "static", "5"), 7)},
        {T0: Owner("g_c1-0", 7)},
        {T0: StoredOffset(17, 3, 1000, 2)},
        frozenset({"t", "empty"}),
    )
    assert group.state == "Stable"
    assert group.member_count == 1


@pytest.mark.parametrize(
    ("path", "data"),
    [("ids/g_x", b"t"), ("owners/t/0", b""), ("offsets/t/0", b"7\n"), ("offsets/t/1-0", b"7"), ("owners/t/x", b"g_c1-0")],
)
def test_unreadable_znodes(path: str, data: bytes) -> None:
    """A znode that cannot be decoded, or is Kafka 0.7's, is listed as an error under its path."""
    group = decoded({f"/consumers/g/{path}": znode(data)})
    assert [(znode.path, znode.error.parameters["path"]) for znode in group.unreadable] == [(f"/consumers/g/{path}",) * 2]
    assert group.members == {}
    assert group.owners == {}
    assert group.offsets == {}
    assert group.member_count == (1 if path.startswith("ids") else 0)
    assert len(group.unreadable_offsets) == path.startswith("offsets")
    assert len(group.unreadable_owners) == path.startswith("owners")


def test_states_of_groups_without_members() -> None:
    """A group without members is Empty if it has traces of topics, and Dead otherwise."""
    assert decoded({}).state == "Empty"
    assert decode_groups(["g"], {"/consumers/g": ["ids"]}, {})["g"].state == "Dead"


GROUP = GroupReport(
    "g",
    {
        "g_c1": Member(ConsumerRegistration({"t": 1})),
        "g_vm-1-2-1795228857340-a1264592": Member(ConsumerRegistration({"t": 1})),
    },
    {T0: Owner("g_c1-0")},
    {
        T0: StoredOffset(4, modified_ms=1000),
        T1: StoredOffset(-1, modified_ms=2000),
        TopicPartition("gone", 0): StoredOffset(9, modified_ms=3000),
    },
    frozenset({"t", "gone"}),
)
LOGS = {T0: LogBounds(2, 10), T1: LogBounds(0, 5), T2: LogBounds(), TopicPartition("other", 0): LogBounds(0, 1)}


def test_description() -> None:
    """Every partition of the group's topics is a row, even if it is gone or lacks a claim, an offset or a leader."""
    assert GroupReports({"g": GROUP}, logs=LogsReport(LOGS)).partitions == [
        PartitionReport("g", "gone", 0, 9, commit_us=3_000_000, zookeeper_offset=9),
        PartitionReport("g", "t", 0, 4, 10, 2, "g_c1", None, None, "g_c1-0", 1_000_000, 4, None),
        PartitionReport("g", "t", 1, None, 5, 0, commit_us=2_000_000),
        PartitionReport("g", "t", 2),
        PartitionReport("g", host="vm-1-2", consumer="g_vm-1-2-1795228857340-a1264592"),
    ]


def test_offsets_in_both_stores() -> None:
    """The larger offset is the current one, as with dual commits, and partitions known only to Kafka are rows, too."""
    group = replace(GROUP, kafka_offsets={T0: 6, TopicPartition("other", 0): 1})
    rows = GroupReports({"g": group}, "both", LogsReport(LOGS)).partitions
    found = {(r.topic, r.partition): (r.offset, r.zookeeper_offset, r.kafka_offset) for r in rows if r.topic}
    assert found["t", 0] == (6, 4, 6)
    assert found["other", 0] == (1, None, 1)
    assert found["gone", 0] == (9, 9, None)
    in_kafka = {
        (r.topic, r.partition): r.offset
        for r in GroupReports({"g": group}, "kafka", LogsReport(LOGS)).partitions
        if r.topic
    }
    assert in_kafka == {("other", 0): 1, ("t", 0): 6, ("t", 1): None, ("t", 2): None}


def test_topics_of_filters() -> None:
    """The topics of a group are those that it matches, owns or has committed offsets for."""
    members = {"g_c1": Member(ConsumerRegistration({"a.*": 1}, "white_list"))}
    group = GroupReport("g", members, topics=frozenset({"t"}))
    assert group.has_filters
    assert group.all_topics(["a1", "b"]) == {"a1", "t"}


def test_host_of_a_consumer() -> None:
    """Only ids generated by Kafka contain a host."""
    assert consumer_host("g", "g_c1") is None
    assert consumer_host("g", "g_h_1-1795228857340-ab") == "h_1"


def test_offsets_in_kafka_that_were_not_read() -> None:
    """The current offset of a group is unknown if its offsets in Kafka were requested and could not be read."""
    group = replace(GROUP, has_unread_offsets=True)
    rows = GroupReports({"g": group}, "both", LogsReport(LOGS)).partitions
    found = {(r.topic, r.partition): (r.offset, r.zookeeper_offset, r.lag) for r in rows if r.topic}
    assert found["t", 0] == (None, 4, None)


def test_members_of_both_kinds() -> None:
    """Groups with members of both kinds share a line, and groups with members only in Kafka another one."""
    both, alone = member_notes({"a": (3, 1), "b": (0, 2), "c": (1, 0), "d": (0, 3)})
    assert both.startswith("Members in ZooKeeper and in Kafka at the same time: a (3 and 1). Neither kind sees the other")
    assert alone.startswith("Members in Kafka, which ZooKeeper does not show: b (2), d (3); see `zkafka groups members")
    assert member_notes({"c": (1, 0)}) == []


def test_problems_of_groups() -> None:
    """Problems are listed in the order of logs, znodes and members."""
    group = decoded({"/consumers/g/owners/t/0": znode(b"")})
    znodes, members = GroupReports({"g": replace(group, in_kafka=active(2))}).problems
    assert "/consumers/g/owners/t/0 cannot be read" in znodes
    assert members.startswith("Members in Kafka, which ZooKeeper does not show: g (2)")


def test_each_kind_of_znode() -> None:
    """Offsets, -1, garbage, positions of Kafka 0.7 and foreign names are distinguished, and none is dropped."""
    path = "/consumers/g/offsets/t/"
    data = {"0": b"5", "1": b"-1", "2": b"7\n", "3": None, "1-4": b"99", "1-5": b"x", "no": b"1", "10": b"0"}
    found = stored_in(decoded({f"{path}{key}": znode(value) for key, value in data.items()}))
    t10 = TopicPartition("t", 10)
    assert found.offsets == {T0: StoredOffset(5, 3, 1000, 2), t10: StoredOffset(0, 3, 1000, 2)}
    assert found.values == {T0: 5, t10: 0}
    assert found.unset == {T1}
    assert found.unreadable.keys() == {T2, TopicPartition("t", 3)}
    assert found.legacy == {LegacyPartition("t", 1, 4): 99}
    assert found.misnamed.keys() == {f"{path}1-5", f"{path}no"}
    assert found.partitions == {TopicPartition("t", p) for p in (0, 1, 2, 3, 10)}
    assert len(found.problems) == 4
    assert set(found.versions.values()) == {2}


def test_name_that_no_topic_has() -> None:
    """An offset below a name that no topic can have is a problem and no value, since no import would accept it."""
    found = stored_in(decoded({"/consumers/g/offsets/a topic/0": znode(b"1"), "/consumers/g/offsets/t/0": znode(b"2")}))
    assert found.misnamed.keys() == {"/consumers/g/offsets/a topic/0"}
    assert found.values == {T0: 2}
