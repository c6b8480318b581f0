"""Requests and responses about the offsets of logs.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 3.9.1: ``ListOffsets``, ``OffsetForLeaderEpoch`` (KIP-320).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.protocol import Api, Reader, Request, by_topic, int8, int32

LIST_OFFSETS = Api("ListOffsets", 2, 0, 5, 6)
OFFSET_FOR_LEADER_EPOCH = Api("OffsetForLeaderEpoch", 23, 2, 3, 4)

LATEST, EARLIEST = -1, -2
"""The timestamps of the ends of a log."""

_REPLICA = int32(-1)  # of a client
_ASKED = struct.Struct(">iq")
_ASKED_WITH_EPOCH = struct.Struct(">iiq")
_LISTED = struct.Struct(">ihqq")
_LISTED_WITH_EPOCH = struct.Struct(">ihqqi")
_END = struct.Struct(">hiiq")


class AskedOffset(NamedTuple):
    """A timestamp, `LATEST` or `EARLIEST`, and the leader's epoch if known."""

    timestamp: int
    leader_epoch: int = -1


class ListedOffset(NamedTuple):
    """The offset at a timestamp, the record's own timestamp, and the leader's epoch. A missing value is -1."""

    error: int
    offset: int
    timestamp: int = -1
    epoch: int = -1


def list_offsets_request(version: int, asked: Mapping[TopicPartition, AskedOffset], *, read_committed: bool) -> Request:
    """Encode versions 0 to 5."""
    isolation = int8(int(read_committed)) if version >= 2 else b""
    if version >= 4:
        row = _ASKED_WITH_EPOCH.pack
        rows = ((tp, row(tp.partition, found.leader_epoch, found.timestamp)) for tp, found in asked.items())
    else:
        most = int32(1) if version == 0 else b""
        rows = ((tp, _ASKED.pack(tp.partition, found.timestamp) + most) for tp, found in asked.items())
    return Request(LIST_OFFSETS, version, _REPLICA + isolation + by_topic(rows))


def read_list_offsets(response: Reader) -> dict[TopicPartition, ListedOffset]:
    """Read versions 0 to 5."""
    version, found = response.version, dict[TopicPartition, ListedOffset]()

    def oldest() -> None:
        number, error, offsets = response.int32(), response.int16(), response.array(response.int64)
        found[TopicPartition(name, number)] = ListedOffset(error, offsets[0] if offsets else -1)

    if version >= 2:
        response.int32()  # throttle time
    for _ in range(response.count()):
        name = response.required_string()
        if version == 0:
            response.array(oldest)
        elif version < 4:
            for number, error, timestamp, offset in response.rows(_LISTED):
                found[TopicPartition(name, number)] = ListedOffset(error, offset, timestamp)
        else:
            for number, error, timestamp, offset, epoch in response.rows(_LISTED_WITH_EPOCH):
                found[TopicPartition(name, number)] = ListedOffset(error, offset, timestamp, epoch)
    return found


class AskedEpoch(NamedTuple):
    """The present epoch of a partition's leader, and the epoch in question."""

    leader_epoch: int
    epoch: int


class EpochEndOffset(NamedTuple):
    """The last epoch up to the requested epoch, and its end offset. Both are -1 if the leader knows no such epoch."""

    error: int
    epoch: int
    offset: int


def epoch_ends_request(version: int, asked: Mapping[TopicPartition, AskedEpoch]) -> Request:
    """Encode versions 2 and 3. A leader with another epoch refuses the request."""
    replica = _REPLICA if version >= 3 else b""
    rows = ((tp, int32(tp.partition) + int32(found.leader_epoch) + int32(found.epoch)) for tp, found in asked.items())
    return Request(OFFSET_FOR_LEADER_EPOCH, version, replica + by_topic(rows))


def read_epoch_ends(response: Reader) -> dict[TopicPartition, EpochEndOffset]:
    """Read versions 2 and 3."""
    found: dict[TopicPartition, EpochEndOffset] = {}
    response.int32()  # throttle time
    for _ in range(response.count()):
        name = response.required_string()
        for error, number, epoch, offset in response.rows(_END):
            found[TopicPartition(name, number)] = EpochEndOffset(error, epoch, offset)
    return found
