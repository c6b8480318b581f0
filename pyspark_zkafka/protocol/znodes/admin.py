"""Znodes of topic configuration and of administration: path and decode.

=========================================  ========================================================================
znode                                      versions
=========================================  ========================================================================
``/config/topics/T``                       JSON 1 (0.8 on)
``/admin/reassign_partitions``             JSON 1 (0.8 on); gone when the reassignment is done
``/admin/preferred_replica_election``      JSON 1 (0.8 on); gone when the election is done
``/admin/delete_topics/T``                 no data (0.8.1 on); gone when the topic is
=========================================  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes.json import ZnodeJson

__all__ = [
    "DELETE_TOPICS",
    "PREFERRED_REPLICA_ELECTION",
    "REASSIGN_PARTITIONS",
    "TOPIC_CONFIGS",
    "AdminState",
    "decode_preferred_election",
    "decode_reassignment",
    "decode_topic_config",
    "topic_config_path",
]

TOPIC_CONFIGS = "/config/topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"

_CONFIG = 'a topic config: JSON such as {"version":1,"config":{"retention.ms":"86400000"}}'
_REASSIGNMENT = 'a reassignment: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
_ELECTION = 'a preferred replica election: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0}]}'


@dataclass(frozen=True, slots=True)
class AdminState:
    """Administration that is under way: new replicas by partition, partitions to elect, topics to delete (sorted)."""

    reassignments: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    preferred_elections: tuple[TopicPartition, ...] = ()
    deletions: tuple[str, ...] = ()


def topic_config_path(topic: str) -> str:
    """``/config/topics/T``."""
    return f"{TOPIC_CONFIGS}/{topic}"


def decode_topic_config(path: str, data: bytes | None) -> dict[str, str]:
    """A topic's own configuration, in the znode's order; the defaults of the brokers are not in it."""
    return ZnodeJson.parse(path, data, _CONFIG).nested("config").texts()


def decode_reassignment(path: str, data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of partitions, the preferred leader first, in the znode's order."""
    found = ZnodeJson.parse(path, data, _REASSIGNMENT)
    return {_partition(item): item.integers("replicas") for item in found.objects("partitions")}


def decode_preferred_election(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions whose preferred replica is to be elected, in the znode's order."""
    found = ZnodeJson.parse(path, data, _ELECTION)
    return tuple(_partition(item) for item in found.objects("partitions"))


def _partition(item: ZnodeJson) -> TopicPartition:
    return TopicPartition(item.text("topic"), item.integer("partition"))
