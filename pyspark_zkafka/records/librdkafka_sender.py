"""Sender over confluent-kafka, in pure Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from operator import length_hint
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from pyspark_zkafka.brokers.clients import INTRODUCTION_S, client_config, librdkafka_logger
from pyspark_zkafka.brokers.errors import REFUSED_FOR_S
from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports, kafka_errors, named
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.producing import OVERDUE
from pyspark_zkafka.model.rows import OutgoingBatch, Rows, slices_by_size
from pyspark_zkafka.records.producer import Failure, QueueLimits, Sender, asking_for_partitions
from pyspark_zkafka.retries import Deadline

_SLICE_ROWS = 5_000
_SLICE_BYTES = 4 * 1024 * 1024
_BATCH_BYTES = 1_000_000  # librdkafka's default
_OWN_CODES = {
    KafkaError._MSG_TIMED_OUT: OVERDUE,
    KafkaError._INVALID_DIFFERENT_RECORD: ErrorCode.INVALID_RECORD,
    KafkaError._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Brokers' codes for codes of librdkafka with the same meaning."""


class MessageSender(Sender):
    """The `Sender` that passes rows to confluent-kafka as Python objects, a few thousand at a time."""

    failure: Failure | None = None

    def __init__(self, properties: Mapping[str, Any], limits: QueueLimits) -> None:
        self._properties = {**properties, "delivery.report.only.error": True}
        self._limits = limits
        self._batch_bytes = int(properties.get("batch.size", _BATCH_BYTES))
        self._reports = ErrorReports()
        self._open: Producer | None = None
        self._slices: Iterator[_Slice] = iter(())
        self._next: _Slice | None = None
        self._mean_bytes = 0.0
        self._awaited = 0
        self._partitions: set[tuple[str, int]] = set()
        self._handed_over = self._failed = 0
        self._is_throttled = False
        self._is_slow_to_start = str(properties.get("enable.idempotence")).lower() == "true"

    def __enter__(self) -> MessageSender:
        with kafka_errors("making a producer"):
            config = {**client_config(self._properties, self._reports), "throttle_cb": self._on_throttle}
            self._open = Producer(config, logger=librdkafka_logger())
        return self

    def __exit__(self, *exc: object) -> None:
        self._open = None  # queued records were dropped, and the destructor ends the threads

    def begin(self) -> None:
        self._partitions.clear()
        self._handed_over = self._failed = 0
        self.failure = None
        self._is_throttled = False

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> None:
        self._slices = chain(self._slices, _slices(rows, partitions))

    def advance(self, timeout_s: float) -> bool:
        while (piece := self._peek()) is not None:
            if not self._fits(piece.count):
                self.poll(timeout_s)
                if not self._fits(piece.count):
                    return False
            self._next = None
            self._send(piece)
            if self._is_slow_to_start:
                self._hasten(piece.topic)
            self.poll(0)
            if self.failure is not None:
                return False
        return True

    def poll(self, timeout_s: float) -> None:
        with self._noting_fatal_errors():
            self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        with self._noting_fatal_errors():
            self._observe(self._producer.flush(timeout_s))

    def purge(self, *, in_flight: bool) -> None:
        self._producer.purge(in_queue=True, in_flight=in_flight, blocking=True)

    @property
    def queued(self) -> int:
        return self._observe(len(self._producer))

    @property
    def is_moving(self) -> bool:
        # The partitions of queued records are unknown: True while some partition must have a full batch.
        return self.queued * self._mean_bytes > len(self._partitions) * self._batch_bytes

    @property
    def acknowledged(self) -> int:
        return self._handed_over - self._failed - self.queued

    @property
    def reports(self) -> ErrorReports:
        return self._reports

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, dict[int, int]]:
        doing, deadline, patience_s = asking_for_partitions(topic), Deadline.after(timeout_s), 1.0
        while True:
            try:
                found = self._producer.list_topics(topic, timeout=min(patience_s, max(deadline.left_s, 0.0))).topics[topic]
                break
            except KafkaException as error:
                self.poll(0.1)  # notes a refused login
                if deadline.has_passed or self._reports.refusal(doing, REFUSED_FOR_S) is not None:
                    raise self._reports.error(error, doing) from error
            patience_s *= 2
        code = NONE if found.error is None else int(found.error.code())
        return _OWN_CODES.get(code, code), {partition.id: partition.leader for partition in found.partitions.values()}

    def _hasten(self, topic: str) -> None:
        """Send the first records at once: librdkafka's idempotent producer may wait 500 ms for its producer id.

        librdkafka chooses the broker for that request when metadata arrives, and otherwise after 500 ms. The first metadata
        may have replaced the bootstrap servers before any broker of the cluster was connected. Further metadata helps now.
        """
        self._is_slow_to_start = False
        with suppress(ZKafkaError):  # the cause is reported when the records are not delivered
            self.leaders(topic, INTRODUCTION_S)

    @contextmanager
    def _noting_fatal_errors(self) -> Iterator[None]:
        """Note a fatal error as an error of the client, and as a failure.

        Any call that handles events may raise the error, and some calls make it the cause of a SystemError. confluent-kafka
        runs no more callbacks after an error, so delivery reports may be lost.
        """
        try:
            yield
        except (KafkaException, SystemError) as raised:
            cause = raised.__cause__ if isinstance(raised, SystemError) else raised
            if not isinstance(cause, KafkaException):
                raise
            error: KafkaError = cause.args[0]
            self._reports(error)
            self.failure = self.failure or Failure("the client failed", named(error))

    @property
    def _producer(self) -> Producer:
        if self._open is None:
            raise RuntimeError("MessageSender is used outside of its with block")
        return self._open

    def _observe(self, length: int) -> int:
        """Return an upper bound of the records without a report, given the length of librdkafka's queue.

        The queue also holds errors and log lines until they are polled. Only `_send` adds records, so the bound is the
        shortest length since the last `_send`. The bound is exact once the queue was empty, as at the end of a flush.
        Requesting a report for every record would take a fifth of the time of a write.
        """
        self._awaited = min(self._awaited, length)
        return self._awaited

    def _peek(self) -> _Slice | None:
        """Return the next slice to send. None if all slices are sent."""
        if self._next is None and (piece := next(self._slices, None)) is not None:
            self._next = piece
            self._mean_bytes = max(piece.size_bytes / piece.count, self._mean_bytes * 0.9)
        return self._next

    def _fits(self, records: int) -> bool:
        queued, limits = self.queued, self._limits
        within = queued + records <= limits.records and (queued + records) * self._mean_bytes <= limits.size_bytes
        return within or queued == 0

    def _send(self, piece: _Slice) -> None:
        rows, produce = piece.rows, self._producer.produce
        values, is_refused = iter(rows.values), 1
        # A map with positional arguments is faster than produce_batch, which looks columns up by name.
        columns = (repeat(piece.topic), values, rows.keys, repeat(piece.partition), repeat(self._on_failure))
        try:
            if rows.others is None:
                deque(map(produce, *columns), maxlen=0)
            else:
                for *row, others in zip(*columns, rows.others, strict=False):
                    produce(*row, **others)
            is_refused = 0
        except KafkaException as error:
            self._note_failure(piece.topic, piece.partition, error.args[0])
        except BufferError:
            self._note_failure(piece.topic, piece.partition, KafkaError(KafkaError._QUEUE_FULL))
        handed_over = piece.count - length_hint(values) - is_refused
        self._partitions.add((piece.topic, piece.partition))
        self._handed_over += handed_over
        self._awaited += handed_over

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._awaited -= 1
            self._failed += 1
            self._note_failure(message.topic(), message.partition(), error)

    def _note_failure(self, topic: str, partition: int, error: KafkaError) -> None:
        code = _OWN_CODES.get(error.code(), error.code())
        if code < NONE and code != OVERDUE:
            self.failure = self.failure or Failure(f"{topic}-{partition}", named(error))
        self.failure = self.failure or Failure.of(topic, partition, code, is_throttled=self._is_throttled)

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self._is_throttled = True


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of one partition, and their approximate total size."""

    topic: str
    partition: int
    rows: Rows
    size_bytes: int

    @property
    def count(self) -> int:
        return len(self.rows.values)


def _slices(rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> Iterator[_Slice]:
    """Yield the rows partition by partition. Each partition's rows keep their order."""
    by_partition = rows.take(np.argsort(partitions, kind="stable"))
    sizes, begin = by_partition.sizes(), 0
    for partition, count in zip(*(a.tolist() for a in np.unique(partitions, return_counts=True)), strict=True):
        for start, stop, size_bytes in slices_by_size(sizes[begin : begin + count], _SLICE_ROWS, _SLICE_BYTES):
            yield _Slice(rows.topic, partition, by_partition.rows(begin + start, begin + stop), size_bytes)
        begin += count
