"""All offset znodes of a group. Tools read them before they change offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.inspect.group_reads import read_part
from pyspark_zkafka.inspect.groups import GroupReport
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import groups as group_paths
from pyspark_zkafka.model.znodes.groups import LegacyPartition, Partition
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The znodes under a group's offsets.

    Parameters
    ----------
    offsets : dict
        The offsets of 0 or more, each with the transaction that wrote it.
    unset : set
        Partitions with a negative number, which all consumers treat as no offset.
    unreadable : dict
        The errors of znodes that are not a number, by partition.
    legacy : dict
        Positions from Kafka 0.7, in bytes, with the broker in the znode's name.
    misnamed : dict
        The errors of znodes without a valid partition or topic in the path, by path.
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
        """The offsets of 0 or more."""
        return {tp: stored.offset for tp, stored in self.offsets.items()}

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that have a znode, whatever it contains."""
        return {*self.offsets, *self.unset, *self.unreadable}

    @property
    def problems(self) -> list[str]:
        """The errors of unreadable znodes."""
        return [error.message for error in (*self.unreadable.values(), *self.misnamed.values())]


def stored_offsets(client: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, StoredOffsets]:
    """Read the stored offsets of groups. Blocks for three rounds of requests, whatever the number of groups."""
    return {name: stored_in(report) for name, report in read_part(client, groups, group_paths.offsets_path).items()}


def stored_in(group: GroupReport) -> StoredOffsets:
    """Return the stored offsets in a group's report."""
    found = StoredOffsets()
    for tp, committed in group.offsets.items():
        if not is_topic_name(tp.topic):
            path = group_paths.offset_path(group.name, tp)
            found.misnamed[path] = _no_topic(path, tp.topic)
            continue
        found.versions[tp] = committed.version
        if committed.offset < 0:
            found.unset.add(tp)
        else:
            found.offsets[tp] = StoredOffset(committed.offset, committed.mzxid)
    for znode in group.unreadable_offsets:
        topic = znode.path.split("/")[-2]
        if not is_topic_name(topic):
            found.misnamed[znode.path] = _no_topic(znode.path, topic)
            continue
        if znode.partition is not None:
            found.versions[znode.partition] = znode.version
        if isinstance(znode.partition, LegacyPartition) and isinstance(znode.value, int):
            found.legacy[znode.partition] = znode.value
        elif isinstance(znode.partition, TopicPartition):
            found.unreadable[znode.partition] = znode.error
        else:
            found.misnamed[znode.path] = znode.error
    return found


def _no_topic(path: str, topic: str) -> CodecError:
    return CodecError(path, topic.encode(), "a topic as the name of the parent znode")
