"""Transactions through confluent-kafka: its producer's calls, and its fatal errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.records.librdkafka_sender import MessageTransactions, _kafka_errors
from pyspark_zkafka.records.producer import GroupOffset

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
OFFSET = GroupOffset("g", "t", 2, 7, '{"slot": 2}')

Call = Callable[[MessageTransactions], None]
CALLS: dict[str, Call] = {
    "init_transactions": lambda transactions: transactions.init("x", 1.5),
    "begin_transaction": lambda transactions: transactions.begin(),
    "send_offsets_to_transaction": lambda transactions: transactions.commit_offset(OFFSET, 1.5),
    "commit_transaction": lambda transactions: transactions.commit(1.5),
    "abort_transaction": lambda transactions: transactions.abort(1.5),
}


class FakeProducer:
    """confluent-kafka's transactional producer, which records its calls, and raises an error from each if it has one."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            self.calls.append((name, arguments))
            if self._error is not None:
                raise SystemError("returned a result with an exception set") from self._error

        return call


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    """Each step is one call of the producer, with the time-out in seconds if the call waits."""
    producer = FakeProducer()
    CALLS[name](MessageTransactions(producer))
    ((called, arguments),) = producer.calls
    assert called == name
    assert arguments[-1:] == (() if name == "begin_transaction" else (1.5,))


def test_offset_of_a_group() -> None:
    """An offset is sent with its metadata, for a group without the producer as a member."""
    producer = FakeProducer()
    transactions = MessageTransactions(producer)
    transactions.commit_offset(OFFSET, 1.5)
    transactions.commit_offset(OFFSET, 1.5)
    first, second = (arguments for _, arguments in producer.calls)
    (place,) = first[0]
    assert (place.topic, place.partition, place.offset, place.metadata) == ("t", 2, 7, '{"slot": 2}')
    assert first[1] is second[1]
    no_generation = b"\xff\xff\xff\xff"
    assert no_generation + b"g\0" in first[1]


@pytest.mark.parametrize("name", CALLS)
def test_fatal_error_of_a_call(name: str) -> None:
    """Each step raises a fatal error that confluent-kafka hides in a SystemError."""
    with pytest.raises(KafkaException) as caught:
        CALLS[name](MessageTransactions(FakeProducer(FENCED)))
    assert caught.value is FENCED


def test_other_system_errors() -> None:
    """A SystemError with another cause is raised unchanged."""

    def raise_hidden() -> None:
        with _kafka_errors():
            raise SystemError("returned a result with an exception set") from ValueError()

    with pytest.raises(SystemError, match="exception set"):
        raise_hidden()
