"""Lengths of time as Spark's users write them."""

from __future__ import annotations

import pytest

from pyspark_zkafka.options.durations import parse_duration_ms
from tests.support.cases import each


@each(
    ("text", "expected_ms"),
    [
        ("15m", 900_000),
        ("15min", 900_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("1999us", 1),
        ("250", 250),
        ("0", 0),
        (" 2 minutes ", 120_000),
        ("1 Minute", 60_000),
        ("interval 3 seconds", 3_000),
        ("1 hour 30 minutes", 5_400_000),
        ("1h30m", 5_400_000),
        ("1 week 1 day", 691_200_000),
        ("7 milliseconds 999 microseconds", 7),
        ("600 microseconds 400 microseconds", 1),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    """Suffixes, words, several of them and plain milliseconds are understood, in any case of letters."""
    assert parse_duration_ms(text) == expected_ms


@each("text", ["", "m", "-5s", "1.5h", "10 s 5", "5 5", "3 fortnights", "1 month", "٣s", "1" * 19, "5,s", "interval"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with examples."""
    with pytest.raises(ValueError, match='a duration such as 15m, 10s, 500ms or "1 hour 30 minutes"'):
        parse_duration_ms(text)
