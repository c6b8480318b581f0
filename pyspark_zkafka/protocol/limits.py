"""Read limits of a micro-batch: its records and bytes, and the wait for enough of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import fmean

from pyspark_zkafka.protocol.model import OffsetRange, TopicPartition

__all__ = ["TriggerLimits", "limit_bytes", "limit_records"]

Ranges = Mapping[TopicPartition, OffsetRange]

_UNKNOWN_RECORD_BYTES = 1024.0


def limit_records(ranges: Ranges, max_records: int) -> dict[TopicPartition, OffsetRange]:
    """The ranges, shortened so that they hold about `max_records` in all.

    Each partition that has a backlog gets a share in proportion to it: rounded down, and at least one record, so that none
    starves. The total may therefore exceed `max_records`, by less than one record a partition.

    References
    ----------
    org.apache.spark.sql.kafka010.KafkaMicroBatchStream.rateLimit, Spark 4.2 (which computes in doubles).
    """
    return _shorten(ranges, max_records, sum(r.size for r in ranges.values()))


def limit_bytes(
    ranges: Ranges, max_bytes: int, record_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, OffsetRange]:
    """The ranges, shortened so that they hold about `max_bytes` in all, and at least one record of each backlog.

    `record_bytes` is a record's mean size in each partition, at least one byte; a missing partition has the mean of the
    others, or 1 KiB.
    """
    otherwise = fmean(record_bytes.values()) if record_bytes else _UNKNOWN_RECORD_BYTES
    sizes = {tp: Fraction(max(record_bytes.get(tp, otherwise), 1)) for tp in ranges}
    return _shorten(ranges, max_bytes, sum((r.size * sizes[tp] for tp, r in ranges.items()), Fraction()))


def _shorten(ranges: Ranges, limit: int, total: int | Fraction) -> dict[TopicPartition, OffsetRange]:
    """The ranges, all shortened in the proportion of the limit to the total, both in records or both in bytes."""
    # Exact, as offsets may be beyond the precision of a double.
    shares = {tp: max(limit * r.size // total, 1) for tp, r in ranges.items() if r.size > 0}
    return {tp: replace(r, until=min(r.start + shares[tp], r.until)) if tp in shares else r for tp, r in ranges.items()}


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """Limits of when a micro-batch is due and how much it reads; None is no limit."""

    max_records: int | None = None
    max_bytes: int | None = None
    min_records: int | None = None
    max_delay_ms: int = 15 * 60 * 1000

    def holds_back(self, available_records: int, since_last_ms: float) -> bool:
        """True if the micro-batch must wait for more records.

        `available_records` is the whole backlog, in offsets; `since_last_ms` the time since a micro-batch was last due,
        infinite before the first one of a run, which never waits.

        References
        ----------
        org.apache.spark.sql.kafka010.KafkaMicroBatchStream.delayBatch, Spark 4.2.
        """
        return available_records < (self.min_records or 0) and since_last_ms < self.max_delay_ms

    def apply(self, ranges: Ranges, record_bytes: Mapping[TopicPartition, float]) -> dict[TopicPartition, OffsetRange]:
        """The ranges within both limits: for each partition, the stricter one."""
        found = dict(ranges) if self.max_records is None else limit_records(ranges, self.max_records)
        if self.max_bytes is None:
            return found
        by_bytes = limit_bytes(ranges, self.max_bytes, record_bytes)
        return {tp: min(r, by_bytes[tp], key=lambda limited: limited.until) for tp, r in found.items()}
