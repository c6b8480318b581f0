"""Partitions and ranges of a batch, with logs of values."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest

from pyspark_zkafka.batch.ranges import readable_partitions, resolve_ranges
from pyspark_zkafka.errors import DataLoss, NoLeader
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, OffsetRange, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, AtTimestamp, Position
from pyspark_zkafka.protocol.planning import Subscribe
from pyspark_zkafka.protocol.pushdown import PushedFilters

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """Logs [10, 100); a record at offset n has the timestamp n."""

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        """The offset of each position."""
        return {tp: self._offset(position) for tp, position in wanted.items()}

    def _offset(self, position: Position) -> int:
        if isinstance(position, AtTimestamp):
            return max(10, position.timestamp_ms) if position.timestamp_ms < 100 else -1
        return {EARLIEST: 10, LATEST: 100}[position]

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """None: nothing is in a transaction."""
        return {}

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offset of the first partition."""
        return {T0: 50}


def options(**given: str) -> ReadOptions:
    """The options of a read of topic t."""
    return parse_read({"kafka.bootstrap.servers": "broker1:9092", "subscribe": "t", **given})


def cluster(leader_of_1: int) -> ClusterSnapshot:
    """A cluster with broker 1 alone, and a leader of the second partition."""
    states = {T0: PartitionState(1, 0, (1,)), T1: PartitionState(leader_of_1, 0, (leader_of_1,))}
    return ClusterSnapshot({1: Broker(1, ())}, {"t": Topic("t", {0: (1,), 1: (leader_of_1,)})}, states)


def test_all_led() -> None:
    """All subscribed partitions are read if each has a leader."""
    assert readable_partitions(Subscribe(("t",)), cluster(1), skip_offline=False) == [T0, T1]


def test_offline(caplog: pytest.LogCaptureFixture) -> None:
    """A partition whose leader is not registered is an error, or left out with a warning."""
    with pytest.raises(NoLeader, match="t-1"):
        readable_partitions(Subscribe(("t",)), cluster(2), skip_offline=False)
    with caplog.at_level(logging.WARNING):
        assert readable_partitions(Subscribe(("t",)), cluster(2), skip_offline=True) == [T0]
    assert "skipped, as offlinePartitions is skip: [NO_LEADER]" in caplog.text


def test_ranges() -> None:
    """By default a batch reads whole logs."""
    assert resolve_ranges(options(), [T0], [T0, T1], Logs()) == [OffsetRange(T0, 10, 100)]


def test_offsets_outside(caplog: pytest.LogCaptureFixture) -> None:
    """Offsets outside of a log are data loss, unless what is there is to be read."""
    start = {"startingOffsets": '{"t": {"0": 5}}'}
    with pytest.raises(DataLoss, match=r"t-0.*correct the offsets, or set failOnDataLoss to false"):
        resolve_ranges(options(**start), [T0], [T0], Logs())
    with caplog.at_level(logging.WARNING):
        found = resolve_ranges(options(**start, failOnDataLoss="false"), [T0], [T0], Logs())
    assert found == [OffsetRange(T0, 10, 100)]
    assert "reading what is there" in caplog.text


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (PushedFilters(from_offset=20, until_offset=30), (20, 30)),
        (PushedFilters(since_ms=40), (40, 100)),
        (PushedFilters(since_ms=500), (100, 100)),
        (PushedFilters(from_offset=20, since_ms=5), (20, 100)),
    ],
)
def test_pushed_filters(pushed: PushedFilters, expected: tuple[int, int]) -> None:
    """Filters on offsets and timestamps narrow each range."""
    assert resolve_ranges(options(), [T0], [T0], Logs(), pushed) == [OffsetRange(T0, *expected)]
