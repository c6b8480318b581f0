"""A scripted broker with one partition, whose responses to the direct transport a test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct import wire
from pyspark_zkafka.records.native.library import FedBatches
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from tests.support.record_batches import Batch, Row
from tests.support.scripted_broker import Received, answered

__all__ = ["EPOCH_END", "FETCH", "LIST_OFFSETS", "METADATA", "TP", "FakePartition", "feed", "records"]

A = TypeVar("A")

TP = TopicPartition("t", 0)
FETCH, LIST_OFFSETS, METADATA, EPOCH_END = 1, 2, 3, 23
EARLIEST = wire.int64(-2)


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
        if self.replica >= 0 and not request.rest.endswith(wire.string("")):
            return answered(request, self._fetch(b"", self.replica))
        found = _next(self.fetches)
        return None if found is None else answered(request, self._fetch(found))

    def _metadata(self) -> bytes:
        ports = {0: self.port, **self.others}
        brokers = wire.int32(len(ports)) + b"".join(
            wire.int32(n) + wire.string("127.0.0.1") + wire.int32(port) + wire.string(None) for n, port in ports.items()
        )
        nobody = wire.int32(0)
        partition = wire.int16(self.partition_error) + wire.int32(0) + wire.int32(self.leader)
        partition += wire.int32(self.leader_epoch) + 3 * nobody
        topic = (
            wire.int32(1) + wire.int16(self.topic_error) + wire.string(TP.topic) + wire.int8(0) + wire.int32(1) + partition
        )
        return wire.int32(0) + brokers + wire.string(None) + wire.int32(0) + topic

    def _fetch(self, found: int | bytes, replica: int = -1) -> bytes:
        error, data = (0, found) if isinstance(found, bytes) else (found, b"")
        high = wire.int64(self.high_watermark)
        row = wire.int32(0) + wire.int16(error) + high + high + wire.int64(0) + wire.int32(0)
        row += wire.int32(replica) + wire.nullable_bytes(data)
        head = wire.int32(self.throttle_ms) + wire.int16(0) + wire.int32(0)
        return head + wire.int32(1) + wire.string(TP.topic) + wire.int32(1) + row

    def _log_end(self, ends: int | tuple[int, int], is_first: bool) -> bytes:
        error, offset = (ends, -1) if isinstance(ends, int) else (0, ends[0] if is_first else ends[1])
        row = wire.int32(0) + wire.int16(error) + wire.int64(-1) + wire.int64(offset) + wire.int32(self.leader_epoch)
        return wire.int32(0) + wire.int32(1) + wire.string(TP.topic) + wire.int32(1) + row

    def _epoch_end(self) -> bytes:
        error, epoch, end = self.epoch_end
        row = wire.int16(error) + wire.int32(0) + wire.int32(epoch) + wire.int64(end)
        return wire.int32(0) + wire.int32(1) + wire.string(TP.topic) + wire.int32(1) + row
