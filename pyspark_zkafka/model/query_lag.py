"""Lag of a streaming query, from the offsets that Spark's progress reports: pure, without Spark.

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
from pyspark_zkafka.model.checkpoint import PlannedRange, StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """A micro-batch's end, and the ends of the logs when it was planned, None where the planner did not fetch them.

    Spark repeats the micro-batch of an earlier run without planning it anew, and `latest` is None then.
    """

    end: StreamOffset
    latest: Mapping[TopicPartition, int] | None = None

    @property
    def behind(self) -> dict[TopicPartition, int]:
        """The records after the micro-batch, for each partition that the query owns and that has a leader."""
        spans = self.end.spans
        return {tp: latest - spans[tp].until for tp, latest in (self.latest or {}).items() if tp in spans}

    @property
    def marks(self) -> dict[TopicPartition, int]:
        """The ZooKeeper transaction of each partition's last commit; empty without a group, or with offsets in Kafka."""
        return {tp: span.mark for tp, span in self.end.spans.items() if span.mark is not None}


def parse_source_offsets(end_offset: str, latest_offset: str) -> SourceOffsets | None:
    """The offsets in the progress of a source, as Spark's JSON; None if the source is not of this package."""
    try:
        end = StreamOffset.from_json(json.loads(end_offset))
    except (CheckpointError, ValueError, RecursionError):
        return None
    return SourceOffsets(end, _latest(latest_offset))


def _latest(text: str) -> dict[TopicPartition, int] | None:
    try:
        found = json.loads(text)
        latest = {
            TopicPartition(topic, int(n)): offset for topic, offsets in found.items() for n, offset in offsets.items()
        }
    except (ValueError, AttributeError, RecursionError):  # "None", where there is no latest offset
        return None
    return latest if all(type(offset) is int for offset in latest.values()) else None


@dataclass(frozen=True, slots=True)
class LagHistory:
    """State of a source over a query's run: its last known partitions and commits, and totals since the run began."""

    owned: frozenset[TopicPartition] | None = None
    marks: Mapping[TopicPartition, int] = field(default_factory=dict)
    rebalances: int = 0
    commits: int = 0
    records: int = 0

    def advance(self, offsets: SourceOffsets, records: int) -> LagHistory:
        """The state after one more micro-batch.

        The first micro-batch assigns partitions, which is no rebalance; nor does it tell which commits are this run's.
        """
        owned = self.owned if offsets.latest is None else frozenset(offsets.latest)
        rebalanced = None not in (self.owned, owned) and owned != self.owned
        commits = sum(self.marks.get(tp) != mark for tp, mark in offsets.marks.items()) if self.marks else 0
        return LagHistory(
            owned,
            {**self.marks, **offsets.marks},
            self.rebalances + rebalanced,
            self.commits + commits,
            self.records + records,
        )


@dataclass(frozen=True, slots=True)
class QueryLag:
    """Lag and progress of one source of a streaming query, after a micro-batch.

    Values are None where they are unknown: the lag of a micro-batch that Spark repeats from an earlier run, the bytes of a
    query without `LagListener.observe_bytes`, the commits of a query without offsets in ZooKeeper.

    Parameters
    ----------
    query : str
        The query's name, else its id, which a restart from the checkpoint keeps.
    source : int
        The source's place among the sources of the query, from 0.
    timestamp : str
        The start of the micro-batch, ISO 8601 in UTC.
    records, bytes : int
        The rows that Spark read, and the bytes of their keys and values.
    owned_partitions : int
        The partitions with a leader that the query read when the micro-batch was planned: all of its subscription, or those
        that it owned as a member of its group.
    min_offsets_behind_latest, max_offsets_behind_latest, avg_offsets_behind_latest
        Offsets between the end of the micro-batch and that of the log when it was planned, over the owned partitions.
    estimated_total_bytes_behind_latest : float
        All offsets behind latest, times the mean size of the micro-batch's records.
    rebalances : int
        Changes of the set of owned partitions since the query started.
    commits : int
        Offsets that this query, or another client, has committed to ZooKeeper since the query started.
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
        """The metrics that Spark's own Kafka source reports, under its names; empty where the lag is unknown."""
        found = {
            "minOffsetsBehindLatest": self.min_offsets_behind_latest,
            "maxOffsetsBehindLatest": self.max_offsets_behind_latest,
            "avgOffsetsBehindLatest": self.avg_offsets_behind_latest,
            "estimatedTotalBytesBehindLatest": self.estimated_total_bytes_behind_latest,
        }
        return {name: str(value) for name, value in found.items() if value is not None}


def query_lag(read: QueryLag, offsets: SourceOffsets, history: LagHistory) -> QueryLag:
    """The lag after a micro-batch.

    Parameters
    ----------
    read : QueryLag
        The fields that name the micro-batch, its records, and its bytes if they are known.
    history : LagHistory
        The state after the micro-batch.
    """
    behind = offsets.behind
    spans = offsets.end.spans
    has_commits = bool(history.marks)
    total = sum(behind.values())
    found = replace(
        read,
        owned_partitions=None if offsets.latest is None else len(offsets.latest),
        rebalances=history.rebalances,
        total_records=history.records,
        commits=history.commits if has_commits else None,
        uncommitted_offsets=sum(_uncommitted(spans[tp]) for tp in offsets.marks) if has_commits else None,
    )
    if not behind:
        return found
    return replace(
        found,
        min_offsets_behind_latest=min(behind.values()),
        max_offsets_behind_latest=max(behind.values()),
        avg_offsets_behind_latest=total / len(behind),
        total_offsets_behind_latest=total,
        estimated_total_bytes_behind_latest=_estimate(read, total),
        offsets_behind_latest=behind,
    )


def _uncommitted(span: PlannedRange) -> int:
    return 0 if span.committed is None else max(0, span.start - span.committed)


def _estimate(read: QueryLag, behind: int) -> float | None:
    return read.bytes / read.records * behind if read.bytes is not None and read.records else None
