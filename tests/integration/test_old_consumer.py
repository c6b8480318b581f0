"""Kafka's old consumers, and their tools, on the shared cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import (
    LocalCluster,
    OldConsumer,
    describe_group,
    export_offsets,
    list_groups,
    run_kafka_tool,
    verify_consumer_rebalance,
)
from pyspark_zkafka.testing.jvm_clients import OldRecord
from tests.support.eventually import eventually
from tests.support.processes import alive
from tests.support.tiers import seldom

# The first rebalances of two members need time; sessions of 2 s are the shortest that are safe here.
FAST = {"rebalance.backoff.ms": "300", "rebalance.max.retries": "20", "zookeeper.session.timeout.ms": "2000"}
NO_AUTO_COMMIT = {"auto.commit.enable": "false"}
ON_SHUTDOWN_ONLY = {"auto.commit.interval.ms": "3600000"}


class Group:
    """A group with its own name on a topic of five partitions with four records each, and its znodes."""

    def __init__(self, cluster: LocalCluster, topic: str, znodes: KazooClient) -> None:
        self.cluster, self.topic, self.name, self.znodes = cluster, topic, f"group-of-{topic}", znodes
        self.connect = cluster.zookeeper_connect
        self.path = f"/consumers/{self.name}"
        sent = [(b"k%d" % i, b"v%d" % i, i % 5) for i in range(18)] + [(None, b"no key", 3), (b"no value", None, 4)]
        cluster.produce(topic, sent)
        self.records = {OldRecord(topic, p, i // 5, key, value) for i, (key, value, p) in enumerate(sent)}

    def member(self, streams: int = 2, **options: Any) -> OldConsumer:
        if not {"white_list", "black_list"} & options.keys():
            options["topics"] = {self.topic: streams}
        return OldConsumer(self.connect, self.name, **options)

    def ids(self) -> list[str]:
        return self._children("ids")

    def owners(self) -> dict[int, str]:
        return {p: data.decode() for p, data in self._values("owners").items()}

    def offsets(self) -> dict[int, int]:
        return {p: int(data) for p, data in self._values("offsets").items()}

    def _values(self, kind: str) -> dict[int, bytes]:
        values = {}
        for child in self._children(f"{kind}/{self.topic}"):
            try:
                values[int(child)] = self.znodes.get(f"{self.path}/{kind}/{self.topic}/{child}")[0]
            except NoNodeError:
                continue  # released since the names were listed
        return values

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self.znodes.get_children(f"{self.path}/{path}"))
        except NoNodeError:
            return []


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Group]:
    """A group without members."""
    with zkafka_cluster.zookeeper() as znodes:
        yield Group(zkafka_cluster, new_topic(partitions=5), znodes)


def test_reads_and_commits(group: Group) -> None:
    """A member registers, owns all partitions, reads all records, commits on request, and leaves no ephemeral znode."""
    with group.member(consumer_id="one", properties=NO_AUTO_COMMIT) as member:
        (registered,) = group.ids()
        assert registered == f"{group.name}_one"
        znode = json.loads(group.znodes.get(f"{group.path}/ids/{registered}")[0])
        assert znode["subscription"] == {group.topic: 2}
        assert znode["pattern"] == "static"
        assert group.owners() == {p: f"{registered}-{p // 3}" for p in range(5)}
        eventually(lambda: len(member.records) == 20)
        assert set(member.records) == group.records
        assert group.offsets() == {}
        member.commit()
        assert group.offsets() == dict.fromkeys(range(5), 4)
        member.stop()
        assert group.ids() == []
        assert group.owners() == {}
        assert not member.running
        assert len(member.records) == 20
        assert "ZKConsumerConnector shut" in member.log


def test_commits_on_sigterm(group: Group) -> None:
    """A member commits what it has read when SIGTERM ends it."""
    with group.member(properties=ON_SHUTDOWN_ONLY) as member:
        eventually(lambda: len(member.records) == 20)
        pid = member.pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not member.running)
        assert group.offsets() == dict.fromkeys(range(5), 4)
        assert group.ids() == []


@pytest.mark.long
def test_killed_and_started_again(group: Group) -> None:
    """A killed member's znodes vanish when its session expires; a new one with its id retries until then."""
    properties = {**FAST, **ON_SHUTDOWN_ONLY, "zookeeper.session.timeout.ms": "10000"}  # longer than a JVM takes to start
    with group.member(consumer_id="one", properties=properties) as member:
        eventually(lambda: len(member.records) == 20)
        member.kill()
        assert group.ids() == [f"{group.name}_one"]
        assert len(group.owners()) == 5
        member.start()
        assert any("NodeExists" in failure for failure in member.failures)
        eventually(lambda: set(member.records) == group.records)
        member.kill()
        eventually(lambda: not group.ids() and not group.owners())


@pytest.mark.long
def test_two_versions_share(group: Group) -> None:
    """Members of two versions share a topic by range and take over from each other, and the verification tool agrees."""
    first = group.member(1, consumer_id="a", properties=FAST)
    second = group.member(2, consumer_id="b", properties=FAST, kafka_version="0.8.2.2")
    a, b = f"{group.name}_a", f"{group.name}_b"
    with first, second:
        shared = {0: f"{a}-0", 1: f"{a}-0", 2: f"{b}-0", 3: f"{b}-0", 4: f"{b}-1"}
        eventually(lambda: group.owners() == shared)
        eventually(lambda: set(first.records + second.records) == group.records)
        first.commit()
        second.commit()
        assert verify_consumer_rebalance(group.connect, group.name)

        def is_found_unowned() -> bool:
            with suppress(NoNodeError):  # a rebalance in progress claims it again
                group.znodes.delete(f"{group.path}/owners/{group.topic}/3")
            return not verify_consumer_rebalance(group.connect, group.name)

        eventually(is_found_unowned)
        first.stop()
        eventually(lambda: group.owners() == {p: f"{b}-{p // 3}" for p in range(5)})
        first.start()
        eventually(lambda: group.owners() == shared)
        second.stop()
        eventually(lambda: group.owners() == dict.fromkeys(range(5), f"{a}-0"))


