"""A scripted broker with one partition, whose responses to the direct transport a test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.native.library import FedBatches
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.wire import protocol
from tests.support.record_batches import Batch, Row
from tests.support.scripted_broker import Received, answered

__all__ = ["EPOCH_END", "FETCH", "LIST_OFFSETS", "METADATA", "TP", "FakePartition", "feed", "records"]

A = TypeVar("A")

TP = TopicPartition("t", 0)
FETCH, LIST_OFFSETS, METADATA, EPOCH_END = 1, 2, 3, 23
EARLIEST = protocol.int64(-2)


def records(first: int, until: int, epoch: int = 1) -> bytes:
    """Return a record batch with the offsets `[first, until)`."""
    return Batch(tuple(Row(n, value=b"%d" % n) for n in range(first, until)), leader_epoch=epoch).encode()


def feed(data: memoryview, aborted: Sequence[tuple[int, int]] | None) -> FedBatches:
    """Return the complete batches of a response, for a fetcher without a reader."""
    with RecordDecoder(TP, pa.schema([])) as decoder:
        return decoder.feed(data, aborted)


def _next(answers: list[A]) -> A:
    return answers.pop(0) if len(answers) > 1 else answers[0]


class FakePartition:
    """The script of a cluster's only broker, which leads one partition.

    `fetches` are responses to Fetch, each an error or record batches; None closes the connection, and the last response
    repeats. `epoch_end` is an error, an epoch and its end. Metadata reports `leader`, `leader_epoch` and the errors of
    topic and partition. `ends` are responses to ListOffsets, each an error or the log's ends, with the same rules as
    `fetches`. A client with a rack is sent to the broker `replica`, unless that is -1. `others` are ports of further
    brokers, by id.
    """

    def __init__(self, *fetches: int | bytes | None) -> None:
        self.fetches = list(fetches)
        self.epoch_end = (0, -1, -1)
        self.leader, self.leader_epoch = 0, 1
        self.topic_error = self.partition_error = 0
        self.ends: list[int | tuple[int, int] | None] = [(0, 20)]
        self.high_watermark = 100
        self.throttle_ms = 0
        self.replica = -1
        self.port = 0
        self.others: dict[int, int] = {}
        self.asked: list[int] = []

    def __call__(self, request: Received) -> bytes | None:
        self.asked.append(request.api)
        if request.api == METADATA:
            return answered(request, self._metadata())
        if request.api == EPOCH_END:
            return answered(request, self._epoch_end())
        if request.api == LIST_OFFSETS:
            ends = _next(self.ends)
            return (
                None if ends is None else answered(request, self._log_end(ends, is_first=request.rest.endswith(EARLIEST)))
            )
        if self.replica >= 0 and not request.rest.endswith(protocol.string("")):
            return answered(request, self._fetch(b"", self.replica))
        found = _next(self.fetches)
        return None if found is None else answered(request, self._fetch(found))

    def _metadata(self) -> bytes:
        ports = {0: self.port, **self.others}
        brokers = protocol.int32(len(ports)) + b"".join(
            protocol.int32(n) + protocol.string("127.0.0.1") + protocol.int32(port) + protocol.string(None)
            for n, port in ports.items()
        )
        nobody = protocol.int32(0)
        partition = protocol.int16(self.partition_error) + protocol.int32(0) + protocol.int32(self.leader)
        partition += protocol.int32(self.leader_epoch) + 3 * nobody
        topic = (
            protocol.int32(1)
            + protocol.int16(self.topic_error)
            + protocol.string(TP.topic)
            + protocol.int8(0)
            + protocol.int32(1)
            + partition
        )
        return protocol.int32(0) + brokers + protocol.string(None) + protocol.int32(0) + topic

    def _fetch(self, found: int | bytes, replica: int = -1) -> bytes:
        error, data = (0, found) if isinstance(found, bytes) else (found, b"")
        high = protocol.int64(self.high_watermark)
        row = protocol.int32(0) + protocol.int16(error) + high + high + protocol.int64(0) + protocol.int32(0)
        row += protocol.int32(replica) + protocol.nullable_bytes(data)
        head = protocol.int32(self.throttle_ms) + protocol.int16(0) + protocol.int32(0)
        return head + protocol.int32(1) + protocol.string(TP.topic) + protocol.int32(1) + row

    def _log_end(self, ends: int | tuple[int, int], is_first: bool) -> bytes:
        error, offset = (ends, -1) if isinstance(ends, int) else (0, ends[0] if is_first else ends[1])
        row = (
            protocol.int32(0)
            + protocol.int16(error)
            + protocol.int64(-1)
            + protocol.int64(offset)
            + protocol.int32(self.leader_epoch)
        )
        return protocol.int32(0) + protocol.int32(1) + protocol.string(TP.topic) + protocol.int32(1) + row

    def _epoch_end(self) -> bytes:
        error, epoch, end = self.epoch_end
        row = protocol.int16(error) + protocol.int32(0) + protocol.int32(epoch) + protocol.int64(end)
        return protocol.int32(0) + protocol.int32(1) + protocol.string(TP.topic) + protocol.int32(1) + row
