"""Where a stream starts, or goes on, with partitions that it has gained."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark_zkafka.clients.admin import KafkaAdmin
from pyspark_zkafka.errors import ClusterStateError, DataLoss
from pyspark_zkafka.option_values import StreamOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, OffsetSpec, Position, Resolution, resolve
from pyspark_zkafka.protocol.progress import StoredOffset, resume
from pyspark_zkafka.protocol.stream_offsets import StreamOffset
from pyspark_zkafka.stream_session import ANSWER_S, StreamSession

__all__ = ["Gain", "StreamStarts"]

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

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}  # what is committed was looked up before


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """Finds positions: the checkpoint's, the group's, or those that the options name."""

    options: StreamOptions
    session: StreamSession

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
            had no position in; those that came into being meanwhile start at their beginning.
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
        unknown: list[TopicPartition] = []
        for tp in gained:
            position = EARLIEST if tp.topic in replaced else self._position(tp, finished, committed, last_committed, first)
            if position is None:
                unknown.append(tp)
            else:
                positions[tp] = position
        positions |= dict.fromkeys(unknown, self._reset_position(unknown))
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
        """What the options, the checkpoint or the group say; None if none of them says anything."""
        given = self.options.read.start.of(partition)
        named = None if given == "committed" else given
        if first and named is not None:
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
        if found.position is not None:
            return found.position
        mark = finished.topics.get(partition.topic)
        is_new = not first and (mark is None or partition.partition >= mark.known)
        return EARLIEST if is_new else named

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