@pytest.mark.long
def test_tools_agree_with_zookeeper(group: Group, tmp_path: Path) -> None:
    """Kafka's tools list a group, describe it, and export its offsets, equal to those in ZooKeeper."""
    with group.member(1, consumer_id="a", properties=NO_AUTO_COMMIT) as member:
        eventually(lambda: len(member.records) == 20)
        member.commit()
        group.cluster.produce(group.topic, [(None, b"more", 0)])
        row = {"TOPIC": group.topic, "CURRENT-OFFSET": "4", "CONSUMER-ID": f"{group.name}_a"}
        assert sorted(describe_group(group.connect, group.name), key=lambda r: r["PARTITION"]) == [
            {**row, "PARTITION": str(p), "LOG-END-OFFSET": str(4 + (p == 0)), "LAG": str(int(p == 0))} for p in range(5)
        ]
        assert export_offsets(group.connect, group.name, tmp_path / "offsets") == {
            TopicPartition(group.topic, p): offset for p, offset in group.offsets().items()
        }
        assert f"{group.path}/offsets/{group.topic}/4:4" in (tmp_path / "offsets").read_text().splitlines()
        assert group.name in list_groups(group.connect)


@pytest.mark.parametrize("kind", ["white_list", *seldom("black_list")])
def test_filters(group: Group, kind: str, new_topic: Callable[..., str]) -> None:
    """A filter subscribes to the topics that it matches, even later ones."""
    later = f"{group.topic}-later"
    regex = f"{group.topic}.*"
    given = {kind: regex if kind == "white_list" else f"(?!{regex}).*"}
    with group.member(**given, streams=2) as member:
        (registered,) = group.ids()
        assert json.loads(group.znodes.get(f"{group.path}/ids/{registered}")[0])["pattern"] == kind
        eventually(lambda: set(member.records) == group.records)
        group.cluster.create_topic(later)
        group.cluster.produce(later, [(None, b"late")])
        eventually(lambda: OldRecord(later, 0, 0, None, b"late") in member.records)


@pytest.mark.long
def test_paused(group: Group) -> None:
    """A paused member loses its session, and registers again when resumed; it can be stopped while paused."""
    with group.member(consumer_id="one", properties=FAST) as member:
        member.pause()
        with pytest.raises(LocalClusterError, match=r"NOT_COMMITTED.*no answer within 0\.2 s"):
            member.commit(timeout_s=0.2)
        eventually(lambda: not group.ids())
        member.resume()
        eventually(lambda: len(group.owners()) == 5)
        assert group.ids() == [f"{group.name}_one"]
        member.pause()
        member.stop()
        assert not member.running
        with pytest.raises(LocalClusterError, match="CONSUMER_NOT_RUNNING"):
            member.resume()


@pytest.mark.long
def test_failed_rebalance_is_survived(group: Group) -> None:
    """A member whose rebalances fail reports why, stays, and reads once the foreign claim is gone."""
    theirs = f"{group.path}/owners/{group.topic}/2"
    group.znodes.create(theirs, b"somebody-else-0", ephemeral=True, makepath=True)
    member = group.member(properties={"rebalance.max.retries": "2", "rebalance.backoff.ms": "100"})
    with pytest.raises(LocalClusterError, match=r"CONSUMER_NOT_READY.*no streams after 0\.1 s"):
        member.start(timeout_s=0.1)
    assert not member.running
    try:
        member.start(wait=False)
        eventually(lambda: member.failures)
        assert "can't rebalance after 2 retries" in member.failures[0]
        assert member.running
        group.znodes.delete(theirs)
        member.wait_ready()
        eventually(lambda: set(member.records) == group.records)
    finally:
        member.kill()


@pytest.mark.long
def test_refusals(group: Group) -> None:
    """A consumer that cannot start, or a tool that fails, raises an error with the reason."""
    with pytest.raises(LocalClusterError, match=r"BAD_CONSUMER.*found 2"):
        group.member(white_list="a", black_list="b").start()
    with pytest.raises(LocalClusterError, match=r"CONSUMER_DIED(?s:.*)Valid values are smallest and largest"):
        group.member(properties={"auto.offset.reset": "earliest"}).start()
    with group.member() as member, pytest.raises(LocalClusterError, match="CONSUMER_RUNNING"):
        member.start()
    with pytest.raises(LocalClusterError, match=r"TOOL_FAILED.*gave no answer(?s:.*)does not exist"):
        describe_group(group.connect, "nobody")
    with pytest.raises(LocalClusterError, match=r"TOOL_FAILED.*ended with 1(?s:.*)kafka\.tools\.Nothing"):
        run_kafka_tool("1.1.1", "kafka.tools.Nothing")


KILLED = """
import sys, time
from pyspark_zkafka.testing import OldConsumer
consumer = OldConsumer(sys.argv[1], sys.argv[2], topics={sys.argv[3]: 1}).start()
consumer.pause()
print(consumer.pid, flush=True)
time.sleep(100)
"""


def test_killed_parent_leaves_nothing(group: Group) -> None:
    """A member, even if paused, ends when the process that started it is killed."""
    command = [sys.executable, "-c", KILLED, group.connect, group.name, group.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not alive(pid))
