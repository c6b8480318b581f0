"""Imports of groups' offsets into ZooKeeper: all is checked, then each group is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_zkafka.brokers.group_admin import GroupAdmin
from pyspark_zkafka.group.claims import Unchanged
from pyspark_zkafka.group.commits import commit_offsets
from pyspark_zkafka.inspect.groups import Partition
from pyspark_zkafka.inspect.offsets import StoredOffsets, stored_offsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.offset_files import GroupOffset
from pyspark_zkafka.tools.offset_reset import clamp
from pyspark_zkafka.tools.reset import LeaderLogs
from pyspark_zkafka.tools.topics import require_partitions
from pyspark_zkafka.zookeeper.groups import group_activity, require_inactive
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["OffsetImports", "PlannedImport"]


@dataclass(frozen=True, slots=True)
class PlannedImport:
    """The offsets to write by group, what is stored, and warnings for offsets outside of their logs."""

    offsets: Mapping[str, Mapping[Partition, int]]
    stored: Mapping[str, StoredOffsets]
    warnings: tuple[str, ...] = ()

    def current(self, group: str, partition: Partition) -> int | None:
        """The stored offset; None if there is none, or it cannot be read."""
        stored = self.stored[group]
        return stored.values.get(partition) if isinstance(partition, TopicPartition) else stored.legacy.get(partition)


@dataclass(frozen=True, slots=True)
class OffsetImports:
    """Plans and applies imports.

    Parameters
    ----------
    zookeeper, brokers : ZooKeeperClient, GroupAdmin
        Open.
    checked : bool
        True if each partition must exist, and its offset is moved to the nearer end of the log if it lies outside.
    """

    zookeeper: ZooKeeperClient
    brokers: GroupAdmin
    checked: bool = True

    def plan(self, offsets: Iterable[GroupOffset]) -> PlannedImport:
        """The plan of an import.

        Raises
        ------
        GroupError
            A group has members.
        ClusterStateError
            A partition does not exist, or has no leader.
        """
        wanted: dict[str, dict[Partition, int]] = {}
        for one in offsets:
            wanted.setdefault(one.group, {})[one.partition] = one.offset
        for group, activity in group_activity(self.zookeeper, wanted).items():
            require_inactive(group, activity, "The offsets were not imported")
        warnings = self._check(wanted) if self.checked else ()
        return PlannedImport(wanted, stored_offsets(self.zookeeper, wanted), warnings)

    def apply(self, planned: PlannedImport, group: str) -> None:
        """Write a group's offsets; raises as `commit_offsets`."""
        commit_offsets(self.zookeeper, group, planned.offsets[group], Unchanged(planned.stored[group].versions))

    def _check(self, wanted: Mapping[str, dict[Partition, int]]) -> tuple[str, ...]:
        """Move offsets into their logs; returns the warnings."""
        partitions = {tp for offsets in wanted.values() for tp in offsets if isinstance(tp, TopicPartition)}
        require_partitions(partitions, self.zookeeper.snapshot({tp.topic for tp in partitions}))
        bounds = LeaderLogs(self.brokers).bounds(partitions)
        warnings: list[str] = []
        for group, offsets in wanted.items():
            found = clamp({tp: offset for tp, offset in offsets.items() if isinstance(tp, TopicPartition)}, bounds)
            offsets.update(found.offsets.items())
            warnings += [f"{group}: {warning}" for warning in found.warnings]
        return tuple(warnings)
