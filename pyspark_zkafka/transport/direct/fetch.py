"""Requests and responses of Fetch for one partition, and the headers of the batches in them.

References
----------
``FetchRequest.json`` and ``FetchResponse.json`` of Kafka 3.9.1; ``DefaultRecordBatch`` for the batch header.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import NamedTuple

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.transport.direct.errors import MalformedResponse, Unsupported
from pyspark_zkafka.transport.direct.messages import FETCH, Request
from pyspark_zkafka.transport.direct.wire import (
    NO_TAGS,
    Reader,
    compact_array,
    compact_string,
    int8,
    int32,
    int64,
    string,
)

__all__ = [
    "FIRST_DIVERGING",
    "Fetched",
    "Position",
    "Span",
    "Wanted",
    "fetch_request",
    "id_bytes",
    "newest_version",
    "read_fetch",
    "span_of",
]

FIRST_DIVERGING = 12
"""The first version whose response reports that the log was truncated below the offset."""

_FIRST_FLEXIBLE, _LAST_WITH_NAMES, _FIRST_WITH_IDS = 12, 12, 13
_ID_BYTES = 16
_NO_RECORDS = memoryview(b"")
_NO_SESSION, _LAST_EPOCH = 0, -1
_DIVERGING_EPOCH = 0


class Wanted(NamedTuple):
    """Sizes and conditions of a fetch, the same for all fetches of a consumer."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    read_committed: bool
    rack: str


class Position(NamedTuple):
    """The offset to fetch next; epochs are those of the leader, and of the record before the offset, -1 where unknown."""

    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


def newest_version(topic_id: bytes | None) -> int:
    """The newest version: with the topic's id, or by its name."""
    return _LAST_WITH_NAMES if topic_id is None else FETCH.newest


def id_bytes(text: str | None) -> bytes | None:
    """A topic's id as bytes; None where there is none.

    >>> id_bytes("AAECAwQFBgcICQoLDA0ODw").hex()
    '000102030405060708090a0b0c0d0e0f'
    """
    try:
        found = b"" if text is None else base64.urlsafe_b64decode(text + "==")
    except ValueError:
        return None
    return found if len(found) == _ID_BYTES else None


def fetch_request(
    version: int, partition: TopicPartition, topic_id: bytes | None, position: Position, wanted: Wanted
) -> Request:
    """Versions 4 to 17, without a fetch session; a `topic_id` is required from 13 on."""
    flexible = version >= _FIRST_FLEXIBLE
    body = b"" if version >= 15 else int32(-1)  # replica
    body += int32(wanted.max_wait_ms) + int32(wanted.min_bytes) + int32(wanted.max_bytes)
    body += int8(int(wanted.read_committed))
    if version >= 7:
        body += int32(_NO_SESSION) + int32(_LAST_EPOCH)
    one = _partition(version, partition.partition, position, wanted.partition_max_bytes)
    name = _topic(version, partition.topic, topic_id)
    body += compact_array(name + compact_array(one) + NO_TAGS) if flexible else int32(1) + name + int32(1) + one
    if version >= 7:
        body += compact_array() if flexible else int32(0)  # topics to forget
    if version >= 11:
        body += compact_string(wanted.rack) if flexible else string(wanted.rack)
    return Request(FETCH, version, body + NO_TAGS if flexible else body)


def _topic(version: int, name: str, topic_id: bytes | None) -> bytes:
    if version < _FIRST_FLEXIBLE:
        return string(name)
    if version < _FIRST_WITH_IDS:
        return compact_string(name)
    if topic_id is None:
        raise ValueError(f"Fetch {version} needs the topic's id")
    return topic_id


