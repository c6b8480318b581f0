"""Requests and responses of producers: record batches, producer ids and transactions.

A message of a transaction is a value: `request` encodes it for a version, and `read` returns the response as an `Answer`.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 4.1.0: ``Produce``, ``FindCoordinator``, ``InitProducerId``,
``AddPartitionsToTxn``, ``AddOffsetsToTxn``, ``TxnOffsetCommit``, ``EndTxn``; KIP-98 and KIP-890.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.wire.protocol import (
    Api,
    MalformedResponse,
    Reader,
    Request,
    answer_of,
    by_topic,
    int8,
    int16,
    int32,
    int64,
    length,
    no_tags,
    read_by_topic,
    string,
)

TRANSACTION_VERSION = "transaction.version"
"""A feature of the cluster. Its level 2 enables the second protocol of transactions (KIP-890)."""

SECOND_PROTOCOL = 2

PRODUCE = Api("Produce", 0, 3, 12, 9)
FIRST_PRODUCE = 8
"""The newest version of Produce to use without KIP-890. Version 12 makes brokers add partitions to the transaction."""

INIT_PRODUCER_ID = Api("InitProducerId", 22, 0, 1, 2)
ADD_PARTITIONS = Api("AddPartitionsToTxn", 24, 0, 2, 3)
ADD_OFFSETS = Api("AddOffsetsToTxn", 25, 0, 2, 3)
COMMIT_OFFSETS = Api("TxnOffsetCommit", 28, 0, 5, 3)
END_TRANSACTION = Api("EndTxn", 26, 0, 5, 3)

_FIRST_PROTOCOL_NEWEST = 2


class Answer(NamedTuple):
    """The error of a response, and the producer id and epoch to use from now on, if the response has them."""

    error: int
    producer: ProducerId | None = None


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Registers a transactional id, and fences its earlier producers. Without an id, only requests a producer id."""

    transactional_id: str | None
    timeout_ms: int
    api: ClassVar[Api] = INIT_PRODUCER_ID

    def request(self, version: int) -> Request:
        return Request(self.api, version, string(self.transactional_id) + int32(self.timeout_ms))

    def read(self, response: Reader) -> Answer:
        response.int32()  # throttle time
        return _with_producer(response.int16(), response)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Adds partitions to the open transaction."""

    transactional_id: str
    producer: ProducerId
    partitions: tuple[TopicPartition, ...]
    api: ClassVar[Api] = ADD_PARTITIONS

    def request(self, version: int) -> Request:
        rows = ((partition, int32(partition.partition)) for partition in self.partitions)
        head = string(self.transactional_id) + _producer(self.producer)
        return Request(self.api, version, head + by_topic(rows))

    def read(self, response: Reader) -> Answer:
        response.int32()  # throttle time
        return _first_error(response, self.partitions)


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Adds a group's offsets to the open transaction."""

    transactional_id: str
    producer: ProducerId
    group: str
    api: ClassVar[Api] = ADD_OFFSETS

    def request(self, version: int) -> Request:
        return Request(self.api, version, string(self.transactional_id) + _producer(self.producer) + string(self.group))

    def read(self, response: Reader) -> Answer:
        response.int32()  # throttle time
        return Answer(response.int16())


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """Commits the offset of a group when the transaction is committed. The group's coordinator answers."""

    transactional_id: str
    producer: ProducerId
    offset: GroupOffset
    api: ClassVar[Api] = COMMIT_OFFSETS

    def request(self, version: int) -> Request:
        flexible, found = version >= self.api.flexible, self.offset
        leader_epoch = int32(-1) if version >= 2 else b""
        metadata = string(found.metadata + "\0", flexible)  # librdkafka stores the zero byte, and reads up to it
        row = int32(found.partition) + int64(found.offset) + leader_epoch + metadata + no_tags(flexible)
        # Generation, member and static instance are empty: the producer is no member of the group.
        member = int32(-1) + string("", flexible) + string(None, flexible) if version >= 3 else b""
        head = string(self.transactional_id, flexible) + string(found.group, flexible) + _producer(self.producer) + member
        partition = TopicPartition(found.topic, found.partition)
        body = head + by_topic([(partition, row)], flexible)
        return Request(self.api, version, body + no_tags(flexible))

    def read(self, response: Reader) -> Answer:
        response.int32()  # throttle time
        return _first_error(response, [TopicPartition(self.offset.topic, self.offset.partition)])


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commits or aborts the open transaction."""

    transactional_id: str
    producer: ProducerId
    commit: bool
    api: ClassVar[Api] = END_TRANSACTION

    def request(self, version: int) -> Request:
        flexible = version >= self.api.flexible
        body = string(self.transactional_id, flexible) + _producer(self.producer) + int8(int(self.commit))
        return Request(self.api, version, body + no_tags(flexible))

    def read(self, response: Reader) -> Answer:
        response.int32()  # throttle time
        error = response.int16()
        return _with_producer(error, response) if response.version >= 5 else Answer(error)


Message = InitProducerId | AddPartitions | AddOffsets | CommitOffset | EndTransaction


def read_answer(message: Message, response: Reader) -> Answer:
    """Read the response to a message. Raises MalformedResponse if bytes are left over: responses have no checksum."""
    answer = message.read(response)
    response.tags()
    response.finish()
    return answer


def newest_version(api: Api, protocol: int) -> int:
    """The newest version of an API to use. Versions above 2 belong to the second protocol of transactions."""
    return api.newest if protocol >= SECOND_PROTOCOL else min(api.newest, _FIRST_PROTOCOL_NEWEST)


def produce_request(
    version: int,
    timeout_ms: int,
    batches: Sequence[tuple[TopicPartition, memoryview]],
    transactional_id: str | None = None,
) -> Request:
    """Encode versions 3 to 12, with acks=all and a record batch for each partition."""
    flexible = version >= PRODUCE.flexible
    by_topic: dict[str, list[tuple[int, memoryview]]] = {}
    for partition, records in batches:
        by_topic.setdefault(partition.topic, []).append((partition.partition, records))
    tags = no_tags(flexible)
    parts: list[bytes | memoryview] = []
    for topic, partitions in by_topic.items():
        parts.append(string(topic, flexible) + length(len(partitions), flexible))
        for number, records in partitions:
            parts += (int32(number) + length(len(records), flexible), records, tags)
        parts.append(tags)
    parts.append(tags)
    head = string(transactional_id, flexible) + int16(-1) + int32(timeout_ms) + length(len(by_topic), flexible)
    return Request(PRODUCE, version, head, tuple(part for part in parts if len(part)))


class Produced(NamedTuple):
    """A broker's answer for one partition: the offset of the batch, and the start of the log, -1 before Kafka 1.0."""

    error: int
    offset: int
    log_start: int


