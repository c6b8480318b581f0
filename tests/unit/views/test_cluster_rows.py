"""Rows of the views that show the cluster, from recorded znodes and from snapshots made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.protocol.znodes.admin import AdminState
from pyspark_zkafka.protocol.znodes.brokers import BrokerRegistration, decode_broker
from pyspark_zkafka.protocol.znodes.topics import ControllerInfo
from pyspark_zkafka.views.cluster_rows import (
    admin_rows,
    broker_rows,
    config_rows,
    controller_rows,
    partition_rows,
    plan_rows,
    registered_broker_rows,
    topic_rows,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "znodes.json").read_text())
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EMPTY = ClusterSnapshot({})


def recorded_brokers(version: str) -> list[BrokerRegistration]:
    """The recorded registrations of a Kafka version."""
    znodes = VECTORS[f"brokers_{version}"]["znodes"]
    found = [z for z in znodes if z["path"].startswith("/brokers/ids/")]
    return [decode_broker(z["path"], z["value"].encode()) for z in found]


@pytest.mark.parametrize(("kafka", "version"), [("3.9.1", 5), ("1.1.1", 4), ("0.8.2.2", 1)])
def test_recorded_brokers(kafka: str, version: int) -> None:
    """A registration of each form gives host, port, endpoints, version and time."""
    rows = registered_broker_rows(reversed(recorded_brokers(kafka)))
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    for row in rows:
        assert (row["version"], row["host"], row["rack"]) == (version, "127.0.0.1", None)
        assert row["endpoints"] == [f"PLAINTEXT://127.0.0.1:{row['port']}"]
        assert row["timestamp"] > 1_700_000_000_000_000


def test_broker_without_plaintext_listener() -> None:
    """Where the registration has no host, host and port are those of the first endpoint."""
    data = (
        b'{"listener_security_protocol_map":{"A":"SSL","B":"SASL_SSL"},"endpoints":["A://h1:1","B://h2:2"],'
        b'"rack":"r","jmx_port":-1,"host":null,"timestamp":"never","port":-1,"version":4}'
    )
    assert registered_broker_rows([decode_broker("/brokers/ids/3", data)]) == [
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
    """From the brokers' metadata come id, address and rack, sorted; a broker without endpoints has no address."""
    brokers = [Broker(2, ()), Broker(1, (Endpoint("SSL", "SSL", "::1", 9093),), "r")]
    assert broker_rows(brokers) == [
        {"id": 1, "host": "::1", "port": 9093, "rack": "r", "endpoints": ["SSL://[::1]:9093"]},
        {"id": 2, "host": None, "port": None, "rack": None, "endpoints": []},
    ]


def test_topics() -> None:
    """Topics are sorted and counted; the replication is that of the first partition, as Kafka's tool shows it."""
    topics = {"b": Topic("b", {}, None), "a": Topic("a", {0: (1, 2), 1: (2,)}, "id")}
    snapshot = ClusterSnapshot({}, topics)
    counts = [
        {"topic": "a", "topic_id": "id", "partitions": 2, "replication": 2},
        {"topic": "b", "topic_id": None, "partitions": 0, "replication": 0},
    ]
    assert topic_rows(snapshot, None) == counts
    configs = {"a": {"y": "1", "x": "2"}, "gone": {"x": "1"}}
    assert [row["config"] for row in topic_rows(snapshot, configs)] == [[("x", "2"), ("y", "1")], []]


def test_partition_with_all_replicas() -> None:
    """A partition in order is neither offline nor under-replicated."""
    brokers = {n: Broker(n, ()) for n in (1, 2)}
    states = {A0: PartitionState(2, 7, (2, 1))}
    row = partition_rows(ClusterSnapshot(brokers, {"a": Topic("a", {0: (1, 2)})}, states))
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
    """Leader, epoch and ISR are shown as they are, and what follows for readers."""
    snapshot = ClusterSnapshot({1: Broker(1, ())}, {"a": Topic("a", {0: (1, 2)})}, {} if state is None else {A0: state})
    (row,) = partition_rows(snapshot)
    columns = ("leader", "leader_epoch", "isr", "offline", "under_replicated")
    assert tuple(row.get(name) for name in columns) == shown


def test_empty_cluster() -> None:
    """A cluster without anything gives no rows, apart from the controller's."""
    assert broker_rows([]) == registered_broker_rows([]) == []
    assert topic_rows(EMPTY, {}) == partition_rows(EMPTY) == config_rows({}) == []
    assert admin_rows(AdminState()) == []
    assert controller_rows(None, None, None) == [{"epoch": None, "cluster_id": None}]


def test_controller() -> None:
    """The controller's row has its broker, the time of its election, epoch and cluster id."""
    assert controller_rows(ControllerInfo(2, "1795224999896"), 5, "id") == [
        {"broker": 2, "timestamp": 1_795_224_999_896_000, "epoch": 5, "cluster_id": "id"}
    ]


def test_admin() -> None:
    """Reassignments, elections and deletions come in this order, each sorted, and only of the topics asked for."""
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
    assert [r["topic"] for r in admin_rows(state, ["b"])] == ["b", "b"]


def test_configs() -> None:
    """Each setting is a row, by topic and name; a topic without settings has none."""
    assert config_rows({"b": {"z": "1", "a": "2"}, "a": {}}) == [
        {"topic": "b", "name": "a", "value": "2"},
        {"topic": "b", "name": "z", "value": "1"},
    ]


def test_plan_rows() -> None:
    """Each range of each Spark task is a row, with the rack of its leader if it has one."""
    a, b = (Split(TopicPartition("t", n), 10, 15, n, 0, (n, 2), ()) for n in range(2))
    snapshot = ClusterSnapshot({0: Broker(0, (), "r"), 1: Broker(1, ())})
    common = {"topic": "t", "start": 10, "until": 15, "records": 5}
    assert plan_rows([(b,), (a, a._replace(start=5, until=10))], snapshot) == [
        {**common, "partition": 0, "leader": 0, "isr": [0, 2], "rack": "r", "start": 5, "until": 10, "spark_partition": 1},
        {**common, "partition": 0, "leader": 0, "isr": [0, 2], "rack": "r", "spark_partition": 1},
        {**common, "partition": 1, "leader": 1, "isr": [1, 2], "rack": None, "spark_partition": 0},
    ]
