"""``zkafka groups migrate``: groups' offsets from ZooKeeper to ``__consumer_offsets``, or back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer

from pyspark_zkafka.brokers.groups import GroupAdmin, GroupState
from pyspark_zkafka.conditions import GROUP_ACTIVE, INVALID_OPTION, UNKNOWN_GROUP
from pyspark_zkafka.errors import (
    BrokersUnavailable,
    ClusterStateError,
    GroupContended,
    GroupError,
    ZKafkaError,
    ZooKeeperRefused,
    listing,
)
from pyspark_zkafka.group.commits import Unchanged, commit_offsets
from pyspark_zkafka.inspect.groups import StoredOffsets, member_notes
from pyspark_zkafka.inspect.reads import stored_offsets
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetStore, TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.codec import is_znode_name
from pyspark_zkafka.model.znodes.groups import partition_key
from pyspark_zkafka.tools.command import (
    FAILED,
    MOST_SECONDS,
    AllGroups,
    Groups,
    Target,
    changes_cluster,
    open_servers,
    require_groups,
    require_no_consumers,
)
from pyspark_zkafka.tools.migration import Compared, LiveRounds, compare, report, to_copy
from pyspark_zkafka.tools.output import Column, columns
from pyspark_zkafka.zookeeper.snapshots import Activity, ZooKeeperClient, group_activity, require_inactive

_NOT_COPIED, _STOPPED = "The offsets were not copied", "The copying of offsets stopped"
_REFUSED = "while consumers that Kafka coordinates are active, brokers accept offsets from these alone; stop them"
_MOVING = "its consumers keep committing there; stop them, or use --live"

_COLUMNS = (
    *columns("group topic partition", right="partition"),
    Column("source_offset", "SOURCE", right=True),
    Column("target_before", "BEFORE", right=True),
    Column("target_after", "AFTER", right=True),
    Column("state"),
)
_SHOWN = 5
_LOGS_S = 10.0
_OF_A_GROUP = (GroupError, ClusterStateError, ZooKeeperRefused)

_Verify = Annotated[bool, typer.Option("--verify", help="Only compare the stores; exit status 1 if they differ.")]


@dataclass(frozen=True, slots=True)
class BothStores:
    """A group in both stores at one moment: the differences, and the active consumers of either kind."""

    found: Sequence[Compared]
    in_zookeeper: StoredOffsets
    activity: Activity
    state: GroupState

    @property
    def is_active(self) -> bool:
        """True if a consumer of either kind is in the group."""
        return bool(self.activity) or self.state.is_active


@dataclass(frozen=True, slots=True)
class Migration:
    """Copies the offsets of groups from one store to the other, `to`. The clients are open.

    With `force`, also sets the target back, and overwrites offsets that cannot be read.
    """

    zookeeper: ZooKeeperClient
    brokers: GroupAdmin
    to: OffsetStore
    force: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def groups(self) -> list[str]:
        """Return the groups that have offsets in the source, sorted."""
        if self.to == "kafka":
            names = self.zookeeper.groups()
            return [name for name, stored in stored_offsets(self.zookeeper, names).items() if stored.versions]
        names = self.brokers.group_names()
        return [name for name, offsets in self.brokers.committed_many(names).items() if offsets]

    def read(self, groups: Collection[str]) -> dict[str, BothStores]:
        """Compare the stores.

        ZooKeeper is read first: members with dual commits write to Kafka first, and are never seen ahead in ZooKeeper.
        """
        stored = stored_offsets(self.zookeeper, groups)
        in_kafka = self.brokers.committed_many(groups)
        topics = {tp.topic for one in stored.values() for tp in one.partitions}
        topics |= {tp.topic for offsets in in_kafka.values() for tp in offsets}
        snapshot = self.zookeeper.snapshot(topics)
        activity, states = group_activity(self.zookeeper, groups), self.brokers.group_states(groups)
        return {
            name: BothStores(
                self._compare(stored[name], in_kafka[name], snapshot), stored[name], activity[name], states[name]
            )
            for name in groups
        }

    def beyond_logs(self, by_group: Mapping[str, BothStores]) -> list[str]:
        """Describe the offsets to copy that are beyond the ends of their logs, if their leaders answer.

        Blocks for a request to each leader. The ends are read after the offsets: a running consumer is never beyond.
        """
        copies = {name: to_copy(stores.found, force=self.force) for name, stores in by_group.items()}
        requested = {tp: LATEST for offsets in copies.values() for tp in offsets}
        ends, _ = self.brokers.list_offsets_each(requested, _LOGS_S) if requested else ({}, {})
        return [
            f"{name} {tp} ({offset}, and the log ends at {ends[tp]})"
            for name, offsets in copies.items()
            for tp, offset in offsets.items()
            if offset > ends.get(tp, offset)
        ]

    def copy(self, group: str, *, live: bool = False) -> list[Compared]:
        """Copy the offsets of a group without consumers, or, if `live`, whose consumers have left; compare again.

        Raises GroupError if a consumer of either kind is in the group.
        """
        stores = self._read(group)
        not_done = f"{_STOPPED}, as consumers have joined again" if live else f"{_NOT_COPIED}, as --live was not given"
        require_no_consumers(self.zookeeper, group, stores.activity, not_done)
        self._require_inactive_in_kafka(group, stores.state, live)
        copies = to_copy(stores.found, force=self.force)
        failed = self._write(group, copies, stores)
        after = self._read(group)
        require_inactive(group, after.activity, "Consumers have joined while the offsets were copied")
        return report(stores.found, after.found, copies.keys() - failed.keys(), failed)

    def follow(self, group: str, interval_s: float, timeout_s: float) -> list[Compared]:
        """Copy the offsets of a group again and again until both stores agree, or its consumers have left.

        Raises GroupError if the target is Kafka, and consumers that Kafka coordinates are in the group.
        """
        deadline = self.clock() + timeout_s
        rounds, written, first = LiveRounds(), set[TopicPartition](), self._read(group)
        stores, failed = first, dict[TopicPartition, str]()
        while stores.is_active and not rounds.is_caught_up(stores.found) and self.clock() < deadline:
            if self.to == "kafka":
                self._require_inactive_in_kafka(group, stores.state, bool(written))
            copies = rounds.writes(stores.found)
            failed = self._write(group, copies, stores, live=True)
            written |= copies.keys() - failed.keys()
            rounds = rounds.seen(stores.found, wrote=bool(copies))
            self.sleep(min(interval_s, max(0.0, deadline - self.clock())))
            stores = self._read(group)
        if not stores.is_active:
            rest = self.copy(group, live=True)
            written |= {c.partition for c in rest if c.state == "copied" and isinstance(c.partition, TopicPartition)}
            failed = {
                c.partition: c.reason or "" for c in rest if c.state == "failed" and isinstance(c.partition, TopicPartition)
            }
            stores = self._read(group)
        return report(first.found, stores.found, written, failed)

    def _read(self, group: str) -> BothStores:
        return self.read([group])[group]

    def _compare(
        self, stored: StoredOffsets, in_kafka: Mapping[TopicPartition, int], now: ClusterSnapshot
    ) -> list[Compared]:
        unreadable = {tp: error.message for tp, error in stored.unreadable.items()}
        existing = now.all_partitions()
        if self.to == "zookeeper":
            return compare(in_kafka, stored.values, existing, unreadable=unreadable)
        gone = outdated(stored.offsets, now)
        return compare(stored.values, in_kafka, existing, unreadable=unreadable, legacy=stored.legacy, outdated=gone)

    def _write(
        self, group: str, copies: Mapping[TopicPartition, int], stores: BothStores, *, live: bool = False
    ) -> dict[TopicPartition, str]:
        """Write to the target, and return the reasons why partitions were not written."""
        if not copies:
            return {}
        if self.to == "kafka":
            return {tp: error.message for tp, error in self.brokers.alter_offsets(group, copies).items()}
        try:
            commit_offsets(self.zookeeper, group, copies, Unchanged(stores.in_zookeeper.versions, inactive_only=not live))
        except GroupContended as error:
            if not live:
                raise
            return dict.fromkeys(copies, error.message)  # a member commits: the next comparison decides again
        return {}

    def _require_inactive_in_kafka(self, group: str, state: GroupState, has_begun: bool) -> None:
        if state.problem is not None:
            raise state.problem
        if state.is_active:
            raise GROUP_ACTIVE(
                f"{_STOPPED if has_begun else _NOT_COPIED}: group {group} is {state.name} in Kafka, with "
                f"{len(state.members)} member(s), and {_REFUSED if self.to == 'kafka' else _MOVING}, and run this again",
                group=group,
            )


@changes_cluster
def migrate(
    target: Target,
    groups: Groups = None,
    all_groups: AllGroups = False,
    to: Annotated[OffsetStore, typer.Option("--to", help="The store to copy to; the other one is the source.")] = "kafka",
    live: Annotated[
        bool, typer.Option("--live", help="Copy while consumers run, until both stores agree or the consumers have left.")
    ] = False,
    verify: _Verify = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also lower offsets in the target, and replace unreadable offsets and offsets of deleted topics.",
        ),
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=MOST_SECONDS, help="With --live: seconds between two comparisons.")
    ] = 1.0,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="With --live: time limit for each group, in seconds.")
    ] = 600.0,
) -> None:
    """Copy offsets of groups from ZooKeeper to Kafka, or from Kafka to ZooKeeper. Without --force, no offset is lowered.

    Run it again at any time: equal offsets are left alone. Both stores are compared afterwards. The exit status is 1
    unless every group could be copied, and the stores agree on every partition that exists.

    Example: zkafka groups migrate billing --to kafka --live
    """
    names = require_groups(groups, all_groups)
    if verify and (live or force):
        raise INVALID_OPTION("--verify changes nothing; use it without --live and --force")
    if live and force:
        raise INVALID_OPTION("--force could set back what running consumers commit; use it without --live")
    with open_servers(target) as servers:
        migration = Migration(servers.require_zookeeper(), servers.brokers, to, force)
        by_group = migration.read(_all_groups(target, migration) if names is None else names)
        unknown = [name for name in names or () if not by_group[name].found]
        if unknown:
            raise UNKNOWN_GROUP(
                f"The groups {listing(unknown)} have no offsets, neither in ZooKeeper nor in Kafka; correct the names, "
                "or the chroot",
                groups=unknown,
            )
        if beyond := migration.beyond_logs(by_group):
            target.output.note(
                f"Beyond the end of the log: {listing(beyond, _SHOWN)}. A consumer that starts there loses its place: "
                "check that this is the right cluster, or reset the offset with zkafka groups reset-offsets."
            )
        if verify:
            counts = {name: (len(stores.activity.members), len(stores.state.members)) for name, stores in by_group.items()}
            target.output.note(*member_notes(counts))
            if active := [name for name, stores in by_group.items() if stores.is_active]:
                target.output.note(f"Active, and the stores may differ by commits under way: {listing(active, _SHOWN)}.")
            _report(target, {name: stores.found for name, stores in by_group.items()})
        elif _proceed(target, migration, by_group, live=live):
            _report(target, *_run(target, migration, by_group, (interval, timeout) if live else None))


def _all_groups(target: Target, migration: Migration) -> list[str]:
    """Return the groups that have offsets in the source, except ledgers and names that ZooKeeper does not allow."""
    found = migration.groups()
    ledgers = [name for name in found if LedgerGroup.parse(name) is not None]
    names = [name for name in found if name not in ledgers]
    if ledgers:
        target.output.note(f"Left out: {len(ledgers)} group(s) with the ledgers of exactly-once writes.")
    bad = [repr(name) for name in names if not is_znode_name(name)]
    if bad:
        target.output.note(f"Left out: ZooKeeper cannot have groups of the names {listing(bad, _SHOWN)}.")
    return [name for name in names if is_znode_name(name)]


def _proceed(target: Target, migration: Migration, by_group: Mapping[str, BothStores], *, live: bool) -> bool:
    count = sum(len(to_copy(stores.found, force=migration.force)) for stores in by_group.values())
    if target.dry_run or not (target.yes or target.output.as_json):
        _show(target, {name: stores.found for name, stores in by_group.items()})
    place = "Kafka" if migration.to == "kafka" else "ZooKeeper"
    active = [name for name, stores in by_group.items() if stores.is_active]
    if active and not live:
        target.output.note(f"Active, and not copied without --live: {listing(active, _SHOWN)}.")
    follow = ", and follow their consumers" if live else ""
    return target.proceed(f"Copy {count} offset(s) of {len(by_group)} group(s) to {place}{follow}?")


def _run(
    target: Target, migration: Migration, by_group: Mapping[str, BothStores], live: tuple[float, float] | None
) -> tuple[dict[str, list[Compared]], bool]:
    """Copy the offsets of each group; return the results, and whether each group could be copied."""
    found: dict[str, list[Compared]] = {}
    all_done = True
    for name in target.output.track(by_group, "Migrating groups"):
        try:
            found[name] = migration.follow(name, *live) if live else migration.copy(name)
        except ZKafkaError as error:
            if len(by_group) > 1 and isinstance(error, _OF_A_GROUP) and not isinstance(error, BrokersUnavailable):
                all_done = False  # even if the stores agree: consumers may be active
                before = after = by_group[name].found
                with suppress(ZKafkaError):  # some may have been written
                    after = migration.read([name])[name].found
                wanted = dict.fromkeys(to_copy(before, force=migration.force), error.message)
                found[name] = report(before, after, wanted, wanted)
                if all(one.state != "failed" for one in found[name]):
                    target.output.note(f"{name}: {error.message}.")
                continue
            if found:
                _show(target, found)
            raise
    return found, all_done


def _report(target: Target, found: Mapping[str, Sequence[Compared]], all_done: bool = True) -> None:
    _show(target, found)
    counts = Counter(one.state for of_group in found.values() for one in of_group)
    shown = ", ".join(f"{counts[state]} {state}" for state in sorted(counts)) or "no offsets"
    target.output.note(f"{len(found)} group(s): {shown}.")
    if not all_done or counts.keys() - {"copied", "equal", "skipped"}:
        raise typer.Exit(FAILED)


def _show(target: Target, found: Mapping[str, Sequence[Compared]]) -> None:
    rows: list[Row] = []
    reasons: dict[str, list[str]] = {}
    for group, of_group in found.items():
        for one in of_group:
            topic, partition = one.partition.topic, partition_key(one.partition)
            rows.append(
                {
                    "group": group,
                    "topic": topic,
                    "partition": partition,
                    "source_offset": one.source,
                    "target_before": one.before,
                    "target_after": one.target,
                    "state": one.state,
                    "reason": one.reason,
                }
            )
            if one.reason is not None:
                place = f"{topic}-{partition}" if len(found) == 1 else f"{group} {topic}-{partition}"
                reasons.setdefault(one.reason, []).append(place)
    target.output.rows(rows, _COLUMNS, "There are no offsets.", in_json=(*_COLUMNS, Column("reason")))
    for reason, places in reasons.items():
        target.output.note(f"{listing(places, _SHOWN)}: {reason}.")
