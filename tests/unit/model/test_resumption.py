"""The start of a newly assigned partition in a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.model.checkpoint import LeftOffset
from pyspark_zkafka.model.checkpoint import PlannedRange as Range
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Position
from pyspark_zkafka.model.resumption import (
    RULES,
    PartitionFacts,
    Rule,
    StoredOffset,
    checkpoint_or_group,
    deleted_topic,
    is_followed,
    new_partition,
    option_at_first_start,
    option_later,
    resume,
    start_of,
    topic_created_again,
    without_left,
)


@pytest.mark.parametrize(
    ("planned", "committed", "last_committed", "expected"),
    [
        pytest.param(None, None, None, None, id="nothing is known"),
        pytest.param(None, 7, None, 7, id="the group's offset, of a partition that the stream never read"),
        pytest.param(None, 0, None, 0, id="0 is an offset"),
        pytest.param(None, 7, 5, 7, id="the group's, whatever this process committed before"),
        pytest.param(Range(10, 20), None, None, 20, id="the end of the finished micro-batch, without a group"),
        pytest.param(Range(20, 20), None, None, 20, id="the remembered end"),
        pytest.param(Range(10, 20, 10), 20, None, 20, id="the micro-batch was committed"),
        pytest.param(Range(10, 20, 10), 10, None, 20, id="the micro-batch before was committed"),
        pytest.param(Range(10, 20, 4), 4, None, 20, id="no commit has worked for a while"),
        pytest.param(Range(10, 20, 0), 0, None, 20, id="the same from 0"),
        pytest.param(Range(10, 20, 4), 15, 15, 20, id="this process itself committed it"),
        pytest.param(Range(10, 20, 10), 15, 12, 15, id="between the two: another member's progress"),
        pytest.param(Range(10, 20, 10), 35, None, 35, id="another member has gone further"),
        pytest.param(Range(10, 20, 10), 5, None, 5, id="an operator's reset, back"),
        pytest.param(Range(10, 20, 10), 0, None, 0, id="an operator's reset, to the beginning"),
        pytest.param(Range(20, 20, 20), 19, None, 19, id="a reset by one, of an idle partition"),
    ],
)
def test_resume(planned: Range | None, committed: int | None, last_committed: int | None, expected: int | None) -> None:
    """The stream resumes after its own work, unless another process has moved the group's offset."""
    stored, last = (None if offset is None else StoredOffset(offset) for offset in (committed, last_committed))
    assert resume(planned, stored, last) == expected


@pytest.mark.parametrize(
    ("planned", "stored", "last", "expected"),
    [
        pytest.param(
            Range(0, 20, 0, mzxid=7),
            StoredOffset(0, 9),
            None,
            0,
            id="a reset to the start of the batch",
        ),
        pytest.param(Range(0, 20, 0, mzxid=7), StoredOffset(0, 7), None, 20, id="untouched since it was planned"),
        pytest.param(Range(0, 20, 0, mzxid=7), StoredOffset(20, 9), None, 20, id="where the batch ends anyway"),
        pytest.param(
            Range(20, 20, 0, mzxid=7),
            StoredOffset(15, 9),
            StoredOffset(15, 9),
            20,
            id="committed by this process",
        ),
        pytest.param(
            Range(20, 20, 0, mzxid=7),
            StoredOffset(15, 11),
            StoredOffset(15, 9),
            15,
            id="a reset to what this process committed",
        ),
        pytest.param(Range(0, 20, 0), StoredOffset(0, 9), None, 20, id="without an mzxid, the offset decides"),
        pytest.param(Range(20, 30, 10, mzxid=7), StoredOffset(20, 9), None, 30, id="a commit that was late for the plan"),
        pytest.param(
            Range(20, 30, 10, mzxid=7),
            StoredOffset(10, 9),
            None,
            10,
            id="a reset to what was stored when a commit was late",
        ),
    ],
)
def test_mzxids(planned: Range, stored: StoredOffset, last: StoredOffset | None, expected: int | None) -> None:
    """The `mzxid` distinguishes a reset from the stream's own commit of the same offset."""
    assert resume(planned, stored, last) == expected


LEFT_KAFKA, LEFT_ZOOKEEPER = LeftOffset("kafka", 50, None, (60,)), LeftOffset("zookeeper", 50, 7, (60,))


@pytest.mark.parametrize(
    ("planned", "stored", "expected"),
    [
        # After a reset, the query has read on in one store, and now reads both.
        (Range(20, 30, 20, elsewhere=(LEFT_ZOOKEEPER,)), StoredOffset(50, 7), 30),
        (Range(20, 30, 20, elsewhere=(LEFT_ZOOKEEPER,)), StoredOffset(60, 8), 30),
        (Range(20, 30, 20, elsewhere=(LEFT_ZOOKEEPER,)), StoredOffset(50, 8), 50),
        (Range(20, 30, 20, elsewhere=(LEFT_ZOOKEEPER,)), StoredOffset(60), 60),
        (Range(20, 30, 20, 9, elsewhere=(LEFT_KAFKA,)), StoredOffset(50), 30),
        (Range(20, 30, 20, 9, elsewhere=(LEFT_KAFKA,)), StoredOffset(50, 11), 50),
        (Range(20, 30, 20, 9, elsewhere=(LEFT_KAFKA,)), StoredOffset(20, 9), 30),
        (Range(20, 30, 20, 9, elsewhere=(LEFT_KAFKA,)), StoredOffset(70), 70),
        # It has not read in these stores since: any of its offsets may have been copied.
        (Range(20, 30, elsewhere=(LEFT_ZOOKEEPER,)), StoredOffset(60), 30),
        (Range(20, 30, elsewhere=(LEFT_KAFKA, LEFT_ZOOKEEPER)), StoredOffset(50, 8), 30),
        # It was never in a group before.
        (Range(10, 10), StoredOffset(0), 0),
        (Range(10, 10), StoredOffset(0, 9), 0),
    ],
)
def test_left_offsets(planned: Range, stored: StoredOffset, expected: int) -> None:
    """An offset that the query itself has left in a store does not move it."""
    assert resume(planned, stored) == expected