def read_produce(response: Reader) -> tuple[dict[TopicPartition, Produced], int]:
    """Read versions 3 to 12: the answers by partition, and the throttle time in ms."""

    def invalid() -> None:
        response.int32()
        response.string()
        response.tags()

    def row() -> tuple[int, Produced]:
        number, error, offset = response.int32(), response.int16(), response.int64()
        response.int64()  # time of the append
        log_start = response.int64() if response.version >= 5 else -1
        if response.version >= 8:
            response.array(invalid)
            response.string()  # error in words
        response.tags()
        return number, Produced(error, offset, log_start)

    rows = read_by_topic(response, row)
    found, throttle_ms = dict(rows), response.int32()
    response.tags()
    response.finish()
    if len(found) < len(rows):
        raise MalformedResponse("the response to Produce has a partition twice")
    return found, throttle_ms


def _with_producer(error: int, response: Reader) -> Answer:
    producer = ProducerId(response.int64(), response.int16())
    # Brokers do not deduplicate batches without an id.
    if error == NONE and min(producer) < 0:
        raise MalformedResponse(f"the producer id {producer.number} with the epoch {producer.epoch}")
    return Answer(error, producer)


def _producer(producer: ProducerId) -> bytes:
    return int64(producer.number) + int16(producer.epoch)


def _first_error(response: Reader, asked: Sequence[TopicPartition]) -> Answer:
    """Read topics with errors of partitions, and return the first cause. A partition that was not attempted is no cause.

    Raises MalformedResponse if the response lacks a partition of the request.
    """

    def row() -> tuple[int, int]:
        found = response.int32(), response.int16()
        response.tags()
        return found

    found = dict(read_by_topic(response, row))
    errors = [error for tp in asked if (error := answer_of(found, tp)) != NONE]
    causes = [error for error in errors if error != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return Answer(next(iter(causes or errors), NONE))
