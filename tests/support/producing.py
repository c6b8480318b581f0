"""Tasks of an idempotent producer, and brokers that answer all their requests the same way."""

from __future__ import annotations

from collections.abc import Collection

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import Batch, Produce, ProducerId, Producing

__all__ = [
    "NOT_ENOUGH_REPLICAS",
    "NOT_LEADER",
    "T0",
    "T1",
    "T2",
    "TIMED_OUT",
    "TOO_LARGE",
    "U0",
    "UNAUTHORISED",
    "UNKNOWN_PRODUCER_ID",
    "answer",
    "halves",
    "known_to_broker",
    "producing",
    "send",
    "two_records",
    "written",
]

T0, T1, T2, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0)
NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS, UNAUTHORISED, UNKNOWN_PRODUCER_ID = 6, 7, 10, 19, 29, 59


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Split a batch after its first record."""
    return Batch(batch.partition, 1, 6, 0.0), Batch(batch.partition, batch.records - 1, 6, 0.0)


def producing(*waiting: Batch, transactional: bool = False) -> Producing:
    """Return a task with batches that has then been started, with broker 1 as the leader of all partitions."""
    task = Producing(
        delivery_timeout_s=120.0,
        retry_backoff_s=0.1,
        most_request_bytes=10,
        halves=halves,
        transactional=transactional,
    )
    for batch in waiting:
        task.add(batch)
    task.lead({T0: 1, T1: 1, T2: 1, U0: 1})
    task.start(ProducerId(7, 0))
    return task


def two_records(partition: TopicPartition = T0, size_bytes: int = 10) -> Batch:
    """Return a batch of two records, made at second 0."""
    return Batch(partition, 2, size_bytes, 0.0)


def send(task: Producing, now: float = 0.0) -> list[Produce]:
    """Return the requests that are sent if all brokers are ready."""
    return task.requests(now, lambda broker: True)


def answer(
    task: Producing, request: Produce, code: int, *, now: float = 0.0, removed: Collection[TopicPartition] = ()
) -> None:
    """Answer a request with the same code for all its partitions."""
    codes = {batch.partition: code for batch in request.batches}
    task.answer(request.number, request.broker, codes, now, removed)


def written(task: Producing, now: float = 0.0) -> list[Batch]:
    """Return the batches that are sent, in this order, while brokers acknowledge every request."""
    found: list[Batch] = []
    while requests := send(task, now):
        for request in requests:
            found += request.batches
            answer(task, request, NONE, now=now)
    return found


def known_to_broker(*, transactional: bool = False) -> Producing:
    """Return a task whose first batch, one record of T0, is acknowledged, so that the broker knows the producer."""
    task = producing(Batch(T0, 1, 10, 0.0), transactional=transactional)
    task.register([T0])
    written(task)
    return task
