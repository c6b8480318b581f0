"""A scripted broker that leads several partitions, and answers one Fetch for any of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import Reader
from tests.support.scripted_broker import Received, answered

__all__ = ["FakeLeader"]

_FETCH, _METADATA = 1, 3


class FakeLeader:
    """The script of a cluster's only broker.

    `logs` has one record batch or one error by partition; a batch starts at offset 0 and ends at `ends`. A response to
    Fetch has at most as many bytes as requested, except for the first batch. While `is_open` is not set, Fetch is not
    answered; after `is_cut` the connection is closed once. With `throttle_ms`, the next response only throttles the
    client.

    Attributes
    ----------
    fetches : list of list of (TopicPartition, int)
        The partitions and offsets of each Fetch request.
    is_asked : threading.Event
        Set once a Fetch request has arrived, even if it is not answered yet.
    """

    def __init__(self, logs: Mapping[TopicPartition, bytes | int], ends: int) -> None:
        self.logs = dict(logs)
        self.end = ends
        self.port = 0
        self.fetches: list[list[tuple[TopicPartition, int]]] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()
        self.is_cut = False
        self.throttle_ms = 0

    def __call__(self, request: Received) -> bytes | None:
        if request.api == _METADATA:
            return answered(request, self._metadata(request))
        if request.api != _FETCH:
            raise AssertionError(f"an unexpected request {request}")
        self.is_asked.set()
        self.is_open.wait(10)
        most_bytes, asked = _asked(request)
        self.fetches.append(asked)
        if self.is_cut:
            self.is_cut = False
            return None
        if self.throttle_ms:
            throttle_ms, self.throttle_ms = self.throttle_ms, 0
            return answered(
                request, protocol.int32(throttle_ms) + protocol.int16(0) + protocol.int32(0) + protocol.int32(0)
            )
        body = protocol.int32(0) + protocol.int16(0) + protocol.int32(0) + protocol.int32(len(asked))
        left = most_bytes
        for number, (place, offset) in enumerate(asked):
            found = self.logs[place]
            error, data = (found, b"") if isinstance(found, int) else (0, found if offset < self.end else b"")
            data = data if number == 0 or len(data) <= left else b""
            left -= len(data)
            end = protocol.int64(-1 if error else self.end)
            body += (
                protocol.string(place.topic) + protocol.int32(1) + protocol.int32(place.partition) + protocol.int16(error)
            )
            body += end + end + protocol.int64(0) + protocol.int32(0) + protocol.int32(-1) + protocol.nullable_bytes(data)
        return answered(request, body)

    def _metadata(self, request: Received) -> bytes:
        found = Reader(request.rest)
        found.string()  # client id
        (topic,) = found.array(found.required_string)
        nobody = protocol.int32(0)
        partitions = [place.partition for place in self.logs if place.topic == topic]
        rows = [
            protocol.int16(0) + protocol.int32(p) + protocol.int32(0) + protocol.int32(1) + 3 * nobody for p in partitions
        ]
        broker = protocol.int32(0) + protocol.string("127.0.0.1") + protocol.int32(self.port) + protocol.string(None)
        head = (
            protocol.int32(0) + protocol.int32(1) + broker + protocol.string(None) + protocol.int32(0) + protocol.int32(1)
        )
        return (
            head
            + protocol.int16(0)
            + protocol.string(topic)
            + protocol.int8(0)
            + protocol.int32(len(rows))
            + b"".join(rows)
        )


def _asked(request: Received) -> tuple[int, list[tuple[TopicPartition, int]]]:
    """Return the limit of bytes, and the partitions with their offsets, of a Fetch 11 request."""
    found = Reader(request.rest)
    found.string()  # client id
    found.span(12)  # replica, wait, least bytes
    most_bytes = found.int32()
    found.span(9)  # isolation, session

    def partition() -> tuple[int, int]:
        index, _, offset = found.int32(), found.int32(), found.int64()
        found.span(12)  # log start, most bytes
        return index, offset

    def topic() -> list[tuple[TopicPartition, int]]:
        name = found.required_string()
        return [(TopicPartition(name, index), offset) for index, offset in found.array(partition)]

    return most_bytes, [each for topics in found.array(topic) for each in topics]