T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "found"),
    [
        pytest.param(StoredOffset(20), StoredOffset(50, 7), ["kafka"], id="left in ZooKeeper"),
        pytest.param(StoredOffset(50), StoredOffset(40, 9), ["zookeeper"], id="left in Kafka"),
        pytest.param(StoredOffset(50), StoredOffset(50, 7), ["kafka", "zookeeper"], id="left in both"),
        pytest.param(StoredOffset(20), StoredOffset(50, 8), ["kafka", "zookeeper"], id="committed again since"),
        pytest.param(None, StoredOffset(50, 7), ["zookeeper"], id="left, and in no other store"),
        pytest.param(StoredOffset(20), None, ["kafka"], id="left, and deleted since"),
    ],
)
def test_stores_without_left_offsets(kafka: StoredOffset | None, zookeeper: StoredOffset | None, found: list[str]) -> None:
    """An offset that the query has left in one store does not count if the other store has a later one."""
    stores = {"kafka": kafka, "zookeeper": zookeeper}
    by_store: Any = {store: {} if offset is None else {T0: offset} for store, offset in stores.items()}
    kept = without_left(by_store, {T0: [LEFT_KAFKA, LEFT_ZOOKEEPER]})
    assert [store for store, offsets in kept.items() if offsets] == found


@pytest.mark.parametrize(
    ("planned", "stored", "last", "expected"),
    [
        pytest.param(Range(10, 20, 10), None, None, False, id="nothing is stored"),
        pytest.param(Range(10, 20, 10), StoredOffset(35), None, True, id="another offset than the stream's own"),
        pytest.param(Range(10, 20, 10), StoredOffset(10), None, False, id="the stream's own, from the deleted topic"),
        pytest.param(Range(10, 20, 10), StoredOffset(15), StoredOffset(15), False, id="this process's own commit"),
        pytest.param(None, StoredOffset(15), None, False, id="a partition that the stream never read"),
        pytest.param(None, StoredOffset(15, 9), None, True, id="a commit to ZooKeeper after the topic was created"),
        pytest.param(None, StoredOffset(15, 9), StoredOffset(15, 9), False, id="this process's own commit to ZooKeeper"),
    ],
)
def test_followed(planned: Range | None, stored: StoredOffset | None, last: StoredOffset | None, expected: bool) -> None:
    """Another member has read a topic that was created again if the group's offset cannot be the stream's own."""
    assert is_followed(planned, stored, last) == expected


EVERYTHING = PartitionFacts(
    planned=Range(10, 20, 10, 40),
    stored=StoredOffset(30, 40),
    named=5,
    is_first_start=True,
    is_outdated=True,
    is_replaced=True,
    created_after_subscription=True,
    is_added=True,
)


def test_precedence() -> None:
    """Rules apply in the order of the list: each decides if the rules before it do not."""
    facts = EVERYTHING
    cases: list[tuple[dict[str, Any], Rule | None, Position | None]] = [
        ({}, topic_created_again, EARLIEST),
        ({"is_replaced": False}, option_at_first_start, 5),
        ({"is_first_start": False}, checkpoint_or_group, 20),
        ({"planned": None}, deleted_topic, EARLIEST),
        ({"stored": None, "is_outdated": False}, new_partition, EARLIEST),
        ({"created_after_subscription": False, "is_added": False}, option_later, 5),
        ({"named": None}, None, None),
    ]
    for without, rule, position in cases:
        facts = replace(facts, **without)
        assert start_of(facts) == (rule, position)
    assert tuple(rule for _, rule, _ in cases[:-1]) == RULES


@pytest.mark.parametrize(
    ("facts", "position"),
    [
        (PartitionFacts(is_replaced=True, stored=StoredOffset(7, mzxid=9)), 7),
        (PartitionFacts(is_replaced=True, stored=StoredOffset(7, mzxid=9), last=StoredOffset(7, mzxid=9)), EARLIEST),
        (PartitionFacts(is_replaced=True, planned=Range(10, 20, 10), stored=StoredOffset(35)), 35),
        (PartitionFacts(planned=Range(10, 20, 4), stored=StoredOffset(15), last=StoredOffset(15)), 20),
        (PartitionFacts(is_first_start=True, named=LATEST), LATEST),
        (PartitionFacts(is_first_start=True, named=LATEST, created_after_subscription=True), EARLIEST),
        (PartitionFacts(stored=StoredOffset(7), is_added=True), 7),
        (PartitionFacts(stored=StoredOffset(7), is_added=True, has_grown=True), 7),
        (PartitionFacts(is_added=True, has_grown=True, named=EARLIEST), 0),
        (PartitionFacts(named=LATEST), None),
        (PartitionFacts(named=EARLIEST), EARLIEST),
    ],
)
def test_start(facts: PartitionFacts, position: Position) -> None:
    """A topic that another member reads resumes at the group's offset, and newer partitions ignore `latest`."""
    assert start_of(facts)[1] == position
