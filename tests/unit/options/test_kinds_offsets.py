"""Kinds of option values that name offsets, timestamps or partitions."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp, FromEdge, OffsetSpec
from pyspark_zkafka.model.planning import Assign
from pyspark_zkafka.options.kinds import (
    ENDING_OFFSETS,
    OFFSETS_TO_COMMIT,
    PARTITIONS,
    STARTING_OFFSETS,
    TIMESTAMPS,
    Kind,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ENDLESS = "9" * 5000


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (STARTING_OFFSETS, "earliest", OffsetSpec("o", everywhere=EARLIEST)),
        (STARTING_OFFSETS, "EARLIEST", OffsetSpec("o", everywhere=EARLIEST)),
        (STARTING_OFFSETS, "committed", OffsetSpec("o", everywhere="committed")),
        (ENDING_OFFSETS, "latest", OffsetSpec("o", everywhere=LATEST)),
        (STARTING_OFFSETS, '{"a": {"0": 23, "1": -2}}', OffsetSpec("o", by_partition={A0: 23, A1: EARLIEST})),
        (ENDING_OFFSETS, '{"a": {"0": 0, "1": -1}}', OffsetSpec("o", by_partition={A0: 0, A1: LATEST})),
        (STARTING_OFFSETS, '{"a": "Earliest"}', OffsetSpec("o", by_topic={"a": EARLIEST})),
        (
            ENDING_OFFSETS,
            '{"a": "latest", "b": {"0": 7}}',
            OffsetSpec("o", by_topic={"a": LATEST}, by_partition={B0: 7}),
        ),
        (ENDING_OFFSETS, '{"latest": {"0": 7}}', OffsetSpec("o", by_partition={TopicPartition("latest", 0): 7})),
        (OFFSETS_TO_COMMIT, '{"a": {"0": 0, "1": 7}}', {A0: 0, A1: 7}),
        (STARTING_OFFSETS, "latest-100", OffsetSpec("o", everywhere=FromEdge(LATEST, -100))),
        (ENDING_OFFSETS, "Earliest + 7", OffsetSpec("o", everywhere=FromEdge(EARLIEST, 7))),
        (STARTING_OFFSETS, '{"a": "earliest+100"}', OffsetSpec("o", by_topic={"a": FromEdge(EARLIEST, 100)})),
        (
            STARTING_OFFSETS,
            '{"a": {"0": "latest-100", "1": 23}, "b": {"0": "earliest"}}',
            OffsetSpec("o", by_partition={A0: FromEdge(LATEST, -100), A1: 23, B0: EARLIEST}),
        ),
    ],
)
def test_offsets_are_parsed(kind: Kind, text: str, expected: object) -> None:
    """Words in any case, offsets by partition and words by topic are understood."""
    assert kind.read("o", text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (STARTING_OFFSETS, '{"a": {"0": -3}}', "o has the offset -3"),
        (STARTING_OFFSETS, '{"a": "committed"}', "expected {"),
        *(
            (STARTING_OFFSETS, text, f"o is {text!r}; expected earliest, latest (stream), earliest+100, ")
            for text in ("", "oldest", "{", "{}", "[1]", "7", "null", "latest+100", "earliest-1", "latest-", "committed-1")
        ),
        (ENDING_OFFSETS, "oldest", "o is 'oldest'; expected latest, latest-100, earliest+100, or JSON: {"),
        *(
            (STARTING_OFFSETS, text, f"o is {text!r}; expected {{")
            for text in (
                '{"a": {}}',
                '{"a": 5}',
                '{"a": [0]}',
                '{"a": {"x": 5}}',
                '{"a": {"-1": 5}}',
                '{"a": {"": 5}}',
                '{"a": {"0": "5"}}',
                '{"a": {"0": 5.0}}',
                '{"a": {"0": true}}',
                '{"a": {"0": null}}',
                '{"a": {"0": 1, "1": "latest+1"}}',
                '{"a": "earliest-1"}',
            )
        ),
        (STARTING_OFFSETS, '{"a": {"\u0663": 5}}', "expected {"),
        (STARTING_OFFSETS, '{"a": {"0": ' + ENDLESS + "}}", "expected earliest, latest (stream), earliest+100, "),
        (STARTING_OFFSETS, "x" * 300, "o is '" + "x" * 200 + "...'; expected earliest, "),
        *(
            (OFFSETS_TO_COMMIT, text, """; expected offsets of 0 or more by partition: {"topicA": {"0": 23}}""")
            for text in ("{}", "latest", "committed", '{"a": "earliest"}', '{"a": {"0": -1}}', '{"a": {"0": -3}}')
        ),
    ],
)
def test_bad_offsets_are_refused(kind: Kind, text: str, says: str) -> None:
    """Text that is not understood is quoted next to the expected form."""
    with pytest.raises(OptionError) as caught:
        kind.read("o", text)
    assert caught.value.condition == "INVALID_OPTION"
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        (PARTITIONS, '{"a": [0], "a": [1]}', "'a'"),
        (OFFSETS_TO_COMMIT, '{"a": {"0": 1}, "b": {"0": 1}, "a": {"1": 1}}', "'a'"),
        (STARTING_OFFSETS, '{"a": {"0": 1, "0": 2}}', "'0'"),
        (STARTING_OFFSETS, '{"a": {"0": 1, "00": 2}}', "a-0"),
        (TIMESTAMPS, '{"a": {"1": 1, "01": 1}}', "a-1"),
    ],
)
def test_repeated_names_are_refused(kind: Kind, text: str, name: str) -> None:
    """A topic or partition that is named twice is refused: it is not known which value counts."""
    with pytest.raises(OptionError, match=rf"^\[INVALID_OPTION\] o names {name} more than once; name each topic"):
        kind.read("o", text)


def test_leading_zeros() -> None:
    """A partition may have leading zeros, as for Spark's own source."""
    assert OFFSETS_TO_COMMIT.read("o", '{"a": {"00": 7}}') == {A0: 7}


