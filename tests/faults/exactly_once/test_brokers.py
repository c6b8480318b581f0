"""Brokers that die or restart under a task: each of the three that its transaction needs, one after the other, and all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.producer_messages import END_TRANSACTION
from pyspark_zkafka.wire.connection import Connection
from tests.support.fill import fill
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import IN_TRANSACTION, SlotQuery, once, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark_zkafka.read.stream_driver import StreamDriver
    from pyspark_zkafka.testing import LocalCluster
    from pyspark_zkafka.wire.protocol import Request

pytestmark = pytest.mark.long

WHOLE = range(15_000)
STATE_TOPICS = "__transaction_state", "__consumer_offsets"
AS_IT_COMMITS = -1
WHEN = {"before its first request": 0, "in its transaction": IN_TRANSACTION, "before its commit": len(WHOLE) // 1000}
ANYTIME = {**WHEN, "as it commits": AS_IT_COMMITS}
OF_KIP_890 = ("in its transaction", "as it commits")
KILLS = [
    *(pytest.param("breakable_cluster", after, id=f"3.9.1, {when}") for when, after in ANYTIME.items()),
    *(pytest.param("kafka4", ANYTIME[when], id=f"4.3.1, {when}") for when in OF_KIP_890),
]
SAFE = {"min.insync.replicas": "2"}


class Brokers(NamedTuple):
    """Three different brokers, by their role for a task."""

    transactions: int
    groups: int
    leader: int


@pytest.fixture(params=["breakable_cluster", "kafka4"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers, which also lead both coordinators' topics. All of them run again after the test.

    The brokers of Kafka 4 have the second protocol of transactions (KIP-890).
    """
    found: LocalCluster = request.getfixturevalue(request.param)
    found.create_topic(f"settles-{tmp_path.name}")
    query = SlotQuery({"kafka.bootstrap.servers": found.bootstrap_servers, "topic": f"settles-{tmp_path.name}"})
    query.write(0, rows(range(10)))
    for topic in STATE_TOPICS:
        found.elect_preferred_leaders(topic)
    yield found
    for broker in found.broker_ids:
        if found.pid(broker) is None:
            found.restart(broker)


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


def call_when_committing(patch: pytest.MonkeyPatch, call: Callable[[], object]) -> None:
    """Call once, right after a task has sent its EndTxn request: brokers may have handled it, or not."""
    send, calls = Connection.send, [call]

    def send_and_call(self: Connection, request: Request) -> None:
        send(self, request)
        if request.api is END_TRANSACTION and calls:
            calls.pop()()

    patch.setattr(Connection, "send", send_and_call)


@pytest.mark.parametrize(("cluster", "after"), KILLS, indirect=["cluster"])
@pytest.mark.parametrize("role", Brokers._fields)
def test_one_killed(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str, after: int) -> None:
    """A task continues when a coordinator, or the leader of its topic, is killed, and its rows are in the log once."""
    topic = f"killed-{tmp_path.name}"
    name, brokers = scattered(cluster, topic)
    query = SlotQuery({"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}, name)
    victim, kills = getattr(brokers, role), []

    def kill() -> None:
        kills.append(victim)
        cluster.kill(victim)

    if after == AS_IT_COMMITS:
        call_when_committing(monkeypatch, kill)
    done = query.write(0, breaking(rows(WHOLE), after, kill))
    assert kills == [victim]
    assert done.rows == len(WHOLE)
    assert query.write(0, rows(WHOLE), run="run-2").repeated == len(WHOLE)
    query.write(1, rows(range(15_000, 15_100)))
    cluster.restart(victim)
    assert numbers(cluster.bootstrap_servers, topic) == once(range(15_100))


def test_restarted_one_after_the_other(cluster: LocalCluster, tmp_path: Path) -> None:
    """A query writes micro-batches while all brokers are restarted in turn, and each row is in the log once."""
    topic = f"rolling-{tmp_path.name}"
    cluster.create_topic(topic, partitions=3, replication=3, config=SAFE)
    query = SlotQuery({"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic})

    def restart_all() -> None:
        for broker in cluster.broker_ids:
            cluster.stop(broker)
            cluster.restart(broker)
            for name in (topic, *STATE_TOPICS):
                cluster.wait_in_sync(name)

    with ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(restart_all)
        for batch in count():
            is_last = restarting.done()
            query.write(batch, rows(range(batch * 100, batch * 100 + 100), 100))
            if is_last:
                break
        restarting.result()
    assert batch > len(cluster.broker_ids)
    assert numbers(cluster.bootstrap_servers, topic) == once(range(batch * 100 + 100))


@pytest.mark.parametrize("after", WHEN.values(), ids=WHEN)
@pytest.mark.parametrize("cluster", ["breakable_cluster"], indirect=True)
def test_all_down(cluster: LocalCluster, new_topic: Callable[..., str], after: int) -> None:
    """A task continues by itself when all brokers are down for 20 seconds."""
    topic = new_topic(replication=3, config=SAFE)
    query = SlotQuery({"zookeeper.connect": cluster.zookeeper_connect, "topic": topic})

    def restart() -> None:
        time.sleep(20)
        for broker in cluster.broker_ids:
            cluster.restart(broker)

    restarting = threading.Thread(target=restart)

    def break_all() -> None:
        for broker in cluster.broker_ids:
            cluster.kill(broker)
        restarting.start()

    try:
        done = query.write(0, breaking(rows(WHOLE), after, break_all))
    finally:
        restarting.join(120)
    assert done.rows == len(WHOLE)
    assert query.write(0, rows(WHOLE), run="run-2").repeated == len(WHOLE)
    assert numbers(cluster.bootstrap_servers, topic) == once(WHOLE)


@pytest.mark.usefixtures("all_brokers")
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
