"""Starting positions of partitions that a stream has gained."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark_zkafka.data_loss import report_data_loss
from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import PlannedRange, StreamOffset, TopicMark, Waiting
from pyspark_zkafka.protocol.model import NO_LEADER, ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    OffsetSpec,
    Outside,
    Position,
    Resolution,
    check_named,
    reset_position,
    resolve,
)
from pyspark_zkafka.protocol.resumption import StoredOffset, is_followed, outdated, resume
from pyspark_zkafka.stream.planner import PartitionProgress
from pyspark_zkafka.stream.session import ANSWER_S, StreamSession

__all__ = ["Beginning", "StreamStarts"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Bounds:
    admin: KafkaAdmin
    timeout_s: float

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        return self.admin.list_offsets(wanted, self.timeout_s)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.admin.high_watermarks(partitions, self.timeout_s)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}  # committed offsets were looked up before


@dataclass(frozen=True, slots=True)
class Beginning:
    """The starting positions of a new query.

    `gains` are the partitions that it owns, `waiting` those without a leader. `undecided` are starts that the group has not
    committed yet, and that depend on the time; they include those of partitions that the query does not own.
    """

    gains: Mapping[TopicPartition, PartitionProgress]
    undecided: Mapping[TopicPartition, int]
    waiting: Mapping[TopicPartition, Waiting]

    def within(self, topics: Collection[str]) -> Beginning:
        """The starting positions in some topics."""
        gains = {tp: gain for tp, gain in self.gains.items() if tp.topic in topics}
        undecided = {tp: start for tp, start in self.undecided.items() if tp.topic in topics}
        return Beginning(gains, undecided, {tp: moment for tp, moment in self.waiting.items() if tp.topic in topics})


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """Finds positions: the checkpoint's, the group's, or those that the options name; `now` is seconds since the epoch."""

    options: StreamOptions
    session: StreamSession
    now: Callable[[], float] = time.time

    def begin(
        self,
        owned: Collection[TopicPartition],
        snapshot: ClusterSnapshot,
        waiting: Mapping[TopicPartition, Waiting] | None = None,
    ) -> Beginning:
        """Find the start of a new query, at one moment for all partitions, and commit nothing; see `find`."""
        waiting = waiting or {}
        led = [tp for tp in sorted(owned) if snapshot.leader(tp) is not None]
        gains = self.find(led, waiting=waiting)
        member = self.session.member
        everything = set(owned) if member is None else {tp for t in snapshot.topics for tp in snapshot.partitions(t)}
        offline = [tp for tp in sorted(everything) if tp in snapshot.states and snapshot.leader(tp) is None]
        still = [*offline, *(tp for tp in led if tp not in gains)]
        moments = {**self._waiting(offline, snapshot), **{tp: waiting[tp] for tp in still if tp in waiting}}
        if member is None:
            self._warn_without_offsets(gains, ())
            return Beginning(gains, {}, moments)
        check_named(self.options.read.start, everything, may_omit=True)
        fresh = {tp: gain.position for tp, gain in gains.items() if gain.committed is None and self._is_momentary(tp)}
        others = self._others([tp for tp in sorted(everything - set(owned)) if snapshot.leader(tp) is not None], gains)
        younger = self.session.younger([*fresh, *others])
        return Beginning(gains, {tp: start for tp, start in (fresh | others).items() if tp not in younger}, moments)

    def decide(self, begun: Beginning) -> Beginning:
        """Commit the group's starts, for all partitions that the member is subscribed to; returns what stays undecided.

        The group then reads everything produced from now on, whichever of its members survives. The first member to commit
        decides. Partitions that a JVM consumer owns stay undecided.
        """
        if not begun.undecided or self.session.member is None:
            return begun
        stored = self.session.offsets.begin(begun.undecided)
        gains = {tp: self._decided(tp, gain, stored.get(tp)) for tp, gain in begun.gains.items()}
        undecided = {tp: start for tp, start in begun.undecided.items() if tp not in stored}
        return Beginning(gains, undecided, begun.waiting)

    def _others(
        self, partitions: Collection[TopicPartition], gains: Mapping[TopicPartition, PartitionProgress]
    ) -> dict[TopicPartition, int]:
        """The starts of partitions that others own, in topics of which the group has no offset at all.

        In a topic with some offsets, the group has begun: a partition without one had no leader then, and the time of its
        start is in another member's checkpoint.
        """
        committed = self.session.offsets.committed(partitions, skip_malformed=True)
        self._warn_without_offsets(gains, committed)
        begun = {tp.topic for tp in committed} | {tp.topic for tp, gain in gains.items() if gain.committed is not None}
        missing = [tp for tp in partitions if tp.topic not in begun and self._is_momentary(tp)]
        found = self.find(missing)
        return {tp: gain.position for tp, gain in found.items() if gain.committed is None}

    def _warn_without_offsets(
        self, gains: Mapping[TopicPartition, PartitionProgress], others: Collection[TopicPartition]
    ) -> None:
        """Warn that a new query starts at the group's offsets, and the group has none; `others` have one."""
        group, read = self.options.group, self.options.read
        if group is None or read.start.everywhere != "committed" or read.reset is not None:
            return
        if gains and not others and all(gain.committed is None for gain in gains.values()):
            _log.warning(
                "group %s has no offset in %s, and starts at the end of the logs; correct group.id if it is not a new "
                "group, set startingOffsets to earliest to read all records, or auto.offset.reset to confirm the start",
                group.name,
                listing(sorted({tp.topic for tp in gains})),
            )

    def _is_momentary(self, partition: TopicPartition) -> bool:
        """True if the start that the options name depends on the time at which it is resolved."""
        named = self._named(partition)
        if named is None:
            return self.options.read.reset in (None, "latest")
        return named == LATEST or isinstance(named, AtTimestamp)

    def _decided(self, partition: TopicPartition, own: PartitionProgress, stored: StoredOffset | None) -> PartitionProgress:
        """The start that the group has committed, unless the options name an offset or a time."""
        if stored is None or own.committed is not None:
            return own
        is_exact = self._named(partition) not in (None, EARLIEST, LATEST)
        return PartitionProgress(own.position if is_exact else stored.offset, stored)

    def _waiting(self, offline: Collection[TopicPartition], snapshot: ClusterSnapshot) -> dict[TopicPartition, Waiting]:
        """The partitions without a leader that are to be read from the end of their logs.

        A leader that is only unregistered now may come back in the same epoch, which is then of no use.
        """
        found = [tp for tp in offline if self._is_momentary(tp) and self._named(tp) in (None, LATEST)]
        if found and self.options.group is not None:
            committed = self.session.offsets.committed(found, skip_malformed=True)
            found = [tp for tp in found if tp not in committed]
        at_ms, states = int(self.now() * 1000), snapshot.states
        epochs = {tp: states[tp].leader_epoch if states[tp].leader == NO_LEADER else -1 for tp in found}
        return {tp: Waiting(epochs[tp], at_ms) for tp in found}

    def find(
        self,
        gained: Collection[TopicPartition],
        finished: StreamOffset | None = None,
        last_committed: Mapping[TopicPartition, StoredOffset] = MappingProxyType({}),
        *,
        replaced: Collection[str] = frozenset(),
        waiting: Mapping[TopicPartition, Waiting] | None = None,
    ) -> dict[TopicPartition, PartitionProgress]:
        """Find the position from which to read each partition, which has a leader. Blocks for a few requests.

        For a new query, `startingOffsets` decides. Later it applies only to partitions that the stream knew and had no
        position in; those created meanwhile start at their beginning. In a group, so do those that were created after its
        subscription, and of which it has no offset.

        Partitions that waited for a leader, and cannot be searched yet, are absent from the result. Raises DataLoss for a
        position outside the log, if `failOnDataLoss` is set, and ClusterStateError for a partition without a committed
        offset, if `auto.offset.reset` is error.

        `finished` is the end of the finished micro-batches, from the checkpoint, None for a new query; `last_committed` are
        the offsets that this process committed last. Earlier positions in `replaced` topics, which were created again, are
        ignored. `waiting` are partitions that had no leader when the query began, by default those of `finished`.
        """
        spans = {} if finished is None else finished.spans
        committed = {} if self.options.group is None else self.session.offsets.committed(gained)
        stale = outdated(committed, self.session.snapshot()) if committed else set()
        current = {tp: stored for tp, stored in committed.items() if tp not in stale}
        again = [tp for tp in gained if tp.topic in replaced]
        replaced_partitions = {
            tp for tp in again if not is_followed(spans.get(tp), current.get(tp), last_committed.get(tp))
        }
        new = self.session.younger([tp for tp in gained if tp not in committed and tp not in spans])
        positions: dict[TopicPartition, Position] = dict.fromkeys(replaced_partitions, EARLIEST)
        for tp in [tp for tp in gained if tp not in positions]:
            position = self._named(tp) if finished is None else None
            if position is None:
                position = self._resume(tp, spans.get(tp), current.get(tp), last_committed.get(tp))
            if position is not None:
                positions[tp] = EARLIEST if position == LATEST and tp in new else position
        read = {tp.topic for tp in spans}  # their deletion was reported before
        unread = {tp for tp in replaced_partitions if tp.topic not in read}
        self._report_outdated(stale - (positions.keys() - unread), committed)
        positions |= dict.fromkeys(stale - positions.keys(), EARLIEST)
        rest = [tp for tp in gained if tp not in positions]
        positions |= self._without_position(rest, finished, new, waiting)
        resolution = self._resolve(positions, first=finished is None)
        if resolution.outside:
            self._report_outside(resolution.outside)
        resets = {o.partition for o in resolution.outside} | replaced_partitions | stale
        starts = {r.partition: r.start for r in resolution.ranges}
        return {tp: PartitionProgress(start, committed.get(tp), tp in resets) for tp, start in starts.items()}

    def followed(
        self,
        replaced: Collection[str],
        finished: StreamOffset,
        last_committed: Mapping[TopicPartition, StoredOffset],
        snapshot: ClusterSnapshot,
    ) -> set[str]:
        """The topics created again of which other members have committed offsets, in each partition of the checkpoint."""
        spans = {tp: span for tp, span in finished.spans.items() if tp.topic in replaced and tp in snapshot.states}
        if self.options.group is None or not spans:
            return set()
        stored = self.session.offsets.committed(spans, skip_malformed=True)
        current = {tp: stored[tp] for tp in stored.keys() - outdated(stored, snapshot)}
        unread = {tp.topic for tp, span in spans.items() if not is_followed(span, current.get(tp), last_committed.get(tp))}
        return {tp.topic for tp in spans} - unread

    def _report_outdated(
        self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, StoredOffset]
    ) -> None:
        if partitions:
            from pyspark_zkafka.group.offsets import report_outdated

            report_outdated(partitions, committed, self.options.read.fail_on_data_loss)

    def _resume(
        self,
        partition: TopicPartition,
        span: PlannedRange | None,
        stored: StoredOffset | None,
        last_committed: StoredOffset | None,
    ) -> Position | None:
        """The position of the checkpoint or of the group; None if neither has one."""
        found = resume(span, stored, last_committed)
        if found.moved and found.position is not None and span is not None:
            is_progress = self.session.member is not None and found.position > span.until
            _log.log(
                logging.INFO if is_progress else logging.WARNING,
                "%s: continuing at %d, the offset of group %s, which %s, while this query was at %d",
                partition,
                found.position,
                self.options.group.name if self.options.group else "",
                "another member has advanced" if is_progress else "another client has changed",
                span.until,
            )
        return found.position

    def _without_position(
        self,
        partitions: Collection[TopicPartition],
        finished: StreamOffset | None,
        younger: Collection[TopicPartition],
        waiting: Mapping[TopicPartition, Waiting] | None,
    ) -> dict[TopicPartition, Position]:
        """The starts of partitions not read yet: the beginning if they are new, otherwise as the options say.

        Without membership, a partition that is absent from the checkpoint is new, unless it waits for a leader: another
        `assign` or `subscribe` has added it, or it belonged to other members of a group that the query was in.
        """
        marks = {} if finished is None else {tp: finished.topics.get(tp.topic, TopicMark()) for tp in partitions}
        new = {tp for tp in partitions if tp in younger or (tp in marks and tp.partition >= marks[tp].known)}
        if waiting is None:
            waiting = {tp: m.waiting[tp.partition] for tp, m in marks.items() if tp.partition in m.waiting}
        if self.session.member is None:
            new |= {tp for tp in marks if tp not in waiting and self._named(tp) in (None, LATEST)}
        old = [tp for tp in partitions if tp not in new]
        found: dict[TopicPartition, Position] = dict.fromkeys(new, EARLIEST)
        unknown = []
        for tp in old:
            position = self._after_waiting(tp, waiting[tp]) if tp in waiting else self._named(tp)
            if position is not None:
                found[tp] = position
            elif tp not in waiting:
                unknown.append(tp)
        return found | dict.fromkeys(unknown, reset_position(unknown, self.options.read.reset))

    def _after_waiting(self, partition: TopicPartition, waiting: Waiting) -> Position | None:
        """The first record after the time when the partition had no leader; None while it cannot be determined."""
        brokers = self.session.brokers
        try:
            low, high = (brokers.list_offsets({partition: end}, ANSWER_S)[partition] for end in (EARLIEST, LATEST))
            found = None
            if waiting.leader_epoch >= 0:
                found = self.session.first_after_epoch(partition, waiting.leader_epoch, range(low, high))
            if found is None:  # the epoch is not known, or records of before 0.11 have none
                found = brokers.list_offsets({partition: AtTimestamp(waiting.at_ms)}, ANSWER_S)[partition]
        except ZKafkaError as error:
            if not error.retriable and not isinstance(error, UnknownTopic):
                raise
            _log.warning("%s cannot be searched for its first record yet, trying again: %s", partition, error)
            return None
        return high if found < 0 else found

    def _named(self, partition: TopicPartition) -> Position | None:
        """The position that the options name, other than the group's."""
        given = self.options.read.start.of(partition)
        return None if given == "committed" else given

    def _resolve(self, positions: Mapping[TopicPartition, Position], first: bool) -> Resolution:
        # After the first planning, a short time-out: other partitions wait meanwhile, and gained ones are retried.
        read, bounds = self.options.read, _Bounds(self.session.brokers, math.inf if first else ANSWER_S)
        end = OffsetSpec("endingOffsets", everywhere=LATEST)
        if first and self.options.group is None:
            everything = sorted(self.session.owned(self.session.snapshot()))
            spec, reset = read.start, read.reset
            return resolve(list(positions), spec, end, bounds, reset=reset, no_match=read.no_match, subscribed=everything)
        spec = OffsetSpec(read.start.option, by_partition=dict(positions))
        return resolve(list(positions), spec, end, bounds, no_match=read.no_match)

    def _report_outside(self, offsets: Iterable[Outside]) -> None:
        report_data_loss(
            "OFFSET_OUT_OF_RANGE",
            f"{'; '.join(map(str, offsets))}; records may be lost",
            fail=self.options.read.fail_on_data_loss,
            remedy="correct the offsets (of the group, or in startingOffsets), or set failOnDataLoss to false to go on "
            "with what is there",
            otherwise="continuing with what is there",
        )
