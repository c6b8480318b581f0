"""The delivery timeout of a task's batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import NONE, OVERDUE, Batch, Produce, ProducerId, Producing
from tests.support.cases import each

T0 = TopicPartition("t", 0)
NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS = 6, 7, 10, 19
Event = Callable[[Producing, int], None]


def halves(batch: Batch) -> tuple[Batch, Batch]:
    return Batch(batch.partition, 1, 5, 0.0), Batch(batch.partition, batch.records - 1, 5, 0.0)


def refused(code: int) -> Event:
    def answer(task: Producing, number: int) -> None:
        task.answer(number, 1, {T0: code}, 127.0)

    return answer


def lose_connection(task: Producing, number: int) -> None:
    task.lose(1, 127.0)


def elect(task: Producing, number: int) -> None:
    task.answer(number, 1, {T0: TIMED_OUT}, 127.0)
    task.lead({T0: 2})


@each("event", [*map(refused, (NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS)), lose_connection, elect])
def test_timeout_after_acknowledgements(event: Event) -> None:
    """An acknowledgement restarts the timeout of waiting batches, also if the leader changes or refuses after it."""
    task = Producing(delivery_timeout_s=120.0, retry_backoff_s=0.1, most_request_bytes=10, halves=halves)
    for _ in range(16):
        task.add(Batch(T0, 2, 10, 0.0))
    task.lead({T0: 1})
    task.start(ProducerId(7, 0))
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
