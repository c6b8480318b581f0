"""Rows of the views, from recorded znodes, malformed znodes and made-up snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pyspark_zkafka.inspect.groups import GroupReport, GroupReports, LogBounds, LogsReport, decode_groups
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.inspect.view_rows import (
    admin_rows,
    broker_rows,
    config_rows,
    controller_rows,
    group_row,
    member_rows,
    offset_rows,
    owner_rows,
    partition_rows,
    plan_rows,
    topic_rows,
)
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.model.view_tables import VIEWS, Row
from pyspark_zkafka.model.znodes.cluster import AdminState, BrokerRegistration, ControllerInfo, decode_broker
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat
from tests.support.group_brokers import active

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "znodes.json").read_text())
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def recorded_brokers(version: str) -> list[BrokerRegistration]:
    """Return the recorded registrations of a Kafka version."""
    znodes = VECTORS[f"brokers_{version}"]["znodes"]
    found = [z for z in znodes if z["path"].startswith("/brokers/ids/")]
    return [decode_broker(z["path"], z["value"].encode()) for z in found]


@pytest.mark.parametrize(("kafka", "version"), [("3.9.1", 5), ("1.1.1", 4), ("0.8.2.2", 1)])
def test_recorded_brokers(kafka: str, version: int) -> None:
    """Registrations in each format give host, port, endpoints, version and time."""
    rows = broker_rows(ClusterReport(registrations=tuple(recorded_brokers(kafka))))
    for row in rows:
        assert row["version"] == version
        assert row["host"] == "127.0.0.1"
        assert row["rack"] is None
        assert row["endpoints"] == [f"PLAINTEXT://127.0.0.1:{row['port']}"]
        assert row["timestamp"] > 1_700_000_000_000_000


def test_broker_without_plaintext_listener() -> None:
    """If the registration has no host, host and port are those of the first endpoint."""
    data = (
        b'{"listener_security_protocol_map":{"A":"SSL","B":"SASL_SSL"},"endpoints":["A://h1:1","B://h2:2"],'
        b'"rack":"r","jmx_port":-1,"host":null,"timestamp":"never","port":-1,"version":4}'
    )
    assert broker_rows(ClusterReport(registrations=(decode_broker("/brokers/ids/3", data),))) == [
        {
            "id": 3,
            "host": "h1",
            "port": 1,
            "rack": "r",
            "endpoints": ["A://h1:1", "B://h2:2"],
            "version": 4,
            "timestamp": None,
        }
    ]


def test_brokers_of_metadata() -> None:
    """Brokers' metadata give sorted ids, addresses and racks; a broker without endpoints has no address."""
    brokers = {2: Broker(2, ()), 1: Broker(1, (Endpoint("SSL", "SSL", "::1", 9093),), "r")}
    assert broker_rows(ClusterReport(ClusterSnapshot(brokers))) == [
        {"id": 1, "host": "::1", "port": 9093, "rack": "r", "endpoints": ["SSL://[::1]:9093"]},
        {"id": 2, "host": None, "port": None, "rack": None, "endpoints": []},
    ]


def test_topics() -> None:
    """Topics are sorted, and their replication is that of the first partition, as in Kafka's tool."""
    topics = {"b": Topic("b", {}, None), "a": Topic("a", {0: (1, 2), 1: (2,)}, "id")}
    snapshot = ClusterSnapshot({}, topics)
    counts = [
        {"topic": "a", "topic_id": "id", "partitions": 2, "replication": 2},
        {"topic": "b", "topic_id": None, "partitions": 0, "replication": 0},
    ]
    assert topic_rows(ClusterReport(snapshot)) == counts
    configs = {"a": {"y": "1", "x": "2"}, "gone": {"x": "1"}}
    assert [row["config"] for row in topic_rows(ClusterReport(snapshot, configs=configs))] == [[("x", "2"), ("y", "1")], []]


