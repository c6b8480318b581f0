"""Requests to the thread of a member that Kafka coordinates."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.kafka_commits import Commit, Outcome
from pyspark_zkafka.group.kafka_requests import Requests, not_running
from pyspark_zkafka.protocol.model import Claim, TopicPartition

T0 = TopicPartition("t", 0)


def commit(requests: Requests, offset: int) -> Future[set[TopicPartition]]:
    """Request a commit."""
    return requests.commit(Commit(next(requests.numbers), {T0: offset}, 0, 30.0))


def test_taken_once() -> None:
    """Requests are taken once, in their order."""
    requests = Requests()
    for offset in (1, 2):
        commit(requests, offset)
    requests.rebalance()
    taken = requests.take()
    assert [one.offsets for one in taken.commits] == [{T0: 1}, {T0: 2}]
    assert taken.is_rebalancing
    assert requests.take() == ((), False)
    assert requests.is_rebalancing


def test_answers() -> None:
    """Each request gets its own answer."""
    requests = Requests()
    first, second = (commit(requests, n) for n in (1, 2))
    owned = requests.rebalance()
    numbers = [one.number for one in requests.take().commits]
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
    taken = commit(requests, 1)
    requests.take()
    waiting, owned = commit(requests, 2), requests.rebalance()
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
