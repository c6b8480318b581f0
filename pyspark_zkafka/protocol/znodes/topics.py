"""Znodes of topics, partitions and the controller: path, encode, decode.

====================================  ==============================================================================
znode                                 versions
====================================  ==============================================================================
``/brokers/topics/T``                 JSON 1 (0.8), 2 (2.4, adding and removing replicas), 3 (2.8, topic id); no data (0.7)
``/brokers/topics/T/B``               0.7: the number of the topic's partitions on broker B, ``2``
``/brokers/topics/T/partitions/P/state``  JSON 1 (0.8 on)
``/controller``                       a bare broker id (0.8 betas); JSON 1 (0.8 on), 2 (3.4, with the KRaft epoch)
``/controller_epoch``                 a bare integer
``/cluster/id``                       JSON "1" (0.10.1 on; the version is text)
``/feature``                          JSON 1 (2.7, levels in an object), 2 (3.3, bare levels)
====================================  ==============================================================================

Decoding is as lenient as Kafka where that is harmless (any order of keys, unknown keys, newer versions) and raises
`CodecError` for the rest. Encoding produces the bytes of the JVM: no blanks, and the order of keys of its Scala maps,
here as recorded from real brokers. Numbers that are keys (partitions) have no order in the JVM; they are written in the
mapping's own, so that decode and encode give the same bytes. Brokers' znodes are in `broker_znodes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import NO_LEADER, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.znodes.json import ZnodeJson, decode_text, encode_json, is_int32, parse_integer

__all__ = [
    "CLUSTER_ID",
    "CONTROLLER",
    "CONTROLLER_EPOCH",
    "FEATURE",
    "TOPICS",
    "ControllerInfo",
    "FeatureInfo",
    "TopicRegistration",
    "decode_cluster_id",
    "decode_controller",
    "decode_controller_epoch",
    "decode_features",
    "decode_legacy_partition_count",
    "decode_partition_state",
    "decode_topic",
    "encode_cluster_id",
    "encode_controller",
    "encode_controller_epoch",
    "encode_features",
    "encode_legacy_partition_count",
    "encode_partition_state",
    "encode_topic",
    "is_legacy_topic",
    "legacy_partition_count_path",
    "partition_state_path",
    "topic_path",
]

TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_PARTITION = re.compile(r"[0-9]{1,10}")
_TOPIC = 'a topic: JSON such as {"version":1,"partitions":{"0":[1,2]}}'
_STATE = 'a partition state: JSON such as {"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'
_CONTROLLER = 'a controller: JSON such as {"version":1,"brokerid":1,"timestamp":"0"}, or a broker id'
_FEATURE = 'feature levels: JSON such as {"features":{},"version":2,"status":1}'


# --- topics ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRegistration:
    """The contents of a topic's znode: replicas by partition, in the znode's own order of partitions.

    `adding` and `removing` are the replicas that a running reassignment adds and removes.
    """

    partitions: Mapping[int, tuple[int, ...]]
    version: int = 3
    topic_id: str | None = None
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def topic(self, name: str, czxid: int | None = None) -> Topic:
        """The topic for planners, partitions in numeric order."""
        return Topic(name, dict(sorted(self.partitions.items())), self.topic_id, czxid)


def topic_path(topic: str) -> str:
    """``/brokers/topics/T``."""
    return f"{TOPICS}/{topic}"


def decode_topic(path: str, data: bytes | None) -> TopicRegistration:
    """A topic's partitions and their replicas, the preferred leader first.

    A missing version is 1; versions past 3 are read as 3.

    Raises
    ------
    CodecError
        Anything else; also for null data, the layout of 0.7: see `is_legacy_topic`.
    """
    found = ZnodeJson.parse(path, data, _TOPIC)
    version = found.integer("version", 1)
    if version < 1:
        found.fail("version is 1 or more")
    return TopicRegistration(
        _replicas(found, "partitions"),
        version,
        found.optional_text("topic_id") if version > 2 else None,
        _replicas(found, "adding_replicas") if "adding_replicas" in found.fields else {},
        _replicas(found, "removing_replicas") if "removing_replicas" in found.fields else {},
    )


def encode_topic(topic: TopicRegistration) -> bytes:
    """The bytes that a broker writes for the registration's version, partitions in the mapping's order."""
    partitions, moves = _texts(topic.partitions), {"adding_replicas": _texts(topic.adding)}
    moves["removing_replicas"] = _texts(topic.removing)
    if topic.version == 1:
        return encode_json({"version": 1, "partitions": partitions})
    if topic.version == 2:
        return encode_json({"version": 2, "partitions": partitions, **moves})
    identity = {} if topic.topic_id is None else {"topic_id": topic.topic_id}
    return encode_json({"partitions": partitions, **identity, **moves, "version": topic.version})


def _replicas(found: ZnodeJson, key: str) -> dict[int, tuple[int, ...]]:
    inner = found.nested(key)
    return {_partition(found, name): inner.integers(name) for name in inner.fields}


def _partition(found: ZnodeJson, name: str) -> int:
    if not (_PARTITION.fullmatch(name) and is_int32(int(name))):
        found.fail("a partition is a whole number")
    return int(name)


def _texts(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {str(partition): ids for partition, ids in replicas.items()}


def is_legacy_topic(data: bytes | None) -> bool:
    """True if a topic's znode has the layout of 0.7: no data, and a child for each broker that has partitions of it."""
    return not data


