"""Groups of a real cluster next to one whose member has an assignment in a form of its own, as some frameworks have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.tools import app
from pyspark_zkafka.tools.collector import BrokerReader, ClusterCollector, EnsembleReader
from tests.support.odd_members import odd_member
from tests.support.options import broker_connection, ensemble_config

JSON = b'{"tasks": [1, 2]}'
CUT = bytes.fromhex("0001 00000001 0001 74 00000002 0000")


@pytest.fixture
def names(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[dict[str, str]]:
    """The topic, and the groups by kind: `plain` and `odd` in Kafka, `cut` in both places, and `old` in ZooKeeper."""
    topic = new_topic(partitions=2)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 2} for n in range(20)])
    found = {"topic": topic, **{kind: f"{kind}-{topic}" for kind in ("plain", "odd", "cut", "old")}}
    servers = zkafka_cluster.bootstrap_servers
    for kind in ("plain", "odd", "cut"):
        with KafkaGroupOffsets(servers, {}, found[kind]) as offsets:
            offsets.commit({TopicPartition(topic, 0): 3})
    with zkafka_cluster.zookeeper() as znodes, ExitStack() as members:
        for kind in ("cut", "old"):
            znodes.create(f"/consumers/{found[kind]}/offsets/{topic}/0", b"3", makepath=True)
        members.enter_context(odd_member(servers, found["odd"], JSON))
        members.enter_context(odd_member(servers, found["cut"], CUT))
        yield found
        for kind in ("cut", "old"):
            znodes.delete(f"/consumers/{found[kind]}", recursive=True)
    with GroupAdmin(servers, {}) as admin:
        admin.delete_groups([found["plain"]])


def run(cluster: LocalCluster, *arguments: str) -> Result:
    """Run ``zkafka groups``."""
    return CliRunner().invoke(app, ["groups", *arguments, "--json", "--zookeeper", cluster.zookeeper_connect])


@pytest.mark.parametrize("storage", ["kafka", "both"])
def test_list(zkafka_cluster: LocalCluster, names: dict[str, str], storage: str) -> None:
    """Every group is listed. A group with unreadable members is a row with the reason."""
    result = run(zkafka_cluster, "list", "--lag", "--offsets-storage", storage)
    assert result.exit_code == 0, result.output
    rows: dict[str, dict[str, Any]] = {row["group"]: row for row in json.loads(result.stdout)}
    plain = rows[names["plain"]]
    assert [plain[n] for n in ("members", "topics", "state", "error")] == [0, [names["topic"]], "Empty", None]
    for kind in ("odd", "cut"):
        assert names[kind] in rows[names[kind]]["error"]
        assert rows[names[kind]]["topics"] == [names["topic"]]
    assert rows[names["odd"]]["lag"] == 7
    assert (names["old"] in rows) == (storage == "both")


def test_members(zkafka_cluster: LocalCluster, names: dict[str, str]) -> None:
    """Members of other groups are listed, with a note on the group that cannot be read."""
    for command in ("members", "verify"):
        result = run(zkafka_cluster, command, names["cut"], names["old"])
        assert result.exit_code == 0, result.output
        assert f"Members in Kafka are unknown: Group {names['cut']}" in result.stderr
        assert names["old"] not in result.stderr


def test_migrate(zkafka_cluster: LocalCluster, names: dict[str, str]) -> None:
    """Other groups are migrated. A group that cannot be read is reported, and left alone."""
    result = run(zkafka_cluster, "migrate", names["cut"], names["old"], "--to", "kafka", "--yes")
    assert result.exit_code == 1
    assert f"Group {names['cut']}" in result.output
    with KafkaGroupOffsets(zkafka_cluster.bootstrap_servers, {}, names["old"]) as offsets:
        assert offsets.committed([TopicPartition(names["topic"], 0)]) == {TopicPartition(names["topic"], 0): 3}


def test_exporter(zkafka_cluster: LocalCluster, names: dict[str, str]) -> None:
    """Metrics of all groups are exported, except the number of the unreadable members, and the reason is counted."""
    hosts, _, chroot = zkafka_cluster.zookeeper_connect.partition("/")
    connection = replace(broker_connection(None), zookeeper=ensemble_config(hosts, f"/{chroot}"))
    ensemble, brokers = EnsembleReader(connection.zookeeper), BrokerReader(connection, "both", 20)
    collector = ClusterCollector(ensemble.read, brokers.read, 30, "both")
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector)
    try:
        samples = {
            (s.name, s.labels.get("consumergroup"), s.labels.get("partition")): s.value
            for metric in registry.collect()
            for s in metric.samples
        }
    finally:
        collector.close()
        ensemble.close()
        brokers.close()
    assert samples["zkafka_brokers_up", None, None] == 1
    assert samples["zkafka_scrape_problems", None, None] == 1
    for kind in ("old", "cut"):
        assert samples["kafka_consumergroup_current_offset", names[kind], "0"] == 3
    assert samples["zkafka_consumergroup_kafka_members", names["old"], None] == 0
    assert ("zkafka_consumergroup_kafka_members", names["cut"], None) not in samples
