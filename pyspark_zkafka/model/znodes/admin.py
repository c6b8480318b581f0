"""Znodes of topic configuration and of administration: path, decode, and encode as Kafka's tools do.

=========================================  ========================================================================
znode                                      versions
=========================================  ========================================================================
``/config/topics/T``                       JSON 1 (0.8 on)
``/config/changes/config_change_N``        the topic's name as JSON text (0.8); JSON 1 (0.9 on), 2 (0.10.1 on); deleted
                                           by the brokers after 15 minutes
``/admin/reassign_partitions``             JSON 1 (0.8 on); gone when the reassignment is done
``/admin/preferred_replica_election``      JSON 1 (0.8 on); gone when the election is done
``/admin/delete_topics/T``                 no data (0.8.1 on); gone when the topic is
=========================================  ========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.codec import ZnodeJson, child_path, encode_json

TOPIC_CONFIGS = "/config/topics"
CONFIG_CHANGE = "/config/changes/config_change_"
"""The path of a sequential znode, to which ZooKeeper appends ten digits."""
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"

_CONFIG = 'a topic config: JSON such as {"version":1,"config":{"retention.ms":"86400000"}}'
_REASSIGNMENT = 'a reassignment: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
_ELECTION = 'a preferred replica election: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0}]}'


@dataclass(frozen=True, slots=True)
class AdminState:
    """Administration that is under way: new replicas by partition, partitions to elect, topics to delete (sorted).

    `unreadable` has the errors of topics' malformed znodes, by path: whether these are being reassigned is unknown.
    """

    reassignments: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    preferred_elections: tuple[TopicPartition, ...] = ()
    deletions: tuple[str, ...] = ()
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)


def topic_config_path(topic: str) -> str:
    """``/config/topics/T``."""
    return child_path(TOPIC_CONFIGS, topic)


def decode_topic_config(path: str, data: bytes | None) -> dict[str, str]:
    """A topic's own configuration, in the znode's order; the defaults of the brokers are not in it."""
    return ZnodeJson.parse(path, data, _CONFIG).nested("config").texts()


def encode_topic_config(config: Mapping[str, str]) -> bytes:
    """The bytes that Kafka writes, settings in the mapping's order; in the JVM it is that of a hash map."""
    return encode_json({"version": 1, "config": dict(config)})


def encode_config_change(topic: str, registration: int) -> bytes:
    """The notice that a topic's configuration has changed, in the newest form that all brokers are sure to read.

    `registration` is the lowest version of the brokers' registrations: 1 for 0.8, 2 and 3 for 0.9 to 0.10.1.
    """
    if registration < 2:
        return json.dumps(topic).encode()
    if registration < 4:
        return encode_json({"version": 1, "entity_type": "topics", "entity_name": topic})
    return encode_json({"version": 2, "entity_path": f"topics/{topic}"})


def decode_reassignment(path: str, data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of partitions, the preferred leader first, in the znode's order."""
    return dict(reassigned_partitions(path, data))


def reassigned_partitions(path: str, data: bytes | None) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """The partitions and new replicas as they are listed; a partition may be listed twice."""
    found = ZnodeJson.parse(path, data, _REASSIGNMENT)
    return [(_partition(item), item.integers("replicas")) for item in found.objects("partitions")]


def encode_reassignment(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The bytes that Kafka's tool writes, partitions in the mapping's order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) | {"replicas": ids} for tp, ids in replicas.items()]})


def decode_preferred_election(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions whose preferred replica is to be elected, in the znode's order."""
    found = ZnodeJson.parse(path, data, _ELECTION)
    return tuple(_partition(item) for item in found.objects("partitions"))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes that Kafka's tool writes, partitions in the given order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) for tp in partitions]})


def delete_topic_path(topic: str) -> str:
    """``/admin/delete_topics/T``, which is created with null data."""
    return child_path(DELETE_TOPICS, topic)


def _partition(item: ZnodeJson) -> TopicPartition:
    return TopicPartition(item.text("topic"), item.integer("partition"))


def _fields(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}
