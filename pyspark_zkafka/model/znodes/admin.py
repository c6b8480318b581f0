"""Znodes of topic configuration and administration: path, decode, and encode as Kafka's tools do; settings of topics.

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

References
----------
org.apache.kafka.storage.internals.log.LogConfig, Kafka 3.9.1, for `config_problems`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.codec import ZnodeJson, child_path, encode_json

TOPIC_CONFIGS = "/config/topics"
CONFIG_CHANGE = "/config/changes/config_change_"
"""The path of a sequential znode. ZooKeeper appends ten digits."""
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"

_CONFIG = 'a topic config: JSON such as {"version":1,"config":{"retention.ms":"86400000"}}'
_REASSIGNMENT = 'a reassignment: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
_ELECTION = 'a preferred replica election: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0}]}'


_LONG, _INT = 2**63 - 1, 2**31 - 1

_LEAST_LONG = """
    delete.retention.ms=0 file.delete.delay.ms=0 flush.messages=1 flush.ms=0 local.retention.bytes=-2 local.retention.ms=-2
    max.compaction.lag.ms=1 message.timestamp.after.max.ms=0 message.timestamp.before.max.ms=0
    message.timestamp.difference.max.ms=0 min.compaction.lag.ms=0 retention.ms=-1 segment.jitter.ms=0 segment.ms=1
"""
_LEAST_INT = """
    compression.gzip.level=-1 compression.lz4.level=1 compression.zstd.level=-131072 index.interval.bytes=0
    max.message.bytes=0 min.insync.replicas=1 segment.bytes=14 segment.index.bytes=4
"""
_POLICY, _RATIO = "cleanup.policy", "min.cleanable.dirty.ratio"
_BOOLEANS = """
    message.downconversion.enable preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
    unclean.leader.election.enable
"""
_FORMS = {
    _POLICY: "compact or delete",
    _RATIO: "a number from 0 to 1",
    "compression.type": "uncompressed or zstd or lz4 or snappy or gzip or producer",
    "message.timestamp.type": "CreateTime or LogAppendTime",
    **dict.fromkeys(_BOOLEANS.split(), "true or false"),
}
_TEXTS = {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "message.format.version"}


def _least(text: str, most: int) -> dict[str, tuple[int, int]]:
    return {name: (int(least), most) for name, least in (pair.split("=") for pair in text.split())}


_RANGES = {**_least(_LEAST_LONG, _LONG), **_least(_LEAST_INT, _INT), "retention.bytes": (-_LONG - 1, _LONG)}


@dataclass(frozen=True, slots=True)
class AdminState:
    """Administration in progress: new replicas by partition, partitions to elect, sorted topics to delete.

    `unreadable` has the errors of malformed znodes of topics, by path. Reassignments of these topics are unknown.
    """

    reassignments: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    preferred_elections: tuple[TopicPartition, ...] = ()
    deletions: tuple[str, ...] = ()
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)


def topic_config_path(topic: str) -> str:
    """``/config/topics/T``."""
    return child_path(TOPIC_CONFIGS, topic)


def decode_topic_config(path: str, data: bytes | None) -> dict[str, str]:
    """Decode a topic's own settings, in the znode's order, without the brokers' defaults."""
    return ZnodeJson.parse(path, data, _CONFIG).nested("config").texts()


def encode_topic_config(config: Mapping[str, str]) -> bytes:
    """Encode settings in the mapping's order. Kafka writes them in the order of a hash map."""
    return encode_json({"version": 1, "config": dict(config)})


def encode_config_change(topic: str, registration: int) -> bytes:
    """Encode the notice of a changed configuration, in the newest form that all brokers can read.

    `registration` is the lowest version of the brokers' registrations: 1 for 0.8, 2 and 3 for 0.9 to 0.10.1.
    """
    if registration < 2:
        return json.dumps(topic).encode()
    if registration < 4:
        return encode_json({"version": 1, "entity_type": "topics", "entity_name": topic})
    return encode_json({"version": 2, "entity_path": f"topics/{topic}"})


def decode_reassignment(path: str, data: bytes | None) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Decode partitions and their new replicas, the preferred leader first, in order. A partition may occur twice."""
    found = ZnodeJson.parse(path, data, _REASSIGNMENT)
    return [(_partition(item), item.integers("replicas")) for item in found.objects("partitions")]


def encode_reassignment(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Encode as Kafka's tool does, partitions in the mapping's order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) | {"replicas": ids} for tp, ids in replicas.items()]})


def decode_preferred_election(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Decode the partitions that are to elect their preferred replica, in the znode's order."""
    found = ZnodeJson.parse(path, data, _ELECTION)
    return tuple(_partition(item) for item in found.objects("partitions"))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode as Kafka's tool does, partitions in the given order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) for tp in partitions]})


def delete_topic_path(topic: str) -> str:
    """``/admin/delete_topics/T``; created with null data."""
    return child_path(DELETE_TOPICS, topic)


def _partition(item: ZnodeJson) -> TopicPartition:
    return TopicPartition(item.text("topic"), item.integer("partition"))


def _fields(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


def config_problems(settings: Mapping[str, str]) -> list[str]:
    """Return all problems of a topic's settings that do not depend on a broker's version.

    >>> config_problems({"min.insync.replicas": "two", "cleanup.policy": "compact,delete"})
    ["min.insync.replicas is 'two'; expected a whole number from 1 to 2147483647"]
    """
    problems = []
    for name, value in settings.items():
        if name in _TEXTS:
            continue
        if name not in _RANGES and name not in _FORMS:
            problems.append(f"Unknown topic config name: {name}")
        elif (expected := _expected_form(name, value)) is not None:
            problems.append(f"{name} is {value!r}; expected {expected}")
    return problems


def _expected_form(name: str, value: str) -> str | None:
    """Return the form that a value should have, None if it has it."""
    if name in _RANGES:
        least, most = _RANGES[name]
        digits = value.removeprefix("-").removeprefix("+")
        is_integer = digits.isdecimal() and digits.isascii() and len(digits) < 20
        return None if is_integer and least <= int(value) <= most else f"a whole number from {least} to {most}"
    if name == _RATIO:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        return None if 0 <= number <= 1 else _FORMS[name]
    words = {word.strip() for word in value.split(",")} if name == _POLICY else {value}
    return None if words <= set(_FORMS[name].split(" or ")) else _FORMS[name]
