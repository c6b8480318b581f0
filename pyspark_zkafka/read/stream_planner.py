"""Decisions of a stream: partitions read, data loss, ranges of a micro-batch, offsets to commit.

Pure: values in, values out. `stream_driver` reads ZooKeeper and the brokers, and acts on these decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark_zkafka.conditions import OFFSET_WENT_BACK, PARTITIONS_GONE, TOPIC_REPLACED
from pyspark_zkafka.errors import Condition, DataLoss, listing
from pyspark_zkafka.model.checkpoint import LeftOffset, PlannedRange, StreamOffset, TopicIdentity, identity_after
from pyspark_zkafka.model.nouns import Claim, ClusterSnapshot, OffsetRange, OffsetStore, Topic, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset

_GONE = TopicIdentity()


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """An assigned partition.

    - `position`: the next offset to read. All records before it are done.
    - `committed`: the group's offset; None if unknown.
    - `resets`: the group's offset belongs to a log that no longer exists, or the query left it there before it changed to
      other stores. A commit may then lower it.
    - `claim`: the sequence number of the claim.
    - `moved_to`: the offset that another client has committed ahead of the position. Nothing is committed until the
      position reaches it.
    - `left`, `elsewhere`: see `PlannedRange`.
    - `leader_epoch`: the epoch at which the log was last known to contain all records before the position; -1 if unknown.
    """

    position: int
    committed: StoredOffset | None = None
    resets: bool = False
    claim: int = 0
    moved_to: int = -1
    left: int | None = None
    leader_epoch: int = -1
    elsewhere: tuple[LeftOffset, ...] = ()

    @property
    def is_due(self) -> bool:
        """True if the position has to be committed."""
        return self.resets or (not self.is_stored and self.position >= self.moved_to)

    @property
    def is_stored(self) -> bool:
        """True if the position is the group's offset."""
        return self.committed is not None and self.committed.offset == self.position

    def with_commit(self, stored: StoredOffset, stores: Collection[OffsetStore]) -> PartitionProgress:
        """Return the progress after its position was committed to all `stores`."""
        elsewhere = tuple(at for at in self.elsewhere if at.store not in stores)
        return replace(self, committed=stored, resets=False, elsewhere=elsewhere)

    def planned_range(self, until: int) -> PlannedRange:
        """Return the range from the position to `until`, with the group's offset if it is known."""
        stored = self.committed
        if stored is None:
            return PlannedRange(self.position, until, elsewhere=self.elsewhere)
        return PlannedRange(self.position, until, stored.offset, stored.mzxid, self.left, self.elsewhere)


