"""Sends rows in pure Python: as dicts, through confluent-kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pyspark_zkafka.clients.librdkafka_log import librdkafka_logger
from pyspark_zkafka.clients.sender import Counts, Failure, QueueLimits
from pyspark_zkafka.protocol.rows import OutgoingBatch, slices_by_size

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["MessageSender"]

_SLICE_ROWS = 5_000
_SLICE_BYTES = 4 * 1024 * 1024


class MessageSender:
    """The `Sender` in pure Python: rows as dicts, handed to confluent-kafka a few thousand at a time.

    Parameters
    ----------
    properties : mapping
        librdkafka's.
    limits : QueueLimits
    note : callable
        Told of errors of the client as a whole.
    """

    def __init__(self, properties: Mapping[str, Any], limits: QueueLimits, note: Callable[[KafkaError], None]) -> None:
        self._properties = {**properties, "delivery.report.only.error": True}
        self._limits = limits
        self._note = note
        self._open: Producer | None = None
        self._slices: Iterator[_Slice] = iter(())
        self._next: _Slice | None = None
        self._mean_bytes = 0.0
        self._handed_over: Counter[tuple[str, int]] = Counter()
        self._failed: Counter[tuple[str, int]] = Counter()
        self._first_failure: Failure | None = None

    def __enter__(self) -> MessageSender:
        self._open = Producer({**self._properties, "error_cb": self._note}, logger=librdkafka_logger())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open = None  # what is queued was dropped; its destructor ends the threads

    def begin(self) -> None:
        """See `Sender`."""
        self._handed_over.clear()
        self._failed.clear()
        self._first_failure = None

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32], partition_count: int) -> None:
        """See `Sender`."""
        self._slices = chain(self._slices, _slices(rows, partitions))

    def advance(self, timeout_s: float) -> bool:
        """See `Sender`."""
        while (piece := self._peek()) is not None:
            if not self._has_room(piece, timeout_s):
                return False
            self._next = None
            self._send(piece)
            self._producer.poll(0)
            if self._first_failure is not None:
                return False
        return True

    def poll(self, timeout_s: float) -> None:
        """See `Sender`."""
        self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        """See `Sender`."""
        self._producer.flush(timeout_s)

    def purge(self, *, in_flight: bool) -> None:
        """See `Sender`."""
        self._producer.purge(in_queue=True, in_flight=in_flight, blocking=True)

    @property
    def queued(self) -> int:
        """See `Sender`."""
        return len(self._producer)

    @property
    def is_moving(self) -> bool:
        """See `Sender`. Where each record lies is not known here: as long as some partition must have a full batch."""
        return self.queued * self._mean_bytes > len(self._handed_over) * self._limits.batch_bytes

    @property
    def counts(self) -> Counts:
        """See `Sender`."""
        handed_over = self._handed_over.total()
        return Counts(handed_over, handed_over - self._failed.total() - self.queued)

    @property
    def failure(self) -> Failure | None:
        """See `Sender`."""
        return self._first_failure

    def delivered(self, topic: str) -> dict[int, int]:
        """See `Sender`."""
        delivered = self._handed_over - self._failed
        return {partition: count for (name, partition), count in delivered.items() if name == topic}

    def leaders(self, topic: str, timeout_s: float) -> tuple[KafkaError | None, dict[int, int]]:
        """See `Sender`."""
        found = self._producer.list_topics(topic, timeout=timeout_s).topics[topic]
        return found.error, {partition.id: partition.leader for partition in found.partitions.values()}

    @property
    def _producer(self) -> Producer:
        if self._open is None:
            raise RuntimeError("MessageSender is used outside of its with block")
        return self._open

    def _peek(self) -> _Slice | None:
        """The slice to send next; None when all are sent."""
        if self._next is None and (piece := next(self._slices, None)) is not None:
            self._next = piece
            self._mean_bytes = max(piece.size_bytes / len(piece.rows), self._mean_bytes * 0.9)
        return self._next

    def _has_room(self, piece: _Slice, timeout_s: float) -> bool:
        if not self._fits(len(piece.rows)):
            self._producer.poll(timeout_s)
        return self._fits(len(piece.rows))

    def _fits(self, records: int) -> bool:
        queued, limits = self.queued, self._limits
        within = queued + records <= limits.records and (queued + records) * self._mean_bytes <= limits.size_bytes
        return within or queued == 0

    def _send(self, piece: _Slice) -> None:
        if piece.plain:
            self._send_together(piece)
        else:
            self._send_one_by_one(piece)

    def _send_together(self, piece: _Slice) -> None:
        # Of a row, produce_batch heeds key and value alone: a partition or timestamp there is ignored without a word.
        rows = piece.rows
        taken = self._producer.produce_batch(piece.topic, rows, partition=piece.partition, on_delivery=self._on_failure)
        self._handed_over[piece.topic, piece.partition] += taken
        if taken < len(rows):
            refused = next(row for row in rows if "_error" in row)
            self._note_failure(piece.topic, piece.partition, refused["_error"].code())

    def _send_one_by_one(self, piece: _Slice) -> None:
        producer = self._producer
        for row in piece.rows:
            try:
                producer.produce(piece.topic, partition=piece.partition, on_delivery=self._on_failure, **row)
            except KafkaException as error:
                self._note_failure(piece.topic, piece.partition, error.args[0].code())
                return
            except BufferError:
                self._note_failure(piece.topic, piece.partition, KafkaError._QUEUE_FULL)
                return
            self._handed_over[piece.topic, piece.partition] += 1

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed[message.topic(), message.partition()] += 1
            self._note_failure(message.topic(), message.partition(), error.code())

    def _note_failure(self, topic: str, partition: int, code: int) -> None:
        self._first_failure = self._first_failure or Failure.of(topic, partition, code)


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of one partition, as confluent-kafka takes them, and about how large they are together."""

    topic: str
    partition: int
    rows: list[dict[str, Any]]
    size_bytes: int
    plain: bool


def _slices(rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> Iterator[_Slice]:
    """The rows, partition by partition, in the order of the frame."""
    by_partition = rows.take(np.argsort(partitions, kind="stable"))
    begin = 0
    for partition, count in zip(*(a.tolist() for a in np.unique(partitions, return_counts=True)), strict=True):
        values = by_partition.value[begin : begin + count]
        for start, stop, size_bytes in slices_by_size(values, _SLICE_ROWS, _SLICE_BYTES):
            dicts = by_partition.rows(begin + start, begin + stop)
            yield _Slice(rows.topic, partition, dicts, size_bytes, rows.plain)
        begin += count
