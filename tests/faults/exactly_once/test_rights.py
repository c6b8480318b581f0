"""Exactly-once writes on brokers with ACLs: the required rights, and the errors that name a missing one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.testing import LocalCluster
from tests.support.acls import LOGIN, Right, grant, withdraw
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import SlotQuery, TaskProcess, once, rows
from tests.support.tiers import seldom

MISSED = {
    "transactional id": r"ACLs must allow Write and Describe on the transactional id {prefix}-\S+-0",
    "topic": r"ACLs? must allow (Read, Write or Describe|Write) on the topic",
    "group": r"an ACL must allow Read on the group",
    "ledger's topic": r"an ACL must allow Read, Write or Describe on the topic|Read on the ledger's topic",
}
TEN = range(10)


CONFIGS_OF_CLUSTER = Right(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)


@pytest.fixture(scope="session")
def zkafka_cluster(guarded_cluster: LocalCluster) -> LocalCluster:
    """The cluster whose listener LOGIN allows the user only what tests grant."""
    return guarded_cluster


class Rights:
    """Rights of the test's user on names that only this test uses, withdrawn at its end."""

    def __init__(self, admin: AdminClient, topic: str, ledger: str) -> None:
        self._admin = admin
        self.prefix = f"of-{topic}"
        named, beginning = f"{self.prefix}-", ResourcePatternType.PREFIXED
        self.documented = {
            "transactional id": Right(ResourceType.TRANSACTIONAL_ID, named, AclOperation.WRITE, beginning),
            "topic": Right(ResourceType.TOPIC, topic, AclOperation.WRITE),
            "group": Right(ResourceType.GROUP, named, AclOperation.READ, beginning),
            "ledger's topic": Right(ResourceType.TOPIC, ledger, AclOperation.READ),
        }
        self._granted: set[Right] = set()

    def grant(self, *rights: Right) -> None:
        """Allow operations."""
        self._granted.update(rights)
        grant(self._admin, rights)

    def grant_all_but(self, missing: str | None = None) -> None:
        """Grant the documented rights, except for `missing`."""
        self.grant(*(right for name, right in self.documented.items() if name != missing))

    def withdraw(self, *rights: Right) -> None:
        """Withdraw the given rights; without arguments, all granted ones."""
        given = rights or tuple(self._granted)
        self._granted.difference_update(given)
        withdraw(self._admin, given)


@pytest.fixture
def rights(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> Iterator[Rights]:
    """The user's rights, initially none, on a topic and on a second topic for its ledger."""
    topic = new_topic()
    ledger = new_topic()
    with AdminClient({"bootstrap.servers": zkafka_cluster.bootstrap_servers}) as admin:
        found = Rights(admin, topic, ledger)
        yield found
        found.withdraw()


@pytest.fixture
def options(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster, rights: Rights) -> dict[str, str]:
    """Options of the user's write, through ZooKeeper unless the test is parametrized otherwise."""
    if getattr(request, "param", "zookeeper") == "zookeeper":
        connection = {"zookeeper.connect": zkafka_cluster.zookeeper_connect}
    else:
        connection = {"kafka.bootstrap.servers": zkafka_cluster.listener_servers("LOGIN")}
    topics = {"topic": rights.documented["topic"].name, "ledgerTopic": rights.documented["ledger's topic"].name}
    return {**connection, **LOGIN, **topics, "transactionalIdPrefix": rights.prefix}


either_connection = pytest.mark.parametrize("options", ["zookeeper", "bootstrap"], indirect=True)


def visible(cluster: LocalCluster, options: dict[str, str]) -> dict[int, int]:
    """Return how often a reader of committed records sees each number."""
    return numbers(cluster.bootstrap_servers, options["topic"])


def in_another_process(options: dict[str, str], query: str = "query") -> dict[str, Any]:
    """Run a task in a process that knows neither the ledger nor the brokers' settings, and return its answer."""
    with closing(TaskProcess(options, query)) as process:
        return process.write(0, TEN, run="run-2")


@either_connection
def test_documented_rights(zkafka_cluster: LocalCluster, options: dict[str, str], rights: Rights) -> None:
    """The documented rights suffice to write a micro-batch, repeat it, and write the next one."""
    rights.grant_all_but()
    query = SlotQuery(options)
    assert query.write(0, rows(TEN)).rows == 10
    assert query.write(0, rows(TEN), run="run-2").repeated == 10
    assert query.write(1, rows(range(10, 20)), slot=1, run="run-2").repeated == 0
    assert visible(zkafka_cluster, options) == once(range(20))


def test_one_topic(zkafka_cluster: LocalCluster, options: dict[str, str], rights: Rights) -> None:
    """A ledger on the written topic itself needs Read on that topic."""
    topic = options.pop("ledgerTopic") and options["topic"]
    rights.grant_all_but("ledger's topic")
    with pytest.raises(ZKafkaError, match=MISSED["ledger's topic"]):
        SlotQuery(options).write(0, rows(TEN))
    rights.grant(Right(ResourceType.TOPIC, topic, AclOperation.READ))
    SlotQuery(options).write(0, rows(TEN))
    assert visible(zkafka_cluster, options) == once(TEN)


@pytest.mark.parametrize("missing", MISSED)
def test_missing_right(zkafka_cluster: LocalCluster, options: dict[str, str], rights: Rights, missing: str) -> None:
    """If a documented right is missing, nothing is written, and the error names the right and its resource."""
    rights.grant_all_but(missing)
    query = SlotQuery(options)
    with pytest.raises(ZKafkaError, match=MISSED[missing].format(prefix=rights.prefix)) as refused:
        query.write(0, rows(TEN))
    assert rights.documented[missing].name in refused.value.message
    assert not refused.value.retriable
    assert not visible(zkafka_cluster, options)
    rights.grant(rights.documented[missing])
    query.write(0, rows(TEN), run="run-2")
    assert visible(zkafka_cluster, options) == once(TEN)


@pytest.mark.parametrize("withdrawn", ["transactional id", *seldom("topic", "group", "ledger's topic")])
def test_withdrawn_right(zkafka_cluster: LocalCluster, options: dict[str, str], rights: Rights, withdrawn: str) -> None:
    """A withdrawn right hides no ledger entry: a repeated micro-batch fails, or finds its rows written."""
    rights.grant_all_but()
    query = SlotQuery(options)
    query.write(0, rows(TEN))
    rights.withdraw(rights.documented[withdrawn])
    answer = in_another_process(options, query.query)
    assert "error" in answer or answer == {"rows": 0, "repeated": 10}
    assert visible(zkafka_cluster, options) == once(TEN)


def test_timeout_where_settings_are_hidden(options: dict[str, str], rights: Rights) -> None:
    """Without DescribeConfigs, the first task reports a timeout that is too long; with it, the plan does."""
    rights.grant_all_but()
    too_long = {**options, "kafka.transaction.timeout.ms": "900001"}
    error = in_another_process(too_long)["error"]
    assert "[TRANSACTION_FAILED]" in error
    assert "set kafka.transaction.timeout.ms (now 900001) to at most the brokers' transaction.max.timeout.ms" in error
    rights.grant(CONFIGS_OF_CLUSTER)
    assert "[TRANSACTION_TIMEOUT]" in in_another_process(too_long)["error"]
