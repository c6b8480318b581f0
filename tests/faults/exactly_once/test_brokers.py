"""Exactly-once tasks whose brokers die: each of the three that a transaction depends on, and all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.fill import fill
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import IN_TRANSACTION, SlotQuery, once, rows

if TYPE_CHECKING:
    from pyspark_zkafka.read.stream_driver import StreamDriver
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long

WHOLE = range(15_000)
STATE_TOPICS = "__transaction_state", "__consumer_offsets"
WHEN = {"before its first request": 0, "in its transaction": IN_TRANSACTION, "before its commit": len(WHOLE) // 1000}
SAFE = {"min.insync.replicas": "2"}


class Brokers(NamedTuple):
    """Three different brokers, by their role for a task."""

    transactions: int
    groups: int
    leader: int


@pytest.fixture(autouse=True)
def _settled(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], all_brokers: None) -> None:
    """Create both coordinators' topics, and spread the leadership of their partitions over the brokers."""
    SlotQuery({"zookeeper.connect": zkafka_cluster.zookeeper_connect, "topic": new_topic()}).write(0, rows(range(10)))
    for topic in STATE_TOPICS:
        zkafka_cluster.elect_preferred_leaders(topic)


def java_hash(text: str) -> int:
    """Return ``String.hashCode`` of an ASCII text as an absolute value, which selects its coordinator."""
    found = 0
    for character in text.encode("ascii"):
        found = (31 * found + character) & 0xFFFFFFFF
    return abs(found - (1 << 32) if found >> 31 else found)


def coordinator(cluster: LocalCluster, topic: str, name: str) -> int:
    """Return the broker that coordinates a group or a transactional id."""
    return cluster.wait_for_leader(topic, java_hash(name) % len(cluster.assignment(topic)))


def scattered(cluster: LocalCluster, topic: str) -> tuple[str, Brokers]:
    """Return a query whose two coordinators differ, after creating its topic with the third broker as leader."""
    for number in count():
        query = f"{topic}-{number}"
        transactions = coordinator(cluster, STATE_TOPICS[0], f"zkafka-{query}-0")
        groups = coordinator(cluster, STATE_TOPICS[1], f"zkafka-{query}.slots-1-0")
        if transactions != groups:
            (leader,) = {*cluster.broker_ids} - {transactions, groups}
            cluster.create_topic(topic, assignment={0: [leader, transactions, groups]}, config=SAFE)
            return query, Brokers(transactions, groups, leader)
    raise AssertionError


def breaking(batches: Iterable[pa.RecordBatch], after: int, call: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and call a function after some of them."""
    for number, batch in enumerate(batches):
        if number == after:
            call()
        yield batch
    if after == len(WHOLE) // 1000:
        call()


@pytest.mark.parametrize("after", WHEN.values(), ids=WHEN)
@pytest.mark.parametrize("role", Brokers._fields)
def test_one_killed(zkafka_cluster: LocalCluster, zookeeper: dict[str, str], role: str, after: int) -> None:
    """A task continues by itself when a coordinator or its topic's leader is killed; each row is written once."""
    topic = f"{role}-{after}"
    name, brokers = scattered(zkafka_cluster, topic)
    query, victim = SlotQuery({**zookeeper, "topic": topic}, name), getattr(brokers, role)
    done = query.write(0, breaking(rows(WHOLE), after, lambda: zkafka_cluster.kill(victim)))
    assert sum(done.rows.values()) == len(WHOLE)
    assert query.write(0, rows(WHOLE), run="run-2").repeated == len(WHOLE)
    query.write(1, rows(range(15_000, 15_100)))
    zkafka_cluster.restart(victim)
    assert numbers(zkafka_cluster.bootstrap_servers, topic) == once(range(15_100))


@pytest.mark.parametrize("after", WHEN.values(), ids=WHEN)
def test_all_down(
    zkafka_cluster: LocalCluster, zookeeper: dict[str, str], new_topic: Callable[..., str], after: int
) -> None:
    """A task continues by itself when all brokers are down for 20 seconds."""
    topic = new_topic(replication=3, config=SAFE)
    query = SlotQuery({**zookeeper, "topic": topic})

    def restart() -> None:
        time.sleep(20)
        for broker in zkafka_cluster.broker_ids:
            zkafka_cluster.restart(broker)

    restarting = threading.Thread(target=restart)

    def break_all() -> None:
        for broker in zkafka_cluster.broker_ids:
            zkafka_cluster.kill(broker)
        restarting.start()

    try:
        done = query.write(0, breaking(rows(WHOLE), after, break_all))
    finally:
        restarting.join(120)
    assert sum(done.rows.values()) == len(WHOLE)
    assert query.write(0, rows(WHOLE), run="run-2").repeated == len(WHOLE)
    assert numbers(zkafka_cluster.bootstrap_servers, topic) == once(WHOLE)


def test_tasks_of_a_repeated_batch(
    zkafka_cluster: LocalCluster, new_topic: Callable[..., str], planner: Callable[..., StreamDriver]
) -> None:
    """A micro-batch repeated after leaders moved assigns the same offset ranges to the same tasks."""
    options = {"subscribe": new_topic(partitions=6, replication=3), "startingOffsets": "earliest"}
    fill(zkafka_cluster, options["subscribe"], 10, range(6))
    first = planner(options)
    end = first.latest(first.initial(), limited=True)
    planned = ranges(first, end)
    zkafka_cluster.stop(1)
    assert ranges(planner(options), end) == planned


def ranges(planner: StreamDriver, end: dict[str, Any]) -> list[tuple[TopicPartition, int, int]]:
    """Return the ranges of a micro-batch, by task."""
    return [(split.partition, split.start, split.until) for split in planner.splits(end)[0]]
