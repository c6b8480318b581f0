"""Rows of topics in requests and responses, answers by key, and APIs that a broker has."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.protocol import Api, MalformedResponse, Reader, answer_of, by_topic, read_by_topic

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ROWS = [(A1, b"\x00\x01"), (B0, b"\x00\x00"), (A0, b"\x00\x00")]
API = Api("Some", 5, 2, 4, 9)


@pytest.mark.parametrize(
    ("rows", "flexible", "encoded"),
    [
        ([], False, "00000000"),
        ([], True, "01"),
        (ROWS, False, "00000002 000161 00000002 0001 0000 000162 00000001 0000"),
        (ROWS, True, "03 0261 03 0001 0000 00 0262 02 0000 00"),
    ],
)
def test_by_topic(rows: list[tuple[TopicPartition, bytes]], flexible: bool, encoded: str) -> None:
    """Rows are grouped by topic: topics in order of their first row, rows in the given order. They are read back so."""
    assert by_topic(rows, flexible) == bytes.fromhex(encoded)
    response = Reader(bytes.fromhex(encoded), flexible=flexible)
    found = read_by_topic(response, lambda: (response.int16(), "answer"))
    response.finish()
    assert found == ([(A1, "answer"), (A0, "answer"), (B0, "answer")] if rows else [])


def test_answer_of() -> None:
    """An answer that a response lacks makes it malformed. A false answer, such as the error 0, is an answer."""
    assert answer_of({A0: 0}, A0) == 0
    with pytest.raises(MalformedResponse, match="the response lacks a-1"):
        answer_of({A0: 0}, A1)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, False),
        ({6: (2, 4)}, False),
        ({5: (0, 1)}, False),
        ({5: (0, 2)}, True),
        ({5: (3, 3)}, True),
        ({5: (4, 9)}, True),
        ({5: (5, 9)}, False),
    ],
)
def test_is_in(versions: dict[int, tuple[int, int]], expected: bool) -> None:
    """A broker has an API if one version is common."""
    assert API.is_in(versions) is expected
