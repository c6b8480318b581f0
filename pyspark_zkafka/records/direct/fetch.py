"""Fetch: its requests and responses.

References
----------
``FetchRequest.json`` and ``FetchResponse.json`` of Kafka 3.9.1.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.protocol import (
    NO_TAGS,
    Api,
    MalformedResponse,
    Reader,
    Request,
    array,
    int8,
    int32,
    int64,
    no_tags,
    string,
)

FETCH = Api("Fetch", 1, 0, 17, 12)

FIRST_LIMITED = 3
"""The first version that limits the size of the whole response."""

FIRST_DIVERGING = 12
"""The first version that reports a log truncated below the offset."""

_FIRST_THROTTLING = 8  # in earlier versions, brokers delay their responses instead (KIP-219)
_FIRST_FLEXIBLE, _LAST_WITH_NAMES, _FIRST_WITH_IDS = 12, 12, 13
_ID_BYTES = 16
_NO_RECORDS = memoryview(b"")
_NO_SESSION, _LAST_EPOCH = 0, -1
_DIVERGING_EPOCH = 0


class FetchSettings(NamedTuple):
    """Sizes and conditions, the same for all fetches of a consumer."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    read_committed: bool
    rack: str


class FetchPartition(NamedTuple):
    """A partition in a request, with the id of its topic if it is known, and the next offset.

    `leader_epoch` is the epoch of the leader, `last_epoch` the epoch of the last record before the offset; -1 if unknown.
    """

    partition: TopicPartition
    topic_id: bytes | None
    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


def newest_version(partitions: Sequence[FetchPartition]) -> int:
    """The newest version to use. Versions with topic ids require the ids of all partitions."""
    return _LAST_WITH_NAMES if any(each.topic_id is None for each in partitions) else FETCH.newest


def id_bytes(text: str | None) -> bytes | None:
    """The bytes of a topic id; None if there is no valid id.

    >>> id_bytes("AAECAwQFBgcICQoLDA0ODw").hex()
    '000102030405060708090a0b0c0d0e0f'
    """
    try:
        found = b"" if text is None else base64.urlsafe_b64decode(text + "==")
    except ValueError:
        return None
    return found if len(found) == _ID_BYTES else None


def fetch_request(version: int, partitions: Sequence[FetchPartition], settings: FetchSettings) -> Request:
    """Encode versions 0 to 17, without a fetch session. Topic ids are required from version 13 on.

    The partitions must be distinct. A broker fills the response in their order, topic by topic.
    """
    flexible = version >= _FIRST_FLEXIBLE
    body = b"" if version >= 15 else int32(-1)  # replica
    body += int32(settings.max_wait_ms) + int32(settings.min_bytes)
    if version >= FIRST_LIMITED:
        body += int32(settings.max_bytes)
    if version >= 4:
        body += int8(int(settings.read_committed))
    if version >= 7:
        body += int32(_NO_SESSION) + int32(_LAST_EPOCH)
    by_topic: dict[str, list[FetchPartition]] = {}
    for each in partitions:
        by_topic.setdefault(each.partition.topic, []).append(each)
    topics = [_topic(version, same_topic, settings.partition_max_bytes) for same_topic in by_topic.values()]
    body += array(topics, flexible)
    if version >= 7:
        body += array([], flexible)  # topics to forget
    if version >= 11:
        body += string(settings.rack, flexible)
    return Request(FETCH, version, body + no_tags(flexible))


def _topic(version: int, partitions: Sequence[FetchPartition], max_bytes: int) -> bytes:
    """The partitions of one topic."""
    name, topic_id, flexible = partitions[0].partition.topic, partitions[0].topic_id, version >= _FIRST_FLEXIBLE
    rows = array([_partition(version, each, max_bytes) for each in partitions], flexible)
    if version < _FIRST_WITH_IDS:
        return string(name, flexible) + rows + no_tags(flexible)
    if topic_id is None:
        raise ValueError(f"Fetch {version} needs the topic's id")
    return topic_id + rows + NO_TAGS


