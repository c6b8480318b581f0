"""Consumer of one partition that reads directly into Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_int64
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.kafka.errors import from_exception
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.transport.consumer import PartitionEvents, Poll, reading_watermarks
from pyspark_zkafka.transport.native.columns import project, take_batch
from pyspark_zkafka.transport.native.library import PollResult, require, topic_argument
from pyspark_zkafka.transport.native.reports import events, open_client

__all__ = ["ArrowClient", "ArrowConsumer"]


class ArrowClient:
    """librdkafka's consumer, open for a ``with`` block, and used by one `ArrowConsumer` after the other.

    Create it where it is used, after any fork.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)
        self._open: int | None = None
        self.native = require()

    def __enter__(self) -> ArrowClient:
        try:
            self._open = open_client(self.native.consumer_new, self._properties)
        except KafkaException as error:
            raise from_exception(error, "making a consumer") from error
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self.native.consumer_close(self._open)
            self._open = None

    @property
    def handle(self) -> int:
        """The C code's handle."""
        if self._open is None:
            raise RuntimeError("ArrowClient is used outside of its with block")
        return self._open


class ArrowConsumer:
    """The `PartitionConsumer` that copies librdkafka's messages into Arrow buffers, without a Python object per message."""

    def __init__(self, client: ArrowClient, partition: TopicPartition, schema: pa.Schema) -> None:
        self._client = client
        self._native = client.native
        self._partition = partition
        self._schema = schema
        self._events = PartitionEvents(partition)

    def __enter__(self) -> ArrowConsumer:
        project(self._native.consumer_project, self._handle, self._schema)
        return self

    def __exit__(self, *exc: object) -> None:
        self._native.consumer_unassign(self._handle)

    def seek(self, offset: int) -> None:
        tp = self._partition
        code = self._native.consumer_assign(self._handle, topic_argument(tp.topic), tp.partition, offset)
        if code:
            raise from_exception(KafkaException(KafkaError(code)), f"assigning {tp}")

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        """The bytes may be exceeded by one record."""
        found = PollResult()
        timeout_ms = int(timeout_s * 1000)
        if not self._native.consumer_poll(self._handle, most_records, most_bytes, until, timeout_ms, byref(found)):
            raise MemoryError(f"no memory for a batch of {self._partition}")
        poll = Poll(found.records, found.bytes)
        if found.first >= 0:
            poll.first, poll.last, poll.ordered = found.first, found.last, not found.unordered
        for error, offset in events(self._native.consumer_report, self._handle, self._events.note):
            self._events.take(error, offset, poll)
        return self._events.finish(poll)

    def take(self) -> pa.RecordBatch:
        return take_batch(self._native.consumer_take, self._handle, self._schema, self._partition)

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        tp, low, high = self._partition, c_int64(), c_int64()
        code = self._native.consumer_log_range(
            self._handle, topic_argument(tp.topic), tp.partition, int(timeout_s * 1000), byref(low), byref(high)
        )
        if code:
            error = KafkaError(code, f"Failed to get watermark offsets: {KafkaError(code).str()}")  # as confluent-kafka
            raise from_exception(KafkaException(error), reading_watermarks(tp))
        return low.value, high.value

    @property
    def _handle(self) -> int:
        return self._client.handle
