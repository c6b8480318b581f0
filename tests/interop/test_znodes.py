"""Znodes of our members: byte for byte those of the JVM consumers, and readable by Kafka's own tools."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster, describe_group, export_offsets, verify_consumer_rebalance
from tests.support.eventually import eventually
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from conftest import Group

NewTopic = Callable[..., str]


@pytest.fixture(scope="session")
def zkafka_cluster(breakable_cluster: LocalCluster) -> LocalCluster:
    """A cluster that no other worker uses, so that all of its watches belong to the test."""
    return breakable_cluster


@dataclass(frozen=True)
class Left:
    """A znode: its data without the timestamp, and whether it is ephemeral."""

    data: bytes | None
    ephemeral: bool


def tree(group: Group, path: str = "") -> dict[str, Left]:
    """Return all znodes of the group below a path, without the group's name; checks that everybody has access."""
    whole = group.path + path
    data, stat = group.znodes.get(whole)
    assert group.znodes.get_acls(whole)[0] == OPEN_ACL_UNSAFE
    if data is not None:
        data = re.sub(rb'"timestamp":"\d{13}"', b'"timestamp":"now"', data.replace(group.name.encode(), b"GROUP"))
    found = {path.replace(group.name, "GROUP"): Left(data, stat.ephemeralOwner != 0)}
    for child in group.znodes.get_children(whole):
        found |= tree(group, f"{path}/{child}")
    return found


