"""Output of ``kafka-consumer-groups`` for queries that are members of groups in Kafka."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.testing import LocalCluster, run_kafka_tool
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.memberships import MemberGroup
from tests.support.stream import Stream
from tests.support.tiers import seldom

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLIENT = "settlement-query"
PARTITIONS, RECORDS = range(4), 10

Row = dict[str, str]


def table(output: str) -> list[Row]:
    """Return the rows of the tool's table, by column; columns are separated by blanks."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next(n for n, words in enumerate(lines) if words[0] == "GROUP")
    return [dict(zip(lines[header], words, strict=False)) for words in lines[header + 1 :]]


def numbers(assignment: str) -> set[int]:
    """Return the partitions of an assignment: ``topic(0,1)``, or ``topic:0,1`` since Kafka 4."""
    return {int(number) for number in assignment.rstrip(");").replace("(", ":").rpartition(":")[2].split(",")}


class Tool:
    """The tool of one version of Kafka, asked about one group."""

    def __init__(self, group: MemberGroup, version: str) -> None:
        self._where = ("--bootstrap-server", group.cluster.bootstrap_servers, "--describe", "--group", group.name)
        self._version = version

    def rows(self, *options: str) -> list[Row]:
        """Return the rows that ``--describe`` prints with some options."""
        return table(run_kafka_tool(self._version, TOOL, *self._where, *options))


@pytest.mark.parametrize(
    ("fixture", "kind", "version"),
    [
        ("kafka4", "consumer", "4.3.1"),
        *seldom(
            ("zkafka_cluster", "cooperative-sticky", "3.9.1"),
            ("zkafka_cluster", "cooperative-sticky", "4.3.1"),
            ("kafka4", "cooperative-sticky", "4.3.1"),
            ("kafka4", "consumer", "3.9.1"),
        ),
    ],
)
@pytest.mark.long
def test_description(
    stream: Callable[..., Stream], request: pytest.FixtureRequest, fixture: str, kind: str, version: str
) -> None:
    """The tool shows a query like any member, with client id, host, assignment, offsets and lag, and the group's state."""
    cluster: LocalCluster = request.getfixturevalue(fixture)
    topic = f"shown-{secrets.token_hex(4)}"
    cluster.create_topic(topic, partitions=len(PARTITIONS))
    fill(cluster, topic, RECORDS, PARTITIONS)
    group, tool = (made := MemberGroup(cluster, kind, topic)), Tool(made, version)
    query = stream({**group.options(), "kafka.client.id": CLIENT}, connection={})
    query.start(processingTime="100 milliseconds")
    query.wait_for(RECORDS * len(PARTITIONS))

    with GroupAdmin(cluster.bootstrap_servers, {}) as admin:
        eventually(lambda: admin.committed(group.name) == group.places(dict.fromkeys(PARTITIONS, RECORDS)), 60)
    committed = tool.rows()
    assert {(row["CLIENT-ID"], row["HOST"]) for row in committed} == {(CLIENT, "/127.0.0.1")}
    assert {(row["CURRENT-OFFSET"], row["LAG"]) for row in committed} == {(str(RECORDS), "0")}
    assert sorted(int(row["PARTITION"]) for row in committed) == list(PARTITIONS)

    (member,) = tool.rows("--members", "--verbose")
    assert (member["CLIENT-ID"], member["HOST"], member["#PARTITIONS"]) == (CLIENT, "/127.0.0.1", "4")
    assigned = member.get("ASSIGNMENT") or member["CURRENT-ASSIGNMENT"]
    assert numbers(assigned) == set(PARTITIONS)
    assert member["CONSUMER-ID"] in {row["CONSUMER-ID"] for row in committed}

    (state,) = tool.rows("--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
    assert state["ASSIGNMENT-STRATEGY"] == ("uniform" if kind == "consumer" else kind)
    query.stop()
