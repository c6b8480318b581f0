"""Migration of groups' offsets between ZooKeeper and ``__consumer_offsets``: reads both, copies, and reads both again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.brokers.group_admin import GroupAdmin, GroupState
from pyspark_zkafka.conditions import GROUP_ACTIVE, UNKNOWN_GROUP
from pyspark_zkafka.errors import GroupContended, ZKafkaError, listing
from pyspark_zkafka.group.claims import Unchanged
from pyspark_zkafka.group.commits import commit_offsets
from pyspark_zkafka.inspect.offsets import StoredOffsets, stored_offsets
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.tools.migration import Difference, Facts, LiveRounds, Outcome, compare, outcomes, to_copy
from pyspark_zkafka.zookeeper.groups import Activity, group_activity, require_inactive
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["Look", "Migration", "Store", "failures", "require_offsets"]

Store = Literal["zookeeper", "kafka"]
"""A store of offsets, as the target of a migration."""

_SHOWN = 10
_LOGS_S = 10.0
_NOT_COPIED = "The offsets were not copied"
_REFUSED = "while consumers that Kafka coordinates are active, brokers accept offsets from these alone; stop them"
_MOVING = "its consumers go on committing there; stop them, or use --live"


@dataclass(frozen=True, slots=True)
class Look:
    """A group in both stores at one moment: what differs, and who is active in it."""

    found: Sequence[Difference]
    in_zookeeper: StoredOffsets
    activity: Activity
    state: GroupState

    @property
    def is_active(self) -> bool:
        """True if a consumer of either kind is in the group."""
        return bool(self.activity) or self.state.is_active


@dataclass(frozen=True, slots=True)
class Migration:
    """Copies the offsets of groups to one of the stores from the other one.

    Parameters
    ----------
    zookeeper, brokers : ZooKeeperClient, GroupAdmin
        Open.
    to : "zookeeper" or "kafka"
        The target.
    force : bool
        Also set the target back, and overwrite what cannot be read.
    """

    zookeeper: ZooKeeperClient
    brokers: GroupAdmin
    to: Store
    force: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def groups(self) -> list[str]:
        """The groups that have offsets in the source, sorted."""
        if self.to == "kafka":
            names = self.zookeeper.groups()
            return [name for name, stored in stored_offsets(self.zookeeper, names).items() if stored.versions]
        names = self.brokers.group_names()
        return [name for name, offsets in self.brokers.committed_many(names).items() if offsets]

    def look(self, groups: Iterable[str]) -> dict[str, Look]:
        """Compare the stores.

        ZooKeeper is read first: members with dual commits write Kafka first, so Kafka is never seen behind them.
        """
        names = list(dict.fromkeys(groups))
        stored = stored_offsets(self.zookeeper, names)
        in_kafka = self.brokers.committed_many(names)
        topics = {tp.topic for one in stored.values() for tp in one.partitions}
        topics |= {tp.topic for offsets in in_kafka.values() for tp in offsets}
        snapshot = self.zookeeper.snapshot(topics)
        activity, states = group_activity(self.zookeeper, names), self.brokers.group_states(names)
        return {
            name: Look(
                compare(self._facts(stored[name], in_kafka[name], snapshot)), stored[name], activity[name], states[name]
            )
            for name in names
        }

    def beyond_logs(self, looks: Mapping[str, Look]) -> list[str]:
        """The offsets to copy that are beyond the ends of their logs, as texts; without those whose leaders do not answer.

        Blocks for a request to each leader. The ends are read after the offsets: a running consumer is never beyond.
        """
        copies = {name: to_copy(look.found, force=self.force) for name, look in looks.items()}
        wanted = {tp: LATEST for offsets in copies.values() for tp in offsets}
        ends, _ = self.brokers.list_offsets_each(wanted, _LOGS_S) if wanted else ({}, {})
        return [
            f"{name} {tp} ({offset}, and the log ends at {ends[tp]})"
            for name, offsets in copies.items()
            for tp, offset in offsets.items()
            if offset > ends.get(tp, offset)
        ]

    def copy(self, group: str) -> list[Outcome]:
        """Copy the offsets of a group without consumers, and read both stores again.

        Raises
        ------
        GroupError
            A consumer of either kind is in the group.
        ZKafkaError
            A server refuses, or does not answer.
        """
        look = self._look(group)
        require_inactive(group, look.activity, f"{_NOT_COPIED}, as --live was not given")
        self._require_inactive_in_kafka(group, look.state)
        copies = to_copy(look.found, force=self.force)
        failed = self._write(group, copies, look)
        after = self._look(group)
        require_inactive(group, after.activity, "Consumers have joined while the offsets were copied")
        return outcomes(look.found, after.found, copies.keys() - failed.keys(), failed)

    def follow(self, group: str, interval_s: float, timeout_s: float) -> list[Outcome]:
        """Copy the offsets of a group again and again until both stores agree, or its consumers have left.

        Raises
        ------
        GroupError
            The target is Kafka, and consumers that Kafka coordinates are in the group.
        ZKafkaError
            A server refuses, or does not answer.
        """
        deadline = self.clock() + timeout_s
        rounds, written, first = LiveRounds(), set[TopicPartition](), self._look(group)
        look, failed = first, dict[TopicPartition, str]()
        while look.is_active and not rounds.is_caught_up(look.found) and self.clock() < deadline:
            if self.to == "kafka":
                self._require_inactive_in_kafka(group, look.state)
            copies = rounds.writes(look.found)
            failed = self._write(group, copies, look, live=True)
            written |= copies.keys() - failed.keys()
            rounds = rounds.seen(look.found, wrote=bool(copies))
            self.sleep(interval_s)
            look = self._look(group)
        if not look.is_active:
            rest = self.copy(group)
            written |= {o.partition for o in rest if o.state == "copied" and isinstance(o.partition, TopicPartition)}
            failed = {o.partition: o.reason for o in rest if o.reason and isinstance(o.partition, TopicPartition)}
            look = self._look(group)
        return outcomes(first.found, look.found, written, failed)

    def _look(self, group: str) -> Look:
        return self.look([group])[group]

    def _facts(self, stored: StoredOffsets, in_kafka: Mapping[TopicPartition, int], snapshot: ClusterSnapshot) -> Facts:
        source, target = (stored.values, in_kafka) if self.to == "kafka" else (in_kafka, stored.values)
        return Facts(
            source,
            target,
            {tp: error.message for tp, error in stored.unreadable.items()},
            stored.legacy if self.to == "kafka" else (),
            [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)],
            outdated(stored.offsets, snapshot) if self.to == "kafka" else (),
        )

    def _write(
        self, group: str, copies: Mapping[TopicPartition, int], look: Look, *, live: bool = False
    ) -> dict[TopicPartition, str]:
        """Write to the target; the reasons for which partitions were not written."""
        if not copies:
            return {}
        if self.to == "kafka":
            return {tp: error.message for tp, error in self.brokers.alter_offsets(group, copies).items()}
        try:
            commit_offsets(self.zookeeper, group, copies, Unchanged(look.in_zookeeper.versions, inactive_only=not live))
        except GroupContended as error:
            if not live:
                raise
            return dict.fromkeys(copies, error.message)  # a member commits: the next look decides again
        return {}

    def _require_inactive_in_kafka(self, group: str, state: GroupState) -> None:
        if state.is_active:
            raise GROUP_ACTIVE(
                f"{_NOT_COPIED}: group {group} is {state.name} in Kafka, with {len(state.members)} member(s), and "
                f"{_REFUSED if self.to == 'kafka' else _MOVING}, and run this again",
                group=group,
            )


def require_offsets(looks: Mapping[str, Look]) -> None:
    """Raise GroupError for groups that have no offset in either store: their names are probably wrong."""
    unknown = [name for name, look in looks.items() if not look.found]
    if unknown:
        raise UNKNOWN_GROUP(
            f"The groups {listing(unknown, _SHOWN)} have no offsets, neither in ZooKeeper nor in Kafka; correct the names, "
            "or the chroot",
            groups=unknown,
        )


def failures(error: ZKafkaError, look: Look) -> list[Outcome]:
    """The report of a group that was not copied at all."""
    return [
        Outcome(d.partition, d.source, d.target, d.target, "failed" if d.state == "behind" else d.state, error.message)
        for d in look.found
    ]
