"""When an idempotent producer gives up: the delivery timeout, refusals, and brokers that have forgotten the producer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import pytest

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.producing import (
    OUT_OF_ORDER,
    OVERDUE,
    Batch,
    Failed,
    Produce,
    ProducerId,
    Producing,
)
from tests.support.producing import (
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    T0,
    T1,
    TIMED_OUT,
    TOO_LARGE,
    UNAUTHORISED,
    UNKNOWN_PRODUCER_ID,
    answer,
    known_to_broker,
    producing,
    send,
    two_records,
)

SERVER_ERROR = -1
Event = Callable[[Producing, int], None]


def refused(code: int) -> Event:
    def refuse(task: Producing, number: int) -> None:
        task.answer(number, 1, {T0: code}, 127.0)

    return refuse


def lose_connection(task: Producing, number: int) -> None:
    task.lose(1, 127.0)


def elect(task: Producing, number: int) -> None:
    task.answer(number, 1, {T0: TIMED_OUT}, 127.0)
    task.lead({T0: 2})


# --- the delivery timeout ----------------------------------------------------------------------------------------------


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


def test_overdue() -> None:
    """Without any acknowledgement, a batch that is not in flight fails at the end of its delivery timeout."""
    flying, waiting = two_records(), two_records()
    task = producing(flying, waiting)
    send(task)
    task.expire(119.9)
    assert task.failed is None
    task.expire(120.0)
    assert task.failed == Failed(waiting, OVERDUE)


@pytest.mark.parametrize(("event", "due_at"), [(refused(NOT_ENOUGH_REPLICAS), 120.0), (lose_connection, 210.0)])
def test_timeout_after_a_refusal(event: Event, due_at: float) -> None:
    """Acknowledgements of other batches restart the timeout of a batch without an answer, but not of a refused one."""
    batch = two_records()
    task = producing(batch)
    event(task, send(task)[0].number)
    task.lead({T0: 1})
    task.add(two_records(T1))
    task.answer(0, 1, {T1: NONE}, 90.0)
    assert task.due_at(batch) == due_at


def test_next_time() -> None:
    """A task wakes when a retry is due, or when the delivery timeout of a batch that is not in flight ends."""
    task = producing(Batch(T0, 2, 10, 30.0))
    assert task.wakes_at(0.0) == 150.0
    (request,) = send(task)
    assert task.wakes_at(0.0) == math.inf
    answer(task, request, NOT_ENOUGH_REPLICAS, now=31.0)
    task.add(Batch(T1, 2, 10, 20.0))
    assert task.wakes_at(31.0) == 31.1
    assert task.wakes_at(31.1) == 140.0


# --- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "records", "may_be_written"),
    [
        (UNAUTHORISED, 2, False),
        (SERVER_ERROR, 2, True),
        (TOO_LARGE, 1, False),
        pytest.param(OUT_OF_ORDER, 2, False, id="acknowledged records are lost"),
        pytest.param(UNKNOWN_PRODUCER_ID, 2, False, id="the producer was forgotten, with its acknowledged records"),
    ],
)
def test_failure(code: int, records: int, may_be_written: bool) -> None:
    """Nothing is sent after the first batch that can never be delivered, which says whether it may be in the log."""
    task = known_to_broker()
    batch = Batch(T0, records, 10, 0.0)
    for added in (batch, two_records(), two_records(T1)):
        task.add(added)
    first, second, _ = send(task)
    answer(task, first, code)
    answer(task, second, UNAUTHORISED)
    task.add(two_records())
    assert task.failed == Failed(batch, code)
    assert batch.may_be_written == may_be_written
    assert send(task, 1.0) == []


@pytest.mark.parametrize("has_begun", [True, False])
def test_forgotten_producer(has_begun: bool) -> None:
    """A forgotten producer gets a new id if none of the task's records were acknowledged, or brokers have removed these."""
    task = known_to_broker()
    if has_begun:
        task.begin()
    batch = two_records()
    task.add(batch)
    answer(task, *send(task), UNKNOWN_PRODUCER_ID, removed=() if has_begun else (T0,))
    assert send(task) == []
    assert task.needs_producer
    task.start(ProducerId(8, 0))
    (request,) = send(task)
    assert (request.producer, request.batches, batch.sequence) == (ProducerId(8, 0), (batch,), 0)


def test_brokers_that_get_nothing() -> None:
    """Before the producer id changes, only brokers that get uncertain batches again need to be ready."""
    task = known_to_broker()
    task.begin()
    task.lead({T1: 2})
    task.add(two_records(T0))
    task.add(two_records(T1))
    for request, code in zip(send(task), (UNKNOWN_PRODUCER_ID, TIMED_OUT), strict=True):
        answer(task, request, code)
    asked: list[int] = []
    task.requests(1.0, lambda broker: asked.append(broker) or True)
    assert set(asked) == {2}


def test_forgotten_producer_of_a_transaction() -> None:
    """In a transaction, the producer id does not change, and the transaction fails."""
    task = known_to_broker(transactional=True)
    task.begin()
    batch = two_records()
    task.add(batch)
    answer(task, *send(task), UNKNOWN_PRODUCER_ID)
    assert task.failed == Failed(batch, UNKNOWN_PRODUCER_ID)


def test_forgotten_producer_of_an_uncertain_batch() -> None:
    """If a broker has forgotten the producer, a batch that may be in the log cannot be sent under another producer id."""
    batch = two_records()
    task = producing(batch)
    answer(task, *send(task), TIMED_OUT)
    answer(task, *send(task, 0.1), UNKNOWN_PRODUCER_ID)
    assert task.failed == Failed(batch, UNKNOWN_PRODUCER_ID)


def test_uncertain_batch_after_a_forgotten_one() -> None:
    """A batch that may be in the log after the broker forgot the producer fails, because no retry can be recognised."""
    task = known_to_broker()
    task.begin()
    uncertain = two_records()
    task.add(two_records())
    task.add(uncertain)
    first, second = send(task)
    answer(task, first, UNKNOWN_PRODUCER_ID)
    answer(task, second, TIMED_OUT)
    assert task.failed == Failed(uncertain, OUT_OF_ORDER)


def test_partition_that_cannot_be_written() -> None:
    """A partition that cannot be written to fails its next batch, but not the batches in flight."""
    flying, waiting, last = two_records(), two_records(), two_records()
    task = producing(flying)
    send(task)
    for partition in (T0, T1):
        task.fail(partition, UNAUTHORISED)
    assert task.failed is None
    task.add(waiting)
    task.add(last)
    task.fail(T0, UNAUTHORISED)
    assert task.failed == Failed(waiting, UNAUTHORISED)