def test_partition_with_all_replicas() -> None:
    """A fully replicated partition with a leader is neither offline nor under-replicated."""
    brokers = {n: Broker(n, ()) for n in (1, 2)}
    states = {A0: PartitionState(2, 7, (2, 1))}
    row = partition_rows(ClusterReport(ClusterSnapshot(brokers, {"a": Topic("a", {0: (1, 2)})}, states)))
    assert row == [
        {
            "topic": "a",
            "partition": 0,
            "leader": 2,
            "leader_epoch": 7,
            "isr": [2, 1],
            "replicas": [1, 2],
            "offline": False,
            "under_replicated": False,
        }
    ]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (PartitionState(1, 3, (1,)), (1, 3, [1], False, True)),
        (PartitionState(-1, 4, (2,)), (-1, 4, [2], True, True)),
        (PartitionState(2, 4, (2, 1)), (2, 4, [2, 1], True, False)),
        (PartitionState(1, -1, (1, 2)), (1, None, [1, 2], False, False)),
        (None, (None, None, None, True, True)),
    ],
    ids=["ISR is short", "no leader", "leader died unnoticed", "metadata has no epoch", "being created"],
)
def test_partition_states(state: PartitionState | None, shown: tuple[object, ...]) -> None:
    """Leader, epoch and ISR are shown as they are, with flags for offline and under-replicated partitions."""
    snapshot = ClusterSnapshot({1: Broker(1, ())}, {"a": Topic("a", {0: (1, 2)})}, {} if state is None else {A0: state})
    (row,) = partition_rows(ClusterReport(snapshot))
    columns = ("leader", "leader_epoch", "isr", "offline", "under_replicated")
    assert tuple(row.get(name) for name in columns) == shown


def test_empty_cluster() -> None:
    """An empty cluster has no rows except the controller's."""
    empty = ClusterReport(registrations=(), configs={})
    assert broker_rows(empty) == broker_rows(ClusterReport()) == []
    assert topic_rows(empty) == partition_rows(empty) == config_rows({}) == admin_rows(AdminState()) == []
    assert controller_rows(empty) == [{"epoch": None, "cluster_id": None}]


def test_controller() -> None:
    """The controller's row has its broker, the time of its election, its epoch and the cluster's id."""
    cluster = ClusterReport(controller=ControllerInfo(2, "1795224999896"), controller_epoch=5, cluster_id="id")
    assert controller_rows(cluster) == [{"broker": 2, "timestamp": 1_795_224_999_896_000, "epoch": 5, "cluster_id": "id"}]


def test_admin() -> None:
    """Reassignments, elections and deletions are listed in this order, and each kind is sorted."""
    state = AdminState({B0: (3, 1), A1: (2,)}, (A1, A0), ("b", "c"))
    rows = admin_rows(state)
    assert [(r["operation"], r["topic"], r.get("partition"), r.get("replicas")) for r in rows] == [
        ("reassign_partitions", "a", 1, [2]),
        ("reassign_partitions", "b", 0, [3, 1]),
        ("preferred_replica_election", "a", 0, None),
        ("preferred_replica_election", "a", 1, None),
        ("delete_topics", "b", None, None),
        ("delete_topics", "c", None, None),
    ]


def test_configs() -> None:
    """Each setting is a row, sorted by topic and name; a topic without settings has no row."""
    assert config_rows({"b": {"z": "1", "a": "2"}, "a": {}}) == [
        {"topic": "b", "name": "a", "value": "2"},
        {"topic": "b", "name": "z", "value": "1"},
    ]


def test_plan_rows() -> None:
    """Each range of each Spark task is a row, with the rack of its leader if there is one."""
    a, b = (Split(TopicPartition("t", n), 10, 15, n, 0, (n, 2), ()) for n in range(2))
    snapshot = ClusterSnapshot({0: Broker(0, (), "r"), 1: Broker(1, ())})
    common = {"topic": "t", "start": 10, "until": 15, "records": 5}
    assert plan_rows([(b,), (a, a._replace(start=5, until=10))], snapshot) == [
        {**common, "partition": 0, "leader": 0, "isr": [0, 2], "rack": "r", "start": 5, "until": 10, "spark_partition": 1},
        {**common, "partition": 0, "leader": 0, "isr": [0, 2], "rack": "r", "spark_partition": 1},
        {**common, "partition": 1, "leader": 1, "isr": [1, 2], "rack": None, "spark_partition": 0},
    ]


# --- groups ------------------------------------------------------------------------------------------------------------

GROUPS = sorted(name for name in VECTORS if not name.startswith("brokers"))


