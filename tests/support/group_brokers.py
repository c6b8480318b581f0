"""A fake of `GroupAdmin`, with logs and committed offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.brokers.groups import GroupState
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.wire.group_messages import DescribedMember

__all__ = ["MEMBER", "GroupBrokers", "active", "raising"]

MEMBER = DescribedMember("m", "client", "/127.0.0.1")

Offsets = dict[TopicPartition, int]


def active(members: int) -> GroupState:
    """Return the state of a group with this number of members."""
    return GroupState("Stable", {f"m{n}": MEMBER for n in range(members)})


def raising(error: ZKafkaError, *groups: str) -> Callable[[str], None]:
    """Return a `before_change` that raises an error for these groups, or for all."""

    def fail(group: str) -> None:
        if not groups or group in groups:
            raise error

    return fail


@dataclass
class GroupBrokers:
    """Brokers and group coordinators.

    Parameters
    ----------
    logs : mapping
        The first offset and the end of each log. The record at offset n has the timestamp n.
    stored : dict
        Offsets by group.
    states : dict
        States of groups that are not empty.
    offline : mapping
        Errors of partitions without a leader.
    refused : mapping
        Errors of partitions whose offsets cannot be committed.
    metadata : dict
        Metadata of further groups' offsets.
    unlisted : collection
        Errors of brokers that do not list their groups.
    unread : mapping
        Errors of groups whose offsets cannot be read.
    before_change : callable
        Called with the group before its offsets are changed, to change something else meanwhile, or to raise an error.
    """

    logs: Mapping[TopicPartition, tuple[int, int]]
    stored: dict[str, Offsets] = field(default_factory=dict)
    states: dict[str, GroupState] = field(default_factory=dict)
    offline: Mapping[TopicPartition, ZKafkaError] = field(default_factory=dict)
    refused: Mapping[TopicPartition, ZKafkaError] = field(default_factory=dict)
    metadata: dict[str, dict[TopicPartition, str]] = field(default_factory=dict)
    unlisted: Collection[ZKafkaError] = ()
    unread: Mapping[str, ZKafkaError] = field(default_factory=dict)
    before_change: Callable[[str], object] = lambda group: None

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Return the topics with logs, led by broker 1."""
        wanted = {tp.topic for tp in self.logs}.intersection(topics or ())
        parts = {name: {tp.partition: (1,) for tp in self.logs if tp.topic == name} for name in wanted}
        states = {tp: PartitionState(1, 0, (1,)) for tp in self.logs if tp.topic in wanted}
        return ClusterSnapshot({1: Broker(1, ())}, {name: Topic(name, parts[name]) for name in wanted}, states)

    def list_offsets_each(
        self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0
    ) -> tuple[Offsets, dict[TopicPartition, ZKafkaError]]:
        """Return the offsets of positions, and the errors of partitions without a leader."""
        found = {tp: self._offset(position, *self.logs[tp]) for tp, position in wanted.items() if tp not in self.offline}
        return found, {tp: self.offline[tp] for tp in wanted if tp in self.offline}

    def _offset(self, position: Position, start: int, end: int) -> int:
        if isinstance(position, AtTimestamp):
            return max(start, position.timestamp_ms) if position.timestamp_ms < end else -1
        return {EARLIEST: start, LATEST: end}[position]

    def group_names(self) -> list[str]:
        """Return the groups with offsets."""
        return sorted([*self.stored, *self.metadata])

    def known_group_names(self) -> tuple[list[str], list[ZKafkaError]]:
        """Return the groups with offsets, and the errors of brokers that do not answer."""
        return self.group_names(), list(self.unlisted)

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """Return the groups' states."""
        return {name: self.states.get(name, GroupState("Empty")) for name in groups}

    def group_state(self, group: str) -> GroupState:
        """Return a group's state."""
        return self.group_states([group])[group]

    def committed(self, group: str) -> Offsets:
        """Return a group's offsets."""
        if group in self.unread:
            raise self.unread[group]
        return dict(self.stored.get(group, {}))

    def committed_many(self, groups: Iterable[str]) -> dict[str, Offsets]:
        """Return several groups' offsets."""
        return {name: self.committed(name) for name in groups}

    def committed_each(self, groups: Iterable[str]) -> tuple[dict[str, Offsets], dict[str, ZKafkaError]]:
        """Return the offsets of several groups, and an error for each group that cannot be read."""
        names = list(groups)
        found = {name: self.committed(name) for name in names if name not in self.unread}
        return found, {name: self.unread[name] for name in names if name in self.unread}

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ZKafkaError]:
        """Delete offsets; return the errors of refused partitions."""
        self.before_change(group)
        failed = {tp: self.refused[tp] for tp in partitions if tp in self.refused}
        for tp in set(partitions).difference(failed):
            del self.stored[group][tp]
        return failed

    def committed_metadata(self, asked: Mapping[str, None]) -> dict[str, dict[TopicPartition, str]]:
        """Return the metadata of several groups' offsets."""
        if unread := self.unread.keys() & asked.keys():
            raise self.unread[unread.pop()]
        return {name: dict(self.metadata.get(name, {})) for name in asked}

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups with metadata."""
        for name in groups:
            del self.metadata[name]

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ZKafkaError]:
        """Commit offsets; return the errors of refused partitions."""
        self.before_change(group)
        failed = {tp: self.refused[tp] for tp in offsets if tp in self.refused}
        kept = {tp: offset for tp, offset in offsets.items() if tp not in failed}
        self.stored.setdefault(group, {}).update(kept)
        return failed
