"""Requests and responses of a cluster's metadata.

References
----------
``MetadataRequest.json`` and ``MetadataResponse.json`` of Kafka 4.1.0; KIP-516 for the ids of topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.wire.protocol import (
    Address,
    Api,
    MalformedResponse,
    Reader,
    Request,
    array,
    int8,
    no_tags,
    null_array,
    string,
)

METADATA = Api("Metadata", 3, 0, 12, 9)

_FIRST_WITHOUT_CREATION = 4
_NO_ID = bytes(16)


class Node(NamedTuple):
    """A broker in the metadata: the listener that answered."""

    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return self.host, self.port


class PartitionMetadata(NamedTuple):
    """A partition in the metadata. `leader` is -1 if the partition has no leader. `epoch` is -1 if it is unknown."""

    error: int
    leader: int
    epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The error of a topic, its partitions by number, and its id, which brokers have from 2.8 on."""

    error: int
    partitions: Mapping[int, PartitionMetadata]
    id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Brokers by id, topics by name, and the controller, if known. `cluster_id` is None before Kafka 0.10.1."""

    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicMetadata]
    controller: int | None = None
    cluster_id: str | None = None


def metadata_request(version: int, topics: Collection[str] | None, *, create: bool = False) -> Request:
    """Encode versions 0 to 12. None requests all topics. The request may `create` topics, before version 4 in any case.

    Version 0 cannot request no topics: an empty collection requests all topics.
    """
    flexible = version >= METADATA.flexible
    no_id = _NO_ID if version >= 10 else b""
    rows = [no_id + string(topic, flexible) + no_tags(flexible) for topic in topics or ()]
    asked = null_array(flexible) if topics is None and version >= 1 else array(rows, flexible)
    creates = int8(int(create)) if version >= 4 else b""
    operations = int8(0) if version >= 8 else b""
    of_cluster = int8(0) if 8 <= version <= 10 else b""
    return Request(METADATA, version, asked + creates + of_cluster + operations + no_tags(flexible))


def read_metadata(response: Reader) -> Metadata:
    """Read versions 0 to 12."""
    version = response.version

    def broker() -> tuple[int, Node]:
        number, host, port = response.int32(), response.required_string(), response.int32()
        rack = response.string() if version >= 1 else None
        response.tags()
        return number, Node(host, port, rack)

    def partition() -> tuple[int, PartitionMetadata]:
        error, index, leader = response.int16(), response.int32(), response.int32()
        epoch = response.int32() if version >= 7 else -1
        replicas, isr = response.int32s(), response.int32s()
        if version >= 5:
            response.int32s()  # offline replicas
        response.tags()
        return index, PartitionMetadata(error, leader, epoch, replicas, isr)

    def topic() -> tuple[str, TopicMetadata]:
        error, name = response.int16(), response.string() or ""
        id_ = bytes(response.span(16)) if version >= 10 else _NO_ID
        if version >= 1:
            response.int8()  # whether it is internal
        partitions = dict(response.array(partition))
        if version >= 8:
            response.int32()  # authorized operations
        response.tags()
        return name, TopicMetadata(error, partitions, None if id_ == _NO_ID else uuid.UUID(bytes=id_))

    if version >= 3:
        response.int32()  # throttle time
    brokers = dict(response.array(broker))
    cluster_id = response.string() if version >= 2 else None
    controller = response.int32() if version >= 1 else -1
    topics = dict(response.array(topic))
    return Metadata(brokers, topics, None if controller < 0 else controller, cluster_id)


def is_of_version_0(data: bytes) -> bool:
    """True if a response to Metadata 1 has the form of version 0: brokers before Kafka 0.10 ignore the version."""
    for version in (1, 0):
        response = Reader(data, version)
        try:
            read_metadata(response)
            response.finish()
        except MalformedResponse:
            continue
        return version == 0
    return False


def topics_request(version: int, topics: Collection[str] | None, *, create: bool = False) -> Request:
    """Request topics, or all topics with None. Without `create`, versions before 4 request all topics to create none."""
    must_ask_for_all = version < _FIRST_WITHOUT_CREATION and not create
    return metadata_request(version, None if must_ask_for_all and topics else topics, create=create)


def read_topics(response: Reader, topics: Collection[str] | None) -> Metadata:
    """Read the response to `topics_request`. Raises MalformedResponse if it lacks a topic."""
    found = read_metadata(response)
    if topics is None:
        return found
    if response.version >= _FIRST_WITHOUT_CREATION and not found.topics.keys() >= set(topics):
        raise MalformedResponse("the response to Metadata lacks a topic")
    missing = TopicMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {})
    return replace(found, topics={name: found.topics.get(name, missing) for name in topics})
