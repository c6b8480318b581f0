"""What an idempotent producer sends next: order, sequences, sizes, retries, and batches that are split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import (
    DUPLICATE,
    OUT_OF_ORDER,
    SEQUENCES,
    Batch,
    ProducerId,
    Producing,
)
from tests.support.producing import (
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    T0,
    T1,
    T2,
    TIMED_OUT,
    TOO_LARGE,
    U0,
    UNKNOWN_PRODUCER_ID,
    answer,
    halves,
    known_to_broker,
    producing,
    send,
    two_records,
    written,
)


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


# --- requests ----------------------------------------------------------------------------------------------------------


def test_sequences() -> None:
    """The sequences of a partition's batches follow each other without a gap, and start again at 0 after the largest."""
    records = [3, SEQUENCES - 4, 5, 1]
    task = producing(*(Batch(T0, n, 10, 0.0) for n in records), two_records(T1))
    assert [batch.sequence for batch in written(task) if batch.partition == T0] == [0, 3, SEQUENCES - 1, 4]
    assert task.delivered == {T0: SEQUENCES + 5, T1: 2}


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        pytest.param([5, 5], [T0, T1], id="exactly full"),
        pytest.param([4, 4, 4], [T0, T1], id="the third is too much"),
        pytest.param([5, 6, 5], [T0, T2], id="a later batch fits"),
        pytest.param([11, 1], [T0], id="larger than a request"),
    ],
)
def test_size_of_requests(sizes: list[int], together: list[TopicPartition]) -> None:
    """A request takes batches of several partitions up to its largest size, and a larger batch alone."""
    task = producing(*(two_records(tp, size) for tp, size in zip((T0, T1, T2), sizes, strict=False)))
    first, *rest = send(task)
    assert [batch.partition for batch in first.batches] == together
    assert len(rest) == (1 if len(together) < len(sizes) else 0)


def test_requests_to_leaders() -> None:
    """Each batch is sent to the leader of its partition, if this broker is ready, under the producer id."""
    task = producing(two_records(T0), two_records(T1))
    task.lead({T1: 2})
    (request,) = task.requests(0.0, lambda broker: broker == 2)
    assert (request.broker, request.producer) == (2, ProducerId(7, 0))
    assert [batch.partition for batch in request.batches] == [T1]
    (request,) = send(task)
    assert (request.broker, request.batches[0].partition) == (1, T0)


def test_batches_in_flight() -> None:
    """A broker that does not know the producer gets one batch of a partition, and then five that are not acknowledged."""
    task = producing(*(two_records() for _ in range(9)))
    (first,) = send(task)
    answer(task, first, NONE)
    second, *others = send(task)
    assert len(others) == 4
    for request in others:  # the broker must still remember the second batch
        answer(task, request, NONE)
    assert send(task) == []
    answer(task, second, NONE)
    assert len(send(task)) == 3


def test_producer_id() -> None:
    """The first batch needs a producer id, and is sent as soon as there is one."""
    task = Producing(delivery_timeout_s=120.0, retry_backoff_s=0.1, most_request_bytes=10, halves=halves)
    task.lead({T0: 1})
    assert not task.needs_producer
    task.add(two_records())
    assert task.needs_producer
    assert send(task) == []
    task.start(ProducerId(7, 0))
    assert not task.needs_producer
    assert len(send(task)) == 1


def test_transaction() -> None:
    """In a transaction, a batch is sent once its partition is registered, and each transaction registers it again."""
    task = producing(two_records(T1), two_records(T0), transactional=True)
    assert task.unregistered([T2]) == [T0, T1, T2]
    assert send(task) == []
    task.register([T1])
    assert [batch.partition for batch in written(task)] == [T1]
    assert task.unregistered() == [T0]
    task.end_transaction()
    assert task.unregistered([T1]) == [T0, T1]


def test_no_transaction() -> None:
    """Without transactions, there is nothing to register."""
    assert producing(two_records()).unregistered([T1]) == []


# --- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [NONE, DUPLICATE])
def test_acknowledged(code: int) -> None:
    """A batch that a broker acknowledges, or already has, is delivered and leaves the queue."""
    task = producing(two_records(size_bytes=4), two_records(size_bytes=7), two_records(T1, size_bytes=3))
    assert task.queued_bytes == 14
    (first,) = send(task)
    answer(task, first, code)
    assert task.delivered == {T0: 2, T1: 2}
    assert task.queued_bytes == 7
    assert [batch.size_bytes for batch in task.open_batches()] == [7]


@pytest.mark.parametrize("codes", [(NOT_ENOUGH_REPLICAS, OUT_OF_ORDER), (NOT_LEADER, NOT_LEADER), (TIMED_OUT, TIMED_OUT)])
@pytest.mark.parametrize("answered", [(0, 1), (1, 0)])
def test_retries_in_order(codes: tuple[int, int], answered: tuple[int, int]) -> None:
    """Refused batches are sent again one at a time, before later batches, with the same sequences and in the same order."""
    task = known_to_broker()
    batches = [two_records() for _ in range(3)]
    for batch in batches[:2]:
        task.add(batch)
    requests = send(task)
    task.add(batches[2])
    for n in answered:
        answer(task, requests[n], codes[n])
    task.lead({T0: 1})
    assert send(task, 0.0999) == []
    (again,) = send(task, 0.1)
    assert again.batches == (batches[0],)
    answer(task, again, NONE)
    assert written(task, 0.1) == batches[1:]
    assert [batch.sequence for batch in batches] == [1, 3, 5]
    assert task.failed is None