def _partition(version: int, partition: int, position: Position, max_bytes: int) -> bytes:
    body = int32(partition)
    if version >= 9:
        body += int32(position.leader_epoch)
    body += int64(position.offset)
    if version >= 12:
        body += int32(position.last_epoch)
    if version >= 5:
        body += int64(-1)  # log start offset, of followers
    return body + int32(max_bytes) + (NO_TAGS if version >= _FIRST_FLEXIBLE else b"")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The response for the partition; `records` refers to the response's bytes.

    `diverging` is the epoch of the record before the offset, and its end in the leader's log, if that one was truncated
    below the offset. `aborted` has the producer id and the first offset of each aborted transaction, None unless committed
    records are read. `replica` is the preferred read replica, -1 for the leader.
    """

    throttle_ms: int
    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] | None = None
    replica: int = -1
    records: memoryview = _NO_RECORDS


def read_fetch(response: Reader, version: int, partition: int) -> Fetched:
    """Versions 4 to 17, for one partition of one topic."""
    throttle_ms = response.int32()
    if version >= 7:
        error, _ = response.int16(), response.int32()  # session
        if error:
            return Fetched(throttle_ms, error)
    flexible = version >= _FIRST_FLEXIBLE

    def topic() -> list[tuple[int, Fetched]]:
        if version >= _FIRST_WITH_IDS:
            response.span(_ID_BYTES)
        elif flexible:
            response.compact_string()
        else:
            response.string()
        each = (response.compact_array if flexible else response.array)(
            lambda: _read_partition(response, version, throttle_ms)
        )
        if flexible:
            response.tags()
        return each

    found = dict(pair for each in (response.compact_array if flexible else response.array)(topic) for pair in each)
    if flexible:
        response.tags()
    response.finish()
    if list(found) != [partition]:
        raise MalformedResponse(f"the response to Fetch has the partitions {sorted(found)}, not {partition} alone")
    return found[partition]


def _read_partition(response: Reader, version: int, throttle_ms: int) -> tuple[int, Fetched]:
    flexible = version >= _FIRST_FLEXIBLE
    index, error, high, stable = response.int32(), response.int16(), response.int64(), response.int64()
    start = response.int64() if version >= 5 else -1

    def transaction() -> tuple[int, int]:
        found = response.int64(), response.int64()
        if flexible:
            response.tags()
        return found

    aborted = (response.compact_array if flexible else response.array)(transaction)
    replica = response.int32() if version >= 11 else -1
    records = response.compact_nullable_bytes() if flexible else response.nullable_bytes()
    tags = response.tags() if flexible else {}
    diverging = _read_diverging(Reader(tags[_DIVERGING_EPOCH])) if _DIVERGING_EPOCH in tags else None
    return index, Fetched(throttle_ms, error, high, stable, start, diverging, tuple(aborted), replica, records)


def _read_diverging(field: Reader) -> tuple[int, int]:
    return field.int32(), field.int64()


class Span(NamedTuple):
    """The whole batches at the begin of fetched records: their size, the offset after them, and the last one's epoch.

    `next_offset` is None where there is no whole batch.
    """

    size: int
    next_offset: int | None
    last_epoch: int


_BATCH = struct.Struct(">qiib")  # base offset, length after it, leader epoch, magic
_DELTA = struct.Struct(">i")
_AFTER_LENGTH, _DELTA_AT, _HEADER_BYTES = 12, 23, 61


def span_of(records: memoryview) -> Span:
    """The whole batches, by their headers alone; Unsupported for message formats 0 and 1."""
    at, end, following, epoch = 0, len(records), None, -1
    batch, delta = _BATCH.unpack_from, _DELTA.unpack_from
    while at + _BATCH.size <= end:
        base, length, epoch_here, magic = batch(records, at)
        if magic != 2:
            raise Unsupported(f"records of message format {magic}")
        if length < _HEADER_BYTES - _AFTER_LENGTH:
            raise MalformedResponse(f"a record batch of {length} bytes")
        if at + _AFTER_LENGTH + length > end:
            break
        following, epoch = base + delta(records, at + _DELTA_AT)[0] + 1, epoch_here
        at += _AFTER_LENGTH + length
    return Span(at, following, epoch)