def _partition(version: int, asked: FetchPartition, max_bytes: int) -> bytes:
    body = int32(asked.partition.partition)
    if version >= 9:
        body += int32(asked.leader_epoch)
    body += int64(asked.offset)
    if version >= 12:
        body += int32(asked.last_epoch)
    if version >= 5:
        body += int64(-1)  # log start offset, of followers
    return body + int32(max_bytes) + no_tags(version >= _FIRST_FLEXIBLE)


@dataclass(frozen=True, slots=True)
class PartitionData:
    """The data of one partition in a response; `records` refers to the bytes of the response.

    `throttle_ms` is the time that the client must wait. If the leader's log was truncated below the offset, `diverging` has
    an epoch and its end in the leader's log: the last epoch that is not above the epoch of the record before the offset.
    `aborted` has the producer id and first offset of each aborted transaction; it is empty under read_uncommitted.
    `replica` is the preferred read replica, -1 for the leader. `by_id` is True if the broker has compared the topic's id.
    """

    throttle_ms: int
    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    diverging: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    replica: int = -1
    records: memoryview = _NO_RECORDS
    by_id: bool = False


def read_fetch(response: Reader, partitions: Sequence[FetchPartition]) -> list[PartitionData]:
    """Read the data of each requested partition, in order, from versions 0 to 17.

    An error of the whole response becomes an error of each partition. A throttling response has no partitions (KIP-219):
    the data then has neither records nor offsets.
    """
    version = response.version
    throttled_ms = response.int32() if version >= 1 else 0
    throttle_ms = throttled_ms if version >= _FIRST_THROTTLING else 0
    if version >= 7:
        error, _ = response.int16(), response.int32()  # session
        if error:
            return [PartitionData(throttle_ms, error)] * len(partitions)
    found: dict[tuple[str | bytes | None, int], PartitionData] = {}

    def topic() -> None:
        name = bytes(response.span(_ID_BYTES)) if version >= _FIRST_WITH_IDS else response.string()
        for index, fetched in response.array(lambda: _read_partition(response, throttle_ms)):
            found[name, index] = fetched
        response.tags()

    response.array(topic)
    response.tags()
    response.finish()
    if throttled_ms > 0 and not found:
        return [PartitionData(throttle_ms, NONE, by_id=version >= _FIRST_WITH_IDS)] * len(partitions)
    asked = [_key(version, each) for each in partitions]
    if found.keys() != set(asked):
        raise MalformedResponse(f"the response to Fetch has the partitions {list(found)}, not {asked}")
    return [found[key] for key in asked]


def _key(version: int, asked: FetchPartition) -> tuple[str | bytes | None, int]:
    """The key by which a response names a partition."""
    by_id = version >= _FIRST_WITH_IDS and asked.topic_id is not None
    return asked.topic_id if by_id else asked.partition.topic, asked.partition.partition


def _read_partition(response: Reader, throttle_ms: int) -> tuple[int, PartitionData]:
    version = response.version
    index, error, high = response.int32(), response.int16(), response.int64()
    if version < 4:  # before transactions
        return index, PartitionData(throttle_ms, error, high, high, records=response.nullable_bytes())
    stable = response.int64()
    if version >= 5:
        response.int64()  # log start offset

    def transaction() -> tuple[int, int]:
        found = response.int64(), response.int64()
        response.tags()
        return found

    aborted = response.array(transaction)
    replica = response.int32() if version >= 11 else -1
    records = response.nullable_bytes()
    tags = response.tags()
    diverging = None
    if _DIVERGING_EPOCH in tags:
        field = Reader(tags[_DIVERGING_EPOCH])
        diverging = field.int32(), field.int64()
    by_id = version >= _FIRST_WITH_IDS
    return index, PartitionData(throttle_ms, error, high, stable, diverging, tuple(aborted), replica, records, by_id)
