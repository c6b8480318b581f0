"""Znodes of brokers, topics, partitions, the controller and administration: path and decode.

Administration and topic configuration are also encoded, as Kafka's tools do. `config_problems` checks a topic's settings.

====================================  ==============================================================================
znode                                 versions
====================================  ==============================================================================
``/brokers/ids/N``                    text (0.7); JSON 1 to 5, as below
``/brokers/topics/T``                 JSON 1 (0.8), 2 (2.4, adding and removing replicas), 3 (2.8, topic id); no data (0.7)
``/brokers/topics/T/partitions/P/state``  JSON 1 (0.8 on)
``/controller``                       a bare broker id (0.8 betas); JSON 1 (0.8 on), 2 (3.4, with the KRaft epoch)
``/controller_epoch``                 a bare integer
``/cluster/id``                       JSON "1" (0.10.1 on; the version is text)
``/migration``                        JSON (3.4 on); only after a migration to KRaft has started
``/config/topics/T``                  JSON 1 (0.8 on)
``/config/changes/config_change_N``   the topic's name as JSON text (0.8); JSON 1 (0.9 on), 2 (0.10.1 on); deleted by the
                                      brokers after 15 minutes
``/admin/reassign_partitions``        JSON 1 (0.8 on); gone when the reassignment is done
``/admin/preferred_replica_election``  JSON 1 (0.8 on); gone when the election is done
``/admin/delete_topics/T``            no data (0.8.1 on); gone when the topic is
====================================  ==============================================================================

Versions of ``/brokers/ids/N``:

=======  =================  ============================================================================================
version  Kafka              form
=======  =================  ============================================================================================
none     0.7                text ``creator:host:port``, by its documentation ``host:port``
1        0.8                ``{"jmx_port":-1,"timestamp":"..","host":"h","version":1,"port":9092}``
2        0.9                version 1 and ``endpoints``
3        0.10.0, 0.10.1     version 2 and, where one is configured, ``rack``
4        0.10.2 to 2.6      version 3 and ``listener_security_protocol_map``
5        2.7 on             version 4 and ``features``
=======  =================  ============================================================================================

Like Kafka, decoding accepts any order of keys, unknown keys and newer versions. It raises `CodecError` for other
deviations. Keys that no reader needs are not checked.

References
----------
org.apache.kafka.storage.internals.log.LogConfig, Kafka 3.9.1, for `config_problems`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import WITHOUT_LEADER, Broker, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.codec import ZnodeJson, child_path, decode_text, encode_json, is_int32, parse_integer

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
MIGRATION = "/migration"
TOPIC_CONFIGS = "/config/topics"
CONFIG_CHANGE = "/config/changes/config_change_"
"""The path of a sequential znode. ZooKeeper appends ten digits."""

REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"

_BROKER = "a broker registration: JSON with version, host, port and endpoints, or host:port"
_TOPIC = 'a topic: JSON such as {"version":1,"partitions":{"0":[1,2]}}'
_STATE = 'a partition state: JSON such as {"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'
_CONTROLLER = 'a controller: JSON such as {"version":1,"brokerid":1,"timestamp":"0"}, or a broker id'
_CONFIG = 'a topic config: JSON such as {"version":1,"config":{"retention.ms":"86400000"}}'
_REASSIGNMENT = 'a reassignment: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
_ELECTION = 'a preferred replica election: JSON such as {"version":1,"partitions":[{"topic":"T","partition":0}]}'

_ENDPOINT = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([^\[\]\s/]*)\]|([^\[\]:\s/]*)):([0-9]{1,5})")
_TEXT_BROKER = re.compile(r"(?:[^:]*:)?(?P<host>[^:\s\[\]]+):(?P<port>[0-9]{1,5})")
_PLAINTEXT = "PLAINTEXT"
_MAX_PORT = 65_535
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PARTITION = re.compile(r"[0-9]{1,10}")

_POLICY, _RATIO = "cleanup.policy", "min.cleanable.dirty.ratio"
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
_CONFIG_BOOLEANS = """
    message.downconversion.enable preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
    unclean.leader.election.enable
"""
_CONFIG_FORMS = {
    _POLICY: "compact or delete",
    _RATIO: "a number from 0 to 1",
    "compression.type": "uncompressed or zstd or lz4 or snappy or gzip or producer",
    "message.timestamp.type": "CreateTime or LogAppendTime",
    **dict.fromkeys(_CONFIG_BOOLEANS.split(), "true or false"),
}
_CONFIG_TEXTS = {
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.format.version",
}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?")


def _ranges(text: str, most: int) -> dict[str, tuple[int, int]]:
    return {name: (int(least), most) for name, least in (pair.split("=") for pair in text.split())}


_CONFIG_RANGES = {**_ranges(_LEAST_LONG, _LONG), **_ranges(_LEAST_INT, _INT), "retention.bytes": (-_LONG - 1, _LONG)}


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The contents of a broker's znode. Planners need only `broker`.

    `version` is 0 for the text of 0.7. `host` is None and `port` -1 if the broker has no PLAINTEXT listener.
    `timestamp` is milliseconds, as text.
    """

    broker: Broker
    version: int
    host: str | None
    port: int
    timestamp: str | None = None


