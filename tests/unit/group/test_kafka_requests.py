"""Requests to the thread of a member that Kafka coordinates."""

from __future__ import annotations

import threading
import time

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.kafka_commits import Outcome
from pyspark_zkafka.group.kafka_requests import Requests, not_running
from pyspark_zkafka.protocol.model import Claim, TopicPartition

T0 = TopicPartition("t", 0)


def test_taken_once() -> None:
    """Requests are taken once, in their order."""
    requests = Requests()
    for offset in (1, 2):
        requests.commit({T0: offset}, 0, now=5.0)
    requests.rebalance()
    taken = requests.take()
    assert [commit.offsets for commit in taken.commits] == [{T0: 1}, {T0: 2}]
    assert {commit.deadline for commit in taken.commits} == {35.0}
    assert taken.is_rebalancing
    assert requests.take() == ((), False)
    assert requests.is_rebalancing


def test_answers() -> None:
    """Each request gets its own answer."""
    requests = Requests()
    first, second = (requests.commit({T0: n}, 0, now=0.0) for n in (1, 2))
    owned = requests.rebalance()
    numbers = [commit.number for commit in requests.take().commits]
    error = not_running("g")
    requests.answer_commits([Outcome(numbers[1], frozenset({T0})), Outcome(numbers[0], error=error)])
    requests.answer_rebalances({T0: Claim("c", 1)}, None)
    assert second.result(0) == {T0}
    assert owned.result(0) == {T0: Claim("c", 1)}
    with pytest.raises(GroupError, match="NOT_A_MEMBER"):
        first.result(0)
    assert not requests.is_rebalancing


def test_refusal() -> None:
    """When the member has left, all that was requested is refused, whether it was taken or not."""
    requests = Requests()
    taken = requests.commit({T0: 1}, 0, now=0.0)
    requests.take()
    waiting, owned = requests.commit({T0: 2}, 0, now=0.0), requests.rebalance()
    requests.refuse(not_running("g"))
    for answer in (taken, waiting, owned):
        with pytest.raises(GroupError, match="NOT_A_MEMBER"):
            answer.result(0)


def test_request_ends_the_wait() -> None:
    """The member's thread waits for the next request, and not after one that has come already."""
    requests = Requests()
    begin = time.monotonic()
    requests.rebalance()
    requests.wait(30)
    threading.Timer(0.05, requests.wake).start()
    requests.wait(30)
    assert time.monotonic() - begin < 20