@pytest.mark.parametrize(
    ("code", "may_be_written", "needs_leader"),
    [
        (NOT_LEADER, True, True),
        (TIMED_OUT, True, False),
        (NOT_ENOUGH_REPLICAS, False, False),
        (TOO_LARGE, False, False),
    ],
)
def test_refused(code: int, may_be_written: bool, needs_leader: bool) -> None:
    """A refused batch stays queued, says whether it may be in the log, and is sent to another leader where that helps."""
    batch = two_records()
    task = producing(batch)
    answer(task, *send(task), code)
    assert (batch.may_be_written, batch.is_unanswered, batch.answer) == (may_be_written, False, code)
    assert task.without_leader() == ([T0] if needs_leader else [])
    assert task.failed is None
    assert task.queued_bytes == 10


def test_lost_connection() -> None:
    """A lost connection's batches are sent again to the next leader, and no other batches are."""
    lost, other = two_records(T0), two_records(T1)
    task = producing(lost, other)
    task.lead({T1: 2})
    request, _ = send(task)
    task.add(two_records(T1))
    task.add(two_records(T2))
    task.lose(3, 0.0)
    assert task.without_leader() == []
    task.lose(1, 0.0)
    assert task.without_leader() == [T0, T2]
    assert (lost.may_be_written, lost.is_unanswered, other.is_unanswered) == (True, True, False)
    answer(task, request, NONE)
    assert not task.delivered
    task.lead({T0: 2})
    (request,) = send(task, 0.1)
    assert (request.broker, request.batches) == (2, (lost,))
    answer(task, request, NOT_ENOUGH_REPLICAS)
    assert (lost.may_be_written, lost.is_unanswered, lost.answer) == (True, True, NOT_ENOUGH_REPLICAS)


def test_answer_of_an_unknown_broker() -> None:
    """An answer of a broker to which nothing was sent does not matter."""
    task = producing(two_records())
    task.answer(1, 2, {T0: NONE}, 0.0)
    assert len(send(task)) == 1


def test_partition_without_leader() -> None:
    """The batches of a partition that has lost its leader wait for the next leader."""
    task = producing(two_records(T0), two_records(T1))
    task.lead({T0: None, T1: 1})
    assert task.without_leader() == [T0]
    assert [batch.partition for batch in written(task)] == [T1]
    task.lead({T0: 3})
    assert [request.broker for request in send(task)] == [3]
    task.lead({T0: None})
    assert task.without_leader() == []  # its batch is in flight


# --- batches that are too large ----------------------------------------------------------------------------------------


def test_split() -> None:
    """A batch that is too large for the topic is sent again in two halves, with its sequences and before later batches."""
    task = producing(Batch(T0, 3, 10, 0.0), Batch(T0, 1, 5, 0.0))
    answer(task, *send(task), TOO_LARGE)
    (request,) = send(task)
    assert task.queued_bytes == 6 + 6 + 5
    answer(task, request, NONE)
    found = [*request.batches, *written(task)]
    assert [(batch.sequence, batch.records) for batch in found] == [(0, 1), (1, 2), (3, 1)]
    assert task.delivered == {T0: 4}
    assert task.queued_bytes == 0


@pytest.mark.parametrize("refused", [[10], [10, 12], [12, 10]])
@pytest.mark.parametrize(
    ("batch", "records"),
    [
        pytest.param(two_records(T2, 10), [1, 1], id="as large"),
        pytest.param(two_records(T2, 9), [2], id="smaller"),
        pytest.param(two_records(U0, 10), [2], id="another topic"),
        pytest.param(Batch(T2, 1, 10, 0.0), [1], id="one record"),
    ],
)
def test_split_before_sending(refused: list[int], batch: Batch, records: list[int]) -> None:
    """A new batch of several records is split if a batch of its size or smaller was too large for the same topic."""
    task = producing(*(two_records(tp, size) for tp, size in zip((T0, T1), refused, strict=False)))
    for request in send(task):
        answer(task, request, TOO_LARGE)
    task.add(replace(batch))
    assert [sent.records for sent in written(task) if sent.partition == batch.partition] == records


def test_batch_that_may_be_written_is_not_split() -> None:
    """A batch that may be in the log is not split because of another batch: the broker would not recognise its halves."""
    uncertain = two_records(T0)
    task = producing(uncertain, two_records(T1))
    first, second = send(task)
    answer(task, first, TIMED_OUT)
    answer(task, second, TOO_LARGE)
    assert uncertain in written(task, 0.1)


def test_halves_of_a_batch_that_may_be_written() -> None:
    """The halves of a batch are as uncertain as the batch, and have its delivery timeout and its place in the order."""
    batch = Batch(T0, 2, 10, 50.0)
    task = producing(batch, two_records(size_bytes=5))
    send(task)
    task.lose(1, 50.0)
    task.lead({T0: 1})
    (again,) = send(task, 51.0)
    assert again.batches == (batch,)
    answer(task, again, TOO_LARGE, now=51.0)
    (request,) = send(task, 51.0)
    assert [(b.may_be_written, b.is_unanswered, b.waits_since) for b in task.open_batches()[:2]] == [(True, True, 50.0)] * 2
    answer(task, request, NOT_ENOUGH_REPLICAS, now=51.0)
    assert [batch.sequence for batch in written(task, 52.0)] == [0, 1, 2]
