"""State of topics in brokers' metadata, with a fake admin client. test_readiness.py tests their state in znodes."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.topics import AdminTopics

UNREACHABLE = KafkaException(KafkaError(KafkaError._TRANSPORT, "broker1:9092: refused"))


class Admin:
    """The methods of confluent-kafka's AdminClient that the code uses."""

    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.error: KafkaException | None = None
        self.elected: dict[Any, KafkaError | None] = {}
        self.asked: list[tuple[Any, list[tuple[str, int]]]] = []

    def list_topics(self, timeout: float) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(topics=self.topics)

    def elect_leaders(self, kind: Any, partitions: list[Any]) -> Future[Any]:
        self.asked.append((kind, [(p.topic, p.partition) for p in partitions]))
        answer: Future[Any] = Future()
        if self.error is not None:
            answer.set_exception(self.error)
        else:
            answer.set_result(self.elected)
        return answer


def topic(partitions: dict[int, tuple[list[int], list[int]]], error: KafkaError | None = None) -> Any:
    """Return a topic with the replicas and the ISR of each partition."""
    found = {n: SimpleNamespace(replicas=replicas, isrs=isr) for n, (replicas, isr) in partitions.items()}
    return SimpleNamespace(partitions=found, error=error)


@pytest.fixture
def admin() -> Admin:
    """An admin client of a cluster with topic ``t``."""
    admin = Admin()
    admin.topics["t"] = topic({10: ([3], [3]), 1: ([2, 1], [1, 2])})
    return admin


@pytest.fixture
def state(admin: Any) -> AdminTopics:
    """The state of topics in the metadata."""
    return AdminTopics(admin)


def test_assignment(admin: Admin, state: AdminTopics) -> None:
    """An assignment is in the order of partition numbers, and replicas keep their own order."""
    assert list(state.assignment("t").items()) == [(1, [2, 1]), (10, [3])]


@pytest.mark.parametrize("found", [None, topic({}), topic({0: ([1], [1])}, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))])
def test_deleted_topic(admin: Admin, state: AdminTopics, found: Any) -> None:
    """A topic is gone if the metadata lack it, or have an error or no partitions for it."""
    admin.topics["t"] = found
    assert state.is_gone("t")
    assert not state.all_in_sync("t", {0: [1]})
    with pytest.raises(LocalClusterError, match=r"NO_SUCH_TOPIC\] There is no topic t; create it with create_topic"):
        state.assignment("t")


@pytest.mark.parametrize(
    ("assignment", "is_in_sync"),
    [
        ({1: [1, 2], 10: [3]}, True),
        ({1: [2, 1]}, True),
        ({1: [1, 2, 3]}, False),
        ({1: [1]}, False),
        ({2: [1]}, False),
        ({}, True),
    ],
)
def test_in_sync(state: AdminTopics, assignment: dict[int, list[int]], is_in_sync: bool) -> None:
    """A topic is in sync if each ISR has exactly the assigned replicas, in any order."""
    assert state.all_in_sync("t", assignment) is is_in_sync
    assert not state.is_gone("t")


@pytest.mark.parametrize(
    ("code", "is_done"),
    [
        (None, True),
        (KafkaError.NO_ERROR, True),
        (KafkaError.ELECTION_NOT_NEEDED, True),
        (KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, False),
    ],
)
def test_election(admin: Admin, state: AdminTopics, code: int | None, is_done: bool) -> None:
    """An election is done if each partition succeeded or needed none; otherwise, it must be requested again."""
    admin.elected = {"t-1": None, "t-10": None if code is None else KafkaError(code)}
    assert state.request_election("t", [1, 10]) is is_done
    assert admin.asked == [(ElectionType.PREFERRED, [("t", 1), ("t", 10)])]


def test_brokers_that_do_not_answer(admin: Admin, state: AdminTopics) -> None:
    """Silent brokers are an error with the reason, and an election must be requested again."""
    admin.error = UNREACHABLE
    with pytest.raises(LocalClusterError, match=r"BROKERS_SILENT\] No broker of the local cluster answers: .*refused"):
        state.is_gone("t")
    assert not state.request_election("t", [1])
