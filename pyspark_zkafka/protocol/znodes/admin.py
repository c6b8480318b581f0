"""Znodes of topic configuration and of administration: path, encode, decode.

=========================================  ========================================================================
znode                                      versions
=========================================  ========================================================================
``/config/topics/T``                       JSON 1 (0.8 on)
``/config/changes/config_change_N``        the topic's name as JSON text (0.8); JSON 1 (0.8.2 betas, 0.9), 2 (0.9.0.1 on)
``/admin/reassign_partitions``             JSON 1 (0.8 on); gone when the reassignment is done
``/admin/preferred_replica_election``      JSON 1 (0.8 on); gone when the election is done
``/admin/delete_topics/T``                 no data (0.8.1 on); gone when the topic is
``/latest_producer_id_block``              JSON 1 (0.11 on), first and last id as text
=========================================  ========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes.json import ZnodeJson, decode_text, encode_json, parse_long

__all__ = [
    "CONFIG_CHANGES",
    "DELETE_TOPICS",
    "PREFERRED_REPLICA_ELECTION",
    "PRODUCER_ID_BLOCK",
    "REASSIGN_PARTITIONS",
    "TOPIC_CONFIGS",
    "AdminState",
    "ConfigChange",
    "ProducerIdBlock",
    "config_change_path",
    "decode_config_change",
    "decode_preferred_election",
    "decode_producer_id_block",
    "decode_reassignment",
    "decode_topic_config",
    "delete_topic_path",
    "encode_config_change",
    "encode_preferred_election",
    "encode_producer_id_block",
    "encode_reassignment",
    "encode_topic_config",
    "topic_config_path",
]

TOPIC_CONFIGS = "/config/topics"
CONFIG_CHANGES = "/config/changes"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

_CONFIG = 'a topic config: JSON such as {"version":1,"config":{"retention.ms":"86400000"}}'
_CHANGE = 'a config change: JSON such as {"version":2,"entity_path":"topics/T"}'
_REASSIGNMENT = 'a reassignment: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
_ELECTION = 'a preferred replica election: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0}]}'
_BLOCK = 'a block of producer ids: JSON such as {"version":1,"broker":0,"block_start":"0","block_end":"999"}'


@dataclass(frozen=True, slots=True)
class AdminState:
    """Administration that is under way: new replicas by partition, partitions to elect, topics to delete (sorted)."""

    reassignments: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    preferred_elections: tuple[TopicPartition, ...] = ()
    deletions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of the configuration of ``topics/T``, ``users/U/clients/C`` etc.; `version` is 0 for the text of 0.8."""

    entity_path: str
    version: int = 2


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The latest block of producer ids that a broker allocated, both ends included."""

    broker: int
    first: int
    last: int


def topic_config_path(topic: str) -> str:
    """``/config/topics/T``."""
    return f"{TOPIC_CONFIGS}/{topic}"


def decode_topic_config(path: str, data: bytes | None) -> dict[str, str]:
    """A topic's own configuration, in the znode's order; the defaults of the brokers are not in it."""
    return ZnodeJson.parse(path, data, _CONFIG).nested("config").texts()


def encode_topic_config(config: Mapping[str, str]) -> bytes:
    """The bytes that a broker writes, entries in the mapping's order: in the JVM, that of a hash map."""
    return encode_json({"version": 1, "config": dict(config)})


def config_change_path(sequence: int) -> str:
    """``/config/changes/config_change_N``, N with ten digits."""
    return f"{CONFIG_CHANGES}/config_change_{sequence:010d}"


def decode_config_change(path: str, data: bytes | None) -> ConfigChange:
    """The change of configuration in a znode."""
    text = decode_text(path, data, _CHANGE)
    if text.strip().startswith('"'):
        return ConfigChange(f"topics/{_json_text(path, data, text)}", 0)
    found = ZnodeJson.parse(path, data, _CHANGE)
    version = found.integer("version")
    if version == 1:
        return ConfigChange(f"{found.text('entity_type')}/{found.text('entity_name')}", 1)
    if version != 2:
        found.fail("version is 1 or 2")
    return ConfigChange(found.text("entity_path"))


def encode_config_change(change: ConfigChange) -> bytes:
    """The bytes for the change's version; versions 0 and 1 need ``type/name``."""
    kind, _, name = change.entity_path.partition("/")
    if change.version == 0:
        return json.dumps(name, ensure_ascii=False).encode()
    if change.version == 1:
        return encode_json({"version": 1, "entity_type": kind, "entity_name": name})
    return encode_json({"version": 2, "entity_path": change.entity_path})


def decode_reassignment(path: str, data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of partitions, the preferred leader first, in the znode's order."""
    found = ZnodeJson.parse(path, data, _REASSIGNMENT)
    return {_partition(item): item.integers("replicas") for item in _items(found)}


def encode_reassignment(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The bytes that Kafka's tool writes, partitions in the mapping's order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) | {"replicas": ids} for tp, ids in replicas.items()]})


def decode_preferred_election(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions whose preferred replica is to be elected, in the znode's order."""
    return tuple(_partition(item) for item in _items(ZnodeJson.parse(path, data, _ELECTION)))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes that Kafka's tool writes, partitions in the given order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) for tp in partitions]})


def delete_topic_path(topic: str) -> str:
    """``/admin/delete_topics/T``, to be created with null data."""
    return f"{DELETE_TOPICS}/{topic}"


def decode_producer_id_block(path: str, data: bytes | None) -> ProducerIdBlock:
    """The block of producer ids that was allocated last."""
    found = ZnodeJson.parse(path, data, _BLOCK)
    first, last = (parse_long(path, found.text(key).encode(), _BLOCK) for key in ("block_start", "block_end"))
    return ProducerIdBlock(found.integer("broker"), first, last)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The bytes that a broker writes."""
    fields = {"version": 1, "broker": block.broker, "block_start": str(block.first), "block_end": str(block.last)}
    return encode_json(fields)


def _json_text(path: str, data: bytes | None, text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise CodecError(path, data, _CHANGE) from error


def _items(found: ZnodeJson) -> list[ZnodeJson]:
    return [found.inner(item, "each of partitions") for item in found.array("partitions")]


def _partition(item: ZnodeJson) -> TopicPartition:
    return TopicPartition(item.text("topic"), item.integer("partition"))


def _fields(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}
