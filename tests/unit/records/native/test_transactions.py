"""Transactions in C, by functions written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException

from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.records.native.transactions import ArrowTransactions
from pyspark_zkafka.records.sender import GroupOffset

HANDLE = 7
OFFSET = GroupOffset("gr\u00fcn", "t", 2, 2**40, '{"slot": 2}')


class Functions:
    """The functions of the library, which note their arguments, and fail with an error if there is one."""

    def __init__(self, error: dict[str, Any] | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def call(*arguments: Any) -> bool:
            *given, place = arguments
            self.calls.append((name, *given))
            for field, value in (self._error or {}).items():
                setattr(place._obj, field, value)
            return self._error is None

        return call


def test_calls() -> None:
    """Each step is one call with the client's handle, texts as UTF-8, and times in milliseconds."""
    functions = Functions()
    transactions = ArrowTransactions(functions, HANDLE)
    transactions.init(30)
    transactions.begin()
    transactions.commit_offset(OFFSET, 0.25)
    transactions.commit(1.5)
    transactions.abort(2)
    assert functions.calls == [
        ("transaction_init", HANDLE, 30_000),
        ("transaction_begin", HANDLE),
        (
            "transaction_commit_offset",
            HANDLE,
            "gr\u00fcn".encode(),
            b"t",
            2,
            2**40,
            b'{"slot": 2}',
            250,
        ),
        ("transaction_commit", HANDLE, 1_500),
        ("transaction_abort", HANDLE, 2_000),
    ]


@pytest.mark.parametrize("flag", ["fatal", "retriable", "requires_abort"])
def test_errors(flag: str) -> None:
    """A failure is librdkafka's error, with its code, its text and what follows from it."""
    transactions = ArrowTransactions(Functions({"code": 90, "text": b"fenced gr\xc3", flag: 1}), HANDLE)
    with pytest.raises(KafkaException) as caught:
        transactions.commit(1)
    error = caught.value.args[0]
    assert (error.code(), error.str()) == (90, "fenced gr\N{REPLACEMENT CHARACTER}")
    found = {"fatal": error.fatal(), "retriable": error.retriable(), "requires_abort": error.txn_requires_abort()}
    assert found == {name: name == flag for name in found}


def test_topic_that_c_cannot_hold() -> None:
    """A topic whose name C would cut off is refused before anything is committed."""
    functions = Functions()
    with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
        ArrowTransactions(functions, HANDLE).commit_offset(GroupOffset("g", "t\0u", 0, 1, ""), 1)
    assert functions.calls == []
