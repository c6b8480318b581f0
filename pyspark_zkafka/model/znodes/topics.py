"""Znodes of topics, partitions and the controller: path and decode.

====================================  ==============================================================================
znode                                 versions
====================================  ==============================================================================
``/brokers/topics/T``                 JSON 1 (0.8), 2 (2.4, adding and removing replicas), 3 (2.8, topic id); no data (0.7)
``/brokers/topics/T/partitions/P/state``  JSON 1 (0.8 on)
``/controller``                       a bare broker id (0.8 betas); JSON 1 (0.8 on), 2 (3.4, with the KRaft epoch)
``/controller_epoch``                 a bare integer
``/cluster/id``                       JSON "1" (0.10.1 on; the version is text)
``/migration``                        JSON (3.4 on); only after a migration to KRaft has started
====================================  ==============================================================================

Like Kafka, decoding accepts any order of keys, unknown keys and newer versions. It raises `CodecError` for other
deviations. Keys that no reader needs are not checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark_zkafka.model.nouns import WITHOUT_LEADER, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.codec import ZnodeJson, child_path, decode_text, is_int32, parse_integer

TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
MIGRATION = "/migration"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_PARTITION = re.compile(r"[0-9]{1,10}")
_TOPIC = 'a topic: JSON such as {"version":1,"partitions":{"0":[1,2]}}'
_STATE = 'a partition state: JSON such as {"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'
_CONTROLLER = 'a controller: JSON such as {"version":1,"brokerid":1,"timestamp":"0"}, or a broker id'


def topic_path(topic: str) -> str:
    """``/brokers/topics/T``."""
    return child_path(TOPICS, topic)


def decode_topic(path: str, data: bytes | None, czxid: int | None = None) -> Topic:
    """Decode a topic. Its name is the last part of `path`.

    A missing version is 1, and versions above 3 are read as 3. Raises CodecError for any other form, or no data, which is
    the layout of 0.7.
    """
    found = ZnodeJson.parse(path, data, _TOPIC)
    version = found.integer("version", 1)
    if version < 1:
        found.fail("version is 1 or more")
    replicas = found.nested("partitions")
    partitions = {_partition(found, name): replicas.integers(name) for name in replicas.fields}
    topic_id = found.optional_text("topic_id") if version > 2 else None
    return Topic(path.rpartition("/")[2], dict(sorted(partitions.items())), topic_id, czxid)


def decode_target_replicas(path: str, data: bytes | None) -> dict[int, tuple[int, ...]]:
    """Decode the target replicas of partitions that are being reassigned, as controllers from 2.4 on write them."""
    found = ZnodeJson.parse(path, data, _TOPIC)
    adding, removing = (_replicas(found, key) for key in ("adding_replicas", "removing_replicas"))
    current = found.nested("partitions")
    names = sorted({*adding, *removing} & current.fields.keys(), key=lambda name: _partition(found, name))
    return {
        _partition(found, name): tuple(r for r in current.integers(name) if r not in removing.get(name, ()))
        for name in names
    }


def _replicas(found: ZnodeJson, key: str) -> dict[str, tuple[int, ...]]:
    """Return the partitions under a key that have replicas, empty if the key is missing."""
    if key not in found.fields:
        return {}
    inner = found.nested(key)
    return {name: ids for name in inner.fields if (ids := inner.integers(name))}


def _partition(found: ZnodeJson, name: str) -> int:
    if not (_PARTITION.fullmatch(name) and is_int32(int(name))):
        found.fail("a partition is a whole number")
    return int(name)


def partition_state_path(partition: TopicPartition) -> str:
    """``/brokers/topics/T/partitions/P/state``."""
    return f"{topic_path(partition.topic)}/partitions/{partition.partition}/state"


def decode_partition_state(path: str, data: bytes | None, czxid: int | None = None) -> PartitionState:
    """Decode leader and ISR of a partition. The leader is -1 if there is none or null, and during deletion (-2)."""
    found = ZnodeJson.parse(path, data, _STATE)
    has_no_leader = "leader" in found.fields and found.fields["leader"] is None
    return PartitionState(
        WITHOUT_LEADER if has_no_leader else max(WITHOUT_LEADER, found.integer("leader")),
        found.integer("leader_epoch"),
        found.integers("isr"),
        found.integer("controller_epoch"),
        czxid,
    )


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """The broker that is the controller, and the time of its election: milliseconds as text, None if unknown.

    `kraft_epoch` is -1 unless the controller is KRaft's, during or after a migration.
    """

    broker: int
    timestamp: str | None = None
    kraft_epoch: int = -1


def decode_controller(path: str, data: bytes | None) -> ControllerInfo:
    """Decode the present controller."""
    text = decode_text(path, data, _CONTROLLER)
    if _INTEGER.fullmatch(text.strip()):
        return ControllerInfo(parse_integer(path, text.strip().encode(), _CONTROLLER))
    found = ZnodeJson.parse(path, data, _CONTROLLER)
    return ControllerInfo(found.integer("brokerid"), found.timestamp(), found.integer("kraftControllerEpoch", -1))


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """Decode the number of controller elections so far."""
    return parse_integer(path, data, "a controller epoch, a bare integer")


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Decode the cluster's id: 22 characters of URL-safe base64."""
    return ZnodeJson.parse(path, data, 'a cluster id: JSON such as {"version":"1","id":"..."}').text("id")
