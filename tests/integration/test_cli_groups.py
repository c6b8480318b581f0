"""``zkafka groups`` on a real cluster, beside Kafka's tools: list, describe, members, verify, plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.groups import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.kafka_tools import describe_group, list_groups, verify_consumer_rebalance
from pyspark_zkafka.tools import app as zkafka

REGISTRATION = {"version": 1, "pattern": "static", "timestamp": "1795227256228"}


@dataclass
class Group:
    """A group of a topic with four partitions of 10 records, and the session that its members live in."""

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
        """Run ``zkafka groups``; its exit status must be this one."""
        result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", self.cluster.zookeeper_connect])
        assert result.exit_code == status, result.output
        return result

    def json(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """The rows of a command."""
        found: list[dict[str, Any]] = json.loads(self.run(*arguments, "--json", status=status).stdout)
        return found


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], request: pytest.FixtureRequest) -> Iterator[Group]:
    """A group without znodes, which are removed afterwards."""
    topic = new_topic(partitions=4)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": n % 4} for n in range(40)])
    name = f"cli-{request.node.name}"
    with zkafka_cluster.zookeeper() as znodes:
        yield Group(zkafka_cluster, znodes, name, topic)
        znodes.delete(f"/consumers/{name}", recursive=True)


@pytest.fixture
def live(group: Group) -> Group:
    """The same with two members that own all, as range assigns, and two offsets."""
    group.register("c1")
    group.register("c2", threads=2)
    group.claim("c1-0", "c1-0", "c2-0", "c2-1")
    group.commit(4, 10)
    return group


def test_list(live: Group) -> None:
    """A group that kafka-consumer-groups lists is listed with its members, topics, state and store."""
    assert live.name in list_groups(live.cluster.zookeeper_connect)
    rows = {row["group"]: row for row in live.json("list")}
    row = {"group": live.name, "members": 2, "topics": [live.topic], "state": "Stable", "store": "zookeeper"}
    assert rows[live.name] == {**row, "unreadable_offsets": 0}


def test_list_unreadable_offsets(group: Group) -> None:
    """A group with offsets that cannot be read has its store marked, and a note says which groups these are."""
    group.commit(0, 1)
    for partition in range(2):
        group.znodes.set(f"/consumers/{group.name}/offsets/{group.topic}/{partition}", b"x")
    found = group.run("list")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith(group.name)]
    assert line.split()[-1] == "zookeeper*"
    assert f"{group.name} (2)" in found.stderr.split("* Offsets that cannot be read: ")[1]
    (row,) = [row for row in group.json("list") if row["group"] == group.name]
    assert (row["store"], row["unreadable_offsets"]) == ("zookeeper", 2)


def test_describe(live: Group) -> None:
    """The rows are those of kafka-consumer-groups, which misses offsets while __consumer_offsets is created."""
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
    """Offsets in Kafka are shown beside those in ZooKeeper; the larger one is current; both stores are listed."""
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
    """A group that does not exist is an error with exit status 1."""
    group.znodes.ensure_path(f"/consumers/{group.name}")
    assert "[UNKNOWN_GROUP] Group nobody does not exist" in group.run("describe", "nobody", status=1).stderr


def test_members(live: Group) -> None:
    """Members have their subscription, and the partitions that they own; one that is unreadable has the reason."""
    live.znodes.create(f"/consumers/{live.name}/ids/{live.name}_x", live.topic.encode(), ephemeral=True)
    c1, c2, unreadable = live.json("members", live.name)
    assert (c1["subscription"], c1["partitions"], c1["assignment"]) == ({live.topic: 1}, 2, {live.topic: [0, 1]})
    assert (c2["pattern"], c2["assignment"]) == ("static", {live.topic: [2, 3]})
    assert c2["timestamp"] == "2026-11-21T02:14:16.228Z"
    assert "cannot be read" in unreadable["error"]


def test_verify(live: Group) -> None:
    """A proper group has no problem, by Kafka's tool either."""
    assert verify_consumer_rebalance(live.cluster.zookeeper_connect, live.name)
    assert live.json("verify", live.name) == []


def test_verify_a_broken_group(live: Group) -> None:
    """The claim of a consumer that is gone, and an offset beyond the log, are problems; the exit status is 1."""
    live.znodes.delete(f"/consumers/{live.name}/ids/{live.name}_c2")
    live.commit(99)
    assert not verify_consumer_rebalance(live.cluster.zookeeper_connect, live.name)
    problems = [(row["partition"], row["problem"]) for row in live.json("verify", live.name, status=1)]
    assert problems == [(2, "zombie claim"), (3, "zombie claim"), (0, "offset beyond the log")]


def test_plan(live: Group) -> None:
    """The strategies are side by side, next to the present owners."""
    rows = live.json("plan", live.name)
    assert [row["owner"] for row in rows] == [row["range"] for row in rows] == [row["sticky"] for row in rows]
    chosen = live.json("plan", live.name, "--strategy", "roundrobin")
    assert [row["roundrobin"] for row in chosen] == [row["roundrobin"] for row in rows]


def test_watch(live: Group) -> None:
    """A watch writes a list a line until it is interrupted, and ends with exit status 0."""
    command = [sys.executable, "-c", "from pyspark_zkafka.tools import main; main()", "groups", "describe", live.name]
    process = subprocess.Popen(
        [*command, "--watch", "--interval", "0.2", "--json"],
        env={**os.environ, "ZKAFKA_ZOOKEEPER": live.cluster.zookeeper_connect},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lists = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()
    assert [row["lag"] for row in lists[-1]] == [6, 0, None, None, 6]
    assert lists[-1][0]["consumed_per_s"] == 0.0


def test_unreadable_member_of_a_plan(group: Group) -> None:
    """A member whose registration cannot be read is left out of a plan, and named."""
    group.register("c1")
    group.znodes.create(f"/consumers/{group.name}/ids/{group.name}_c2", b"topic", ephemeral=True)
    result = group.run("plan", group.name, "--json")
    assert {row["range"] for row in json.loads(result.stdout)} == {f"{group.name}_c1-0"}
    assert f"/ids/{group.name}_c2" in result.stderr


@pytest.fixture
def idle(group: Group) -> Iterator[str]:
    """The connect string of a chroot without brokers, where the group, which has an offset, is the only one."""
    group.znodes.create(f"/idle/consumers/{group.name}/offsets/{group.topic}/0", b"3", makepath=True)
    group.znodes.ensure_path("/idle/brokers/ids")
    yield f"{group.cluster.zookeeper_connect}/idle"
    group.znodes.delete("/idle", recursive=True)


def test_without_brokers(group: Group, idle: str) -> None:
    """Where no broker is registered, groups are listed and described all the same; the ends of logs are unknown."""

    def run(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
        result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", idle, "--json"])
        assert result.exit_code == status, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    assert [row["group"] for row in run("list")] == [group.name]
    assert [(row["offset"], row["lag"]) for row in run("describe", group.name)] == [(3, None)]
    assert [row["problem"] for row in run("verify", group.name, status=1)] == ["offset of an unknown topic"]


def test_csv_of_all_groups(group: Group, idle: str) -> None:
    """An export of all groups names the group in each line, also if there is just one."""
    arguments = ["groups", "export", "--all-groups", "--format", "csv", "--zookeeper", idle]
    assert CliRunner().invoke(zkafka, arguments).stdout == f"{group.name},{group.topic},0,3\n"
