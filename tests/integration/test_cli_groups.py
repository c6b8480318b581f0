"""``zkafka groups`` on a real cluster, next to Kafka's tools: list, describe, members, verify."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jvm_clients import describe_group, list_groups, verify_consumer_rebalance
from pyspark_zkafka.tools import app as zkafka

REGISTRATION = {"version": 1, "pattern": "static", "timestamp": "1795227256228"}


@dataclass
class Group:
    """A group of a topic with four partitions of 10 records, and the session of its members."""

    cluster: LocalCluster
    znodes: KazooClient
    name: str
    topic: str

    def register(self, consumer: str, threads: int = 1) -> None:
        """Register a consumer of the topic."""
        data = json.dumps({**REGISTRATION, "subscription": {self.topic: threads}})
        self.znodes.create(
            f"/consumers/{self.name}/ids/{self.name}_{consumer}", data.encode(), ephemeral=True, makepath=True
        )

    def claim(self, *threads: str) -> None:
        """Claim the first partitions for threads, such as ``c1-0``."""
        for partition, thread in enumerate(threads):
            path = f"/consumers/{self.name}/owners/{self.topic}/{partition}"
            self.znodes.create(path, f"{self.name}_{thread}".encode(), ephemeral=True, makepath=True)

    def commit(self, *offsets: int) -> None:
        """Commit offsets of the first partitions."""
        for partition, offset in enumerate(offsets):
            path = f"/consumers/{self.name}/offsets/{self.topic}/{partition}"
            self.znodes.ensure_path(path)
            self.znodes.set(path, str(offset).encode())

    def run(self, *arguments: str, status: int = 0) -> Result:
        """Run ``zkafka groups``, and check the exit status."""
        result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", self.cluster.zookeeper_connect])
        assert result.exit_code == status, result.output
        return result

    def json(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Return the rows of a command."""
        found: list[dict[str, Any]] = json.loads(self.run(*arguments, "--json", status=status).stdout)
        return found


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], request: pytest.FixtureRequest) -> Iterator[Group]:
    """A group without znodes; those that a test creates are removed."""
    topic = new_topic(partitions=4)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 4} for n in range(40)])
    name = f"cli-{request.node.name}"
    with zkafka_cluster.zookeeper() as znodes:
        yield Group(zkafka_cluster, znodes, name, topic)
        znodes.delete(f"/consumers/{name}", recursive=True)


@pytest.fixture
def live(group: Group) -> Group:
    """The group with two members that own all partitions, as range assigns them, and two offsets."""
    group.register("c1")
    group.register("c2", threads=2)
    group.claim("c1-0", "c1-0", "c2-0", "c2-1")
    group.commit(4, 10)
    return group


def test_list(live: Group) -> None:
    """A group that kafka-consumer-groups lists is listed with members, topics, state and store."""
    assert live.name in list_groups(live.cluster.zookeeper_connect)
    rows = {row["group"]: row for row in live.json("list")}
    row = {"group": live.name, "members": 2, "topics": [live.topic], "state": "Stable", "store": "zookeeper"}
    assert rows[live.name] == {**row, "unreadable_offsets": 0}


def test_list_unreadable_offsets(group: Group) -> None:
    """The list marks the store of a group with unreadable offsets, and a note names the group."""
    group.commit(0, 1)
    for partition in range(2):
        group.znodes.set(f"/consumers/{group.name}/offsets/{group.topic}/{partition}", b"x")
    found = group.run("list")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith(group.name)]
    assert line.split()[-1] == "zookeeper*"
    assert f"{group.name} (2)" in found.stderr.split("* Offsets that cannot be read: ")[1]
    (row,) = [row for row in group.json("list") if row["group"] == group.name]
    assert row["store"] == "zookeeper"
    assert row["unreadable_offsets"] == 2


def test_describe(live: Group) -> None:
    """`describe` prints the rows of kafka-consumer-groups, which misses offsets until __consumer_offsets exists."""
    with KafkaGroupOffsets(live.cluster.bootstrap_servers, {}, live.name) as coordinator:
        assert coordinator.committed([TopicPartition(live.topic, 0)]) == {}
    theirs = describe_group(live.cluster.zookeeper_connect, live.name)
    renamed = {"CURRENT-OFFSET": "offset", "LOG-END-OFFSET": "latest", "CONSUMER-ID": "consumer"}
    columns = {name: renamed.get(name, name.lower().replace("-", "_")) for name in theirs[0]}
    ours = live.json("describe", live.name)
    assert sorted(map(str, theirs)) == sorted(
        str({name: "-" if row[key] is None else str(row[key]) for name, key in columns.items()}) for row in ours
    )
    assert [(row["lag"], row["earliest"], row["thread"]) for row in ours[:2]] == [
        (6, 0, f"{live.name}_c1-0"),
        (0, 0, f"{live.name}_c1-0"),
    ]