def recorded(name: str, part: str) -> dict[str, bytes | None]:
    """Return the recorded znodes below a group's ids, owners or offsets by path, without their parents."""
    depth = 4 if part == "ids" else 5
    found = [z for z in VECTORS[name]["znodes"] if f"/{part}/" in z["path"] and z["path"].count("/") == depth]
    return {z["path"]: None if z["value"] is None else z["value"].encode() for z in reversed(found)}


def reports(data: dict[str, bytes | None]) -> list[GroupReport]:
    """Return reports of groups with these znodes, all written one second after the epoch."""
    nodes = {path: Znode(value, ZnodeStat(1, 0, 1000, 0)) for path, value in data.items()}
    return list(decode_groups(sorted({path.split("/")[2] for path in data}), {}, nodes).values())


def rows_of(project: Callable[[GroupReport], list[Row]], data: dict[str, bytes | None]) -> list[Row]:
    """Return the rows of all groups."""
    return [row for group in reports(data) for row in project(group)]


def offsets_of(data: dict[str, bytes | None], latest: Mapping[TopicPartition, int] | None = None) -> list[Row]:
    """Return the rows of all groups' offsets, with the ends of logs."""
    logs = LogsReport({tp: LogBounds(end=end) for tp, end in (latest or {}).items()})
    return offset_rows(GroupReports({group.name: group for group in reports(data)}, logs=logs))


@pytest.mark.parametrize("name", GROUPS)
def test_recorded_groups_are_readable(name: str) -> None:
    """Everything that consumers of 1.1.1 and 0.8.2.2 wrote is readable, and each znode is a row, sorted."""
    members, owners = recorded(name, "ids"), recorded(name, "owners")
    committed = recorded(name, "offsets")
    assert len(rows_of(member_rows, members)) == len(members)
    assert all(row["readable"] and row["timestamp"] for row in rows_of(member_rows, members))
    for rows, data in ((rows_of(owner_rows, owners), owners), (offsets_of(committed), committed)):
        assert len(rows) == len(data)
        assert not any("error" in row for row in rows)
        places = [(row["topic"], row["partition"]) for row in rows]
        assert places == sorted(places)


def test_members() -> None:
    """A member's row has its subscription and the time of its registration."""
    (row,) = rows_of(member_rows, recorded("whitelist", "ids"))
    assert row == {
        "group": "g-wl",
        "consumer": "g-wl_c1",
        "pattern": "white_list",
        "subscription": [("peer.w.*", 2)],
        "timestamp": 1_795_228_875_338_000,
        "readable": True,
    }


@pytest.mark.parametrize("data", [None, b"", b"peer-a", b"\xff", b'{"pattern":"static"}'])
def test_unreadable_member(data: bytes | None) -> None:
    """An unreadable foreign znode is a row that says so, and does not hide the other rows."""
    rows = rows_of(member_rows, {"/consumers/g/ids/h:uuid": data, **recorded("whitelist", "ids")})
    assert [(row["group"], row["readable"]) for row in rows] == [("g", False), ("g-wl", True)]
    assert rows[0]["consumer"] == "h:uuid"
    assert "Znode /consumers/g/ids/h:uuid cannot be read" in rows[0]["error"]


def test_owners() -> None:
    """An owner's row has the thread and its consumer."""
    rows = rows_of(owner_rows, recorded("two_consumers_two_topics_two_threads_range", "owners"))
    assert len(rows) == 8
    assert rows[3] == {
        "group": "g-two",
        "topic": "peer-a",
        "partition": 3,
        "thread": "g-two_c2-0",
        "consumer": "g-two_c2",
    }


def test_partitions_sort_as_numbers() -> None:
    """Partition 10 comes after partition 9."""
    rows = rows_of(owner_rows, recorded("range_12_partitions_12_threads_lexical", "owners"))
    assert [row["partition"] for row in rows] == list(range(12))


def test_owners_of_0_7_and_broken_ones() -> None:
    """A claim of 0.7 names its broker; a name or value that cannot be read gives an error next to the readable columns."""
    base = "/consumers/g/owners/t"
    rows = rows_of(owner_rows, {f"{base}/1-3": b"g_h-0", f"{base}/x": b"g_h-0", f"{base}/2": b""})
    shown = [(r.get("partition"), r.get("broker"), r.get("thread"), "error" in r) for r in rows]
    assert shown == [(None, None, None, True), (2, None, None, True), (3, 1, "g_h-0", False)]
    assert f"Znode {base}/2 cannot be read" in rows[1]["error"]