def test_the_znodes_are_those_of_the_jvm(
    new_group: Callable[[], Group], new_topic: NewTopic, zkafka_cluster: LocalCluster
) -> None:
    """Our group has the same znodes as a JVM's group, live and after leaving: names, bytes or null, ephemeral or not."""
    group, other_group, topic = new_group(), new_group(), new_topic(partitions=3)
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": p} for p in (0, 1, 1, 2)])
    jvm = other_group.jvm("c", "1.1.1", topics={topic: 2})
    ours = group.query("c", {"subscribe": topic, "consumer.threads": "2"})
    offsets = {TopicPartition(topic, p): end for p, end in enumerate((1, 2, 1))}
    eventually(lambda: group.offsets() == other_group.offsets() == offsets, timeout_s=60)
    alive = tree(group)
    assert alive == tree(other_group)
    assert {path: left.data for path, left in alive.items()} == {
        "": b"",
        "/ids": b"",
        "/ids/GROUP_c": b'{"version":1,"subscription":{"%s":2},"pattern":"static","timestamp":"now"}' % topic.encode(),
        "/owners": None,
        f"/owners/{topic}": None,
        **{f"/owners/{topic}/{p}": b"GROUP_c-%d" % (p // 2) for p in range(3)},
        "/offsets": None,
        f"/offsets/{topic}": None,
        **{f"/offsets/{topic}/{tp.partition}": b"%d" % offset for tp, offset in offsets.items()},
    }
    group.stop(ours)
    other_group.stop(jvm)
    assert tree(group) == tree(other_group) == {path: left for path, left in alive.items() if not left.ephemeral}


@pytest.mark.parametrize("kind", ["static", *seldom("white_list", "black_list")])
def test_registrations_are_those_of_the_jvm(group: Group, kind: str) -> None:
    """Our registration and the JVMs' differ only in the time and in the random part of a generated id."""
    regex = f"(?!{group.name}[.]a|{group.name}[.]b).*" if kind == "black_list" else f"{group.name}[.](a|b).*"
    topics = [f"{group.name}.{name}" for name in "ab"]
    theirs: dict[str, dict[str, Any]] = {
        "static": {"topics": dict.fromkeys(topics, 2)},
        "white_list": {"white_list": regex, "streams": 2},
        "black_list": {"black_list": regex, "streams": 2},
    }
    ours = {
        "static": {"subscribe": ",".join(topics)},
        "white_list": {"subscribePattern": regex},
        "black_list": {"subscribeExceptPattern": regex},
    }
    for version in ("1.1.1", "0.8.2.2"):
        group.jvm(None, version, **theirs[kind])
    group.member(None, {**ours[kind], "consumer.threads": "2"})
    registered = group.under("ids")
    assert len(registered) == 3
    for name, znode in registered.items():
        assert re.fullmatch(rf"{group.name}_{re.escape(socket.gethostname())}-\d{{13}}-[0-9a-f]{{8}}", name)
        assert znode.data is not None
        found = json.loads(znode.data)
        assert re.fullmatch(r"\d{13}", found["timestamp"])
        wanted = {regex: 2} if kind != "static" else dict.fromkeys(found["subscription"], 2)
        expected = {"version": 1, "subscription": wanted, "pattern": kind, "timestamp": found["timestamp"]}
        assert znode.data == json.dumps(expected, separators=(",", ":")).encode()
        assert found["subscription"].keys() == ({regex} if kind != "static" else set(topics))


def asked(cluster: LocalCluster, word: str) -> str:
    """Return ZooKeeper's answer to one of its four-letter words."""
    with socket.create_connection(("127.0.0.1", cluster.port("zookeeper")), 5) as connection:
        connection.sendall(word.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def data_watches(cluster: LocalCluster, session: int) -> set[str]:
    """Return the paths, below the cluster's chroot, whose data a session watches; child watches are not reported."""
    chroot = "/" + cluster.zookeeper_connect.partition("/")[2]
    blocks = re.split(r"^(?=0x)", asked(cluster, "wchc"), flags=re.MULTILINE)
    lines = next((block.split() for block in blocks if block.startswith(f"0x{session:x}\n")), [])
    return {line.removeprefix(chroot) for line in lines[1:]}


def watches(cluster: LocalCluster) -> int:
    """Return the number of watches of all sessions, including child watches."""
    return int(re.findall(r"^zk_watch_count\t(\d+)", asked(cluster, "mntr"), flags=re.MULTILINE)[0])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["static", "white_list"])
def test_watches(group: Group, new_topic: NewTopic, kind: str) -> None:
    """A query watches what a JVM consumer watches, and also the brokers."""
    topic = new_topic(partitions=2)
    query = group.query("m", {"subscribe" if kind == "static" else "subscribePattern": topic})
    group.settle("m")
    (registered,) = group.under("ids").values()
    cluster, path = group.cluster, f"/brokers/topics/{topic}"
    eventually(lambda: data_watches(cluster, registered.session) == {path})
    children = {f"{group.path}/ids", "/brokers/ids", *(["/brokers/topics"] if kind == "white_list" else [])}
    before = watches(cluster)
    group.stop(query)
    eventually(lambda: watches(cluster) == before - len({path, *children}), message=lambda: (before, watches(cluster)))
    jvm = {"topics": {topic: 1}} if kind == "static" else {"white_list": topic}
    group.jvm("j", **jvm)
    (registered,) = group.under("ids").values()
    eventually(lambda: data_watches(cluster, registered.session) == {path} | children - {"/brokers/ids"})


@pytest.mark.long
def test_tools(group: Group, new_topic: NewTopic, tmp_path: Path) -> None:
    """Kafka's tools verify a group of both kinds, describe its owners and offsets, and export our offsets."""
    topic = new_topic(partitions=4)
    group.cluster.produce(topic, [{"value": b"v", "partition": p} for p in range(4) for _ in range(p + 1)])
    group.query("ours", {"subscribe": topic})
    group.jvm("a", topics={topic: 1})
    group.settle("a", "ours")
    offsets = {TopicPartition(topic, p): p + 1 for p in range(4)}
    eventually(lambda: group.offsets() == offsets)
    connect = group.cluster.zookeeper_connect
    assert verify_consumer_rebalance(connect, group.name)
    assert sorted(describe_group(connect, group.name), key=lambda row: row["PARTITION"]) == [
        {
            "TOPIC": topic,
            "PARTITION": str(p),
            "CURRENT-OFFSET": str(p + 1),
            "LOG-END-OFFSET": str(p + 1),
            "LAG": "0",
            "CONSUMER-ID": f"{group.name}_{'a' if p < 2 else 'ours'}",
        }
        for p in range(4)
    ]
    assert export_offsets(connect, group.name, tmp_path / "offsets") == offsets
