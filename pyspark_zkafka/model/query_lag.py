"""Lag of a streaming query, from the offsets in Spark's progress reports.

References
----------
org.apache.spark.sql.kafka010.KafkaMicroBatchStream.metrics (Spark 4.2.0), for the offsets behind latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The end of a micro-batch, and the ends of the logs when it was planned.

    `latest` is None for a micro-batch that Spark repeats from an earlier run, as it is not planned again.
    """

    end: StreamOffset
    latest: Mapping[TopicPartition, int] | None = None

    @property
    def mzxids(self) -> dict[TopicPartition, int]:
        """The ZooKeeper transaction of each partition's last commit; empty without a group, or with offsets in Kafka."""
        ranges = self.end.ranges.items()
        return {tp: planned.mzxid for tp, planned in ranges if planned.mzxid is not None and planned.left is None}


def parse_source_offsets(end_offset: str, latest_offset: str) -> SourceOffsets | None:
    """Parse the JSON in Spark's progress of a source; None if the source is not of this package."""
    try:
        end = StreamOffset.from_json(json.loads(end_offset))
    except (CheckpointError, ValueError, RecursionError):
        return None
    try:
        found = json.loads(latest_offset)
        latest = {TopicPartition(t, int(n)): offset for t, offsets in found.items() for n, offset in offsets.items()}
    except (ValueError, AttributeError, RecursionError):  # "None", where there is no latest offset
        return SourceOffsets(end)
    return SourceOffsets(end, latest if all(type(offset) is int for offset in latest.values()) else None)


@dataclass(frozen=True, slots=True)
class LagHistory:
    """A source's last known partitions and commits, and its totals since the query started.

    `mzxids` is None before the first micro-batch of this run: an earlier run may have had no group.
    """

    owned: frozenset[TopicPartition] | None = None
    mzxids: Mapping[TopicPartition, int] | None = None
    rebalances: int = 0
    commits: int = 0
    records: int = 0

    def advance(self, offsets: SourceOffsets, records: int) -> LagHistory:
        """Return the history after one more micro-batch.

        The first micro-batch counts neither a rebalance nor commits, as there is nothing to compare with. For a partition
        without a known commit, only a commit that is newer than all known commits counts: an older commit may precede the
        query.
        """
        owned = self.owned if offsets.latest is None else frozenset(offsets.latest)
        rebalanced = None not in (self.owned, owned) and owned != self.owned
        known = offsets.mzxids if self.mzxids is None else self.mzxids
        newest = max(known.values(), default=-1)
        return LagHistory(
            owned,
            None if self.mzxids is None and offsets.latest is None else {**known, **offsets.mzxids},
            self.rebalances + rebalanced,
            self.commits + sum(mzxid > known.get(tp, newest) for tp, mzxid in offsets.mzxids.items()),
            self.records + records,
        )


@dataclass(frozen=True, slots=True)
class QueryLag:
    """Lag and progress of one source of a streaming query, after a micro-batch.

    Unknown values are None: the lag of a micro-batch that Spark repeats from an earlier run, the bytes without
    `LagListener.observe_bytes`, and the commits without offsets in ZooKeeper.

    Parameters
    ----------
    query : str
        The query's name, else its id, which a restart from the checkpoint keeps.
    source : int
        The source's number in the query, from 0.
    timestamp : str
        The start of the micro-batch, ISO 8601 in UTC.
    records, bytes : int
        The rows that Spark read, and the bytes of their keys and values.
    owned_partitions : int
        The partitions with a leader that the query read when the micro-batch was planned. A member of a group reads only
        the owned partitions.
    min_offsets_behind_latest, max_offsets_behind_latest, avg_offsets_behind_latest
        Offsets between the end of the micro-batch and the end of the log at planning time, over the owned partitions.
    estimated_total_bytes_behind_latest : float
        All offsets behind latest, times the mean size of the micro-batch's records.
    rebalances : int
        Changes of `owned_partitions`, also by a lost or new leader, since the query started.
    commits : int
        Offsets that this query, or another client, has committed to ZooKeeper since the first micro-batch.
    uncommitted_offsets : int
        Offsets between the group's committed offsets and the start of the micro-batch; 0 unless commits failed.
    total_records : int
        The rows that Spark has read since the query started.
    offsets_behind_latest : mapping
        The offsets behind latest of each owned partition.
    """

    query: str
    query_id: str
    run_id: str
    batch_id: int
    timestamp: str
    source: int
    records: int
    bytes: int | None = None
    owned_partitions: int | None = None
    min_offsets_behind_latest: int | None = None
    max_offsets_behind_latest: int | None = None
    avg_offsets_behind_latest: float | None = None
    total_offsets_behind_latest: int | None = None
    estimated_total_bytes_behind_latest: float | None = None
    rebalances: int = 0
    commits: int | None = None
    uncommitted_offsets: int | None = None
    total_records: int = 0
    offsets_behind_latest: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def started_s(self) -> float:
        """The start of the micro-batch, in seconds since the epoch.

        >>> QueryLag("orders", "i", "r", 3, "2026-11-21T02:41:05.441Z", 0, records=70).started_s
        1795228865.441
        """
        return datetime.fromisoformat(self.timestamp.replace("Z", "+00:00")).timestamp()

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics of Spark's own Kafka source, under its names; empty if the lag is unknown."""
        found = {
            "minOffsetsBehindLatest": self.min_offsets_behind_latest,
            "maxOffsetsBehindLatest": self.max_offsets_behind_latest,
            "avgOffsetsBehindLatest": self.avg_offsets_behind_latest,
            "estimatedTotalBytesBehindLatest": self.estimated_total_bytes_behind_latest,
        }
        return {name: str(value) for name, value in found.items() if value is not None}


def query_lag(read: QueryLag, offsets: SourceOffsets, history: LagHistory) -> QueryLag:
    """Complete the lag after a micro-batch.

    `read` has the fields that name the micro-batch, its records, and its bytes if known. `history` already includes this
    micro-batch.
    """
    ranges = offsets.end.ranges
    behind = {tp: latest - ranges[tp].until for tp, latest in (offsets.latest or {}).items() if tp in ranges}
    # Another member commits the partitions that the query has lost. `latest` does not include these partitions.
    committed = [ranges[tp] for tp in offsets.mzxids if offsets.latest is None or tp in offsets.latest]
    has_commits = bool(history.mzxids)
    uncommitted = sum(max(0, planned.start - planned.committed) for planned in committed if planned.committed is not None)
    total = sum(behind.values())
    found = replace(
        read,
        owned_partitions=None if offsets.latest is None else len(offsets.latest),
        rebalances=history.rebalances,
        total_records=history.records,
        commits=history.commits if has_commits else None,
        uncommitted_offsets=uncommitted if has_commits else None,
    )
    if not behind:
        return found
    return replace(
        found,
        min_offsets_behind_latest=min(behind.values()),
        max_offsets_behind_latest=max(behind.values()),
        avg_offsets_behind_latest=total / len(behind),
        total_offsets_behind_latest=total,
        estimated_total_bytes_behind_latest=(
            read.bytes / read.records * total if read.bytes is not None and read.records else None
        ),
        offsets_behind_latest=behind,
    )
