"""Idle queries and members of groups while all brokers of their cluster are replaced by others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.consumer_group import ConsumerGroup
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.tools import app
from tests.support.eventually import eventually

pytestmark = pytest.mark.long

KINDS = {
    "members-in-zookeeper": {"offsets.storage": "kafka", "dual.commit.enabled": "false"},
    "two-stores": {"offsets.storage": "kafka"},
    "members-in-kafka": {"groupMembership": "kafka"},
    "without-members": {"offsets.storage": "kafka", "groupMembership": "none"},
}
PROMPT_S = 5.0


class Query:
    """A query of the group ``of-<topic>``, as Spark plans it. `slowest_s` is its slowest planning call."""

    def __init__(self, cluster: LocalCluster, topic: str, options: dict[str, str]) -> None:
        cluster.create_topic(topic)
        self._cluster, self._topic = cluster, topic
        given = {"subscribe": topic, "group.id": f"of-{topic}", "startingOffsets": "earliest", **options}
        self.driver = StreamDriver(parse_stream(given))
        self._at = self.driver.initial()
        self.slowest_s = 0.0

    def plan(self) -> bool:
        """Plan a micro-batch, and finish it; False if there is nothing to read."""
        began = time.monotonic()
        end = self.driver.latest(self._at, limited=False)
        is_new = end != self._at
        if is_new:
            self.driver.splits(end)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self._at = end
        return is_new

    def read_more(self) -> None:
        """Produce ten records, and read and commit them."""
        self._cluster.produce(self._topic, [{"value": b"v"}] * 10)
        eventually(self.plan, timeout_s=30)
        self.plan()


@pytest.fixture(scope="module")
def zkafka_cluster() -> Iterator[LocalCluster]:
    """Two brokers. The second broker is stopped. No topic has a second replica."""
    with LocalCluster(brokers=2, broker_config={"offsets.topic.replication.factor": "1"}) as cluster:
        cluster.stop(1)
        yield cluster


@pytest.fixture
def new_query(zkafka_cluster: LocalCluster) -> Iterator[Callable[..., Query]]:
    """Function that starts a query while only the first broker runs: ``new_query(topic, options)``."""
    with ExitStack() as opened:

        def start(topic: str, options: dict[str, str]) -> Query:
            query = Query(zkafka_cluster, topic, options)
            opened.callback(query.driver.close)
            return query

        yield start


def replace_broker(cluster: LocalCluster, topics: list[str], folder: Path, meanwhile: Callable[[], object]) -> None:
    """Start the second broker, move all partitions to it, and stop the first one."""
    cluster.restart(1)
    moves = [{"topic": t, "partition": p, "replicas": [1]} for t in topics for p in cluster.assignment(t)]
    file = folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    where = ("--zookeeper", cluster.zookeeper_connect, "--yes", "--timeout", "120")
    moved = CliRunner().invoke(app, ["admin", "reassign", "--reassignment-json-file", str(file), *where])
    assert moved.exit_code == 0, moved.output
    meanwhile()
    cluster.stop(0)


def test_all_brokers_are_replaced(
    zkafka_cluster: LocalCluster, new_query: Callable[..., Query], zookeeper: dict[str, str], tmp_path: Path
) -> None:
    """Idle queries and a member of a batch job continue to read and to commit at once, in every kind of group.

    The cluster is found by ZooKeeper, or by bootstrap servers that are gone. One query plans nothing meanwhile.
    """
    first = {"kafka.bootstrap.servers": f"127.0.0.1:{zkafka_cluster.port(0)}"}
    queries = {kind: new_query(kind, {**zookeeper, **options}) for kind, options in KINDS.items()}
    queries["both-given"] = new_query("both-given", {**zookeeper, **first, "offsets.storage": "kafka"})
    for kind in ("members-in-kafka", "without-members"):
        queries[f"{kind}-by-brokers"] = new_query(f"{kind}-by-brokers", {**first, **KINDS[kind]})
    busy = new_query("busy", {**zookeeper, **KINDS["members-in-zookeeper"]})
    everything = {**queries, "busy": busy}
    zkafka_cluster.create_topic("job")
    job = {"offsets.storage": "kafka", "auto.offset.reset": "earliest"}
    no_spark: Any = None
    with ConsumerGroup(zookeeper["zookeeper.connect"], "of-job", subscribe=["job"], options=job) as member:
        batch = member.plan(no_spark)
        for query in everything.values():
            query.read_more()

        def idle() -> None:
            until = time.monotonic() + 4
            while time.monotonic() < until:
                for query in queries.values():
                    query.plan()
                time.sleep(0.2)

        replace_broker(zkafka_cluster, [*everything, "job", "__consumer_offsets"], tmp_path, idle)
        batch.commit()
        for query in everything.values():
            query.slowest_s = 0.0
            query.read_more()
        zkafka_cluster.produce("job", [{"value": b"v"}] * 20)
        member.plan(no_spark).commit()
    with GroupAdmin(zkafka_cluster.bootstrap_servers, {}) as admin:
        offsets = admin.committed_many(f"of-{name}" for name in (*everything, "job"))
    assert {group: list(found.values()) for group, found in offsets.items()} == {name: [20] for name in offsets}
    assert {name: query.slowest_s for name, query in everything.items() if query.slowest_s > PROMPT_S} == {}
