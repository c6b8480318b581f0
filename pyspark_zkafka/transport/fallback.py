"""Consumer that begins with the direct transport, and continues with librdkafka where that one cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import pyarrow as pa

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.transport.consumer import PartitionConsumer, Poll
from pyspark_zkafka.transport.direct_errors import UnsupportedRecords

__all__ = ["FallbackConsumer"]

_log = logging.getLogger(__name__)

OpenConsumer = Callable[[], AbstractContextManager[PartitionConsumer]]


class FallbackConsumer:
    """The `PartitionConsumer` that uses `first`, until it raises UnsupportedRecords, and then `open_second`'s.

    The second one continues at the offset after the last poll. The batch gathered until then is taken from the first one
    before: a poll without records makes the reader take it. `on_end` is called with the reason when the first one is left,
    and a line is logged, of the level given. `why` is the reason then, None before.
    """

    def __init__(
        self,
        partition: TopicPartition,
        first: PartitionConsumer,
        open_second: OpenConsumer,
        on_end: Callable[[UnsupportedRecords], None],
        log_level: int = logging.INFO,
    ) -> None:
        self._partition = partition
        self._first = first
        self._open_second = open_second
        self._on_end = on_end
        self._log_level = log_level
        self._second: PartitionConsumer | None = None
        self._opened = ExitStack()
        self._position = 0
        self._gathered = 0
        self.why: UnsupportedRecords | None = None

    def __enter__(self) -> FallbackConsumer:
        self._opened.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def seek(self, offset: int) -> None:
        self._position = offset
        if self._second is not None:
            self._second.seek(offset)
        elif self.why is None:
            self._attempt_seek(offset)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        if self._second is not None:
            return self._second.poll(most_records, most_bytes, until, timeout_s)
        if self.why is None:
            try:
                return self._noted(self._first.poll(most_records, most_bytes, until, timeout_s))
            except UnsupportedRecords as why:
                self._leave(why)
        if self._gathered:
            return Poll()
        return self._continued().poll(most_records, most_bytes, until, timeout_s)

    def take(self) -> pa.RecordBatch:
        if self._second is not None:
            return self._second.take()
        gathered, self._gathered = self._gathered, 0
        # A poll that failed may have gathered more, which is read again.
        return self._first.take().slice(0, gathered)

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        if self._second is None and self.why is None:
            try:
                return self._first.watermarks(timeout_s)
            except UnsupportedRecords as why:
                self._leave(why)
        with ExitStack() as opened:
            consumer = self._second or opened.enter_context(self._open_second())
            return consumer.watermarks(timeout_s)

    def _attempt_seek(self, offset: int) -> None:
        try:
            self._first.seek(offset)
        except UnsupportedRecords as why:
            self._leave(why)

    def _noted(self, poll: Poll) -> Poll:
        self._gathered += poll.records
        if poll.last is not None:
            self._position = poll.last + 1
        return poll

    def _leave(self, why: UnsupportedRecords) -> None:
        self.why = why
        _log.log(self._log_level, "%s: librdkafka continues at offset %d: %s", self._partition, self._position, why)
        self._on_end(why)

    def _continued(self) -> PartitionConsumer:
        """The second consumer, opened now, at the position."""
        self._second = self._opened.enter_context(self._open_second())
        self._second.seek(self._position)
        return self._second
