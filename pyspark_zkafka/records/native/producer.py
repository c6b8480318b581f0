"""Sender and transactions in C, which read rows from Arrow arrays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ctypes import byref, c_int, c_int32, c_int64, create_string_buffer
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers.clients import librdkafka_logger
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.library import (
    CArray,
    CCounts,
    CFailure,
    Report,
    TransactionError,
    headers_argument,
    require,
    settings_array,
    topic_argument,
)
from pyspark_zkafka.records.sender import Counts, Failure, GroupOffset, QueueLimits, Sender, Transactions

_MOST_PARTITIONS = 100_000
_LOG = 1
_WHY_BYTES = 512
# By the levels of syslog, which librdkafka logs with.
_LEVELS = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)


class ArrowSender(Sender):
    """The `Sender` that passes rows of Arrow arrays to librdkafka, and keeps the arrays until all rows are reported."""

    def __init__(self, properties: Mapping[str, Any], limits: QueueLimits, note: Callable[[KafkaError], None]) -> None:
        # Reports of all records are counted by partition.
        self._properties = {**properties, "delivery.report.only.error": False}
        self._limits = limits
        self._note = note
        self._native = require()
        self._open: int | None = None
        self._partition_counts: dict[str, int] = {}

    def __enter__(self) -> ArrowSender:
        self._open = open_client(self._native.producer_new, self._properties, *astuple(self._limits))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._native.producer_close(self._open)
            self._open = None

    def begin(self) -> None:
        self._native.producer_begin(self._handle)
        self._partition_counts.clear()

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32], partition_count: int) -> None:
        topic = topic_argument(rows.topic)
        self._partition_counts.setdefault(rows.topic, partition_count)
        routed = np.ascontiguousarray(partitions, dtype=np.int32)
        value, key, timestamps, headers = (
            CArray.of(a) for a in (rows.value, rows.key, rows.timestamp_ms, headers_argument(rows.headers))
        )
        added = self._native.producer_add(
            self._handle,
            topic,
            routed.ctypes.data,
            partition_count,
            value.address,
            value.is_large,
            key.address,
            key.is_large,
            timestamps.address,
            headers.address,
        )
        if not added:
            raise MemoryError(f"no memory for the rows of {rows.topic}")

    def advance(self, timeout_s: float) -> bool:
        done = self._native.producer_send(self._handle, int(timeout_s * 1000))
        take_reports(self._native.producer_report, self._handle, self._note)
        return bool(done)

    def poll(self, timeout_s: float) -> None:
        self._native.producer_poll(self._handle, int(timeout_s * 1000))
        take_reports(self._native.producer_report, self._handle, self._note)

    def flush(self, timeout_s: float) -> None:
        self._native.producer_flush(self._handle, int(timeout_s * 1000))
        take_reports(self._native.producer_report, self._handle, self._note)

    def purge(self, *, in_flight: bool) -> None:
        self._native.producer_purge(self._handle, in_flight)

    @property
    def queued(self) -> int:
        return int(self._native.producer_queued(self._handle))

    @property
    def is_moving(self) -> bool:
        return bool(self._counts().moving_partitions)

    @property
    def counts(self) -> Counts:
        found = self._counts()
        return Counts(found.handed_over, found.acknowledged)

    @property
    def failure(self) -> Failure | None:
        found = CFailure()
        self._native.producer_failure(self._handle, byref(found))
        if not found.code:
            return None
        return Failure.of(found.topic.decode(), found.partition, found.code)

    def delivered(self, topic: str) -> dict[int, int]:
        room = self._partition_counts.get(topic, 0)
        if room == 0:
            return {}
        counts = (c_int64 * room)()
        self._native.producer_acknowledged(self._handle, topic_argument(topic), counts, room)
        return {partition: count for partition, count in enumerate(counts) if count}

    def leaders(self, topic: str, timeout_s: float) -> tuple[KafkaError | None, dict[int, int]]:
        leaders, code = (c_int32 * _MOST_PARTITIONS)(), c_int()
        timeout_ms = int(timeout_s * 1000)
        count = self._native.producer_leaders(
            self._handle, topic_argument(topic), timeout_ms, leaders, _MOST_PARTITIONS, byref(code)
        )
        error = KafkaError(code.value) if code.value else None
        if count < 0:
            raise KafkaException(KafkaError(code.value, f"Failed to get metadata: {KafkaError(code.value).str()}"))
        return error, dict(enumerate(leaders[:count]))

    @property
    def transactions(self) -> ArrowTransactions:
        return ArrowTransactions(self._native, self._handle)

    @property
    def _handle(self) -> int:
        if self._open is None:
            raise RuntimeError("ArrowSender is used outside of its with block")
        return self._open

    def _counts(self) -> CCounts:
        found = CCounts()
        self._native.producer_counts(self._handle, byref(found))
        return found


class ArrowTransactions(Transactions):
    """The `Transactions` of a producer in C, given the functions of `library` and the handle of the producer."""

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


def open_client(new: Callable[..., int | None], properties: Mapping[str, Any], *arguments: int) -> int:
    """Create a client with librdkafka's properties and further arguments, and return its handle.

    Raises KafkaException if librdkafka refuses the properties.
    """
    code, why = c_int(), create_string_buffer(_WHY_BYTES)
    settings = settings_array({**properties, "log.queue": True})
    handle = new(settings, *arguments, byref(code), why, _WHY_BYTES)
    if not handle:
        raise KafkaException(KafkaError(code.value, why.value.decode(errors="replace")))
    return handle


def take_reports(next_report: Callable[..., bool], handle: int, note: Callable[[KafkaError], None]) -> None:
    """Pass the errors of a client to `note`, and its log lines to the logger."""
    report = Report()
    while next_report(handle, byref(report)):
        text = report.text.decode(errors="replace")
        if report.kind == _LOG:
            librdkafka_logger().log(_LEVELS[min(report.code, len(_LEVELS) - 1)], "%s", text)
        else:
            note(KafkaError(report.code, text, fatal=bool(report.fatal)))
