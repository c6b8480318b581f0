"""Output of ``kafka-consumer-groups`` for queries that are members of groups in Kafka."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.testing import LocalCluster
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.groups_tool import GroupsTool, numbers
from tests.support.memberships import MemberGroup
from tests.support.stream import Stream
from tests.support.tiers import seldom

CLIENT = "settlement-query"
PARTITIONS, RECORDS = range(4), 10


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
    group = MemberGroup(cluster, kind, topic)
    tool = GroupsTool(cluster.bootstrap_servers, group.name, version)
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
    assert member["CLIENT-ID"] == CLIENT
    assert member["HOST"] == "/127.0.0.1"
    assert member["#PARTITIONS"] == "4"
    assigned = member.get("ASSIGNMENT") or member["CURRENT-ASSIGNMENT"]
    assert numbers(assigned) == set(PARTITIONS)
    assert member["CONSUMER-ID"] in {row["CONSUMER-ID"] for row in committed}

    (state,) = tool.rows("--state")
    assert state["STATE"] == "Stable"
    assert state["#MEMBERS"] == "1"
    assert state["ASSIGNMENT-STRATEGY"] == ("uniform" if kind == "consumer" else kind)
    query.stop()
