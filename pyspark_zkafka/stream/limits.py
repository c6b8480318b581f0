"""Read limits of a stream's next micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.model import OffsetRange, TopicPartition
from pyspark_zkafka.protocol.planning import TriggerLimits
from pyspark_zkafka.stream.session import StreamSession

__all__ = ["StreamLimits"]

_SAMPLE_AGE_S = 60.0


class StreamLimits:
    """The options' limits, with the time at which a micro-batch was last due (monotonic) and the sizes of records.

    As in Spark's own source, a micro-batch is due at the first planning of a run, with `minOffsetsPerTrigger` records, and
    when `maxTriggerDelay` has passed since it was last due, whether there are records or not.
    """

    def __init__(self, options: StreamOptions, session: StreamSession, clock: Callable[[], float]) -> None:
        self._limits = options.limits
        self._session = session
        self._clock = clock
        self._due_s = float("-inf")
        self._record_bytes: dict[TopicPartition, float] = {}
        self._sampled_at = float("-inf")

    def apply(self, ranges: Mapping[TopicPartition, OffsetRange], *, may_wait: bool) -> dict[TopicPartition, OffsetRange]:
        """The ranges within the limits, empty below `minOffsetsPerTrigger` if it `may_wait`; blocks for up to 3 s."""
        if self._limits == TriggerLimits():
            return dict(ranges)
        backlog = sum(r.size for r in ranges.values())
        if may_wait:
            now = self._clock()
            if self._limits.holds_back(backlog, (now - self._due_s) * 1000):
                return {}
            self._due_s = now
        sizes = {} if self._limits.max_bytes is None or not backlog else self._sizes(ranges)
        return self._limits.apply(ranges, sizes)

    def _sizes(self, ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, float]:
        """The mean sizes of records, measured once a minute, and when there are new partitions to read."""
        now = self._clock()
        everywhere = now - self._sampled_at > _SAMPLE_AGE_S
        starts = {tp: r.start for tp, r in ranges.items() if r.size and (everywhere or tp not in self._record_bytes)}
        if starts:
            self._record_bytes |= self._session.record_bytes(starts)
            self._sampled_at = now if everywhere else self._sampled_at
        return self._record_bytes
