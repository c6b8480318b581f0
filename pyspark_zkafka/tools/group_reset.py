"""``zkafka groups reset-offsets``: the scenarios of kafka-consumer-groups, for offsets in ZooKeeper, Kafka or both.

References
----------
org.apache.kafka.tools.consumer.group.ConsumerGroupCommand, org.apache.kafka.tools.OffsetsUtils (Kafka 3.9.1).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.cluster import ClusterSource
from pyspark_zkafka.conditions import (
    GROUP_ACTIVE,
    INVALID_OFFSETS_FILE,
    INVALID_OPTION,
    NO_COMMITTED_OFFSET,
    NO_LEADER,
    OFFSETS_REFUSED,
    UNKNOWN_GROUP,
)
from pyspark_zkafka.errors import GroupError, NoLeader, ZKafkaError, listing
from pyspark_zkafka.group.commits import Unchanged, commit_offsets
from pyspark_zkafka.inspect.groups import OffsetsStorage, StoredOffsets
from pyspark_zkafka.inspect.reads import stored_offsets
from pyspark_zkafka.model.nouns import OffsetStore, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.options.kinds import parse_datetime_ms, parse_iso_duration_ms
from pyspark_zkafka.tools.command import (
    Group,
    PartitionSpec,
    Target,
    changes_cluster,
    find_partitions,
    open_servers,
    parse_partitions,
    parse_text,
    read_text,
    require_no_consumers,
)
from pyspark_zkafka.tools.offset_files import parse_offsets_file
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient, group_activity

_NUMBERS = "partition current_offset new_offset"
_COLUMNS = columns(f"group topic {_NUMBERS}", right=_NUMBERS)
_PLACES = {"zookeeper": "ZooKeeper", "kafka": "Kafka", "both": "ZooKeeper and Kafka"}
_NOT_RESET = "The offsets were not reset"


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """By a number of offsets, negative for back."""

    by: int


Scenario = Position | ShiftBy | Literal["current"] | Mapping[TopicPartition, int]
"""A position of all partitions; a shift; the committed offset, or the latest where there is none; the offsets of a file."""
Logs = Callable[[Mapping[TopicPartition, Position]], Mapping[TopicPartition, int]]
"""Returns the offset of each position: `EARLIEST`, `LATEST` or `AtTimestamp` (-1 where no record is that late)."""
Offsets = tuple[dict[TopicPartition, int], list[str]]
"""The new offset of each partition, and a warning for each that differs from the request."""


def plan_offsets(
    scenario: Scenario, partitions: Collection[TopicPartition], current: Mapping[TopicPartition, int], logs: Logs
) -> Offsets:
    """Return the new offset of each partition, or of each partition in a file. Only `current` may keep one outside its log.

    `current` has the committed offsets. Raises ClusterStateError if a partition has no committed offset to shift.
    """
    missing = [tp for tp in partitions if tp not in current]
    match scenario:
        case AtTimestamp():
            return _at_time(scenario, partitions, logs)
        case "current":
            latest = logs(dict.fromkeys(missing, LATEST)) if missing else {}
            return {tp: current[tp] if tp in current else latest[tp] for tp in partitions}, []
        case ShiftBy(by=by):
            if missing:
                raise NO_COMMITTED_OFFSET(
                    f"The offsets of {listing(missing)} cannot be shifted, since there is no current committed offset; "
                    "leave these partitions out, or use --to-earliest, --to-latest or --to-offset for them",
                    partitions=missing,
                )
            requested: Mapping[TopicPartition, int] = {tp: current[tp] + by for tp in partitions}
        case int() if scenario in (EARLIEST, LATEST):
            return dict(logs(dict.fromkeys(partitions, scenario))), []
        case int():
            requested = dict.fromkeys(partitions, scenario)
        case _:
            requested = scenario
    return clamp(requested, logs(dict.fromkeys(requested, EARLIEST)), logs(dict.fromkeys(requested, LATEST)))


def clamp(
    requested: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Offsets:
    """Move each offset outside of its log to the nearer end of the log, with Kafka's warning."""
    offsets = {tp: max(earliest[tp], min(offset, latest[tp])) for tp, offset in requested.items()}
    warnings = []
    for tp, offset in requested.items():
        if offset != offsets[tp]:
            side = "higher than latest" if offset > offsets[tp] else "lower than earliest"
            place = f"New offset ({offset}) is {side} offset for topic partition {tp}"
            warnings.append(f"{place}. Value will be set to {offsets[tp]}")
    return offsets, warnings


