"""Texts of options that name offsets, timestamps or partitions."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offset_options import parse_assignment, parse_offsets, parse_timestamps
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST, AtTimestamp, OffsetSpec
from tests.support.cases import each

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ENDLESS = "9" * 5000


@each(
    ("text", "bound", "expected"),
    [
        ("earliest", "starting", OffsetSpec("o", everywhere=EARLIEST)),
        (" EARLIEST ", "starting", OffsetSpec("o", everywhere=EARLIEST)),
        ("committed", "starting", OffsetSpec("o", everywhere="committed")),
        ("latest", "ending", OffsetSpec("o", everywhere=LATEST)),
        ('{"a": {"0": 23, "1": -2}}', "starting", OffsetSpec("o", by_partition={A0: 23, A1: EARLIEST})),
        ('{"a": {"0": 0, "1": -1}}', "ending", OffsetSpec("o", by_partition={A0: 0, A1: LATEST})),
        ('{"a": "Earliest"}', "starting", OffsetSpec("o", by_topic={"a": EARLIEST})),
        ('{"a": "latest", "b": {"0": 7}}', "ending", OffsetSpec("o", by_topic={"a": LATEST}, by_partition={B0: 7})),
        ('{"latest": {"0": 7}}', "ending", OffsetSpec("o", by_partition={TopicPartition("latest", 0): 7})),
    ],
)
def test_offsets_are_parsed(text: str, bound: Any, expected: OffsetSpec) -> None:
    """Words in any case, offsets by partition and words by topic are understood."""
    assert parse_offsets("o", text, bound) == expected


@each(
    ("text", "bound", "says"),
    [
        ("latest", "starting", "o is latest (-1): a batch that starts at latest reads nothing"),
        ('{"a": "latest"}', "starting", "o is latest (-1): a batch that starts at latest reads nothing"),
        ('{"a": {"0": -1}}', "starting", "o is latest (-1): a batch that starts at latest reads nothing"),
        ("earliest", "ending", "o is earliest (-2): a batch that ends at earliest reads nothing"),
        ('{"a": {"0": -2}}', "ending", "o is earliest (-2): a batch that ends at earliest reads nothing"),
        ("committed", "ending", "o is committed: a batch cannot end at the committed offset"),
        ('{"a": {"0": -3}}', "starting", "o has the offset -3"),
        ('{"a": "committed"}', "starting", "expected {"),
        ("", "starting", "o is ''; expected earliest, committed, or JSON: {"),
        ("oldest", "starting", "o is 'oldest'; expected earliest, committed, or JSON: {"),
        ("{", "starting", "o is '{'; expected earliest, committed, or JSON: {"),
        ("{}", "starting", "o is '{}'; expected earliest, committed, or JSON: {"),
        ("[1]", "starting", "o is '[1]'; expected earliest, committed, or JSON: {"),
        ("7", "starting", "o is '7'; expected earliest, committed, or JSON: {"),
        ("null", "starting", "expected earliest, committed, or JSON: {"),
        ("oldest", "ending", "expected latest, or JSON: {"),
        ("oldest", None, "expected earliest, latest, committed, or JSON: {"),
        ('{"a": {}}', "starting", """o is '{"a": {}}'; expected {"""),
        ('{"a": 5}', "starting", """o is '{"a": 5}'; expected {"""),
        ('{"a": [0]}', "starting", """o is '{"a": [0]}'; expected {"""),
        ('{"a": {"x": 5}}', "starting", """o is '{"a": {"x": 5}}'; expected {"""),
        ('{"a": {"-1": 5}}', "starting", "expected {"),
        ('{"a": {"": 5}}', "starting", "expected {"),
        ('{"a": {"\u0663": 5}}', "starting", "expected {"),
        ('{"a": {"0": "5"}}', "starting", "expected {"),
        ('{"a": {"0": 5.0}}', "starting", "expected {"),
        ('{"a": {"0": true}}', "starting", "expected {"),
        ('{"a": {"0": null}}', "starting", "expected {"),
        ('{"a": {"0": ' + ENDLESS + "}}", "starting", "expected earliest, committed, or JSON: {"),
        ("x" * 300, "starting", "o is '" + "x" * 200 + "...'; expected earliest, "),
        ("{}", "commit", """o is '{}'; expected offsets of 0 or more by partition: {"topicA": {"0": 23}}"""),
        ("latest", "commit", "o is latest (-1): expected offsets of 0 or more by partition"),
        ("committed", "commit", "o is committed: expected offsets of 0 or more by partition"),
        ('{"a": "earliest"}', "commit", "o is earliest (-2): expected offsets of 0 or more by partition"),
        ('{"a": {"0": -1}}', "commit", "o is latest (-1): expected offsets of 0 or more by partition"),
        ('{"a": {"0": -3}}', "commit", "o has the offset -3"),
    ],
)
def test_bad_offsets_are_refused(text: str, bound: Any, says: str) -> None:
    """A text that is not understood, or that a batch cannot obey, is quoted beside the right form."""
    with pytest.raises(OptionError) as caught:
        parse_offsets("o", text, bound)
    assert caught.value.condition == "INVALID_OPTION"
    assert says in str(caught.value)


def test_timestamps_are_parsed() -> None:
    """Milliseconds by partition become positions in time."""
    spec = parse_timestamps("t", '{"a": {"0": 0, "1": 1700000000000}, "b": {"0": 9223372036854775807}}')
    expected = {A0: AtTimestamp(0), A1: AtTimestamp(1_700_000_000_000), B0: AtTimestamp(2**63 - 1)}
    assert spec == OffsetSpec("t", by_partition=expected)


@each(
    "text",
    [
        "latest",
        "1700000000000",
        "{}",
        '{"a": 1700000000000}',
        '{"a": "latest"}',
        '{"a": {"0": -1}}',
        '{"a": {"0": 1.5}}',
        '{"a": {"0": false}}',
        '{"a": {"zero": 1}}',
        '{"a": {"0": 9223372036854775808}}',
    ],
)
def test_bad_timestamps_are_refused(text: str) -> None:
    """Words, negative times and times beyond Kafka's 64 bits are refused, with the right form."""
    with pytest.raises(OptionError, match="in milliseconds since the epoch") as caught:
        parse_timestamps("t", text)
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
    """Assigned partitions come back sorted by number, each once."""
    assert parse_assignment("assign", text) == expected


@each(
    "text",
    [
        "a",
        "a:0",
        "{}",
        '["a"]',
        '{"a": []}',
        '{"a": 0}',
        '{"a": {"0": 1}}',
        '{"a": [-1]}',
        '{"a": ["0"]}',
        '{"a": [0.0]}',
        '{"a": [true]}',
    ],
)
def test_bad_assignment_is_refused(text: str) -> None:
    """What is not a non-empty set of partition numbers is quoted beside the right form."""
    with pytest.raises(OptionError) as caught:
        parse_assignment("assign", text)
    assert f"assign is {text!r}; expected " + '{"topicA": [0, 1], "topicB": [2]}' in str(caught.value)
