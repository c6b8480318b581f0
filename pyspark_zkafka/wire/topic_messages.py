"""Requests and responses that change topics, and read and check configurations.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 4.1.0: ``CreateTopics``, ``CreatePartitions``,
``DeleteTopics``, ``DescribeConfigs``, ``AlterConfigs``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeVar

from pyspark_zkafka.wire.protocol import (
    Api,
    MalformedResponse,
    Reader,
    Request,
    array,
    int8,
    int16,
    int32,
    null_array,
    string,
)

R = TypeVar("R")

CREATE_TOPICS = Api("CreateTopics", 19, 1, 4, 5)
CREATE_PARTITIONS = Api("CreatePartitions", 37, 0, 1, 2)
DELETE_TOPICS = Api("DeleteTopics", 20, 0, 3, 4)
DESCRIBE_CONFIGS = Api("DescribeConfigs", 32, 0, 3, 4)
ALTER_CONFIGS = Api("AlterConfigs", 33, 0, 1, 2)

TOPIC, BROKER = 2, 4
"""Types of resources with a configuration."""

_FIRST_THROTTLED = {CREATE_TOPICS: 2, DELETE_TOPICS: 1}


class Outcome(NamedTuple):
    """The error code of a change, and the broker's message, if any."""

    error: int
    message: str | None = None


def create_topic_request(
    version: int,
    topic: str,
    partitions: int,
    replication: int,
    config: Mapping[str, str],
    timeout_ms: int,
    *,
    validate_only: bool,
) -> Request:
    """Encode versions 1 to 4. From version 4 on, -1 partitions or replicas select the brokers' default."""
    settings = array([string(name) + string(value) for name, value in config.items()])
    row = string(topic) + int32(partitions) + int16(replication) + array([]) + settings
    return Request(CREATE_TOPICS, version, array([row]) + int32(timeout_ms) + int8(validate_only))


def create_partitions_request(version: int, topic: str, total: int, timeout_ms: int, *, validate_only: bool) -> Request:
    """Encode versions 0 and 1."""
    row = string(topic) + int32(total) + null_array()  # the brokers choose the replicas
    return Request(CREATE_PARTITIONS, version, array([row]) + int32(timeout_ms) + int8(validate_only))


def delete_topics_request(version: int, topics: Collection[str], timeout_ms: int) -> Request:
    """Encode versions 0 to 3."""
    return Request(DELETE_TOPICS, version, array([string(topic) for topic in topics]) + int32(timeout_ms))


def read_outcomes(response: Reader, api: Api) -> dict[str, Outcome]:
    """Read outcomes by topic, of CreateTopics 1 to 4, CreatePartitions 0 and 1, and DeleteTopics 0 to 3."""

    def topic() -> tuple[str, Outcome]:
        name, error = response.required_string(), response.int16()
        return name, Outcome(error, None if api == DELETE_TOPICS else response.string())

    if response.version >= _FIRST_THROTTLED.get(api, 0):
        response.int32()  # throttle time
    return dict(response.array(topic))


def describe_config_request(version: int, kind: int, name: str, setting: str) -> Request:
    """Encode versions 0 to 3: one setting of a resource."""
    synonyms = int8(0) if version >= 1 else b""
    documentation = int8(0) if version >= 3 else b""
    row = int8(kind) + string(name) + array([string(setting)])
    return Request(DESCRIBE_CONFIGS, version, array([row]) + synonyms + documentation)


def read_describe_config(response: Reader) -> tuple[Outcome, dict[str, str | None]]:
    """Read versions 0 to 3, for one resource: the outcome, and the values by setting."""
    version = response.version

    def synonym() -> None:
        response.required_string()
        response.string()
        response.int8()  # source

    def setting() -> tuple[str, str | None]:
        found = response.required_string(), response.string()
        response.span(3)  # whether it is read-only, its source, whether it is sensitive
        if version >= 1:
            response.array(synonym)
        if version >= 3:
            response.int8()  # type
            response.string()  # documentation
        return found

    def resource() -> tuple[Outcome, dict[str, str | None]]:
        outcome = Outcome(response.int16(), response.string())
        response.int8()  # type
        response.required_string()
        return outcome, dict(response.array(setting))

    response.int32()  # throttle time
    return _only(response.array(resource))


def validate_config_request(version: int, kind: int, name: str, config: Mapping[str, str]) -> Request:
    """Encode versions 0 and 1 of AlterConfigs, which here only checks the whole configuration of a resource."""
    settings = array([string(setting) + string(value) for setting, value in config.items()])
    return Request(ALTER_CONFIGS, version, array([int8(kind) + string(name) + settings]) + int8(1))


def read_alter_config(response: Reader) -> Outcome:
    """Read versions 0 and 1, for one resource."""

    def resource() -> Outcome:
        outcome = Outcome(response.int16(), response.string())
        response.int8()  # type
        response.required_string()
        return outcome

    response.int32()  # throttle time
    return _only(response.array(resource))


def _only(rows: list[R]) -> R:
    if len(rows) != 1:
        raise MalformedResponse(f"{len(rows)} resources where one was requested")
    return rows[0]