def _at_time(time: AtTimestamp, partitions: Collection[TopicPartition], logs: Logs) -> Offsets:
    found = logs(dict.fromkeys(partitions, time))
    late = [tp for tp in partitions if found[tp] < 0]
    latest = logs(dict.fromkeys(late, LATEST)) if late else {}
    # Kafka's words, except "is empty": such a partition may have records.
    warnings = [
        f"Partition {tp.partition} from topic {tp.topic} has no record at or after that time. Falling back to latest known "
        "offset."
        for tp in late
    ]
    return {tp: latest.get(tp, found[tp]) for tp in partitions}, warnings


def list_offsets(brokers: GroupAdmin, requested: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
    """Return the offset of each position, requested of the leaders. Raises NoLeader if some do not answer."""
    if not requested:
        return {}
    found, failed = brokers.list_offsets_each(requested)
    if not failed:
        return found
    for error in failed.values():
        if not isinstance(error, NoLeader):
            raise error
    raise NO_LEADER(
        f"The partitions {listing(sorted(failed))} have no leader, so the ends of their logs are unknown; nothing was "
        "changed. Start the brokers of their ISR, or leave these partitions out",
        partitions=sorted(failed),
    )


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """New and current offsets, the offsets that ZooKeeper had stored, and notes on them. `is_shift` is for `ShiftBy`."""

    group: str
    offsets: Mapping[TopicPartition, int]
    current: Mapping[TopicPartition, int]
    stored: StoredOffsets
    notes: tuple[str, ...] = ()
    is_shift: bool = False


@dataclass(frozen=True, slots=True)
class OffsetResets:
    """Plans and applies resets, with open clients.

    ZooKeeper is needed unless the offsets are in Kafka alone. If it is given, groups with members in ZooKeeper are refused.
    """

    storage: OffsetsStorage
    zookeeper: ZooKeeperClient | None
    brokers: GroupAdmin

    def plan(self, group: str, requested: Collection[PartitionSpec] | None, scenario: Scenario) -> PlannedReset:
        """Plan a reset of some partitions; with None, of all partitions with an offset of the group.

        Raises GroupError if the group has members or no offsets, CodecError if an offset that the scenario needs cannot be
        read, and ClusterStateError if a partition does not exist, has no leader, or has no offset to shift.
        """
        self._require_inactive(group)
        stored, in_kafka = StoredOffsets(), dict[TopicPartition, int]()
        if self.zookeeper is not None and self.storage != "kafka":
            stored = stored_offsets(self.zookeeper, [group])[group]
        if self.storage != "zookeeper":
            in_kafka = self.brokers.committed(group)
        partitions, notes = self._partitions(requested, scenario, {*stored.partitions, *in_kafka})
        if scenario == "current" or isinstance(scenario, ShiftBy):
            for tp in partitions:
                if tp in stored.unreadable:
                    raise stored.unreadable[tp]
        values = stored.values
        current = {tp: max(values.get(tp, -1), in_kafka.get(tp, -1)) for tp in {*values, *in_kafka}}
        offsets, warnings = plan_offsets(scenario, partitions, current, partial(list_offsets, self.brokers))
        notes = [*warnings, *notes, *self._note_higher(group, offsets)]
        return PlannedReset(group, offsets, current, stored, tuple(notes), isinstance(scenario, ShiftBy))

    def apply(self, planned: PlannedReset) -> None:
        """Write the planned offsets. ZooKeeper comes first: its transaction proves that the group has no members.

        Raises GroupError if the group has members, or a client has committed to ZooKeeper since the plan was made. The
        message of a GroupError says which offsets were written. A lost connection leaves that open.
        """
        group, offsets = planned.group, planned.offsets
        again = "; repeated, --shift-by would shift offsets again that are written" if planned.is_shift else ""
        if self.storage == "kafka":
            self._require_inactive(group)
        if self.zookeeper is not None and self.storage != "kafka":
            try:
                commit_offsets(self.zookeeper, group, offsets, Unchanged(planned.stored.versions))
            except GroupError as error:
                raise type(error)(error.condition, f"{error.message}{again}", **error.parameters) from error
        if self.storage == "zookeeper":
            return
        try:
            failed = self.brokers.alter_offsets(group, offsets)
        except ZKafkaError as error:
            if self.storage == "kafka":
                raise type(error)(error.condition, f"{error.message}{again}", **error.parameters) from error
            raise OFFSETS_REFUSED(
                f"The offsets of group {group} are reset in ZooKeeper, but not all in Kafka: {error.message}; do not "
                "repeat --shift-by, which would shift those in ZooKeeper again. Copy all offsets of the group with "
                f"`zkafka groups migrate {shlex.quote(group)} --to kafka --force`",
            ) from error
        if failed:
            raise OFFSETS_REFUSED(
                f"The brokers refused the offsets of {len(failed)} of {len(offsets)} partition(s) of group {group}, "
                f"{listing(sorted(failed))}, the others are written: {next(iter(failed.values())).message}{again}",
                partitions=sorted(failed),
            )

    def _note_higher(self, group: str, offsets: Mapping[TopicPartition, int]) -> list[str]:
        """Note higher offsets in the store that is not reset: consumers with both stores continue at the higher one."""
        if self.storage == "both" or self.zookeeper is None:
            return []
        place: OffsetStore = "kafka" if self.storage == "zookeeper" else "zookeeper"
        try:
            if place == "kafka":
                others: Mapping[TopicPartition, int] = self.brokers.committed(group)
            else:
                others = stored_offsets(self.zookeeper, [group])[group].values
        except ZKafkaError as error:
            return [f"Whether {_PLACES[place]} has offsets of the group, too, is unknown: {error.message}."]
        higher = sorted(tp for tp, offset in offsets.items() if others.get(tp, -1) > offset)
        if not higher:
            return []
        return [
            f"{_PLACES[place]} has higher offsets of {listing(higher)}, where consumers that commit to both stores "
            "continue. Reset these, too, with --offsets-storage both."
        ]

    def _require_inactive(self, group: str) -> None:
        if self.zookeeper is not None:
            activity = group_activity(self.zookeeper, [group])[group]
            require_no_consumers(self.zookeeper, group, activity, _NOT_RESET)
        if self.storage != "zookeeper" and (state := self.brokers.group_state(group)).is_active:
            raise GROUP_ACTIVE(
                f"{_NOT_RESET}: assignments can only be reset if the group {group} is inactive, but the current state is "
                f"{state.name}, with {len(state.members)} member(s); stop its consumers, and run this again",
                group=group,
            )

    def _partitions(
        self,
        requested: Collection[PartitionSpec] | None,
        scenario: Scenario,
        stored: Collection[TopicPartition],
    ) -> tuple[list[TopicPartition], list[str]]:
        """Return the partitions to reset, and notes."""
        cluster: ClusterSource = self.brokers if self.zookeeper is None else self.zookeeper
        if isinstance(scenario, Mapping):
            return find_partitions(scenario, cluster.snapshot({tp.topic for tp in scenario})), []
        if requested is not None:
            found = find_partitions(requested, cluster.snapshot(sorted({topic for topic, _ in requested})))
            return found, [] if stored else ["The group has no offsets yet."]
        if not stored:
            raise UNKNOWN_GROUP("The group has no offsets to reset; correct its name, or name the topics with --topic")
        snapshot = cluster.snapshot({tp.topic for tp in stored})
        there = set(snapshot.all_partitions())
        gone = sorted(set(stored) - there)
        note = f"Left as they are: the offsets of {listing(gone)}, which do not exist any more."
        return sorted(there & set(stored)), [note] if gone else []


@changes_cluster
def reset_offsets(
    target: Target,
    group: Group,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="T[:P,P]", help="A topic, or some of its partitions; repeatable.")
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions for which the group has an offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the earliest offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the latest offset.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Keep committed offsets; use the latest where there is none.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To an offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Move by N offsets; a negative N moves back.")
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="PnDTnHnMnS", help="To the first record that is not older than this duration."
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="YYYY-MM-DDTHH:mm:SS.sss",
            help="To the first record at or after this time, which is in UTC without a zone.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="To the offsets in a file with lines TOPIC,PARTITION,OFFSET."),
    ] = None,
    offsets_storage: Annotated[
        OffsetsStorage | None,
        typer.Option("--offsets-storage", help="Where the offsets are; by default in ZooKeeper, if it is given."),
    ] = None,
) -> None:
    """Reset the offsets of a group that has no active members.

    Example: zkafka groups reset-offsets billing --topic orders:0,1 --to-earliest --dry-run
    """
    given: dict[str, Scenario | None] = {
        "--to-earliest": EARLIEST if to_earliest else None,
        "--to-latest": LATEST if to_latest else None,
        "--to-current": "current" if to_current else None,
        "--to-offset": to_offset,
        "--shift-by": None if shift_by is None else ShiftBy(shift_by),
        "--by-duration": None if by_duration is None else _at_age(by_duration),
        "--to-datetime": None if to_datetime is None else _at_datetime(to_datetime),
        "--from-file": None if from_file is None else _offsets_in(from_file, group),
    }
    scenarios = {name: scenario for name, scenario in given.items() if scenario is not None}
    if len(scenarios) != 1:
        raise INVALID_OPTION(f"Use one of {', '.join(given)}; found {' and '.join(scenarios) or 'none of them'}")
    (scenario,) = scenarios.values()
    if bool(topic) + all_topics + (from_file is not None) != 1:
        raise INVALID_OPTION("Use one of --topic, --all-topics and --from-file, whose lines name the partitions")
    requested = parse_partitions(topic) if topic else None
    with open_servers(target) as servers:
        storage = target.storage(offsets_storage)
        resets = OffsetResets(storage, servers.zookeeper, servers.brokers)
        planned = resets.plan(group, requested, scenario)
        target.output.note(*planned.notes)
        rows = [
            {"group": group, **tp._asdict(), "current_offset": planned.current.get(tp), "new_offset": offset}
            for tp, offset in sorted(planned.offsets.items())
        ]
        target.output.rows(rows, _COLUMNS, f"Group {group} has no offsets to reset.")
        if rows and target.proceed(f"Reset these {len(rows)} offset(s) of group {group}?"):
            resets.apply(planned)
            target.output.note(f"Reset {len(rows)} offset(s) of group {group} in {_PLACES[storage]}.")


def _at_age(text: str) -> AtTimestamp:
    return AtTimestamp(max(0, time.time_ns() // 1_000_000 - parse_text("--by-duration", text, parse_iso_duration_ms)))


def _at_datetime(text: str) -> AtTimestamp:
    return AtTimestamp(max(0, parse_text("--to-datetime", text, parse_datetime_ms)))


def _offsets_in(file: Path, group: str) -> dict[TopicPartition, int]:
    found, bad = {}, []
    for one in parse_offsets_file(str(file), read_text(file), group):
        if isinstance(one.partition, TopicPartition) and one.offset >= 0:
            found[one.partition] = one.offset
        else:
            bad.append(f"{one.partition} at {one.offset}" if isinstance(one.partition, TopicPartition) else one.partition)
    if bad:
        raise INVALID_OFFSETS_FILE(f"{file} has no offset to reset to for {listing(bad)}; leave these lines out")
    return found