def test_offsets_and_lag() -> None:
    """The lag is the distance to the latest offset: negative beyond the log's end, and null if either is missing."""
    base = "/consumers/g/offsets/t"
    data: dict[str, bytes | None] = {f"{base}/{n}": v for n, v in enumerate((b"5", b"20", b"-1", b"7"))}
    latest = {TopicPartition("t", n): 12 for n in range(3)}
    rows = offsets_of(data, latest)
    shown = [(r["offset"], r.get("latest"), r.get("lag")) for r in rows]
    assert shown == [(5, 12, 7), (20, 12, -8), (-1, 12, None), (7, None, None)]
    assert {r["timestamp"] for r in rows} == {1_000_000}


def test_offsets_of_0_7_and_broken_ones() -> None:
    """Positions of 0.7 and unreadable offsets are shown, but not compared with the log."""
    base = "/consumers/g/offsets/t"
    data: dict[str, bytes | None] = {f"{base}/0-1": b"4096", f"{base}/0": b"7\n", f"{base}/x": b"7"}
    rows = offsets_of(data, {TopicPartition("t", 0): 10, TopicPartition("t", 1): 10})
    shown = [(r.get("partition"), r.get("broker"), r.get("offset"), r.get("lag"), "error" in r) for r in rows]
    assert shown == [(None, None, None, None, True), (0, None, None, None, True), (1, 0, 4096, None, False)]


def test_groups() -> None:
    """A group's row counts its members and lists the topics that it owns or has committed."""
    group = GroupReport("b", topics=frozenset({"t2", "t1"}))
    assert group_row(group, ["b_1", "b_2"]) == {"group": "b", "members": 2, "topics": ["t1", "t2"]}


def test_offsets_in_kafka() -> None:
    """A group in Kafka has a row for each offset, and none for partitions that its members own without an offset."""
    group = GroupReport("g", kafka_offsets={A1: 3, A0: 4}, in_kafka=active(1))
    rows = offset_rows(GroupReports({"g": group}, "kafka", LogsReport({A0: LogBounds(0, 9), B0: LogBounds(0, 1)})))
    assert [(row["topic"], row["partition"], row["offset"], row["latest"], row["lag"]) for row in rows] == [
        ("a", 0, 4, 9, 5),
        ("a", 1, 3, None, None),
    ]


# --- columns -----------------------------------------------------------------------------------------------------------


def test_rows_have_the_columns_of_their_views() -> None:
    """Each view's rows fill all of its columns, and no others."""
    brokers = {1: Broker(1, (Endpoint("SSL", "SSL", "h", 1),), "r")}
    snapshot = ClusterSnapshot(brokers, {"a": Topic("a", {0: (1,)}, "id")}, {A0: PartitionState(1, 0, (1,))})
    cluster = ClusterReport(
        snapshot, tuple(recorded_brokers("3.9.1")), {}, ControllerInfo(1, "1795224999896"), cluster_id="id"
    )
    base = "/consumers/g"
    registrations = {**recorded("whitelist", "ids"), f"{base}/ids/x": b""}
    claims: dict[str, bytes | None] = {f"{base}/owners/t/1-3": b"g_h-0", f"{base}/owners/t/2": b""}
    offsets: dict[str, bytes | None] = {
        f"{base}/offsets/t/0-1": b"4096",
        f"{base}/offsets/t/0": b"7",
        f"{base}/offsets/t/x": b"",
    }
    rows = {
        "brokers": broker_rows(cluster),
        "topics": topic_rows(cluster),
        "partitions": partition_rows(cluster),
        "controller": controller_rows(cluster),
        "admin": admin_rows(AdminState({B0: (3, 1)})),
        "configs": config_rows({"a": {"x": "1"}}),
        "plan": plan_rows([(Split(A0, 0, 1, 1, 0, (1,), ()),)], snapshot),
        "groups": [group_row(GroupReport("g"), [])],
        "members": rows_of(member_rows, registrations),
        "owners": rows_of(owner_rows, claims),
        "offsets": offsets_of(offsets, {TopicPartition("t", 0): 9}),
    }
    found = {view: {name for row in of_view for name in row} for view, of_view in rows.items()}
    assert found == {view: set(table.columns) for view, table in VIEWS.items()}
