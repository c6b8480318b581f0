"""Starting positions of partitions that a stream has gained."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pyspark_zkafka.data_loss import report_data_loss
from pyspark_zkafka.errors import UnknownTopic, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import StreamOffset, TopicMark, Waiting
from pyspark_zkafka.protocol.model import NO_LEADER, ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    OffsetSpec,
    Position,
    Resolution,
    reset_position,
    resolve,
)
from pyspark_zkafka.protocol.resumption import StoredOffset, outdated, resume
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


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """Finds positions: the checkpoint's, the group's, or those that the options name.

    `now` is the time in seconds since the epoch.
    """

    options: StreamOptions
    session: StreamSession
    now: Callable[[], float] = time.time

    def begin(
        self,
        owned: Collection[TopicPartition],
        snapshot: ClusterSnapshot,
        waiting: Mapping[TopicPartition, Waiting] | None = None,
    ) -> Beginning:
        """Find the start of a new query, at one moment for all partitions. Blocks for a few requests; commits nothing.

        Parameters
        ----------
        waiting : mapping, optional
            Partitions that had no leader when the query began.

        Raises
        ------
        DataLoss, ClusterStateError
            As `find`.
        """
        waiting = waiting or {}
        led = [tp for tp in sorted(owned) if snapshot.leader(tp) is not None]
        gains = self.find(led, StreamOffset(), {}, first=True, waiting=waiting)
        member = self.session.member
        everything = set(owned) if member is None else {tp for t in snapshot.topics for tp in snapshot.partitions(t)}
        offline = [tp for tp in sorted(everything) if tp in snapshot.states and snapshot.leader(tp) is None]
        still = [*offline, *(tp for tp in led if tp not in gains)]
        moments = {**self._waiting(offline, snapshot), **{tp: waiting[tp] for tp in still if tp in waiting}}
        if member is None:
            return Beginning(gains, {}, moments)
        fresh = {tp: gain.position for tp, gain in gains.items() if gain.committed is None and self._is_momentary(tp)}
        others = self._others([tp for tp in sorted(everything - set(owned)) if snapshot.leader(tp) is not None], gains)
        younger = self.session.younger([*fresh, *others])
        return Beginning(gains, {tp: start for tp, start in (fresh | others).items() if tp not in younger}, moments)

    def decide(self, begun: Beginning) -> Beginning:
        """Commit the group's starts, for all partitions that the member is subscribed to; returns what stays undecided.

        The group then reads everything produced from now on, whichever of its members survives. The first member to commit
        decides: others continue from there. Partitions that a JVM consumer owns stay undecided.
        """
        if not (begun.undecided or begun.waiting) or self.session.member is None:
            return begun
        stored = self.session.offsets.begin(begun.undecided, begun.waiting)
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
        begun = {tp.topic for tp in committed} | {tp.topic for tp, gain in gains.items() if gain.committed is not None}
        missing = [tp for tp in partitions if tp.topic not in begun and self._is_momentary(tp)]
        found = self.find(missing, StreamOffset(), {}, first=True)
        return {tp: gain.position for tp, gain in found.items() if gain.committed is None}

    def _is_momentary(self, partition: TopicPartition) -> bool:
        """True if the start that the options name depends on the time at which it is resolved."""
        named = self._named(partition)
        if named is None:
            return self.options.read.reset in (None, "latest")
        return named == LATEST or isinstance(named, AtTimestamp)

    def _decided(
        self, partition: TopicPartition, found: PartitionProgress, stored: StoredOffset | None
    ) -> PartitionProgress:
        """The start that the group has committed, unless the options name an offset or a time."""
        if stored is None or found.committed is not None:
            return found
        is_exact = self._named(partition) not in (None, EARLIEST, LATEST)
        return PartitionProgress(found.position if is_exact else stored.offset, stored)

    def _waiting(self, offline: Collection[TopicPartition], snapshot: ClusterSnapshot) -> dict[TopicPartition, Waiting]:
        """The partitions without a leader that are to be read from the end of their logs.

        A leader that is only unregistered now may come back in the same epoch, which is then of no use.
        """
        wanted = [tp for tp in offline if self._is_momentary(tp) and self._named(tp) in (None, LATEST)]
        committed = {}
        if wanted and self.options.group is not None:
            committed = self.session.offsets.committed(wanted, skip_malformed=True)
        at_ms, states = int(self.now() * 1000), snapshot.states
        epochs = {tp: states[tp].leader_epoch if states[tp].leader == NO_LEADER else -1 for tp in wanted}
        noted = self._noted([tp for tp in wanted if tp not in committed])
        return {tp: noted.get(tp, Waiting(epochs[tp], at_ms)) for tp in wanted if tp not in committed}

    def _noted(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Waiting]:
        """The times at which the group began with partitions that had no leader then."""
        if self.session.member is None or not partitions:
            return {}
        return {tp: Waiting(-1, at_ms) for tp, at_ms in self.session.offsets.begun_at(partitions).items()}

    def find(
        self,
        gained: Collection[TopicPartition],
        finished: StreamOffset,
        last_committed: Mapping[TopicPartition, StoredOffset],
        *,
        first: bool,
        replaced: Collection[str] = frozenset(),
        waiting: Mapping[TopicPartition, Waiting] | None = None,
    ) -> dict[TopicPartition, PartitionProgress]:
        """Find the position from which to read each partition. Blocks for a few requests.

        Parameters
        ----------
        gained : collection of TopicPartition
            They have leaders.
        finished : StreamOffset
            The end of the finished micro-batches, from the checkpoint.
        last_committed : mapping
            The offsets that this process committed last.
        first : bool
            True for a new query: `startingOffsets` decides. Later it applies only to partitions that the stream knew and
            had no position in; those created meanwhile start at their beginning. In a group, so do those that were created
            after its subscription, and of which it has no offset.
        replaced : collection of str
            Topics that were created again: earlier positions in them are ignored.
        waiting : mapping, optional
            Partitions that had no leader when the query began; by default those of `finished`.

        Returns
        -------
        dict
            Partitions that waited for a leader, and cannot be searched yet, are not in it.

        Raises
        ------
        DataLoss
            A position is outside the log, and `failOnDataLoss` is set.
        ClusterStateError
            A partition has no committed offset, and `auto.offset.reset` is error.
        """
        committed = {} if self.options.group is None else self.session.offsets.committed(gained)
        stale = outdated(committed, self.session.snapshot()) if committed else set()
        current = {tp: stored for tp, stored in committed.items() if tp not in stale}
        replaced_partitions = {tp for tp in gained if tp.topic in replaced}
        new = self.session.younger([tp for tp in gained if tp not in committed and tp not in finished.spans])
        positions: dict[TopicPartition, Position] = dict.fromkeys(replaced_partitions, EARLIEST)
        for tp in [tp for tp in gained if tp not in positions]:
            position = self._position(tp, finished, current, last_committed, first)
            if position is not None:
                positions[tp] = EARLIEST if position == LATEST and tp in new else position
        positions |= self._after_outdated(stale - positions.keys(), committed)
        rest = [tp for tp in gained if tp not in positions]
        positions |= self._without_position(rest, finished, new, first, waiting)
        resolution = self._resolve(positions, first)
        self._report(resolution)
        resets = {o.partition for o in resolution.outside} | replaced_partitions | stale
        starts = {r.partition: r.start for r in resolution.ranges}
        return {tp: PartitionProgress(start, committed.get(tp), tp in resets) for tp, start in starts.items()}

    def _after_outdated(
        self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, StoredOffset]
    ) -> dict[TopicPartition, Position]:
        """The beginning of logs of which the group's offset belongs to a deleted topic of the same name.

        Raises
        ------
        DataLoss
            There are such logs, and `failOnDataLoss` is set.
        """
        if partitions:
            from pyspark_zkafka.group.offset_store import report_outdated

            report_outdated(partitions, committed, self.options.read.fail_on_data_loss)
        return dict.fromkeys(partitions, EARLIEST)

    def _position(
        self,
        partition: TopicPartition,
        finished: StreamOffset,
        committed: Mapping[TopicPartition, StoredOffset],
        last_committed: Mapping[TopicPartition, StoredOffset],
        first: bool,
    ) -> Position | None:
        """The position that the options of a new query name, or the checkpoint or the group; None if none of them does."""
        if first and (named := self._named(partition)) is not None:
            return named
        span, offset = finished.spans.get(partition), committed.get(partition)
        found = resume(span, offset, last_committed.get(partition))
        if found.moved and span is not None:
            _log.warning(
                "%s: continuing at %s, the offset of group %s: another client has changed it, while this query was at %d",
                partition,
                found.position,
                self.options.group.name if self.options.group else "",
                span.until,
            )
        return found.position

    def _without_position(
        self,
        partitions: Collection[TopicPartition],
        finished: StreamOffset,
        younger: Collection[TopicPartition],
        first: bool,
        waiting: Mapping[TopicPartition, Waiting] | None,
    ) -> dict[TopicPartition, Position]:
        """The starts of partitions not read yet: the beginning if they are new, otherwise as the options say."""
        marks = {} if first else {tp: finished.topics.get(tp.topic, TopicMark()) for tp in partitions}
        new = {tp for tp in partitions if tp in younger or (tp in marks and tp.partition >= marks[tp].known)}
        if waiting is None:
            waiting = {tp: m.waiting[tp.partition] for tp, m in marks.items() if tp.partition in m.waiting}
        old = [tp for tp in partitions if tp not in new]
        waiting = {**self._noted([tp for tp in old if tp not in waiting]), **waiting}
        late = [tp for tp in old if tp in waiting]
        named = {tp: position for tp in partitions if (position := self._named(tp)) is not None}
        unknown = [tp for tp in partitions if tp not in new | named.keys() and tp not in waiting]
        found = (
            dict.fromkeys(unknown, reset_position(unknown, self.options.read.reset)) | named | dict.fromkeys(new, EARLIEST)
        )
        for tp in late:
            found.pop(tp, None)
            position = self._late(tp, waiting[tp])
            if position is not None:
                found[tp] = position
        return found

    def _late(self, partition: TopicPartition, waiting: Waiting) -> Position | None:
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

    def _report(self, resolution: Resolution) -> None:
        if not resolution.outside:
            return
        text = "; ".join(map(str, resolution.outside))
        report_data_loss(
            "OFFSET_OUT_OF_RANGE",
            f"{text}; records may be lost",
            fail=self.options.read.fail_on_data_loss,
            remedy="correct the offsets (of the group, or in startingOffsets), or set failOnDataLoss to false to go on "
            "with what is there",
            otherwise="continuing with what is there",
        )