def test_offsets_in_both_stores(live: Group) -> None:
    """With offsets in both stores, both are shown, the larger one is current, and the group's store is "both"."""
    with KafkaGroupOffsets(live.cluster.bootstrap_servers, {}, live.name) as store:
        store.commit({TopicPartition(live.topic, 0): 7, TopicPartition(live.topic, 2): 3})
    rows = live.json("describe", live.name, "--offsets-storage", "both")
    shown = [(row["offset"], row["zookeeper_offset"], row["kafka_offset"]) for row in rows]
    assert shown == [(7, 4, 7), (10, 10, None), (3, None, 3), (None, None, None)]
    in_kafka = live.json("describe", live.name, "--offsets-storage", "kafka")
    assert [row["offset"] for row in in_kafka] == [7, None, 3, None]
    stores = {row["group"]: row["store"] for row in live.json("list", "--offsets-storage", "both")}
    assert stores[live.name] == "both"


def test_unknown_group(group: Group) -> None:
    """An unknown group is an error with exit status 1."""
    group.znodes.ensure_path(f"/consumers/{group.name}")
    assert "[UNKNOWN_GROUP] Group nobody does not exist" in group.run("describe", "nobody", status=1).stderr


def test_members(live: Group) -> None:
    """Members are listed with subscription and owned partitions; an unreadable member with the reason."""
    live.znodes.create(f"/consumers/{live.name}/ids/{live.name}_x", live.topic.encode(), ephemeral=True)
    c1, c2, unreadable = live.json("members", live.name)
    assert c1["subscription"] == {live.topic: 1}
    assert c1["partitions"] == 2
    assert c1["assignment"] == {live.topic: [0, 1]}
    assert c2["pattern"] == "static"
    assert c2["assignment"] == {live.topic: [2, 3]}
    assert c2["timestamp"] == "2026-11-21T02:14:16.228Z"
    assert "cannot be read" in unreadable["error"]


def test_verify(live: Group) -> None:
    """Neither `verify` nor Kafka's tool finds a problem in a healthy group."""
    assert verify_consumer_rebalance(live.cluster.zookeeper_connect, live.name)
    assert live.json("verify", live.name) == []


def test_verify_a_broken_group(live: Group) -> None:
    """`verify` reports claims of a missing consumer and an offset beyond the log, with the expected owners."""
    live.znodes.delete(f"/consumers/{live.name}/ids/{live.name}_c2")
    live.commit(99)
    assert not verify_consumer_rebalance(live.cluster.zookeeper_connect, live.name)
    c1, c2 = f"{live.name}_c1-0", f"{live.name}_c2"
    rows = live.json("verify", live.name, status=1)
    assert [(row["partition"], row["problem"], row["owner"], row["expected_owner"]) for row in rows] == [
        (2, "zombie claim", f"{c2}-0", c1),
        (3, "zombie claim", f"{c2}-1", c1),
        (0, "offset beyond the log", c1, c1),
    ]


@pytest.fixture
def idle(group: Group) -> Iterator[str]:
    """The connect string of a chroot without brokers, with only this group, which has one offset."""
    group.znodes.create(f"/idle/consumers/{group.name}/offsets/{group.topic}/0", b"3", makepath=True)
    group.znodes.ensure_path("/idle/brokers/ids")
    yield f"{group.cluster.zookeeper_connect}/idle"
    group.znodes.delete("/idle", recursive=True)


def test_without_brokers(group: Group, idle: str) -> None:
    """Without registered brokers, groups are listed and described, with unknown ends of logs."""

    def run(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
        result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", idle, "--json"])
        assert result.exit_code == status, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    assert [row["group"] for row in run("list")] == [group.name]
    assert [(row["offset"], row["lag"]) for row in run("describe", group.name)] == [(3, None)]
    assert [row["problem"] for row in run("verify", group.name, status=1)] == ["offset of an unknown topic"]


def test_csv_of_all_groups(group: Group, idle: str) -> None:
    """An export of all groups in CSV names the group in each line, even with only one group."""
    arguments = ["groups", "export", "--all-groups", "--format", "csv", "--zookeeper", idle]
    assert CliRunner().invoke(zkafka, arguments).stdout == f"{group.name},{group.topic},0,3\n"
