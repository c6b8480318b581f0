"""Requests and responses: connections, metadata and offsets. `fetch` and `producer_messages` have the others.

Each function names the versions that it writes or reads. `Api.version` selects the newest version that both sides know.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 3.9.1: ``ApiVersions``, ``SaslHandshake``,
``SaslAuthenticate``, ``Metadata``, ``ListOffsets``, ``OffsetForLeaderEpoch`` (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.wire import (
    API_VERSIONS,
    NO_TAGS,
    NONE,
    Api,
    MalformedResponse,
    Reader,
    Request,
    Unsupported,
    int8,
    int32,
    int64,
    no_tags,
    nullable_bytes,
    string,
)

R = TypeVar("R")

UNSUPPORTED_VERSION = 35
_NEVER = 1000

LIST_OFFSETS = Api("ListOffsets", 2, 0, 5, 6)
METADATA = Api("Metadata", 3, 1, 7, 9)
OFFSET_FOR_LEADER_EPOCH = Api("OffsetForLeaderEpoch", 23, 2, 3, 4)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1, 1, _NEVER)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0, 2, 2)

_FINALIZED_FEATURES = 2
"""The tagged field of ApiVersions with the features that are enabled in the cluster (KIP-584)."""


def api_versions_request(version: int, software: str) -> Request:
    """Versions 0 to 3."""
    body = string("pyspark-zkafka", flexible=True) + string(software, flexible=True) + NO_TAGS if version >= 3 else b""
    return Request(API_VERSIONS, version, body)


class Supported(NamedTuple):
    """The oldest and newest version of each API of a broker, by key; and the levels of the cluster's features, by name."""

    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]


def read_api_versions(response: Reader) -> Supported | None:
    """Versions 0 to 3. None if the broker does not know this version of the request."""
    error = response.int16()
    if error == UNSUPPORTED_VERSION:
        return None
    if error != NONE:
        raise Unsupported(f"the broker answers ApiVersions with error {error}")

    def row() -> tuple[int, tuple[int, int]]:
        found = response.int16(), (response.int16(), response.int16())
        response.tags()
        return found

    versions = dict(response.array(row))
    if response.version < 3:
        return Supported(versions, {})
    response.int32()  # throttle time
    finalized = response.tags().get(_FINALIZED_FEATURES)
    return Supported(versions, {} if finalized is None else _read_features(Reader(finalized, flexible=True)))


def _read_features(field: Reader) -> dict[str, int]:
    def feature() -> tuple[str, int]:
        name, level = field.string() or "", field.int16()
        field.int16()  # the lowest level
        field.tags()
        return name, level

    return dict(field.array(feature))


def sasl_handshake_request(mechanism: str) -> Request:
    """Version 1."""
    return Request(SASL_HANDSHAKE, 1, string(mechanism))


def read_sasl_handshake(response: Reader) -> tuple[int, list[str]]:
    """The error, and the mechanisms of the broker."""
    return response.int16(), response.array(response.required_string)


@dataclass(frozen=True, slots=True, repr=False)
class Authentication:
    """The response to SaslAuthenticate; its bytes are secret."""

    error: int
    data: bytes
    lifetime_ms: int = 0


def sasl_authenticate_request(version: int, token: bytes) -> Request:
    """Versions 0 to 2."""
    return Request(SASL_AUTHENTICATE, version, nullable_bytes(token, version >= 2) + no_tags(version >= 2))


def read_sasl_authenticate(response: Reader) -> Authentication:
    """Versions 0 to 2. A lifetime of 0 means that the session does not expire."""
    error = response.int16()
    response.string()  # error message
    data = bytes(response.nullable_bytes())
    return Authentication(error, data, response.int64() if response.version >= 1 else 0)


class PartitionMetadata(NamedTuple):
    """A partition in the metadata; `leader` is -1 if there is none, `epoch` is -1 if unknown."""

    error: int
    leader: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """Addresses of brokers by id, and the error and partitions of the requested topic."""

    brokers: Mapping[int, tuple[str, int]]
    error: int
    partitions: Mapping[int, PartitionMetadata]


def metadata_request(version: int, topic: str, *, create: bool = False) -> Request:
    """Versions 1 to 7. The request may `create` the topic; before version 4 it may in any case."""
    return Request(METADATA, version, int32(1) + string(topic) + (int8(int(create)) if version >= 4 else b""))


