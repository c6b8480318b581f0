"""Start positions of a stream in newly assigned partitions."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.conditions import OFFSET_OUT_OF_RANGE, report_data_loss
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.checkpoint import StreamOffset, TopicIdentity
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import (
    LATEST,
    AtTimestamp,
    FromEdge,
    NamedPosition,
    OffsetSpec,
    Outside,
    Resolution,
    moves,
    reset_position,
    resolve,
)
from pyspark_zkafka.model.planning import Assign, check_named, describe_offline
from pyspark_zkafka.model.resumption import (
    PartitionFacts,
    Rule,
    StoredOffset,
    checkpoint_or_group,
    deleted_topic,
    is_followed,
    new_partition,
    outdated,
    resume,
    start_of,
    topic_created_again,
)
from pyspark_zkafka.options.values import StreamOptions
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_session import ANSWER_S, StreamSession

_log = logging.getLogger(__name__)

_CHANGED = "another client has changed the group's offset, or the query was in another group before"

_NEW_STREAM = StreamState()


@dataclass(frozen=True, slots=True)
class InitialPositions:
    """The starting positions of a new query.

    `assigned` has the partitions that the query owns. `uncommitted` has the starts that depend on the time and that the
    group has not committed yet, also for partitions of other members.
    """

    assigned: Mapping[TopicPartition, PartitionProgress]
    uncommitted: Mapping[TopicPartition, int]

    def within(self, topics: Collection[str]) -> InitialPositions:
        """Return the starting positions in some topics."""
        return InitialPositions(
            {tp: progress for tp, progress in self.assigned.items() if tp.topic in topics},
            {tp: start for tp, start in self.uncommitted.items() if tp.topic in topics},
        )


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """Start positions, from the checkpoint, the group's offsets, or the options.

    `awaited` has the partitions that the options named when the query first started, and that did not exist then. The
    options still apply when these partitions are created. `now_ms` is the present time for "10 minutes ago".
    """

    options: StreamOptions
    session: StreamSession
    awaited: set[TopicPartition] = field(default_factory=set)
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def initial(self, owned: Collection[TopicPartition], snapshot: ClusterSnapshot) -> InitialPositions:
        """Find the start of a new query, for all partitions at the same time. Commits nothing. See `find`.

        Raises NoLeader, unless `offlinePartitions` is skip, for a partition without a leader that starts at `latest`,
        `latest-100` or a relative time, and has no offset of the group. Raises OptionError if `startingOffsets` does not
        fit the topics.
        """
        member, read = self.session.member, self.options.read
        everything = set(owned if member is None else snapshot.all_partitions())
        unnamed = [tp for tp in sorted(everything) if read.start.of(tp) is None]
        optional = self._placed(unnamed) if read.reset is None else set(unnamed)
        check_named(read.start, read.require_subscription(), snapshot, sorted(everything), optional)
        self.awaited.update(tp for tp in read.start.by_partition if tp not in everything)
        if self.awaited:
            _log.warning(
                "startingOffsets names partitions that do not exist: %s. They start there if they are created before a "
                "restart",
                listing(sorted(self.awaited)),
            )
        self._require_leaders(everything, snapshot)
        assigned = self.find([tp for tp in sorted(owned) if snapshot.leader(tp) is not None])
        if member is None:
            self._warn_without_offsets(assigned, ())
            return InitialPositions(assigned, {})
        own = {tp: p.position for tp, p in assigned.items() if p.committed is None and self._depends_on_time(tp)}
        others = self._others([tp for tp in sorted(everything - set(owned)) if snapshot.leader(tp) is not None], assigned)
        new = self.session.created_after_subscription([*own, *others])
        return InitialPositions(assigned, {tp: start for tp, start in (own | others).items() if tp not in new})

    def _placed(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions with an offset of the group, and those created after the group subscribed."""
        if self.options.group is None or not partitions:
            return set()
        committed = self.session.group_offsets().committed(partitions, skip_malformed=True)
        return committed.keys() | self.session.created_after_subscription([tp for tp in partitions if tp not in committed])

    def commit_starts(self, initial: InitialPositions) -> InitialPositions:
        """Commit the group's starts of all subscribed partitions. Returns the positions with the starts left uncommitted.

        The group then reads all records produced from now on, whichever members survive. The first member to commit a start
        sets it for the group. Starts of partitions that a JVM consumer owns are left uncommitted.
        """
        if not initial.uncommitted or self.session.member is None:
            return initial
        stored = self.session.group_offsets().begin(initial.uncommitted)
        assigned = {tp: self._with_stored(tp, progress, stored.get(tp)) for tp, progress in initial.assigned.items()}
        return InitialPositions(assigned, {tp: start for tp, start in initial.uncommitted.items() if tp not in stored})

    def _others(
        self, partitions: Collection[TopicPartition], assigned: Mapping[TopicPartition, PartitionProgress]
    ) -> dict[TopicPartition, int]:
        """Find the starts of other members' partitions, in topics without any offset of the group.

        In a topic with offsets, the group has already started, and the other members set their own starts.
        """
        committed = self.session.group_offsets().committed(partitions, skip_malformed=True)
        self._warn_without_offsets(assigned, committed)
        started = {tp.topic for tp in [*committed, *(tp for tp, p in assigned.items() if p.committed is not None)]}
        found = self.find([tp for tp in partitions if tp.topic not in started and self._depends_on_time(tp)])
        return {tp: progress.position for tp, progress in found.items() if progress.committed is None}

    def _warn_without_offsets(
        self, assigned: Mapping[TopicPartition, PartitionProgress], others: Collection[TopicPartition]
    ) -> None:
        """Warn if a new query starts at the group's offsets, and the group has no offset.

        `others` are other members' partitions with an offset.
        """
        group, read = self.options.group, self.options.read
        if group is None or read.start.everywhere != "committed" or read.reset is not None:
            return
        if assigned and not others and all(progress.committed is None for progress in assigned.values()):
            _log.warning(
                "Group %s has no offset in %s, and starts at the end of the logs. Correct group.id, set startingOffsets to "
                "earliest to read all records, or set auto.offset.reset to confirm the start",
                group.name,
                listing(sorted({tp.topic for tp in assigned})),
            )

    def _depends_on_time(self, partition: TopicPartition) -> bool:
        """Return True if the start that the options name depends on the time at which it is resolved."""
        named = self._named(partition)
        if named is None:
            return self.options.read.reset in (None, "latest")
        return moves(named) or isinstance(named, (AtTimestamp, FromEdge))

    def _with_stored(
        self, partition: TopicPartition, own: PartitionProgress, stored: StoredOffset | None
    ) -> PartitionProgress:
        """Return the start that the group has committed, unless the options name an offset or a time."""
        if stored is None or own.committed is not None:
            return own
        named = self._named(partition)
        is_exact = isinstance(named, AtTimestamp) or (isinstance(named, int) and named >= 0)
        return PartitionProgress(own.position if is_exact else stored.offset, stored)

    def _require_leaders(self, partitions: Collection[TopicPartition], snapshot: ClusterSnapshot) -> None:
        offline = [tp for tp in sorted(partitions) if tp in snapshot.states and snapshot.leader(tp) is None]
        needed = [tp for tp in offline if self._depends_on_time(tp) and self._is_later_each_time(tp)]
        if self.options.read.skip_offline:
            return
        placed = self._placed(needed)
        if unplaced := [tp for tp in needed if tp not in placed]:
            raise describe_offline(unplaced, snapshot)

    def find(
        self,
        partitions: Collection[TopicPartition],
        finished: StreamOffset | None = None,
        state: StreamState = _NEW_STREAM,
    ) -> dict[TopicPartition, PartitionProgress]:
        """Find the position from which to read each newly assigned partition. Blocks for a few requests.

        Each partition must have a leader. A new query starts at `startingOffsets`. Later, `startingOffsets` applies only to
        partitions that the stream knew without a position. Partitions created later start at their beginning. In a group,
        so do partitions that were created after its subscription and have no offset.

        Raises DataLoss for a position outside the log, if `failOnDataLoss` is set, and ClusterStateError for a partition
        without a committed offset, if `auto.offset.reset` is error.

        `finished` is the end of the finished micro-batches, from the checkpoint, None for a new query. Earlier positions in
        topics that `state` has as replaced are ignored.
        """
        facts = self._facts(partitions, finished, state)
        starts = {tp: start_of(known) for tp, known in facts.items()}
        self._report_outdated(starts, facts, {} if finished is None else finished.ranges)
        for tp, (rule, _) in starts.items():
            if rule is checkpoint_or_group:
                self._log_moved(tp, facts[tp])
        without_rule = [tp for tp, (rule, _) in starts.items() if rule is None]
        positions = {tp: position for tp, (_, position) in starts.items() if position is not None}
        positions |= dict.fromkeys(without_rule, reset_position(without_rule, self.options.read.reset))
        resolution = self._resolve(positions, first=finished is None)
        if resolution.outside:
            self._report_outside(resolution.outside, {tp for tp, known in facts.items() if starts[tp][0] is new_partition})
        resets = {o.partition for o in resolution.outside}
        resets |= {tp for tp in facts if starts[tp][0] is topic_created_again or facts[tp].is_outdated}
        found = {r.partition: r.start for r in resolution.ranges}
        self.awaited.difference_update(found)
        return {tp: self._progress(start, facts[tp], resets=tp in resets) for tp, start in found.items()}

    def _facts(
        self, partitions: Collection[TopicPartition], finished: StreamOffset | None, state: StreamState
    ) -> dict[TopicPartition, PartitionFacts]:
        """Gather the facts about each partition that the rules need, from the group and ZooKeeper."""
        planned_ranges = {} if finished is None else finished.ranges
        left = {tp: planned_ranges[tp].elsewhere for tp in partitions if tp in planned_ranges}
        stored = {} if self.options.group is None else self.session.group_offsets().committed(partitions, left=left)
        stale = outdated(stored, self.session.cluster.snapshot()) if stored else set()
        unread = [tp for tp in partitions if tp not in stored and tp not in planned_ranges]
        awaited = self.awaited.intersection(unread).difference(state.committed)
        new = self.session.created_after_subscription(unread) | awaited
        last_read: dict[str, int] = {}
        was_in_group = any(planned.committed is not None or planned.elsewhere for planned in planned_ranges.values())
        if self.options.group is not None or not was_in_group:
            for tp in planned_ranges:
                last_read[tp.topic] = max(tp.partition, last_read.get(tp.topic, 0))
        return {
            tp: PartitionFacts(
                planned=planned_ranges.get(tp),
                stored=stored.get(tp),
                last=state.committed.get(tp),
                named=self._named(tp),
                is_first_start=finished is None or tp in awaited,
                is_outdated=tp in stale,
                is_replaced=tp.topic in state.replaced,
                created_after_subscription=tp in new,
                is_added=finished is not None and self._is_added(tp, finished),
                has_grown=finished is not None and self._has_grown(tp, finished, last_read.get(tp.topic)),
            )
            for tp in partitions
        }

    def _progress(self, start: int, facts: PartitionFacts, *, resets: bool) -> PartitionProgress:
        """Return the progress at a start. A query that has left its group keeps the group's offset in its checkpoint.

        The next commit overwrites the offset that the query left in a store to which it now returns.
        """
        planned, elsewhere = facts.planned, () if facts.planned is None else facts.planned.elsewhere
        if self.options.group is not None:
            resets = resets or any(at.store in self.options.read.stores for at in elsewhere)
        if self.options.group is not None or planned is None or planned.committed is None:
            return PartitionProgress(start, facts.stored, resets, elsewhere=elsewhere)
        left = planned.until if planned.left is None else planned.left
        return PartitionProgress(
            start, StoredOffset(planned.committed, planned.mzxid), resets, left=left, elsewhere=elsewhere
        )

    def _is_added(self, partition: TopicPartition, finished: StreamOffset) -> bool:
        """Return True if the query did not know the partition when it started.

        Without membership, a partition that is absent from the checkpoint also counts as added, unless the options
        name a start that does not move with time. Such a partition was added by another `assign` or `subscribe`, belonged
        to another member when the query was in a group, or had no leader.
        """
        is_new = partition.partition >= finished.topics.get(partition.topic, TopicIdentity()).known
        return is_new or (self.session.member is None and self._is_later_each_time(partition))

    def _has_grown(self, partition: TopicPartition, finished: StreamOffset, last_read: int | None) -> bool:
        """Return True if the partition was added to its topic while the query was reading it.

        Without membership, partitions below `last_read` may have had no leader when the query started. `last_read` is None
        if the query has left a group, because other members may have read the partition. An `assign` may add any partition.
        """
        known = finished.topics.get(partition.topic, TopicIdentity()).known
        if not 0 < known <= partition.partition or isinstance(self.options.read.subscription, Assign):
            return False
        return self.session.member is not None or (last_read is not None and partition.partition > last_read)

    def _is_later_each_time(self, partition: TopicPartition) -> bool:
        named = self._named(partition)
        return named is None or moves(named)

    def followed(
        self,
        replaced: Collection[str],
        finished: StreamOffset,
        last_committed: Mapping[TopicPartition, StoredOffset],
        snapshot: ClusterSnapshot,
    ) -> set[str]:
        """Return the `replaced` topics in which other members have committed every partition of the checkpoint."""
        ranges = {tp: r for tp, r in finished.ranges.items() if tp.topic in replaced and tp in snapshot.states}
        if self.options.group is None or not ranges:
            return set()
        stored = self.session.group_offsets().committed(ranges, skip_malformed=True)
        current = {tp: stored[tp] for tp in stored.keys() - outdated(stored, snapshot)}
        unread = {tp.topic for tp, r in ranges.items() if not is_followed(r, current.get(tp), last_committed.get(tp))}
        return {tp.topic for tp in ranges} - unread

    def _report_outdated(
        self,
        starts: Mapping[TopicPartition, tuple[Rule | None, NamedPosition | None]],
        facts: Mapping[TopicPartition, PartitionFacts],
        planned_ranges: Collection[TopicPartition],
    ) -> None:
        """Report unused offsets of deleted topics. The deletion of a topic in the checkpoint was reported before."""
        read = {tp.topic for tp in planned_ranges}
        stale = {tp: known.stored for tp, known in facts.items() if known.is_outdated and known.stored is not None}
        unused = [
            tp
            for tp in stale
            if starts[tp][0] is deleted_topic or (starts[tp][0] is topic_created_again and tp.topic not in read)
        ]
        if unused:
            from pyspark_zkafka.group.offsets import report_outdated

            report_outdated(unused, stale, self.options.read.fail_on_data_loss)

    def _log_moved(self, partition: TopicPartition, facts: PartitionFacts) -> None:
        """Log that the stream continues at the group's offset, which is not its own commit."""
        found, planned = resume(facts.planned, facts.current, facts.last), facts.planned
        if found is not None and planned is not None and found != planned.until:
            is_progress = self.session.member is not None and found > planned.until
            _log.log(
                logging.INFO if is_progress else logging.WARNING,
                "%s: continuing at offset %d of group %s instead of %d, because %s",
                partition,
                found,
                self.options.group.name if self.options.group else "",
                planned.until,
                "another member has read further" if is_progress else _CHANGED,
            )

    def _named(self, partition: TopicPartition) -> NamedPosition | None:
        """Return the position that the options name; None for the group's offset."""
        given = self.options.read.start.of(partition)
        return None if given == "committed" else given

    def _resolve(self, positions: Mapping[TopicPartition, NamedPosition], first: bool) -> Resolution:
        # After the first planning, the time-out is short: other partitions wait meanwhile, and failed calls are retried. A
        # partition that is assigned later waits for a record at its timestamp.
        read = self.options.read
        return resolve(
            list(positions),
            OffsetSpec(read.start.option, by_partition=dict(positions)).at(self.now_ms),
            OffsetSpec("endingOffsets", everywhere=LATEST),
            self.session.cluster.brokers,
            retry=self.session.retry,
            no_match=read.no_match if first else "latest",
            timeout_s=math.inf if first else ANSWER_S,
        )

    def _report_outside(self, offsets: Collection[Outside], new: Collection[TopicPartition]) -> None:
        """Report positions outside the logs. No option names the start of `new` partitions."""
        is_given = any(found.partition not in new for found in offsets)
        report_data_loss(
            OFFSET_OUT_OF_RANGE,
            f"{'; '.join(map(str, offsets))}; records may be lost",
            fail=self.options.read.fail_on_data_loss,
            remedy=("correct the offsets (of the group, or in startingOffsets), or " if is_given else "")
            + "set failOnDataLoss to false to continue with what is there",
            otherwise="Continuing with what is there",
        )
