"""Requests and responses of Fetch.

References
----------
``FetchRequest.json`` and ``FetchResponse.json`` of Kafka 3.9.1.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.messages import FETCH, NONE, Request
from pyspark_zkafka.records.direct.wire import (
    NO_TAGS,
    MalformedResponse,
    Reader,
    compact_array,
    compact_string,
    int8,
    int32,
    int64,
    string,
)

FIRST_LIMITED = 3
"""The first version that limits the bytes of the whole response."""

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
    """The offset to fetch next, the leader's epoch, and the epoch of the record before the offset; -1 where unknown."""

    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


class Part(NamedTuple):
    """A partition in a request, with the topic's id where it is known, and what to fetch of it."""

    partition: TopicPartition
    topic_id: bytes | None
    position: Position


def newest_version(parts: Sequence[Part]) -> int:
    """The newest version: with the topics' ids, or by their names, if one has no id."""
    return _LAST_WITH_NAMES if any(part.topic_id is None for part in parts) else FETCH.newest


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


def fetch_request(version: int, parts: Sequence[Part], wanted: Wanted) -> Request:
    """Versions 2 to 17, without a fetch session; topic ids are required from 13 on.

    Each partition at most once. A broker fills the response in this order, topic by topic.
    """
    flexible = version >= _FIRST_FLEXIBLE
    body = b"" if version >= 15 else int32(-1)  # replica
    body += int32(wanted.max_wait_ms) + int32(wanted.min_bytes)
    if version >= FIRST_LIMITED:
        body += int32(wanted.max_bytes)
    if version >= 4:
        body += int8(int(wanted.read_committed))
    if version >= 7:
        body += int32(_NO_SESSION) + int32(_LAST_EPOCH)
    by_topic: dict[str, list[Part]] = {}
    for part in parts:
        by_topic.setdefault(part.partition.topic, []).append(part)
    body += _array(version, [_topic(version, each, wanted.partition_max_bytes) for each in by_topic.values()])
    if version >= 7:
        body += _array(version, [])  # topics to forget
    if version >= 11:
        body += compact_string(wanted.rack) if flexible else string(wanted.rack)
    return Request(FETCH, version, body + NO_TAGS if flexible else body)


def _array(version: int, elements: list[bytes]) -> bytes:
    return compact_array(*elements) if version >= _FIRST_FLEXIBLE else int32(len(elements)) + b"".join(elements)


def _topic(version: int, parts: Sequence[Part], max_bytes: int) -> bytes:
    """A topic with its partitions."""
    name, topic_id = parts[0].partition.topic, parts[0].topic_id
    partitions = _array(version, [_partition(version, p.partition.partition, p.position, max_bytes) for p in parts])
    if version < _FIRST_FLEXIBLE:
        return string(name) + partitions
    if version < _FIRST_WITH_IDS:
        return compact_string(name) + partitions + NO_TAGS
    if topic_id is None:
        raise ValueError(f"Fetch {version} needs the topic's id")
    return topic_id + partitions + NO_TAGS


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
    records are read. `replica` is the preferred read replica, -1 for the leader. `by_id` is True if the broker has
    compared the topic's id.
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
    by_id: bool = False


def read_fetch(response: Reader, version: int, parts: Sequence[Part]) -> list[Fetched]:
    """Versions 2 to 17: what was fetched of each part, in order; an error of the whole is one of each.

    The response by which a broker throttles has no partitions (KIP-219): nothing was fetched of any, not even an offset.
    """
    throttle_ms = response.int32()
    if version >= 7:
        error, _ = response.int16(), response.int32()  # session
        if error:
            return [Fetched(throttle_ms, error)] * len(parts)
    flexible = version >= _FIRST_FLEXIBLE
    array = response.compact_array if flexible else response.array
    found: dict[tuple[str | bytes | None, int], Fetched] = {}

    def topic() -> None:
        name = _read_topic(response, version)
        for index, fetched in array(lambda: _read_partition(response, version, throttle_ms)):
            found[name, index] = fetched
        if flexible:
            response.tags()

    array(topic)
    if flexible:
        response.tags()
    response.finish()
    if throttle_ms > 0 and not found:
        return [Fetched(throttle_ms, NONE, by_id=version >= _FIRST_WITH_IDS)] * len(parts)
    asked = [_key(version, part) for part in parts]
    if found.keys() != set(asked):
        raise MalformedResponse(f"the response to Fetch has the partitions {list(found)}, not {asked}")
    return [found[key] for key in asked]


def _read_topic(response: Reader, version: int) -> str | bytes | None:
    """A topic's id or name."""
    if version >= _FIRST_WITH_IDS:
        return bytes(response.span(_ID_BYTES))
    return response.compact_string() if version >= _FIRST_FLEXIBLE else response.string()


def _key(version: int, part: Part) -> tuple[str | bytes | None, int]:
    """By what a response names a partition."""
    by_id = version >= _FIRST_WITH_IDS and part.topic_id is not None
    return part.topic_id if by_id else part.partition.topic, part.partition.partition


def _read_partition(response: Reader, version: int, throttle_ms: int) -> tuple[int, Fetched]:
    flexible = version >= _FIRST_FLEXIBLE
    index, error, high = response.int32(), response.int16(), response.int64()
    if version < 4:  # before transactions
        return index, Fetched(throttle_ms, error, high, high, aborted=(), records=response.nullable_bytes())
    stable = response.int64()
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
    by_id = version >= _FIRST_WITH_IDS
    return index, Fetched(throttle_ms, error, high, stable, start, diverging, tuple(aborted), replica, records, by_id)


def _read_diverging(field: Reader) -> tuple[int, int]:
    return field.int32(), field.int64()