class Loss(NamedTuple):
    """A loss, or possible loss, of records: the error's condition and text."""

    condition: Condition[DataLoss]
    text: str


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream between two planning calls.

    - `assigned`: the partitions to read.
    - `committed`: the offsets that this run committed last.
    - `replaced`: the present identities of topics that were deleted or created again since the last micro-batch.
    - `uncommitted_starts`: starts that this query found for other members' partitions without a group offset.
    - `bounds`: the fixed ends of AvailableNow.
    - `bounded`: the identities that topics had when their ends were fixed.
    - `newly_assigned`: the identities that topics had when their partitions were assigned, since the last micro-batch.
    """

    assigned: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    committed: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    replaced: Mapping[str, TopicIdentity] = field(default_factory=dict)
    uncommitted_starts: Mapping[TopicPartition, PlannedRange] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, int] | None = None
    bounded: Mapping[str, TopicIdentity] = field(default_factory=dict)
    newly_assigned: Mapping[str, TopicIdentity] = field(default_factory=dict)

    def finish(self, planned_ranges: Mapping[TopicPartition, PlannedRange]) -> StreamState:
        """Return the state with each position at the end of its planned range."""
        ours = planned_ranges.keys() & self.assigned.keys()
        return self._update({tp: replace(self.assigned[tp], position=planned_ranges[tp].until) for tp in ours})

    def revoke(self, owned: Mapping[TopicPartition, Claim]) -> StreamState:
        """Return the state without partitions that are no longer owned, or were revoked and assigned again."""
        assigned = self.assigned
        kept = {tp: known for tp, known in assigned.items() if tp in owned and owned[tp].sequence == known.claim}
        return self if len(kept) == len(assigned) else replace(self, assigned=kept)

    def assign(
        self,
        owned: Mapping[TopicPartition, Claim],
        found: Mapping[TopicPartition, PartitionProgress],
        topics: Mapping[str, Topic],
    ) -> StreamState:
        """Return the state with newly assigned partitions. `topics` are the present topics.

        Forgets this run's last commit in a partition if another member has committed there since.
        """
        identities = {tp.topic: TopicIdentity.of(topics[tp.topic]) for tp in found if tp.topic in topics}
        state = self._update({tp: replace(progress, claim=owned[tp].sequence) for tp, progress in found.items()})
        ours = {tp: last for tp, last in self.committed.items() if tp not in found or found[tp].committed == last}
        return replace(state, committed=ours, newly_assigned={**self.newly_assigned, **identities})

    def start(self, starts: Mapping[TopicPartition, PartitionProgress]) -> StreamState:
        """Return the state at the starts that the group has committed. Nothing has been read of these partitions."""
        ours = starts.keys() & self.assigned.keys()
        return self._update({tp: replace(starts[tp], claim=self.assigned[tp].claim) for tp in ours})

    def with_epochs(self, epochs: Mapping[TopicPartition, int]) -> StreamState:
        """Return the state with the leader epochs of logs that contain the positions."""
        assigned = self.assigned
        new = {tp: epoch for tp, epoch in epochs.items() if tp in assigned and assigned[tp].leader_epoch != epoch}
        return self._update({tp: replace(assigned[tp], leader_epoch=epoch) for tp, epoch in new.items()})

    def known_end(self, partition: TopicPartition) -> int:
        """Return the lowest valid end of an assigned partition's log: the larger of the position and the fixed end."""
        return max(self.assigned[partition].position, (self.bounds or {}).get(partition, 0))

    def behind(self, existing: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the fixed ends that this stream has not reached, in order. Includes partitions that it does not read."""
        bounds = self.bounds or {}
        reached = {tp for tp, progress in self.assigned.items() if progress.position >= bounds.get(tp, 0)}
        return {tp: bounds[tp] for tp in sorted(bounds) if tp in existing and tp not in reached}

    def due(self, *, again: bool = False) -> dict[TopicPartition, int]:
        """Return the positions to commit. With `again`, include positions that are already stored."""
        assigned = self.assigned.items()
        return {tp: progress.position for tp, progress in assigned if progress.is_due or (again and progress.is_stored)}

    def without_resets(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Select the assigned partitions in which the next commit cannot lower the group's offset."""
        return [tp for tp in partitions if tp in self.assigned and not self.assigned[tp].resets]

    def with_commits(
        self,
        stored: Mapping[TopicPartition, int],
        mzxids: Mapping[TopicPartition, int],
        stores: Collection[OffsetStore],
    ) -> tuple[StreamState, dict[TopicPartition, int]]:
        """Return the state after a commit, and the offsets that another client has committed ahead of our positions.

        `stored` has the group's present offsets, and `mzxids` the ``mzxid`` of the znodes that this commit wrote. An equal
        offset that was there before is an earlier commit whose answer was lost. An offset that was adopted from another
        member stays that member's, although it is committed again to outlast its retention.
        """
        moved = {tp: offset for tp, offset in stored.items() if offset != self.assigned[tp].position}
        done = {tp: StoredOffset(offset, mzxids.get(tp)) for tp, offset in stored.items() if tp not in moved}
        changed = {tp: self.assigned[tp].with_commit(offset, stores) for tp, offset in done.items()}
        changed |= {tp: replace(self.assigned[tp], moved_to=offset) for tp, offset in moved.items()}
        known = {tp: last for tp, last in self.committed.items() if tp in done and last.offset == done[tp].offset}
        read = {tp for tp in done if tp in self.committed or self.assigned[tp].resets or not self.assigned[tp].is_stored}
        ours = {tp: done[tp] if done[tp].mzxid is not None else known.get(tp, done[tp]) for tp in read}
        return replace(self._update(changed), committed={**self.committed, **ours}), moved

    def replace_topic(self, topic: str, identity: TopicIdentity) -> StreamState:
        """Return the state without the partitions of a topic that was deleted, or created again."""
        assigned = {tp: progress for tp, progress in self.assigned.items() if tp.topic != topic}
        return replace(self, assigned=assigned, replaced={**self.replaced, topic: identity})

    def idle_range(self, partition: TopicPartition, planned: PlannedRange) -> PlannedRange:
        """Return the empty range that keeps the position of a partition that is not assigned now."""
        last = self.committed.get(partition)
        if last is None:
            return planned._replace(start=planned.until)
        return PlannedRange(planned.until, planned.until, last.offset, last.mzxid, elsewhere=planned.elsewhere)

    def _update(self, changed: Mapping[TopicPartition, PartitionProgress]) -> StreamState:
        return replace(self, assigned={**self.assigned, **changed}) if changed else self


def replaced_topics(state: StreamState, finished: StreamOffset, snapshot: ClusterSnapshot) -> dict[str, TopicIdentity]:
    """Return the identities of topics that were created again since the last micro-batch.

    A topic that is in no micro-batch yet is compared with its identity when its ends were fixed or a partition was
    assigned.
    """
    found = {}
    assigned = {tp.topic for tp in state.assigned} if state.newly_assigned else set()
    newly_assigned = {name: identity for name, identity in state.newly_assigned.items() if name in assigned}
    for name, identity in {**newly_assigned, **state.bounded, **finished.topics}.items():
        topic, seen = snapshot.topics.get(name), state.replaced.get(name, _GONE)
        if topic is not None and (identity if seen == _GONE else seen).differs_from(topic):
            found[name] = TopicIdentity.of(topic)
    return found


def check_topics(
    state: StreamState,
    finished: StreamOffset,
    snapshot: ClusterSnapshot,
    again: Mapping[str, TopicIdentity],
    followed: Collection[str] = frozenset(),
) -> tuple[StreamState, list[Loss]]:
    """Find partitions that were read and no longer exist, and topics that were created `again`.

    Also checks partitions that other members read: a member that watches topics releases deleted ones at once. `again` has
    the `replaced_topics`. A topic is no loss if it was never read, its deletion was reported before, or the group has read
    the new topic (`followed`). A topic that reappears unchanged is read from its last position.
    """
    losses = []
    gone = sorted(tp for tp in finished.ranges if tp.topic not in snapshot.topics and tp.topic not in state.replaced)
    if gone:
        losses.append(Loss(PARTITIONS_GONE, f"{listing(gone)} no longer exist: the topic was deleted"))
    for name in {tp.topic for tp in gone}:
        state = state.replace_topic(name, _GONE)
    # Nothing was read of a topic that was created and deleted since the last micro-batch.
    kept = {tp: progress for tp, progress in state.assigned.items() if tp.topic in snapshot.topics}
    if len(kept) < len(state.assigned):
        state = replace(state, assigned=kept)
    gone_before = {name for name, identity in state.replaced.items() if identity == _GONE}
    back = (gone_before & snapshot.topics.keys()) - again.keys()
    if back:
        state = replace(state, replaced={name: identity for name, identity in state.replaced.items() if name not in back})
    if again:
        read = {tp.topic for tp in (*finished.ranges, *state.assigned, *(state.bounds or ()))}
        for name, identity in again.items():
            if name in read and name not in followed and name not in gone_before:
                text = f"topic {name} was deleted and created again; it will be read from its beginning"
                losses.append(Loss(TOPIC_REPLACED, text))
            state = state.replace_topic(name, identity)
    return state, losses


def _check_ends(state: StreamState, ends: Mapping[TopicPartition, int]) -> tuple[StreamState, list[Loss]]:
    """Find logs that end before the position or the fixed end, and move both back to the log's end."""
    losses, changed = [], {}
    bounds = dict(state.bounds or {})
    for tp, end in ends.items():
        progress, known = state.assigned[tp], state.known_end(tp)
        if end < known:
            text = (
                f"{tp}: the log ends at {end}, and was read or planned up to {known}: it was truncated, by an unclean "
                "election or by hand"
            )
            losses.append(Loss(OFFSET_WENT_BACK, text))
            changed[tp] = replace(progress, position=min(end, progress.position), resets=True)
            bounds[tp] = min(bounds.get(tp, end), end)
    if not changed:
        return state, losses
    fixed = None if state.bounds is None else bounds
    return replace(state, assigned={**state.assigned, **changed}, bounds=fixed), losses


def check_fixed_ends(
    state: StreamState, finished: StreamOffset, existing: Collection[TopicPartition]
) -> tuple[StreamState, list[Loss]]:
    """Find partitions that were deleted before they were read to their fixed ends, and drop these ends."""
    bounds, ranges = state.bounds or {}, finished.ranges
    gone = {tp for tp, end in bounds.items() if tp not in existing and (tp not in ranges or ranges[tp].until < end)}
    if not gone:
        return state, []
    text = f"{listing(sorted(gone))} were deleted before they were read to the ends fixed when the query started"
    kept = {tp: end for tp, end in bounds.items() if tp not in gone}
    return replace(state, bounds=kept), [Loss(PARTITIONS_GONE, text)]


@dataclass(frozen=True, slots=True)
class MicroBatchFacts:
    """Facts that a planning call has found in the checkpoint, the cluster and the brokers.

    - `recorded`: the end of the last micro-batch, as the checkpoint has it.
    - `finished`: the same end for this run: with this run's stores, and with the starts that no group has committed.
    - `unsubscribed`: topics in `finished` to which the query no longer subscribes. Their positions stay in the checkpoint.
    - `snapshot`: the cluster with the subscribed topics that exist.
    - `ends`: the ends of the logs whose leaders have answered.
    - `unanswered`: partitions that a retriable error kept this call from reading.
    - `has_group`: True if the query commits offsets.
    """

    recorded: StreamOffset = field(default_factory=StreamOffset)
    finished: StreamOffset = field(default_factory=StreamOffset)
    unsubscribed: frozenset[str] = frozenset()
    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}))
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    unanswered: frozenset[TopicPartition] = frozenset()
    has_group: bool = False

    @property
    def current(self) -> StreamOffset:
        """The end of the last micro-batch without the topics to which the query no longer subscribes."""
        if not self.unsubscribed:
            return self.finished
        return replace(
            self.finished,
            ranges={tp: r for tp, r in self.finished.ranges.items() if tp.topic not in self.unsubscribed},
            topics={name: t for name, t in self.finished.topics.items() if name not in self.unsubscribed},
        )


