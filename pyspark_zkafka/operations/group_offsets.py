"""All offsets that ZooKeeper groups have stored, also those that nobody can use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset
from pyspark_zkafka.protocol.topic_names import is_topic_name
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import LegacyPartition
from pyspark_zkafka.protocol.znodes.paths import child_path
from pyspark_zkafka.zookeeper.connection import Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.groups import partition_znodes

__all__ = ["Partition", "StoredOffsets", "decode_stored", "key_of", "offset_znode", "stored_offsets"]

Partition = TopicPartition | LegacyPartition


def key_of(partition: Partition) -> int | str:
    """The number of a partition, or the name of its znode if it is one of Kafka 0.7.

    >>> key_of(TopicPartition("t", 3)), key_of(LegacyPartition("t", 1, 3))
    (3, '1-3')
    """
    return partition.partition if isinstance(partition, TopicPartition) else f"{partition.broker}-{partition.partition}"


def offset_znode(group: str, partition: Partition) -> str:
    """``/consumers/G/offsets/T/P``."""
    return f"{child_path(group_znodes.offsets_path(group), partition.topic)}/{key_of(partition)}"


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The znodes under a group's offsets.

    Parameters
    ----------
    offsets : dict
        The offsets, 0 or more, each with the transaction that wrote it.
    unset : set
        Partitions whose znode holds a number below 0, which all consumers treat as no offset.
    unreadable : dict
        The error of each partition whose znode does not hold a number.
    legacy : dict
        Positions of Kafka 0.7, in bytes, with the broker in the znode's name.
    misnamed : dict
        The error of each znode that is not named after a partition, or its parent not after a topic, by path.
    versions : dict
        The version of each partition's znode.
    """

    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    unset: set[TopicPartition] = field(default_factory=set)
    unreadable: dict[TopicPartition, CodecError] = field(default_factory=dict)
    legacy: dict[LegacyPartition, int] = field(default_factory=dict)
    misnamed: dict[str, CodecError] = field(default_factory=dict)
    versions: dict[Partition, int] = field(default_factory=dict)

    @property
    def values(self) -> dict[TopicPartition, int]:
        """The offsets, 0 or more."""
        return {tp: stored.offset for tp, stored in self.offsets.items()}

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that have a znode, whatever is in it."""
        return {*self.offsets, *self.unset, *self.unreadable}

    @property
    def problems(self) -> list[str]:
        """The errors of znodes that cannot be used."""
        return [error.message for error in (*self.unreadable.values(), *self.misnamed.values())]


def stored_offsets(client: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, StoredOffsets]:
    """The stored offsets of each group; blocks for three rounds of requests, however many the groups."""
    names = list(dict.fromkeys(groups))
    nodes = partition_znodes(client, map(group_znodes.offsets_path, names), list)
    return {**{name: StoredOffsets() for name in names}, **decode_stored(nodes)}


def decode_stored(nodes: Mapping[str, Znode]) -> dict[str, StoredOffsets]:
    """The offsets in znodes ``/consumers/G/offsets/T/P``, by group."""
    found: dict[str, StoredOffsets] = {}
    for path in sorted(nodes):
        _, _, group, _, topic, key = path.split("/")
        _decode(found.setdefault(group, StoredOffsets()), path, topic, key, nodes[path])
    return found


def _decode(found: StoredOffsets, path: str, topic: str, key: str, node: Znode) -> None:
    try:
        if not is_topic_name(topic):
            raise CodecError(path, topic.encode(), "a topic as the name of the parent znode")
        partition = group_znodes.parse_key(path, topic, key)
    except CodecError as error:
        found.misnamed[path] = error
        return
    found.versions[partition] = node.stat.version
    try:
        offset = group_znodes.decode_offset(path, node.data)
    except CodecError as error:
        if isinstance(partition, TopicPartition):
            found.unreadable[partition] = error
        else:
            found.misnamed[path] = error
        return
    if isinstance(partition, LegacyPartition):
        found.legacy[partition] = offset
    elif offset < 0:
        found.unset.add(partition)
    else:
        found.offsets[partition] = StoredOffset(offset, node.stat.mzxid)
