"""Late, stale and killed producers of a slot, in tasks without Spark that a test can halt and kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.ledger_offsets import Ledger
from pyspark_zkafka.errors import TransactionFailed
from pyspark_zkafka.model.ledger import QueryName
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.records.direct.producer_messages import Answer, CommitOffset, Message
from pyspark_zkafka.records.direct.transactions import DirectTransactions
from pyspark_zkafka.wire.group_messages import Coordinator
from tests.support.eventually import eventually
from tests.support.numbered_rows import numbers
from tests.support.slot_tasks import IN_TRANSACTION, SlotQuery, TaskProcess, once, open_entry, rows
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

WHOLE = range(15_000)
LATER = range(15_000, 15_100)
BROKERS_CHECK_S = 10.0
"""Interval at which brokers check for transactions that have timed out."""


@pytest.fixture
def options(zookeeper: dict[str, str], new_topic: Callable[..., str]) -> dict[str, str]:
    """Options of a write to a new topic."""
    # The direct transport sends only while its task runs: with linger.ms=0, it has sent all rows when the task pauses.
    return {**zookeeper, "topic": new_topic(partitions=2, replication=3), "kafka.linger.ms": "0"}


@pytest.fixture
def query(options: dict[str, str]) -> SlotQuery:
    """A query whose tasks run in this process."""
    return SlotQuery(options)


@pytest.fixture
def worker(options: dict[str, str], query: SlotQuery) -> Iterator[Callable[..., TaskProcess]]:
    """Function that starts workers of the same query."""
    with ExitStack() as opened:

        def start(**more: str) -> TaskProcess:
            process = TaskProcess({**options, **more}, query.query)
            opened.callback(process.close)
            return process

        yield start


def visible(cluster: LocalCluster, options: dict[str, str]) -> dict[int, int]:
    """Return how often a reader of committed records sees each number."""
    return numbers(cluster.bootstrap_servers, options["topic"])


def pause_in_transaction(cluster: LocalCluster, options: dict[str, str], process: TaskProcess, pause_after: int) -> None:
    """Start to write micro-batch 0; returns at its pause, with the first rows of both partitions in the log."""
    process.begin(0, WHOLE, pause_after=pause_after)
    assert process.answer() == {"paused": pause_after}
    eventually(lambda: all(log_ends(cluster, options["topic"], read_committed=False)))


def log_ends(cluster: LocalCluster, topic: str, *, read_committed: bool) -> list[int]:
    """Return the ends of both partitions: the last stable offsets, or the log ends."""
    asked = {TopicPartition(topic, partition): LATEST for partition in range(2)}
    with KafkaAdmin(cluster.bootstrap_servers, {}, read_committed=read_committed) as admin:
        return [end for _, end in sorted(admin.list_offsets(asked).items())]


def is_held_up(cluster: LocalCluster, options: dict[str, str]) -> bool:
    """Return True if an open transaction blocks readers of committed records."""
    stable, every = (sum(log_ends(cluster, options["topic"], read_committed=flag)) for flag in (True, False))
    return stable < every


def is_refused(error: str) -> bool:
    """Return True for the error of a producer whose transaction was ended by another producer.

    Brokers that were verifying one of its requests when the transaction ended answer INVALID_TXN_STATE.
    """
    return "[FENCED]" in error or ("[TRANSACTION_FAILED]" in error and "INVALID_TXN_STATE" in error)


@pytest.mark.parametrize("pause_after", [IN_TRANSACTION, *seldom(len(WHOLE) // 1000)])
def test_zombie(
    zkafka_cluster: LocalCluster,
    options: dict[str, str],
    query: SlotQuery,
    worker: Callable[..., TaskProcess],
    pause_after: int,
) -> None:
    """An attempt halted inside its transaction until another has committed can no longer write."""
    zombie = worker()
    pause_in_transaction(zkafka_cluster, options, zombie, pause_after)
    zombie.halt()
    assert query.write(0, rows(WHOLE), run="run-2").rows == len(WHOLE)
    zombie.resume()
    zombie.go_on()
    assert is_refused(zombie.answer()["error"])
    assert visible(zkafka_cluster, options) == once(WHOLE)
    assert numbers(zkafka_cluster.bootstrap_servers, options["topic"], committed=False)[0] == 2


@pytest.mark.long
def test_zombie_behind_a_later_batch(
    zkafka_cluster: LocalCluster, options: dict[str, str], query: SlotQuery, worker: Callable[..., TaskProcess]
) -> None:
    """An attempt halted beyond the next micro-batch can no longer write, but its worker can run a later task."""
    zombie = worker()
    pause_in_transaction(zkafka_cluster, options, zombie, IN_TRANSACTION)
    zombie.halt()
    query.write(0, rows(WHOLE))
    query.write(1, rows(LATER))
    zombie.resume()
    zombie.go_on()
    assert is_refused(zombie.answer()["error"])
    assert zombie.write(2, range(20_000, 20_100)) == {"rows": 100, "repeated": 0}
    assert visible(zkafka_cluster, options) == once([*WHOLE, *LATER, *range(20_000, 20_100)])


@pytest.mark.parametrize("options", ["direct"], indirect=True)
def test_late_entry_of_a_fenced_attempt(
    zkafka_cluster: LocalCluster, options: dict[str, str], query: SlotQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a fenced attempt adds its entry while a later one commits, the ledger still holds the later entry.

    Brokers without KIP-890 refuse the late request, and forget the offset that the later attempt has added.
    """
    ask, commit = DirectTransactions._ask, DirectTransactions.commit
    is_there, may_go, is_answered = threading.Event(), threading.Event(), threading.Event()

    def held(self: DirectTransactions, coordinator: Coordinator, message: Message, timeout_s: float) -> Answer:
        is_late = threading.current_thread().name == "late" and isinstance(message, CommitOffset)
        if is_late:
            is_there.set()
            assert may_go.wait(60)
        try:
            return ask(self, coordinator, message, timeout_s)
        finally:
            if is_late:
                is_answered.set()

    def after_the_late_one(self: DirectTransactions, timeout_s: float) -> None:
        may_go.set()
        assert is_answered.wait(60)
        commit(self, timeout_s)

    query.write(0, rows(range(10)))
    errors: list[Exception] = []

    def write_late() -> None:
        try:
            query.write(1, rows(range(10, 20)))
        except TransactionFailed as error:
            errors.append(error)

    monkeypatch.setattr(DirectTransactions, "_ask", held)
    late = threading.Thread(target=write_late, name="late")
    late.start()
    assert is_there.wait(60)
    with monkeypatch.context() as patch:
        patch.setattr(DirectTransactions, "commit", after_the_late_one)
        assert query.write(1, rows(range(10, 20))).repeated == 0
    late.join()
    assert [error.condition for error in errors] == ["FENCED"]
    assert query.write(1, rows(range(10, 20)), run="run-2").repeated == 10
    assert visible(zkafka_cluster, options) == once(range(20))


