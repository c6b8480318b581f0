"""The delivery timeout of a task's batches, and what is sent before the producer id changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import OVERDUE, Batch, Produce, ProducerId, Producing

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS, UNKNOWN_PRODUCER_ID = 6, 7, 10, 19, 59
Event = Callable[[Producing, int], None]


def halves(batch: Batch) -> tuple[Batch, Batch]:
    return Batch(batch.partition, 1, 5, 0.0), Batch(batch.partition, batch.records - 1, 5, 0.0)


def producing(*waiting: Batch) -> Producing:
    """Return a task with batches that has then been started, with broker 1 as the leader of all partitions."""
    task = Producing(delivery_timeout_s=120.0, retry_backoff_s=0.1, most_request_bytes=10, halves=halves)
    for batch in waiting:
        task.add(batch)
    task.lead({T0: 1, T1: 1})
    task.start(ProducerId(7, 0))
    return task


def refused(code: int) -> Event:
    def answer(task: Producing, number: int) -> None:
        task.answer(number, 1, {T0: code}, 127.0)

    return answer


def lose_connection(task: Producing, number: int) -> None:
    task.lose(1, 127.0)


def elect(task: Producing, number: int) -> None:
    task.answer(number, 1, {T0: TIMED_OUT}, 127.0)
    task.lead({T0: 2})


@pytest.mark.parametrize(
    "event", [*map(refused, (NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS)), lose_connection, elect]
)
def test_timeout_after_acknowledgements(event: Event) -> None:
    """An acknowledgement restarts the timeout of waiting batches, also if the leader changes or refuses after it."""
    task = producing(*(Batch(T0, 2, 10, 0.0) for _ in range(16)))
    sent = deque[Produce]()
    for acknowledged in range(14):
        sent += task.requests(9.0 * acknowledged, lambda broker: True)
        task.answer(sent.popleft().number, 1, {T0: NONE}, 9.0 * (acknowledged + 1))
    event(task, sent.popleft().number)
    task.expire(245.9)
    assert task.failed is None
    task.expire(246.1)
    assert task.failed is not None
    assert task.failed.code == OVERDUE


def test_new_batches_wait_for_the_new_producer_id() -> None:
    """Before the producer id changes, a batch that may have been written is sent again, and no batch after it."""
    task = producing()
    task.add(Batch(T1, 2, 10, 0.0))
    task.answer(task.requests(0.0, lambda broker: True)[0].number, 1, {T1: NONE}, 0.0)
    unanswered = Batch(T1, 2, 10, 0.0)
    task.add(unanswered)
    task.add(Batch(T0, 2, 10, 0.0))
    first, second = task.requests(0.0, lambda broker: True)
    task.add(Batch(T1, 2, 10, 0.0))
    task.answer(first.number, 1, {T1: TIMED_OUT}, 0.0)
    task.answer(second.number, 1, {T0: UNKNOWN_PRODUCER_ID}, 0.0)
    (request,) = task.requests(1.0, lambda broker: True)
    assert request.batches == (unanswered,)
    task.answer(request.number, 1, {T1: NONE}, 1.0)
    assert task.requests(1.0, lambda broker: True) == []
    assert task.needs_producer


@pytest.mark.parametrize("code", [NOT_ENOUGH_REPLICAS, UNKNOWN_PRODUCER_ID])
def test_nothing_is_sent_after_a_drop(code: int) -> None:
    """A batch in flight is not sent again once the batches before or after it are dropped, until the next task begins."""
    task = producing()
    for _ in range(2):
        task.add(Batch(T0, 2, 10, 0.0))
    (request,) = task.requests(0.0, lambda broker: True)
    assert len(task.drop(in_flight=False)) == 1
    task.answer(request.number, 1, {T0: code}, 0.0)
    assert task.requests(1.0, lambda broker: True) == []
    assert not task.needs_producer
    assert len(task.drop(in_flight=True)) == 1
    task.begin()
    task.start(ProducerId(8, 0))
    task.add(Batch(T0, 2, 10, 0.0))
    assert len(task.requests(1.0, lambda broker: True)) == 1


def test_brokers_that_remember_one_batch() -> None:
    """With one batch in flight, the next one is sent once the first is acknowledged."""
    task = producing()
    task.most_in_flight = 1
    for tp in (T0, T0, T1):
        task.add(Batch(tp, 1, 10, 0.0))
    (request,) = task.requests(0.0, lambda broker: True)
    assert task.requests(0.0, lambda broker: True) == []
    task.answer(request.number, 1, {batch.partition: NONE for batch in request.batches}, 0.0)
    assert len(task.requests(0.0, lambda broker: True)) == 1
