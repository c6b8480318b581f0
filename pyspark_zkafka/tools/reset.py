"""Resets of a group's offsets in ZooKeeper, in Kafka, or in both: asks for what the plan needs, and writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark_zkafka.brokers.group_admin import GroupAdmin
from pyspark_zkafka.cluster import ClusterSource
from pyspark_zkafka.conditions import GROUP_ACTIVE, NO_LEADER, OFFSETS_REFUSED, UNKNOWN_GROUP
from pyspark_zkafka.errors import NoLeader, ZKafkaError, listing
from pyspark_zkafka.group.claims import Unchanged
from pyspark_zkafka.group.commits import commit_offsets
from pyspark_zkafka.inspect.groups import OffsetsStorage
from pyspark_zkafka.inspect.offsets import StoredOffsets, stored_offsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Position
from pyspark_zkafka.tools.offset_reset import (
    FromFile,
    ResetPlan,
    Scenario,
    ShiftBy,
    ToCurrent,
    plan_reset,
)
from pyspark_zkafka.tools.topics import Scope, require_partitions, scope_partitions
from pyspark_zkafka.zookeeper.groups import group_activity, require_inactive
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["KnownLogs", "LeaderLogs", "OffsetResets", "PlannedReset"]

_SHOWN = 10
_NEW_GROUP = "The group has no offsets yet."
_NOT_RESET = "The offsets were not reset"


@dataclass(frozen=True, slots=True)
class LeaderLogs:
    """The ends of logs from their leaders, all or none."""

    brokers: GroupAdmin

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position.

        Raises
        ------
        NoLeader
            Partitions have no leader, or it does not answer.
        """
        if not wanted:
            return {}
        found, failed = self.brokers.list_offsets_each(wanted)
        if failed:
            raise _no_leader(failed)
        return found

    def bounds(self, partitions: Iterable[TopicPartition]) -> KnownLogs:
        """The ends of the partitions' logs, requested once for several uses; raises as `list_offsets`."""
        known = list(partitions)
        ends: tuple[Position, ...] = (EARLIEST, LATEST)
        return KnownLogs({end: self.list_offsets(dict.fromkeys(known, end)) for end in ends})


