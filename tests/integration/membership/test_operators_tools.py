"""``zkafka groups`` and the exporter, on a group that moves from ZooKeeper to Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.group.membership import Membership
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.collector import BrokerReader, ClusterCollector, EnsembleReader
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.members import settled
from tests.support.memberships import MemberGroup

PARTITIONS, RECORDS, COMMITTED = range(4), 5, 3
LISTS_BOTH = "(1 and 1). Neither kind sees the other, and both read all partitions"


class HalfMigrated:
    """A group with offsets in both stores and members of both kinds."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster = cluster
        self.in_zookeeper = MemberGroup(cluster, "zookeeper", topic)
        self.name = self.in_zookeeper.name
        self.in_kafka = MemberGroup(cluster, "cooperative-sticky", topic, self.name)
        fill(cluster, topic, RECORDS, PARTITIONS)

    def join(self, group: MemberGroup) -> Membership:
        """Return a member of one kind, which owns all partitions."""
        member = group.member()
        eventually(lambda: settled([member], len(PARTITIONS)), timeout_s=30)
        return member

    def commit(self) -> None:
        """Commit to both stores, as a member in ZooKeeper with dual commits does."""
        member, offsets = self.join(self.in_zookeeper), self.in_zookeeper.places(dict.fromkeys(PARTITIONS, COMMITTED))
        with KafkaGroupOffsets(self.cluster.bootstrap_servers, {}, self.name) as in_kafka:
            in_kafka.commit(offsets)
        assert not self.in_zookeeper.offsets(member).commit(offsets, member.owner).lost

    def run(self, command: str, *arguments: str, status: int = 0) -> Result:
        """Run ``zkafka groups`` on the group, and check the exit status."""
        where = ["--zookeeper", self.cluster.zookeeper_connect, "--json"]
        found = CliRunner().invoke(zkafka, ["groups", command, self.name, *arguments, *where])
        assert found.exit_code == status, found.output
        return found

    def scrape(self) -> Callable[..., float | None]:
        """Return a lookup of one scrape's values: ``value("kafka_consumergroup_members")`` for this group."""
        connection = parse_connection({"zookeeper.connect": self.cluster.zookeeper_connect})
        assert connection.zookeeper is not None
        ensemble, brokers = EnsembleReader(connection.zookeeper), BrokerReader(connection, "both", 30)
        collector = ClusterCollector(ensemble.read, brokers.read, 30, "both")
        registry = CollectorRegistry()
        with closing(ensemble), closing(brokers), closing(collector):
            registry.register(collector)
            found = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in registry.collect() for s in f.samples}

        def value(name: str, **labels: str) -> float | None:
            return found.get((name, tuple(sorted({"consumergroup": self.name, **labels}.items()))))

        return value

    def close(self) -> None:
        """End all members."""
        self.in_zookeeper.close()
        self.in_kafka.close()


@pytest.fixture
def group(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[HalfMigrated]:
    """A group with a member in ZooKeeper, and offsets in both stores."""
    made = HalfMigrated(zkafka_cluster, new_topic(partitions=len(PARTITIONS)))
    made.commit()
    yield made
    made.close()


def rows(result: Result) -> list[dict[str, Any]]:
    """Return the rows that a command printed."""
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_dual_commits(group: HalfMigrated) -> None:
    """While all members are in ZooKeeper, the commands show both stores, no problem, and no note about Kafka."""
    described = group.run("describe", "--offsets-storage", "both")
    assert [(row["zookeeper_offset"], row["kafka_offset"], row["lag"]) for row in rows(described)] == [(3, 3, 2)] * 4
    (member,) = rows(found := group.run("members"))
    assert member["partitions"] == 4
    verified, compared = group.run("verify"), group.run("migrate", "--verify")
    assert [result.stderr for result in (described, found, verified)] == ["", "", ""]
    assert {row["state"] for row in rows(compared)} == {"equal"}
    assert f"Active, and the stores may differ by commits under way: {group.name}." in compared.stderr
    value = group.scrape()
    assert value("kafka_consumergroup_members") == 1
    assert value("zkafka_consumergroup_kafka_members") == 0


def test_members_of_both_kinds(group: HalfMigrated) -> None:
    """With members in both ZooKeeper and Kafka, each command warns that both read everything, and verify fails."""
    group.join(group.in_kafka)
    for command, arguments in (("describe", ()), ("members", ()), ("migrate", ("--verify",))):
        assert LISTS_BOTH in group.run(command, *arguments).stderr
    (problem,) = rows(group.run("verify", status=1))
    assert problem["problem"] == "members of both kinds"
    assert problem["found"].startswith("1 in ZooKeeper and 1 in Kafka")
    value = group.scrape()
    assert value("kafka_consumergroup_members") == 1
    assert value("zkafka_consumergroup_kafka_members") == 1


def test_members_in_kafka_alone(group: HalfMigrated) -> None:
    """When all members are in Kafka, each command says that ZooKeeper does not show them, and which command does."""
    group.in_zookeeper.close()
    member = group.join(group.in_kafka)
    hidden = f"Members in Kafka, which ZooKeeper does not show: {group.name} (1); see `zkafka groups members"
    for command in ("describe", "members", "verify"):
        assert hidden in group.run(command).stderr
    ends = group.in_kafka.places(dict.fromkeys(PARTITIONS, RECORDS))
    assert not group.in_kafka.offsets(member).commit(ends, member.owner).lost
    compared = group.run("migrate", "--to", "kafka", "--verify", status=1)
    assert hidden in compared.stderr
    assert {row["state"] for row in rows(compared)} == {"ahead"}
    assert {row["lag"] for row in rows(group.run("describe", "--offsets-storage", "both"))} == {0}
    value = group.scrape()
    assert value("kafka_consumergroup_members") == 0
    assert value("zkafka_consumergroup_kafka_members") == 1


@pytest.mark.long
def test_brokers_that_do_not_answer(group: HalfMigrated) -> None:
    """If no broker answers, members in ZooKeeper are listed, and members in Kafka are reported as unknown."""
    found = group.run("members", "--bootstrap-server", "127.0.0.1:1")
    assert len(rows(found)) == 1
    assert found.stderr.startswith("Members in Kafka are unknown: ")
    assert found.stderr.count("\n") == 1
