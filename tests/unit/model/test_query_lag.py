"""Lag of a query, from the offsets in Spark's progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_zkafka.model.checkpoint import PlannedRange, StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.query_lag import LagHistory, QueryLag, SourceOffsets, parse_source_offsets, query_lag

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
READ = QueryLag("orders", "id", "run", 3, "2026-11-21T02:41:05.441Z", 0, records=10)


def offsets(ranges: dict[TopicPartition, PlannedRange], latest: dict[TopicPartition, int] | None) -> SourceOffsets:
    return SourceOffsets(StreamOffset(ranges), latest)


def lag(found: SourceOffsets, read: QueryLag = READ) -> QueryLag:
    return query_lag(read, found, LagHistory().advance(found, read.records))


def test_offsets_of_the_progress_are_read() -> None:
    """The JSON in Spark's progress gives the end of the micro-batch and the ends of the logs."""
    end = StreamOffset({T0: PlannedRange(1, 5, 1)})
    found = parse_source_offsets(json.dumps(end.to_json()), '{"t": {"0": 9}}')
    assert found == SourceOffsets(StreamOffset.from_json(end.to_json()), {T0: 9})


@pytest.mark.parametrize("end", ["None", "null", "7", '{"t":{"0":5}}', '{"version":1}', '{"version":2,"topics":{}}'])
def test_other_sources_are_ignored(end: str) -> None:
    """The offsets of other sources, such as Spark's own Kafka source, give None."""
    assert parse_source_offsets(end, "None") is None


@pytest.mark.parametrize(
    "latest", ["None", "null", "", "7", '{"t": 9}', '{"t": {"x": 9}}', '{"t": {"0": "9"}}', '{"t": {"0": 9.5}}']
)
def test_a_repeated_micro_batch_has_no_lag(latest: str) -> None:
    """Without the ends of the logs, lag and owned partitions are unknown, not zero."""
    found = parse_source_offsets(json.dumps(StreamOffset({T0: PlannedRange(1, 5)}).to_json()), latest)
    assert found is not None
    shown = lag(found)
    assert shown.metrics == {}
    assert shown.owned_partitions is None
    assert shown.total_offsets_behind_latest is None


def test_offsets_behind_latest() -> None:
    """Minimum, maximum and mean include only owned partitions, even those without new records."""
    ranges = {T0: PlannedRange(0, 5), T1: PlannedRange(7, 7), T2: PlannedRange(0, 0)}
    shown = lag(offsets(ranges, {T0: 15, T1: 7}))
    assert shown.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "10",
        "avgOffsetsBehindLatest": "5.0",
    }
    assert shown.owned_partitions == 2
    assert shown.total_offsets_behind_latest == 10
    assert shown.offsets_behind_latest == {T0: 10, T1: 0}


def test_bytes_behind_latest_are_estimated() -> None:
    """The bytes behind latest are the offsets behind latest times the mean record size of the micro-batch."""
    read = QueryLag("orders", "id", "run", 3, READ.timestamp, 0, records=10, bytes=300)
    found = offsets({T0: PlannedRange(0, 10)}, {T0: 15})
    assert lag(found, read).estimated_total_bytes_behind_latest == 150.0
    assert lag(found, READ).estimated_total_bytes_behind_latest is None


@pytest.mark.parametrize(
    ("owned", "rebalances"),
    [([{T0}, {T0}], 0), ([{T0}, {T0, T1}], 1), ([{T0}, {T1}, {T0}], 2), ([None, {T0}], 0), ([{T0}, None, {T0}], 0)],
)
def test_rebalances_are_changes_of_the_owned_partitions(owned: list[Any], rebalances: int) -> None:
    """Each change of the owned partitions counts, but neither the first assignment nor a batch with unknown partitions."""
    history = LagHistory()
    for partitions in owned:
        history = history.advance(offsets({}, None if partitions is None else dict.fromkeys(partitions, 0)), 0)
    assert history.rebalances == rebalances


@pytest.mark.parametrize(
    ("batches", "commits"),
    [
        ([{T0: 5, T1: 5}, {T0: 6, T1: 5}, {T0: 7, T1: 7}, {T0: 7}], 3),
        ([{T0: None, T1: None}, {T0: 5, T1: None}, {T0: 5, T1: 6}], 2),
        ([{T0: 5}, {T0: 5, T1: 3}, {T0: 5, T1: 6}], 1),
        ([{T0: 5}, {T0: 5, T1: 6}], 1),
        ([{T0: 5, T1: 9}, {T0: 6, T1: 9}], 1),
        ([{T0: None}, {T0: 1}], 1),
    ],
)
def test_commits_are_new_mzxids(batches: list[dict[TopicPartition, int | None]], commits: int) -> None:
    """Each later `mzxid` counts, and first commits do, but not the old commit of a partition that the query acquires."""
    history = LagHistory()
    for mzxids in batches:
        ranges = {tp: PlannedRange(9, 9, 9, mzxid) for tp, mzxid in mzxids.items()}
        history = history.advance(offsets(ranges, {}), 0)
    assert history.commits == commits


def test_first_commits_after_a_repeated_micro_batch() -> None:
    """A group's commits from before this run do not count, even if the earlier run had no group."""
    repeated, planned = offsets({T0: PlannedRange(0, 9)}, None), offsets({T0: PlannedRange(9, 9, 9, 5)}, {T0: 9})
    assert LagHistory().advance(repeated, 0).advance(planned, 0).commits == 0


def test_totals() -> None:
    """A lag has the numbers of rebalances and of records since the query started."""
    first, second = offsets({T0: PlannedRange(0, 7)}, {T0: 9}), offsets({T1: PlannedRange(0, 10)}, {T1: 12})
    shown = query_lag(READ, second, LagHistory().advance(first, 7).advance(second, READ.records))
    assert (shown.rebalances, shown.total_records) == (1, 17)


LATEST = {T0: 12, T1: 4}


@pytest.mark.parametrize(
    ("second", "latest", "uncommitted"),
    [
        pytest.param(PlannedRange(3, 4, 3, 78), LATEST, 5, id="committed up to where it finished"),
        pytest.param(PlannedRange(200, 200, 100, 78), {T0: 12}, 5, id="lost: not the query's to commit"),
    ],
)
def test_uncommitted_offsets(second: PlannedRange, latest: dict[TopicPartition, int], uncommitted: int) -> None:
    """Offsets that finished micro-batches have read but not committed are counted, for owned partitions."""
    shown = lag(offsets({T0: PlannedRange(9, 12, 4, 77), T1: second}, latest))
    assert shown.uncommitted_offsets == uncommitted
    assert shown.commits == 0


def test_without_a_group_commits_are_unknown() -> None:
    """Without a group, also after the query has left it, the number of commits is unknown."""
    shown = lag(offsets({T0: PlannedRange(9, 12, 9), T1: PlannedRange(9, 12, 4, 77, left=4)}, {T0: 12, T1: 12}))
    assert shown.uncommitted_offsets is None
    assert shown.commits is None
