"""Where a stream starts, or goes on, with partitions that it has gained."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pyspark_zkafka.errors import ClusterStateError, CodecError, DataLoss
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.kafka.leader_epochs import first_after_epoch
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import StreamOffset, TopicMark, Waiting
from pyspark_zkafka.protocol.model import ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, AtTimestamp, OffsetSpec, Position, Resolution, resolve
from pyspark_zkafka.protocol.resumption import StoredOffset, resume
from pyspark_zkafka.stream.session import ANSWER_S, StreamSession

__all__ = ["Beginning", "Gain", "StreamStarts"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gain:
    """A partition that was gained: the next offset to read, and the group's, None where it has none.

    `resets` says that the position may be lower than the group's offset, which belongs to a log that is no more.
    """

    position: int
    committed: StoredOffset | None = None
    resets: bool = False


@dataclass(frozen=True, slots=True)
class _Bounds:
    admin: KafkaAdmin
    timeout_s: float

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        return self.admin.list_offsets(wanted, self.timeout_s)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.admin.high_watermarks(partitions, self.timeout_s)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}  # what is committed was looked up before


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a new query starts.

    `gains` are the partitions that it owns, `others` the starts of those that it does not own, and which have no committed
    offset, `waiting` those without a leader.
    """

    gains: Mapping[TopicPartition, Gain]
    others: Mapping[TopicPartition, int]
    waiting: Mapping[TopicPartition, Waiting]


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """Finds positions: the checkpoint's, the group's, or those that the options name.

    `now` is the time in seconds since the epoch.
    """

    options: StreamOptions
    session: StreamSession
    now: Callable[[], float] = time.time

    def begin(self, owned: Collection[TopicPartition], snapshot: ClusterSnapshot) -> Beginning:
        """Where a new query starts, at one moment for all partitions. Blocks for a few requests.

        A member of a group commits at once where the group has no offset and starts at the ends of the logs, for all that
        it is subscribed to: what is produced from now on is the group's to read, whichever of its members lives on.

        Raises
        ------
        DataLoss, ClusterStateError
            As `find`.
        """
        led = [tp for tp in sorted(owned) if snapshot.leader(tp) is not None]
        gains = self.find(led, StreamOffset(), {}, first=True)
        member = self.session.member
        everything = set(owned) if member is None else {tp for t in snapshot.topics for tp in snapshot.partitions(t)}
        waiting = self._waiting([tp for tp in sorted(everything) if tp in snapshot.states and snapshot.leader(tp) is None])
        if member is None:
            return Beginning(gains, {}, waiting)
        others = self._others([tp for tp in sorted(everything - set(owned)) if snapshot.leader(tp) is not None])
        fresh = {tp: gain.position for tp, gain in gains.items() if gain.committed is None and self._is_momentary(tp)}
        stored = self.session.offsets.begin(fresh | others)
        settled = {tp: self._settled(tp, gain, stored.get(tp)) for tp, gain in gains.items()}
        return Beginning(settled, {tp: start for tp, start in others.items() if tp not in stored}, waiting)

    def _others(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The starts of partitions that others own, where the group has no offset, and the start depends on the moment."""
        momentary = [tp for tp in partitions if self._is_momentary(tp)]
        try:
            committed = self.session.offsets.committed(momentary)
        except CodecError as error:
            _log.warning("a partition's owner will have to mend it: %s", error)
            return {}
        missing = [tp for tp in momentary if tp not in committed]
        return {tp: gain.position for tp, gain in self.find(missing, StreamOffset(), {}, first=True).items()}

    def _is_momentary(self, partition: TopicPartition) -> bool:
        """Whether a start that the options name is another one later."""
        named = self._named(partition)
        if named is None:
            return self.options.read.reset in (None, "latest")
        return named == LATEST or isinstance(named, AtTimestamp)

    def _settled(self, partition: TopicPartition, gain: Gain, stored: StoredOffset | None) -> Gain:
        """The gain with what the group has decided, unless the options name an offset or a time."""
        if stored is None:
            return gain
        is_exact = self._named(partition) not in (None, EARLIEST, LATEST)
        return Gain(gain.position if is_exact else stored.offset, stored)

    def _waiting(self, offline: Collection[TopicPartition]) -> dict[TopicPartition, Waiting]:
        """The partitions without a leader that are to be read from the end of their logs."""
        wanted = [tp for tp in offline if self._is_momentary(tp) and self._named(tp) in (None, LATEST)]
        committed = self.session.offsets.committed(wanted) if wanted and self.options.group is not None else {}
        states, at_ms = self.session.snapshot().states, int(self.now() * 1000)
        return {tp: Waiting(states[tp].leader_epoch, at_ms) for tp in wanted if tp not in committed}

    def find(
        self,
        gained: Collection[TopicPartition],
        finished: StreamOffset,
        last_committed: Mapping[TopicPartition, StoredOffset],
        *,
        first: bool,
        replaced: Collection[str] = frozenset(),
    ) -> dict[TopicPartition, Gain]:
        """Where to go on with each partition. Blocks for a few requests.

        Parameters
        ----------
        gained : collection of TopicPartition
            They have leaders.
        finished : StreamOffset
            What the checkpoint says is done.
        last_committed : mapping
            What this process has committed last.
        first : bool
            Whether the query is new: `startingOffsets` decides. Later it is only for partitions that the stream knew of and
            had no position in; those that came into being meanwhile start at their beginning. In a group, so do those that
            are younger than its subscription, and of which it has no offset.
        replaced : collection of str
            Topics that were created again: whatever is known of them is of no use.

        Raises
        ------
        DataLoss
            A position is outside the log, and `failOnDataLoss` is set.
        ClusterStateError
            A partition has no committed offset, and `auto.offset.reset` is error.
        """
        committed = {} if self.options.group is None else self.session.offsets.committed(gained)
        positions: dict[TopicPartition, Position] = {}
        for tp in gained:
            position = EARLIEST if tp.topic in replaced else self._position(tp, finished, committed, last_committed, first)
            if position is not None:
                positions[tp] = position
        positions |= self._without_position([tp for tp in gained if tp not in positions], finished, first)
        resolution = self._resolve(positions, first)
        self._report(resolution)
        outside = {o.partition for o in resolution.outside}
        return {
            r.partition: Gain(r.start, committed.get(r.partition), r.partition in outside or r.partition.topic in replaced)
            for r in resolution.ranges
        }

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
                "%s: going on at %s, where the group %s is: somebody else has moved it, while this query was at %d",
                partition,
                found.position,
                self.options.group.name if self.options.group else "",
                span.until,
            )
        return found.position

    def _without_position(
        self, partitions: Collection[TopicPartition], finished: StreamOffset, first: bool
    ) -> dict[TopicPartition, Position]:
        """The starts of partitions that nobody has read: their beginning if they are new, or else where the options say."""
        marks = {} if first else {tp: finished.topics.get(tp.topic, TopicMark()) for tp in partitions}
        new = {tp for tp, mark in marks.items() if tp.partition >= mark.known}
        new |= self.session.younger([tp for tp in partitions if tp not in new])
        waiting = {tp: mark.waiting[tp.partition] for tp, mark in marks.items() if tp.partition in mark.waiting}
        named = {tp: position for tp in partitions if (position := self._named(tp)) is not None}
        late = {tp: self._late(tp, waiting[tp]) for tp in waiting.keys() - new}
        unknown = [tp for tp in partitions if tp not in new | named.keys() | late.keys()]
        return dict.fromkeys(unknown, self._reset_position(unknown)) | named | late | dict.fromkeys(new, EARLIEST)

    def _late(self, partition: TopicPartition, waiting: Waiting) -> Position:
        """The first record since a moment when the partition had no leader; nothing was produced to it then."""
        read, brokers = self.options.read, self.session.brokers
        low, high = (brokers.list_offsets({partition: end}, ANSWER_S)[partition] for end in (EARLIEST, LATEST))
        properties = consumer_properties(read.connection, self.session.servers(self.session.snapshot()), read.client_group)
        found = None
        if waiting.leader_epoch >= 0:
            found = first_after_epoch(properties, partition, waiting.leader_epoch, range(low, high), ANSWER_S)
        if found is None:  # brokers tell no epochs, or records of before 0.11 have none
            found = brokers.list_offsets({partition: AtTimestamp(waiting.at_ms)}, ANSWER_S)[partition]
        return high if found < 0 else found

    def _named(self, partition: TopicPartition) -> Position | None:
        """The position that the options name, other than the group's."""
        given = self.options.read.start.of(partition)
        return None if given == "committed" else given

    def _reset_position(self, unknown: Collection[TopicPartition]) -> Position:
        reset = self.options.read.reset
        if unknown and reset == "error":
            raise ClusterStateError(
                "NO_COMMITTED_OFFSET",
                f"No offset is known for {', '.join(map(str, unknown))}, and auto.offset.reset is error; commit one, name "
                "the partitions in startingOffsets, or set auto.offset.reset to earliest or latest",
            )
        return EARLIEST if reset == "earliest" else LATEST

    def _resolve(self, positions: Mapping[TopicPartition, Position], first: bool) -> Resolution:
        # Of a query that goes on, other partitions wait meanwhile, and what is gained is tried again.
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
        if self.options.read.fail_on_data_loss:
            raise DataLoss(
                "OFFSET_OUT_OF_RANGE",
                f"{text}; records may be lost; correct the offsets (of the group, or in startingOffsets), or set "
                "failOnDataLoss to false to go on with what is there",
            )
        _log.warning("%s; going on with what is there, as failOnDataLoss is false", text)
