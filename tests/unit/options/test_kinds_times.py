"""Times and durations as users write them."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.offsets import Ago, AtTimestamp
from pyspark_zkafka.options.kinds import parse_datetime_ms, parse_duration_ms, parse_iso_duration_ms, parse_time


@pytest.mark.parametrize(
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
    """A duration may have suffixes, words, several parts or plain milliseconds, in any case."""
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "m", "-5s", "1.5h", "10 s 5", "5 5", "3 fortnights", "1 month", "٣s", "1" * 19, "5,s", "interval"]
)
def test_what_is_no_duration(text: str) -> None:
    """A malformed duration is refused with examples."""
    with pytest.raises(ValueError, match='a duration such as 15m, 10s, 500ms or "1 hour 30 minutes"'):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P7D", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("p1dt1s", 86_401_000),
        ("PT1.5S", 1500),
        ("PT-1M", -60_000),
        ("PT0S", 0),
        ("90 minutes", 5_400_000),
        ("1 week 2 days", 777_600_000),
    ],
)
def test_durations_of_iso_8601(text: str, milliseconds: int) -> None:
    """Durations are written as for Java's Duration, or as English words with units."""
    assert parse_iso_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "10", "P1H", "P1DT", "PT1X", "P1Y", "P1M", "P99999999999D", "1 month"])
def test_malformed_durations_of_iso_8601(text: str) -> None:
    """Years and months, which Java's Duration lacks, text without a number, and numbers without a unit are refused."""
    with pytest.raises(ValueError, match="PnDTnHnMnS"):
        parse_iso_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.000", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T01:00:00.000+01", 0),
        ("1970-01-01T00:00:00.000-0130", 5_400_000),
        ("1970-01-01T00:01", 60_000),
        ("1970-01-01 00:01:00", 60_000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_datetimes(text: str, milliseconds: int) -> None:
    """A time without a zone is in UTC, and seconds, their fraction and the whole time may be left out."""
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "2026-11", "2026-13-01T00:00:00.000", "10:00", "2026-11-22T25:00:00", "2026-11-22Z", "2026-11-22T10:00.5"]
)
def test_malformed_datetimes(text: str) -> None:
    """Impossible dates and times and incomplete ones are refused."""
    with pytest.raises(ValueError, match="a time such as 2026-01-31T10:00:00Z"):
        parse_datetime_ms(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0", AtTimestamp(0)),
        ("1700000000000", AtTimestamp(1_700_000_000_000)),
        ("2026-01-31T10:00:00Z", AtTimestamp(1_769_853_600_000)),
        ("2026-01-31T11:00:00+01:00", AtTimestamp(1_769_853_600_000)),
        ("2026-01-31", AtTimestamp(1_769_817_600_000)),
        ("10 minutes ago", Ago(600_000)),
        ("1 hour 30 minutes AGO", Ago(5_400_000)),
        ("2 weeks ago", Ago(1_209_600_000)),
        ("30s ago", Ago(30_000)),
        ("0 seconds ago", Ago(0)),
    ],
)
def test_points_in_time(text: str, position: object) -> None:
    """A point in time is given in milliseconds, in ISO 8601 or as a duration before the plan."""
    assert parse_time(text) == position


@pytest.mark.parametrize(
    "text", ["", "-1", "yesterday", "10 minutes", "10 ago", "ago", "1 month ago", "1969-12-31", "9" * 19]
)
def test_malformed_points_in_time(text: str) -> None:
    """A malformed point in time is refused with all valid forms."""
    with pytest.raises(ValueError, match=r"milliseconds since the epoch, a time such as .*, or .10 minutes ago"):
        parse_time(text)