def read_metadata(response: Reader, topic: str) -> Metadata:
    """Versions 1 to 7."""
    version = response.version

    def broker() -> tuple[int, tuple[str, int]]:
        found = response.int32(), (response.required_string(), response.int32())
        response.string()  # rack
        return found

    def partition() -> tuple[int, PartitionMetadata]:
        error, index, leader = response.int16(), response.int32(), response.int32()
        epoch = response.int32() if version >= 7 else -1
        for _ in range(3 if version >= 5 else 2):  # replicas, ISR, offline replicas
            response.array(response.int32)
        return index, PartitionMetadata(error, leader, epoch)

    def described() -> tuple[str, tuple[int, dict[int, PartitionMetadata]]]:
        error, name = response.int16(), response.required_string()
        response.int8()  # whether it is internal
        return name, (error, dict(response.array(partition)))

    if version >= 3:
        response.int32()  # throttle time
    brokers = dict(response.array(broker))
    if version >= 2:
        response.string()  # cluster
    response.int32()  # controller
    topics = dict(response.array(described))
    if topic not in topics:
        raise MalformedResponse("the response to Metadata lacks the topic")
    return Metadata(brokers, *topics[topic])


def list_offsets_request(
    version: int, partition: TopicPartition, timestamp: int, leader_epoch: int, *, read_committed: bool
) -> Request:
    """Versions 0 to 5, for one partition."""
    isolation = int8(int(read_committed)) if version >= 2 else b""
    epoch = int32(leader_epoch) if version >= 4 else b""
    most = int32(1) if version == 0 else b""
    row = int32(1) + int32(partition.partition) + epoch + int64(timestamp) + most
    return Request(LIST_OFFSETS, version, int32(-1) + isolation + int32(1) + string(partition.topic) + row)


def read_list_offsets(response: Reader, partition: TopicPartition) -> tuple[int, int]:
    """Versions 0 to 5, for one partition: the error, and the offset."""
    version = response.version

    def row() -> tuple[int, tuple[int, int]]:
        index, error = response.int32(), response.int16()
        if version == 0:
            offsets = response.array(response.int64)
            return index, (error, offsets[0] if offsets else -1)
        response.int64()  # timestamp
        offset = response.int64()
        if version >= 4:
            response.int32()  # leader epoch
        return index, (error, offset)

    if version >= 2:
        response.int32()  # throttle time
    return _only_row(response, LIST_OFFSETS, partition, row)


class EpochEndOffset(NamedTuple):
    """The response to OffsetForLeaderEpoch: the last epoch up to the requested one, and its end offset.

    Both are -1 if the leader knows no such epoch.
    """

    error: int
    epoch: int
    offset: int


def epoch_end_request(version: int, partition: TopicPartition, leader_epoch: int, epoch: int) -> Request:
    """Versions 2 and 3, for one partition; a leader of another epoch refuses."""
    replica = int32(-1) if version >= 3 else b""
    row = int32(1) + int32(partition.partition) + int32(leader_epoch) + int32(epoch)
    return Request(OFFSET_FOR_LEADER_EPOCH, version, replica + int32(1) + string(partition.topic) + row)


def read_epoch_end(response: Reader, partition: TopicPartition) -> EpochEndOffset:
    """Versions 2 and 3, for one partition."""

    def row() -> tuple[int, EpochEndOffset]:
        error, index = response.int16(), response.int32()
        return index, EpochEndOffset(error, response.int32(), response.int64())

    response.int32()  # throttle time
    return _only_row(response, OFFSET_FOR_LEADER_EPOCH, partition, row)


def read_rows(response: Reader, row: Callable[[], tuple[int, R]]) -> list[tuple[TopicPartition, R]]:
    """Read topics, each with its rows. `row` reads the number of a partition, and its answer."""

    def topic() -> list[tuple[TopicPartition, R]]:
        name = response.required_string()
        found = [(TopicPartition(name, number), answer) for number, answer in response.array(row)]
        response.tags()
        return found

    return list(chain.from_iterable(response.array(topic)))


def _only_row(response: Reader, api: Api, partition: TopicPartition, row: Callable[[], tuple[int, R]]) -> R:
    found = dict(read_rows(response, row)).get(partition)
    if found is None:
        raise MalformedResponse(f"the response to {api.name} lacks the partition")
    return found