def decode_broker(path: str, data: bytes | None) -> BrokerRegistration:
    """Decode a broker's registration. The broker's id is the last part of `path`.

    Versions above 5 are read as 5. Version 1 and 0.7 have one PLAINTEXT endpoint. In versions 2 and 3, or if the map of
    listeners lacks a listener, its name is also its security protocol. Raises CodecError for any other form, or a version
    below 1.
    """
    broker_id = parse_integer(path, path.rpartition("/")[2].encode(), "a broker id as the znode's name")
    text = decode_text(path, data, _BROKER)
    if not text.lstrip().startswith("{"):
        match = _TEXT_BROKER.fullmatch(text.strip())
        if match is None or int(match["port"]) > _MAX_PORT:
            raise CodecError(path, data, _BROKER)
        endpoint = Endpoint(_PLAINTEXT, _PLAINTEXT, match["host"], int(match["port"]))
        return BrokerRegistration(Broker(broker_id, (endpoint,)), 0, endpoint.host, endpoint.port)
    found = ZnodeJson.parse(path, data, _BROKER)
    version = found.integer("version")
    if version < 1:
        found.fail("version is 1 or more")
    host, port = found.optional_text("host"), found.integer("port")
    broker = Broker(broker_id, _endpoints(found, version, host, port), found.optional_text("rack"))
    return BrokerRegistration(broker, version, host, port, found.timestamp())


def _endpoints(found: ZnodeJson, version: int, host: str | None, port: int) -> tuple[Endpoint, ...]:
    if version == 1:
        if host is None or not 0 <= port <= _MAX_PORT:
            found.fail("version 1 has host and port")
        return (Endpoint(_PLAINTEXT, _PLAINTEXT, host, port),)
    protocols = found.nested("listener_security_protocol_map").texts() if version > 3 else {}
    endpoints = []
    for url in found.array("endpoints"):
        match = _ENDPOINT.fullmatch(found.as_text(url, "an endpoint"))
        if match is None or int(match[4]) > _MAX_PORT:
            found.fail("an endpoint is LISTENER://host:port")
        listener = match[1]
        endpoints.append(Endpoint(listener, protocols.get(listener, listener), match[2] or match[3] or "", int(match[4])))
    return tuple(endpoints)


def topic_path(topic: str) -> str:
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
    return [(_named_partition(item), item.integers("replicas")) for item in found.objects("partitions")]


def encode_reassignment(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Encode as Kafka's tool does, partitions in the mapping's order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) | {"replicas": ids} for tp, ids in replicas.items()]})


def decode_preferred_election(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Decode the partitions that are to elect their preferred replica, in the znode's order."""
    found = ZnodeJson.parse(path, data, _ELECTION)
    return tuple(_named_partition(item) for item in found.objects("partitions"))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode as Kafka's tool does, partitions in the given order."""
    return encode_json({"version": 1, "partitions": [_fields(tp) for tp in partitions]})


def delete_topic_path(topic: str) -> str:
    """``/admin/delete_topics/T``; created with null data."""
    return child_path(DELETE_TOPICS, topic)


def _named_partition(item: ZnodeJson) -> TopicPartition:
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
        if name in _CONFIG_TEXTS:
            continue
        if name not in _CONFIG_RANGES and name not in _CONFIG_FORMS:
            problems.append(f"Unknown topic config name: {name}")
        elif (expected := _expected_form(name, value)) is not None:
            problems.append(f"{name} is {value!r}; expected {expected}")
    return problems


def _expected_form(name: str, value: str) -> str | None:
    """Return the form that a value should have, None if it has it."""
    if name in _CONFIG_RANGES:
        least, most = _CONFIG_RANGES[name]
        is_integer = re.fullmatch("[+-]?[0-9]{1,19}", value)
        return None if is_integer and least <= int(value) <= most else f"a whole number from {least} to {most}"
    if name == _RATIO:
        return None if _DECIMAL.fullmatch(value) and 0 <= float(value) <= 1 else _CONFIG_FORMS[name]
    words = {word.strip() for word in value.split(",")} if name == _POLICY else {value}
    return None if words <= set(_CONFIG_FORMS[name].split(" or ")) else _CONFIG_FORMS[name]