@pytest.fixture(scope="module")
def kafka28() -> Iterator[LocalCluster]:
    """One broker of Kafka 2.8: reads of offsets wait for open transactions, and late requests are not verified."""
    from pyspark_zkafka.testing import LocalCluster

    with LocalCluster(kafka_version="2.8.2") as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.parametrize(("slot", "looks"), [(0, False), (1, False), (0, True)])
def test_entry_added_after_its_transaction(
    kafka28: LocalCluster, monkeypatch: pytest.MonkeyPatch, slot: int, looks: bool
) -> None:
    """A repeated request that adds slot 0's entry after the end of its transaction does not block a later task.

    Nor does it fail its own task, if that task still `looks` for its entry.
    """
    topic = f"late-{slot}-{looks}"
    kafka28.create_topic(topic, partitions=2)
    options = {"zookeeper.connect": kafka28.zookeeper_connect, "topic": topic}
    ask, commit = DirectTransactions._ask, DirectTransactions.commit
    added: list[tuple[Coordinator, Message]] = []

    def noted(self: DirectTransactions, coordinator: Coordinator, message: Message, timeout_s: float) -> Answer:
        if isinstance(message, CommitOffset):
            added.append((coordinator, message))
        return ask(self, coordinator, message, timeout_s)

    def repeated_late(self: DirectTransactions, timeout_s: float) -> None:
        commit(self, timeout_s)
        time.sleep(1)  # brokers answer before they write the transaction's end into each partition
        ask(self, *added[0], timeout_s)

    query = SlotQuery(options)
    with monkeypatch.context() as patch:
        patch.setattr(DirectTransactions, "_ask", noted)
        patch.setattr(DirectTransactions, "commit", repeated_late)
        if not looks:
            patch.setattr(DirectTransactions, "may_lose_offsets", False)
        query.write(0, rows(range(10)))
    ledger = Ledger(kafka28.bootstrap_servers, {}, QueryName("zkafka", query.query), topic, 2)
    assert ledger.open_slots() == [0]
    assert query.write(1, rows(range(10, 20)), slot, run="run-2").repeated == 0
    assert numbers(kafka28.bootstrap_servers, topic) == once(range(20))
    assert set(ledger.entries()) == {0, slot}


