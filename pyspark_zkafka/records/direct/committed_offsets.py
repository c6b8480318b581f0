"""Committed offsets of many groups, in one request to each coordinator.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 4.1.0: ``FindCoordinator`` (KIP-699) and ``OffsetFetch``
(KIP-709); brokers since 3.0 know these versions. KIP-447: with `stable`, an offset in an open transaction is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pyspark_zkafka.brokers.log_lookups import batches
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.connection import Address
from pyspark_zkafka.records.direct.wire import NO_TAGS, NONE, Api, Reader, Request, array, int8, int32, string
from pyspark_zkafka.retries import Deadline

FIND_COORDINATORS = Api("FindCoordinator", 10, 4, 4, 3)
OFFSET_FETCH = Api("OffsetFetch", 9, 8, 8, 6)

_GROUP = 0
_MOST_GROUPS = 500
_PATIENCE_S = 2.0


class Committed(NamedTuple):
    """The answer for one partition: an error, or the offset, which is -1 if none is committed, and its metadata."""

    error: int
    offset: int
    metadata: str


def coordinators_request(version: int, groups: Collection[str]) -> Request:
    """Version 4."""
    keys = array([string(group, flexible=True) for group in groups], flexible=True)
    return Request(FIND_COORDINATORS, version, int8(_GROUP) + keys + NO_TAGS)


def read_coordinators(response: Reader) -> dict[str, tuple[int, Address]]:
    """Version 4: the error and the coordinator's address, by group."""

    def coordinator() -> tuple[str, tuple[int, Address]]:
        group = response.required_string()
        response.int32()  # broker
        address = response.required_string(), response.int32()
        error = response.int16()
        response.string()  # error in words
        response.tags()
        return group, (error, address)

    response.int32()  # throttle time
    return dict(response.array(coordinator))


def offsets_request(version: int, asked: Mapping[str, Collection[TopicPartition]], *, stable: bool) -> Request:
    """Version 8."""

    def encoded(group: str, partitions: Collection[TopicPartition]) -> bytes:
        by_topic: dict[str, list[bytes]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(int32(partition.partition))
        topics = [string(topic, flexible=True) + array(some, flexible=True) + NO_TAGS for topic, some in by_topic.items()]
        return string(group, flexible=True) + array(topics, flexible=True) + NO_TAGS

    groups = array([encoded(*found) for found in asked.items()], flexible=True)
    return Request(OFFSET_FETCH, version, groups + int8(stable) + NO_TAGS)


def read_offsets(response: Reader) -> dict[str, tuple[int, dict[TopicPartition, Committed]]]:
    """Version 8: the error and the partitions, by group."""

    def partition() -> tuple[int, Committed]:
        number, offset = response.int32(), response.int64()
        response.int32()  # leader epoch
        metadata = response.string() or ""
        error = response.int16()
        response.tags()
        return number, Committed(error, offset, metadata)

    def topic() -> dict[TopicPartition, Committed]:
        name = response.required_string()
        found = {TopicPartition(name, number): committed for number, committed in response.array(partition)}
        response.tags()
        return found

    def group() -> tuple[str, tuple[int, dict[TopicPartition, Committed]]]:
        name = response.required_string()
        found = {tp: committed for topics in response.array(topic) for tp, committed in topics.items()}
        error = response.int16()
        response.tags()
        return name, (error, found)

    response.int32()  # throttle time
    return dict(response.array(group))


def find_metadata(
    client: DirectClient, asked: Mapping[str, Collection[TopicPartition]], *, stable: bool
) -> dict[str, dict[TopicPartition, str]]:
    """The metadata of committed offsets, by group. Partitions without an offset are absent.

    Leaves out each group for which the coordinator does not answer at once, or reports an error: with `stable`, also an
    offset in an open transaction. Blocks for two requests for 500 groups, or some more on several coordinators, and for a
    few seconds if brokers do not answer. Raises like `DirectClient.try_connect`.
    """
    found: dict[str, dict[TopicPartition, str]] = {}
    deadline = client.deadline(_PATIENCE_S)
    for groups in batches(list(asked), _MOST_GROUPS):
        for address, some in _coordinators(client, groups, deadline).items():
            connection = client.try_connect(address, deadline)
            if connection is None:
                continue
            request = offsets_request(
                connection.version(OFFSET_FETCH), {group: asked[group] for group in some}, stable=stable
            )
            response = connection.ask(request, client.deadline(_PATIENCE_S))
            for group, (error, answers) in read_offsets(response).items():
                is_complete = answers.keys() >= set(asked.get(group, ()))
                if error == NONE and is_complete and all(answer.error == NONE for answer in answers.values()):
                    found[group] = {tp: answer.metadata for tp, answer in answers.items() if answer.offset >= 0}
    return found


def _coordinators(client: DirectClient, groups: Sequence[str], deadline: Deadline) -> dict[Address, list[str]]:
    """The groups by the addresses of their coordinators, without groups that have none now."""
    response = client.ask_any(lambda asked: coordinators_request(asked.version(FIND_COORDINATORS), groups), deadline)
    by_address: dict[Address, list[str]] = {}
    if response is not None:
        for group, (error, address) in read_coordinators(response).items():
            if error == NONE:
                by_address.setdefault(address, []).append(group)
    return by_address