@dataclass(frozen=True, slots=True)
class KnownLogs:
    """Ends of logs that have been requested before."""

    ends: Mapping[Position, Mapping[TopicPartition, int]]

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position, `EARLIEST` or `LATEST`."""
        return {tp: self.ends[position][tp] for tp, position in wanted.items()}


def _no_leader(failed: Mapping[TopicPartition, ZKafkaError]) -> ZKafkaError:
    first = next(iter(failed.values()))
    if not all(isinstance(error, NoLeader) for error in failed.values()):
        return first
    return NO_LEADER(
        f"The partitions {listing(sorted(failed), _SHOWN)} have no leader, so the ends of their logs are unknown; nothing "
        "was changed; start the brokers of their ISR, or name the other partitions with --topic TOPIC:0,1",
        partitions=sorted(failed),
    )


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """The plan of a reset, the current offsets, what ZooKeeper had stored, and notes on partitions that are left out."""

    group: str
    plan: ResetPlan
    current: Mapping[TopicPartition, int]
    read: StoredOffsets
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetResets:
    """Plans and applies resets.

    Parameters
    ----------
    zookeeper : ZooKeeperClient or None
        Open; needed unless the offsets are in Kafka alone. Where it is given, members in ZooKeeper are looked for.
    brokers : GroupAdmin
        Open.
    """

    storage: OffsetsStorage
    zookeeper: ZooKeeperClient | None
    brokers: GroupAdmin

    def plan(self, group: str, scope: Scope | None, scenario: Scenario) -> PlannedReset:
        """The plan of a reset; `scope` None stands for all partitions of which the group has an offset.

        Raises
        ------
        GroupError
            The group has members.
        CodecError
            A committed offset that the scenario needs cannot be read.
        ClusterStateError
            A partition does not exist, or has no leader, or the group has no offset of it to shift.
        """
        self.require_inactive(group)
        read, in_kafka = self._read(group)
        partitions, notes = self._partitions(scope, scenario, {*read.partitions, *in_kafka})
        if isinstance(scenario, (ShiftBy, ToCurrent)):
            _require_readable(read, partitions)
        current = {tp: max(read.values.get(tp, -1), in_kafka.get(tp, -1)) for tp in {*read.values, *in_kafka}}
        plan = plan_reset(scenario, partitions, current, LeaderLogs(self.brokers))
        return PlannedReset(group, plan, current, read, notes)

    def apply(self, planned: PlannedReset) -> None:
        """Write the planned offsets: to ZooKeeper first, whose transaction proves that the group has no members.

        Raises
        ------
        GroupError, GroupContended
            The group has members, or somebody has committed since the plan was made.
        ZKafkaError
            A server refuses, or does not answer; the message says what was written.
        """
        offsets = planned.plan.offsets
        if self.zookeeper is not None and self.storage != "kafka":
            commit_offsets(self.zookeeper, planned.group, offsets, Unchanged(planned.read.versions))
        if self.storage != "zookeeper":
            self._apply_to_kafka(planned.group, offsets)

    def _apply_to_kafka(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            failed = self.brokers.alter_offsets(group, offsets)
        except ZKafkaError as error:
            if self.storage == "kafka":
                raise
            raise _only_in_zookeeper(group, error) from error
        for refusal in failed.values():
            raise _partly(group, failed, len(offsets), refusal)

    def require_inactive(self, group: str) -> None:
        """Raise GroupError if consumers of the group are active that commit to the stores."""
        if self.zookeeper is not None:
            require_inactive(group, group_activity(self.zookeeper, [group])[group], _NOT_RESET)
        state = self.brokers.group_states([group])[group] if self.storage != "zookeeper" else None
        if state is not None and state.is_active:
            raise GROUP_ACTIVE(
                f"{_NOT_RESET}: assignments can only be reset if the group {group} is inactive, but the current state is "
                f"{state.name}, with {len(state.members)} member(s); stop its consumers, and run this again",
                group=group,
            )

    def _read(self, group: str) -> tuple[StoredOffsets, dict[TopicPartition, int]]:
        in_zookeeper = self.zookeeper is not None and self.storage != "kafka"
        read = stored_offsets(self.zookeeper, [group])[group] if in_zookeeper and self.zookeeper else StoredOffsets()
        return read, self.brokers.committed(group) if self.storage != "zookeeper" else {}

    def _partitions(
        self, scope: Scope | None, scenario: Scenario, stored: Collection[TopicPartition]
    ) -> tuple[list[TopicPartition], tuple[str, ...]]:
        cluster: ClusterSource = self.brokers if self.zookeeper is None else self.zookeeper
        if isinstance(scenario, FromFile):
            require_partitions(scenario.offsets, cluster.snapshot({tp.topic for tp in scenario.offsets}))
            return sorted(scenario.offsets), ()
        if scope is not None:
            return scope_partitions(scope, cluster.snapshot(scope.names)), () if stored else (_NEW_GROUP,)
        if not stored:
            raise UNKNOWN_GROUP("The group has no offsets to reset; correct its name, or name the topics with --topic")
        snapshot = cluster.snapshot({tp.topic for tp in stored})
        there = {tp for topic in snapshot.topics for tp in snapshot.partitions(topic)}
        gone = sorted(set(stored) - there)
        note = f"Left as they are: the offsets of {listing(gone, _SHOWN)}, which do not exist any more."
        return sorted(there & set(stored)), (note,) if gone else ()


def _require_readable(read: StoredOffsets, partitions: Iterable[TopicPartition]) -> None:
    for tp in partitions:
        if tp in read.unreadable:
            raise read.unreadable[tp]


def _only_in_zookeeper(group: str, error: ZKafkaError) -> ZKafkaError:
    return OFFSETS_REFUSED(
        f"The offsets of group {group} are reset in ZooKeeper, but not in Kafka: {error.message}; do not repeat "
        "--shift-by, which would shift those in ZooKeeper again; copy them with `zkafka groups migrate --to kafka --force`",
    )


def _partly(group: str, failed: Collection[TopicPartition], count: int, error: ZKafkaError) -> ZKafkaError:
    return OFFSETS_REFUSED(
        f"The brokers refused the offsets of {len(failed)} of {count} partition(s) of group {group}, "
        f"{listing(sorted(failed), _SHOWN)}, the others are written: {error.message}",
        partitions=sorted(failed),
    )