@pytest.mark.long
def test_slot_moves_and_returns(
    zkafka_cluster: LocalCluster, options: dict[str, str], worker: Callable[..., TaskProcess]
) -> None:
    """Each worker can write a slot that moves to another worker and back."""
    first, second = worker(), worker()
    for batch, process in enumerate((first, second, first, second, second, first)):
        found = range(100 * batch, 100 * batch + 100)
        assert process.write(batch, found) == {"rows": 100, "repeated": 0}
    assert visible(zkafka_cluster, options) == once(range(600))


def test_other_worker_and_a_lost_result(
    zkafka_cluster: LocalCluster, options: dict[str, str], worker: Callable[..., TaskProcess]
) -> None:
    """A worker finds rows that another worker has committed since, although Spark never got the result."""
    first, second = worker(), worker()
    first.write(0, range(100))
    assert second.write(1, range(100, 200)) == {"rows": 100, "repeated": 0}
    assert first.write(1, range(100, 200)) == {"rows": 0, "repeated": 100}
    assert first.write(2, range(200, 300)) == {"rows": 100, "repeated": 0}
    assert visible(zkafka_cluster, options) == once(range(300))


def test_same_worker_repeats(
    zkafka_cluster: LocalCluster, options: dict[str, str], worker: Callable[..., TaskProcess]
) -> None:
    """A worker that committed a slot finds it recorded when Spark repeats the task or the query restarts."""
    only = worker()
    only.write(0, range(100))
    assert only.write(0, range(100)) == {"rows": 0, "repeated": 100}
    assert only.write(0, range(100), run="run-2") == {"rows": 0, "repeated": 100}
    assert "[ROWS_DIFFER]" in only.write(0, range(101), run="run-2")["error"]
    assert visible(zkafka_cluster, options) == once(range(100))


@pytest.mark.long  # the brokers check every ten seconds, more often in test_timeouts.py
def test_readers_of_a_query_that_is_gone(
    zkafka_cluster: LocalCluster, options: dict[str, str], worker: Callable[..., TaskProcess]
) -> None:
    """A query that is killed and not restarted blocks committed readers only for its transaction timeout."""
    timeout_s = 4.0
    process = worker(**{"kafka.transaction.timeout.ms": f"{timeout_s * 1000:.0f}"})
    pause_in_transaction(zkafka_cluster, options, process, IN_TRANSACTION)
    process.kill()
    begin = time.monotonic()
    assert is_held_up(zkafka_cluster, options)
    eventually(lambda: not is_held_up(zkafka_cluster, options), timeout_s + BROKERS_CHECK_S + 5)
    assert time.monotonic() - begin < timeout_s + BROKERS_CHECK_S + 2
    assert not visible(zkafka_cluster, options)


def test_restart_frees_readers(
    zkafka_cluster: LocalCluster, options: dict[str, str], query: SlotQuery, worker: Callable[..., TaskProcess]
) -> None:
    """A query that is killed and restarted unblocks committed readers when it commits."""
    process = worker()
    pause_in_transaction(zkafka_cluster, options, process, IN_TRANSACTION)
    process.kill()
    query.write(0, rows(WHOLE), run="run-2")
    eventually(lambda: visible(zkafka_cluster, options) == once(WHOLE))


@pytest.mark.long  # the task waits for the ledger first
def test_open_transaction_of_another_slot(zkafka_cluster: LocalCluster, options: dict[str, str], query: SlotQuery) -> None:
    """A task ends the transaction that a killed run left open in another slot whose own task has no core yet."""
    query.write(0, rows(range(10)))
    with open_entry(query.options, QueryName("zkafka", query.query), slot=1, width=2):
        assert query.write(0, rows(range(10)), run="run-2").repeated == 10
        query.write(0, rows(range(10, 20)), slot=1, run="run-2")
    assert visible(zkafka_cluster, options) == once(range(20))