def test_timestamps_are_parsed() -> None:
    """Milliseconds by partition become positions in time."""
    spec = TIMESTAMPS.read("t", '{"a": {"0": 0, "1": 1700000000000}, "b": {"0": 9223372036854775807}}')
    expected = {A0: AtTimestamp(0), A1: AtTimestamp(1_700_000_000_000), B0: AtTimestamp(2**63 - 1)}
    assert spec == OffsetSpec("t", by_partition=expected)


@pytest.mark.parametrize(
    "text",
    [
        "latest", "1700000000000", "{}", '{"a": 1700000000000}', '{"a": "latest"}', '{"a": {"0": -1}}', '{"a": {"0": 1.5}}',
        '{"a": {"0": false}}', '{"a": {"zero": 1}}', '{"a": {"0": 9223372036854775808}}',
    ],
)  # fmt: skip
def test_bad_timestamps_are_refused(text: str) -> None:
    """Words, negative times and times beyond Kafka's 64 bits are refused with the expected form."""
    with pytest.raises(OptionError, match="in milliseconds since the epoch") as caught:
        TIMESTAMPS.read("t", text)
    assert "t is '" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [0]}', (A0,)),
        ('{"b": [0], "a": [1, 0, 1]}', (A0, A1, B0)),
        ('{"a": [], "b": [0]}', (B0,)),
        ('{"a": [10, 9]}', (TopicPartition("a", 9), TopicPartition("a", 10))),
    ],
)
def test_assignment_is_parsed(text: str, expected: tuple[TopicPartition, ...]) -> None:
    """Assigned partitions are sorted by number, without duplicates."""
    assert PARTITIONS.read("assign", text) == Assign(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a", "a:0", "{}", '["a"]', '{"a": []}', '{"a": 0}', '{"a": {"0": 1}}', '{"a": [-1]}', '{"a": ["0"]}',
        '{"a": [0.0]}', '{"a": [true]}',
    ],
)  # fmt: skip
def test_bad_assignment_is_refused(text: str) -> None:
    """An assignment that is no non-empty set of partition numbers is quoted next to the expected form."""
    with pytest.raises(OptionError) as caught:
        PARTITIONS.read("assign", text)
    assert f"assign is {text!r}; expected " + '{"topicA": [0, 1], "topicB": [2]}' in str(caught.value)
