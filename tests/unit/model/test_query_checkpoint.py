"""Positions in checkpoints, parsed from text."""

from __future__ import annotations

import json

import pytest

from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.query_checkpoint import SourceEnd, parse_initial, parse_offset_log, parse_source_end, positions
from tests.support.cases import each

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OURS = json.dumps({"version": 1, "topics": {"t": {"known": 2, "partitions": {"0": [3, 9], "1": [7, 7, 7, 901]}}}})
META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
SPARKS, OTHER_PARTITION = '{"t":{"0":5}}', '{"t":{"1":6}}'


@each(
    ("lines", "expected"),
    [
        (["v1", META, SPARKS], {"0": SourceEnd("kafka", {T0: 5})}),
        (["v1", META, "-", OTHER_PARTITION, "7"], {"0": None, "1": SourceEnd("kafka", {T1: 6}), "2": SourceEnd("other")}),
        (["v2", META, "0:-", f"1:{OTHER_PARTITION}"], {"0": None, "1": SourceEnd("kafka", {T1: 6})}),
        (["v1", META, OURS], {"0": SourceEnd("zkafka", {T0: 9, T1: 7}, {T0: 3, T1: 7}, in_group=True)}),
        (["v1", META], {}),
    ],
)
def test_offset_log(lines: list[str], expected: object) -> None:
    """The offsets of each source are read from both versions of Spark's log."""
    assert parse_offset_log("\n".join(lines), "f") == expected


@each(
    ("numbers", "in_group"),
    [([3, 9], False), ([3, 9, 3], True), ([3, 9, 3, 901], True), ([3, 9, 3, 901, 3], False), ([3, 9, 3, -1, 3], False)],
)
def test_query_in_a_group(numbers: list[int], in_group: bool) -> None:
    """A query is in a group, in ZooKeeper or in Kafka, if its ranges have the group's offset, and it has not left since."""
    found = parse_source_end(json.dumps({"version": 1, "topics": {"t": {"known": 1, "partitions": {"0": numbers}}}}), "f")
    assert found is not None
    assert found.in_group is in_group


@each(
    ("lines", "says"),
    [
        ([], "f is no offset log"),
        (["v1"], "f is no offset log"),
        (["v9", META, "-"], "f is no offset log"),
        (["v1", META, "{"], "f is an offset that is not JSON"),
        (["v1", META, '{"version": 2, "topics": {}}'], "UNKNOWN_CHECKPOINT"),
    ],
)
def test_other_files(lines: list[str], says: str) -> None:
    """A file in another format and an offset of a newer version are refused."""
    with pytest.raises(CheckpointError, match=says):
        parse_offset_log("\n".join(lines), "f")


@each(
    "offset",
    [
        '{"logOffset":0}',
        '{"t":{"x":1}}',
        '{"t":{"0":-1}}',
        '{"t":{"0":"5"}}',
        '{"a":{},"b":1}',
        "{}",
        "5",
        "null",
    ],
)
def test_other_sources(offset: str) -> None:
    """An offset in another format belongs to another source."""
    assert parse_source_end(offset, "f") == SourceEnd("other")


def test_topics_named_like_our_keys() -> None:
    """Spark's offsets of topics named like this package's keys are recognized as Spark's."""
    found = parse_source_end('{"version":{"0":1},"topics":{"0":2}}', "f")
    assert found == SourceEnd("kafka", {TopicPartition("version", 0): 1, TopicPartition("topics", 0): 2})


def test_initial_offsets() -> None:
    """The start of Spark's source is read after its zero byte."""
    assert parse_initial('\0v1\n{"t":{"0":5}}', "f") == SourceEnd("kafka", {T0: 5})


def test_positions() -> None:
    """A finished micro-batch is at its planned end; an unfinished one starts where the last one ended."""
    done: dict[str, SourceEnd | None] = {"0": SourceEnd("kafka", {T0: 5})}
    (one,) = positions(done, done, {})
    assert (one.committed, one.planned, one.format) == ({T0: 5}, {T0: 5}, "kafka")
    (one,) = positions({"0": SourceEnd("kafka", {T0: 9, T1: 2})}, done, {})
    assert (one.committed, one.planned) == ({T0: 5}, {T0: 9, T1: 2})
    (one,) = positions({"0": SourceEnd("zkafka", {T0: 9, T1: 4}, {T0: 5, T1: 2})}, {"0": SourceEnd("zkafka", {T0: 5})}, {})
    assert one.committed == {T0: 5, T1: 2}


def test_positions_of_the_first_micro_batch() -> None:
    """Before a micro-batch is finished, the position is the start, from the offset or from the file of Spark's source."""
    (one,) = positions({"0": SourceEnd("zkafka", {T0: 9}, {T0: 5})}, None, {})
    assert one.committed == {T0: 5}
    (one,) = positions({"0": SourceEnd("kafka", {T0: 9})}, None, {"0": SourceEnd("kafka", {T0: 4})})
    assert one.committed == {T0: 4}
    (one,) = positions({"0": None}, {"0": None}, {"0": SourceEnd("kafka", {T0: 4})})
    assert (one.committed, one.planned, one.format) == ({T0: 4}, {}, "kafka")
    (one,) = positions({"0": None}, None, {})
    assert (one.committed, one.format) == ({}, "other")
