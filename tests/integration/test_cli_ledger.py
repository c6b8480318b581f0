"""``zkafka ledger`` on brokers, old and new: entries recorded by transactions, and their deletion."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import Entry, QueryName, encode, key_of
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jvm_clients import run_kafka_tool
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.ledger import delete_ledger, read_ledgers
from tests.support.eventually import eventually

WIDTH = 2
DIGEST = "0123456789abcdef0123456789abcdef"
LATER = '{"v":2,"slot":1}'
HOUR_MS = 3_600_000


def now_ms() -> int:
    """Return the time in the form that entries have."""
    return time.time_ns() // 1_000_000


def an_hour_old(slot: int, batch: int = 7, rows: int = 10) -> Entry:
    """Return the entry of a query that ended an hour ago."""
    return Entry(slot, batch, rows, DIGEST, "run-1", at_ms=now_ms() - HOUR_MS)


@dataclass(frozen=True)
class Query:
    """A query with its own ledger, in a topic of two partitions."""

    cluster: LocalCluster
    name: QueryName
    topic: str

    def record(self, *entries: Entry) -> None:
        """Record entries, each in a transaction of its slot."""
        for entry in entries:
            self.commit(entry.slot, encode(entry))

    def commit(self, slot: int, metadata: str) -> None:
        """Commit metadata under a slot's key, and wait until it is readable, which takes longer than the response."""
        self.begin(slot, metadata).commit_transaction(30)
        key = key_of(self.name, slot, WIDTH)
        place = TopicPartition(self.topic, key.partition)
        with closing(Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": key.group})) as consumer:
            assert eventually(lambda: consumer.committed([place], timeout=30)[0].metadata == metadata)

    def begin(self, slot: int, metadata: str) -> Producer:
        """Return the producer of a slot with an open transaction that has this metadata."""
        servers = {"bootstrap.servers": self.cluster.bootstrap_servers}
        key = key_of(self.name, slot, WIDTH)
        producer = Producer({**servers, "transactional.id": self.name.transactional_id(slot)})
        producer.init_transactions(30)
        producer.begin_transaction()
        with closing(Consumer({**servers, "group.id": key.group})) as consumer:
            member = consumer.consumer_group_metadata()
            place = TopicPartition(self.topic, key.partition, slot, metadata)
            producer.send_offsets_to_transaction([place], member, 30)
        return producer

    def run(self, *arguments: str, status: int = 0) -> Result:
        """Run a command on the brokers, and check the exit status."""
        result = CliRunner().invoke(zkafka, [*arguments, "--bootstrap-server", self.cluster.bootstrap_servers])
        assert result.exit_code == status, result.output
        return result

    def shown(self, status: int = 0) -> list[dict[str, Any]]:
        """Return the rows of ``zkafka ledger show``."""
        return rows_of(self.run("ledger", "show", str(self.name), "--json", status=status))

    def listed(self) -> list[dict[str, Any]]:
        """Return this query's rows of ``zkafka ledger list``."""
        return [row for row in rows_of(self.run("ledger", "list", "--json")) if row["query"] == str(self.name)]


def rows_of(result: Result) -> list[dict[str, Any]]:
    """Return the rows of an output in JSON."""
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


OLD = pytest.param("old_cluster", marks=pytest.mark.long)


@pytest.fixture(params=["zkafka_cluster", OLD])
def query(request: pytest.FixtureRequest) -> Query:
    """A query on the shared brokers, and one on Kafka 1.1.1."""
    return new_query(request.getfixturevalue(request.param))


@pytest.fixture
def new_kafka(zkafka_cluster: LocalCluster) -> Query:
    """A query on the shared brokers."""
    return new_query(zkafka_cluster)


def new_query(cluster: LocalCluster) -> Query:
    number = secrets.token_hex(4)
    cluster.create_topic(f"ledger-{number}", partitions=2)
    return Query(cluster, QueryName("zkafka", f"q{number}"), f"ledger-{number}")


def test_list_and_show(query: Query) -> None:
    """A query is shown with the slots of all its groups and the rows of its last micro-batch, even with --zookeeper."""
    query.record(an_hour_old(0, batch=6), an_hour_old(1), an_hour_old(2, rows=5))
    (listed,) = query.listed()
    assert {**listed, "age_s": 0, "written": ""} == {
        "query": str(query.name),
        "topics": [query.topic],
        "slots": 3,
        "batch": 7,
        "rows": 15,
        "age_s": 0,
        "run": "run-1",
        "written": "",
    }
    assert 3600 <= listed["age_s"] < 3700
    shown = query.shown()
    assert [(row["slot"], row["group"], row["partition"], row["batch"], row["digest"]) for row in shown] == [
        (0, f"{query.name}.slots-2-0", 0, 6, DIGEST),
        (1, f"{query.name}.slots-2-0", 1, 7, DIGEST),
        (2, f"{query.name}.slots-2-1", 0, 7, DIGEST),
    ]
    arguments = ["ledger", "show", str(query.name), "--zookeeper", query.cluster.zookeeper_connect, "--json"]
    assert [row["slot"] for row in rows_of(CliRunner().invoke(zkafka, arguments))] == [0, 1, 2]


def test_unreadable_entry(query: Query) -> None:
    """An entry of a later version is shown unparsed with exit status 1, and only --force deletes its ledger."""
    query.record(an_hour_old(0))
    query.commit(1, LATER)
    found = query.shown(status=1)
    assert [(row["slot"], row["metadata"]) for row in found] == [(0, None), (None, LATER)]
    result = query.run("ledger", "show", str(query.name), status=1)
    assert f"Unreadable, group {query.name}.slots-2-0, {query.topic}-1: '{LATER}'" in result.stderr
    assert f"Unreadable entries of {query.name}: 1" in query.run("ledger", "list").stderr
    assert "it has unreadable entries" in query.run("ledger", "delete", str(query.name), "--yes", status=1).stderr
    query.run("ledger", "delete", str(query.name), "--yes", "--force")
    assert query.listed() == []


@pytest.mark.long
def test_delete(query: Query) -> None:
    """`delete` removes exactly the groups of the query, and a dry run none."""
    other = new_query(query.cluster)
    query.record(*map(an_hour_old, range(3)))
    other.record(an_hour_old(0))
    dry = query.run("ledger", "delete", str(query.name), "--dry-run")
    assert "Dry run: nothing was changed." in dry.stderr
    groups = [f"{query.name}.slots-2-{number}" for number in range(2)]
    assert sorted(map(str, query.name.groups(kafka_groups(query.cluster)))) == groups
    done = query.run("ledger", "delete", str(query.name), "--yes")
    assert "A micro-batch that one of these queries replays afterwards is written again." in done.stderr
    assert f"Deleted the ledger of {query.name}." in done.stderr
    known = kafka_groups(query.cluster)
    assert query.name.groups(known) == []
    assert list(map(str, other.name.groups(known))) == [f"{other.name}.slots-2-0"]
    assert "[UNKNOWN_LEDGER]" in query.run("ledger", "show", str(query.name), status=1).stderr


def kafka_groups(cluster: LocalCluster) -> list[str]:
    """Return the groups that kafka-consumer-groups lists."""
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return run_kafka_tool("3.9.1", command, "--list", "--bootstrap-server", cluster.bootstrap_servers).split()


def test_ledger_in_use(new_kafka: Query) -> None:
    """Without --force a ledger written in the last minute is not deleted, and neither are the others named."""
    new_kafka.record(Entry(0, 7, 10, DIGEST, "run-1", at_ms=now_ms()))
    idle = new_query(new_kafka.cluster)
    idle.record(an_hour_old(0))
    names = [str(idle.name), str(new_kafka.name)]
    refused = new_kafka.run("ledger", "delete", *names, "--yes", status=1)
    assert f"[LEDGER_IN_USE] No ledger was deleted, as these queries may be running: {new_kafka.name} (" in refused.stderr
    assert len(idle.listed()) == 1
    assert len(new_kafka.listed()) == 1
    new_kafka.run("ledger", "delete", *names, "--yes", "--force")
    assert idle.listed() == []
    assert new_kafka.listed() == []


def test_ledger_that_has_changed(new_kafka: Query) -> None:
    """A ledger that is written to between confirmation prompt and deletion is kept."""
    new_kafka.record(an_hour_old(0))
    with GroupAdmin(new_kafka.cluster.bootstrap_servers, {}) as brokers:
        for slot in (0, WIDTH):  # the second one in a new group
            ledger = read_ledgers(brokers, [str(new_kafka.name)])[str(new_kafka.name)]
            new_kafka.record(an_hour_old(slot, batch=8))
            with pytest.raises(LedgerError, match="has changed since it was shown"):
                delete_ledger(brokers, ledger)
    assert [(row["slot"], row["batch"]) for row in new_kafka.shown()] == [(0, 8), (WIDTH, 8)]


def test_consumers_in_a_group(new_kafka: Query) -> None:
    """A ledger's group with consumers is not deleted, even with --force."""
    new_kafka.record(an_hour_old(0))
    servers = {"bootstrap.servers": new_kafka.cluster.bootstrap_servers}
    with closing(Consumer({**servers, "group.id": f"{new_kafka.name}.slots-2-0"})) as consumer:
        consumer.subscribe([new_kafka.topic])
        assert eventually(lambda: consumer.poll(0.2) or consumer.assignment())
        refused = new_kafka.run("ledger", "delete", str(new_kafka.name), "--yes", "--force", status=1)
    assert "[GROUP_ACTIVE] Deleting group" in refused.stderr


def test_delete_old_ledgers(new_kafka: Query) -> None:
    """Ledgers are deleted by the age of their newest entry; those of unknown age are left out and named."""
    young, unknown = new_query(new_kafka.cluster), new_query(new_kafka.cluster)
    of_1970 = [Entry(slot, 7, 10, DIGEST, "run-1", at_ms=1) for slot in range(2)]
    new_kafka.record(*of_1970)
    young.record(of_1970[0], an_hour_old(1))
    unknown.commit(0, LATER)
    result = new_kafka.run("ledger", "delete", "--older-than", "10000d", "--yes")  # older than ledgers of others
    assert "Left out, because the age of some entries is unknown:" in result.stderr
    assert new_kafka.listed() == []
    assert len(young.listed()) == 1
    assert len(unknown.listed()) == 1
    unknown.run("ledger", "delete", str(unknown.name), "--yes", "--force")


def test_open_transaction(new_kafka: Query) -> None:
    """During an open transaction, the last committed entry is shown without waiting."""
    new_kafka.record(an_hour_old(0))
    producer = new_kafka.begin(0, encode(an_hour_old(0, batch=8)))
    assert [row["batch"] for row in new_kafka.shown()] == [7]
    producer.commit_transaction(30)
    assert eventually(lambda: [row["batch"] for row in new_kafka.shown()] == [8])


def test_among_groups(new_kafka: Query) -> None:
    """Groups with ledgers are marked in lists of groups; a migration of all groups leaves them out, and says so."""
    new_kafka.record(an_hour_old(0))
    group, zookeeper = f"{new_kafka.name}.slots-2-0", ["--zookeeper", new_kafka.cluster.zookeeper_connect]
    listed = rows_of(new_kafka.run("groups", "list", "--offsets-storage", "both", "--json", *zookeeper))
    assert [(row["store"], row["topics"]) for row in listed if row["group"] == group] == [("ledger", [new_kafka.topic])]
    migrate = ["groups", "migrate", "--all-groups", "--to", "zookeeper", "--dry-run", "--json"]
    planned = new_kafka.run(*migrate, *zookeeper)
    assert group not in names_of(rows_of(planned))
    assert "group(s) with the ledgers of exactly-once writes." in planned.stderr


def names_of(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Return the groups of rows."""
    return {row["group"] for row in rows}