def legacy_partition_count_path(topic: str, broker: int) -> str:
    """``/brokers/topics/T/B`` of 0.7."""
    return f"{TOPICS}/{topic}/{broker}"


def decode_legacy_partition_count(path: str, data: bytes | None) -> int:
    """The number of a topic's partitions on a broker of 0.7."""
    count = parse_integer(path, data, "a number of partitions")
    if count < 0:
        raise CodecError(path, data, "a number of partitions, 0 or more")
    return count


def encode_legacy_partition_count(count: int) -> bytes:
    """The bytes that a broker of 0.7 writes."""
    return str(count).encode()


# --- partition states --------------------------------------------------------------------------------------------------


def partition_state_path(partition: TopicPartition) -> str:
    """``/brokers/topics/T/partitions/P/state``."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def decode_partition_state(path: str, data: bytes | None, czxid: int | None = None) -> PartitionState:
    """Leader and ISR of a partition; the leader is -1 if there is none, if it is null, and during deletion (-2)."""
    found = ZnodeJson.parse(path, data, _STATE)
    nobody = "leader" in found.fields and found.fields["leader"] is None
    return PartitionState(
        NO_LEADER if nobody else max(NO_LEADER, found.integer("leader")),
        found.integer("leader_epoch"),
        found.integers("isr"),
        found.integer("controller_epoch"),
        czxid,
    )


def encode_partition_state(state: PartitionState) -> bytes:
    """The bytes that every controller from 0.8 to 3.9 writes."""
    return encode_json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


# --- controller, cluster id, features ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """The broker that is the controller; `version` is 0 for a bare broker id, `kraft_epoch` None before version 2."""

    broker: int
    version: int = 2
    timestamp: str | None = None
    kraft_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """The finalised feature levels; for version 1, whose levels are bounds, the highest. `status` 1 is enabled."""

    features: Mapping[str, int]
    version: int = 2
    status: int = 1


def decode_controller(path: str, data: bytes | None) -> ControllerInfo:
    """The broker that is the controller."""
    text = decode_text(path, data, _CONTROLLER)
    if _INTEGER.fullmatch(text.strip()):
        return ControllerInfo(parse_integer(path, text.strip().encode(), _CONTROLLER), 0)
    found = ZnodeJson.parse(path, data, _CONTROLLER)
    epoch = found.integer("kraftControllerEpoch") if "kraftControllerEpoch" in found.fields else None
    return ControllerInfo(found.integer("brokerid"), found.integer("version", 1), found.timestamp(), epoch)


def encode_controller(controller: ControllerInfo) -> bytes:
    """The bytes that a controller of the value's version writes."""
    if controller.version == 0:
        return str(controller.broker).encode()
    fields: dict[str, object] = {"version": controller.version, "brokerid": controller.broker}
    fields["timestamp"] = controller.timestamp
    if controller.kraft_epoch is not None:
        fields["kraftControllerEpoch"] = controller.kraft_epoch
    return encode_json(fields)


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """The number of controller elections so far."""
    return parse_integer(path, data, "a controller epoch, a bare integer")


def encode_controller_epoch(epoch: int) -> bytes:
    """The epoch in decimal."""
    return str(epoch).encode()


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """The cluster's id: 22 characters of URL-safe base64."""
    return ZnodeJson.parse(path, data, 'a cluster id: JSON such as {"version":"1","id":"..."}').text("id")


def encode_cluster_id(cluster_id: str) -> bytes:
    """The bytes that the first broker writes; the version is text."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_features(path: str, data: bytes | None) -> FeatureInfo:
    """The finalised feature levels."""
    found = ZnodeJson.parse(path, data, _FEATURE)
    features = found.nested("features")
    levels = {name: _level(features, name, value) for name, value in features.fields.items()}
    return FeatureInfo(levels, found.integer("version"), found.integer("status"))


def encode_features(info: FeatureInfo) -> bytes:
    """The bytes that a controller writes, in the form of version 2."""
    return encode_json({"features": info.features, "version": info.version, "status": info.status})


def _level(features: ZnodeJson, name: str, value: object) -> int:
    return features.nested(name).integer("max_version_level") if isinstance(value, dict) else features.integer(name)