class MicroBatchPlan(NamedTuple):
    """The state after planning, the end of the micro-batch (None if there is nothing to read or record), and losses."""

    state: StreamState
    end: StreamOffset | None
    losses: list[Loss]


def plan_micro_batch(
    state: StreamState,
    facts: MicroBatchFacts,
    limit: Callable[[Mapping[TopicPartition, OffsetRange]], Mapping[TopicPartition, OffsetRange]],
) -> MicroBatchPlan:
    """Plan the next micro-batch from the position of each assigned partition to the end of its log, within a limit."""
    state, losses = _check_ends(state, facts.ends)
    ranges = limit(_ranges_of(state, facts.ends))
    if not any(r.size for r in ranges.values()) and not _is_unrecorded(state, facts):
        return MicroBatchPlan(state, None, losses)
    return MicroBatchPlan(*_end_of(state, facts, ranges), losses)


def _ranges_of(state: StreamState, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges from each position to the end of the log, or to the fixed end. Empty if no end is known."""
    found = {}
    for tp, progress in state.assigned.items():
        end = ends.get(tp, progress.position)
        if state.bounds is not None:
            end = min(end, state.bounds.get(tp, progress.position))
        found[tp] = OffsetRange(tp, progress.position, max(progress.position, end))
    return found


def _is_unrecorded(state: StreamState, facts: MicroBatchFacts) -> bool:
    """Return True if the checkpoint needs a micro-batch without records, to continue as this run does after a restart.

    This is the case if:

    - the query commits to other stores than the checkpoint has;
    - a topic was created again;
    - the query has no group, and a loss has moved a position;
    - the query is back in a group, and the group's offset has changed since it left.
    """
    ranges = facts.current.ranges
    if state.assigned and facts.recorded.stores != facts.finished.stores:
        return True
    created_again = state.replaced.keys() & facts.snapshot.topics.keys()
    if any(tp.topic in created_again for tp in ranges):
        return True
    for tp, progress in state.assigned.items():
        planned = ranges.get(tp)
        if planned is None:
            continue
        if not facts.has_group and progress.position != planned.until:
            return True
        stored = progress.committed
        if facts.has_group and planned.left is not None and stored is not None and stored.offset != planned.left:
            return True
    return False


def _end_of(
    state: StreamState, facts: MicroBatchFacts, ranges: Mapping[TopicPartition, OffsetRange]
) -> tuple[StreamState, StreamOffset]:
    """Return the end of a micro-batch that reads the ranges. Partitions that are not assigned keep an empty range.

    Unsubscribed topics also keep their ranges, and so do partitions that the snapshot lacks: a broker may not know added
    partitions yet.
    """
    finished, topics, unsubscribed = facts.finished, facts.snapshot.topics, facts.unsubscribed
    planned_ranges = {tp: state.assigned[tp].planned_range(r.until) for tp, r in ranges.items()}
    for tp, planned in finished.ranges.items():
        is_kept = tp.topic in unsubscribed or (tp.topic in topics and tp.topic not in state.replaced)
        if tp not in planned_ranges and is_kept:
            planned_ranges[tp] = state.idle_range(tp, planned)
    before = {name: identity for name, identity in finished.topics.items() if name not in state.replaced}
    identities = {
        name: identity_after(topic, before.get(name, TopicIdentity()), planned_ranges) for name, topic in topics.items()
    }
    identities |= {name: finished.topics[name] for name in unsubscribed}
    end = StreamOffset(planned_ranges, identities, finished.stores)
    return replace(state, replaced={}, uncommitted_starts={}, newly_assigned={}), end


def lagging_partitions(
    ranges: Iterable[OffsetRange], planned: StreamOffset, snapshot: ClusterSnapshot
) -> list[TopicPartition]:
    """Return the partitions that the snapshot lacks, although it has their topics: a topic never loses partitions."""
    missing = [r.partition for r in ranges if r.partition not in snapshot.states]
    same = {name for name, topic in snapshot.topics.items() if planned.topics.get(name, TopicIdentity()).equals(topic)}
    return [tp for tp in missing if tp.topic in same]
