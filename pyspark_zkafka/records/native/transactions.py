"""Transactions of the compiled path's sender."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.records.native.library import TransactionError, topic_argument
from pyspark_zkafka.records.sender import GroupOffset, Transactions

__all__ = ["ArrowTransactions"]


class ArrowTransactions(Transactions):
    """The `Transactions` of a producer in C, given the functions of `library` and the producer's handle."""

    def __init__(self, native: Any, handle: int) -> None:
        self._native = native
        self._handle = handle

    def init(self, timeout_s: float) -> None:
        self._call(self._native.transaction_init, int(timeout_s * 1000))

    def begin(self) -> None:
        self._call(self._native.transaction_begin)

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        self._call(
            self._native.transaction_commit_offset,
            offset.group.encode(),
            topic_argument(offset.topic),
            offset.partition,
            offset.offset,
            offset.metadata.encode(),
            int(timeout_s * 1000),
        )

    def commit(self, timeout_s: float) -> None:
        self._call(self._native.transaction_commit, int(timeout_s * 1000))

    def abort(self, timeout_s: float) -> None:
        self._call(self._native.transaction_abort, int(timeout_s * 1000))

    def _call(self, function: Callable[..., bool], *arguments: Any) -> None:
        found = TransactionError()
        if function(self._handle, *arguments, byref(found)):
            return
        raise KafkaException(
            KafkaError(
                found.code,
                found.text.decode(errors="replace"),
                fatal=bool(found.fatal),
                retriable=bool(found.retriable),
                txn_requires_abort=bool(found.requires_abort),
            )
        )
