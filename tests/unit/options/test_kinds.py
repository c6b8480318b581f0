"""Kinds of option values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.planning import requested_topics
from pyspark_zkafka.options.kinds import (
    BOOLEAN,
    DURATION,
    PATTERN,
    RESET_POLICY,
    Kind,
    choice,
    integer,
    parse_duration_ms,
    text,
)
from tests.support.cases import each


@each(
    ("kind", "form"),
    [
        (integer(0), "integer >= 0"),
        (integer(1, "ms"), "integer > 0, ms"),
        (BOOLEAN, "true or false"),
        (choice(on=1, off=0), "on or off"),
        (choice("on", "off", form="on (or off)"), "on (or off)"),
        (text("PEM file"), "PEM file"),
    ],
)
def test_forms(kind: Kind, form: str) -> None:
    """A kind describes the written form of its values."""
    assert kind.form == form


@each(
    ("kind", "written", "value"),
    [
        (integer(1), "+7", 7),
        (BOOLEAN, "TRUE", True),
        (DURATION, "15m", 900_000),
        (text(), "a b", "a b"),
        (choice("on", "off"), "OFF", "off"),
        (RESET_POLICY, "Smallest", "earliest"),
        (RESET_POLICY, "error", "error"),
    ],
)
def test_reading(kind: Kind, written: str, value: object) -> None:
    """A kind reads the values of its form."""
    assert kind.read("x", written) == value


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (integer(1), "0", "^a whole number, 1 or more$"),
        (BOOLEAN, "yes", "^true or false$"),
        (RESET_POLICY, "none", r"^earliest \(smallest\), latest \(largest\) or error$"),
        (DURATION, "soon", "^a duration such as"),
    ],
)
def test_expectations(kind: Kind, written: str, expected: str) -> None:
    """A malformed value is refused with the expected form."""
    with pytest.raises(ValueError, match=expected):
        kind.read("x", written)


def test_empty_text() -> None:
    """Empty text is reported by the option's name."""
    with pytest.raises(OptionError, match="x must not be empty; set a value or leave it out"):
        text().read("x", "")


@each(
    ("pattern", "selected"),
    [
        (r"\Qa.b\E|c", {"a.b"}),
        (r"(?<first>a)[._-]b", {"a.b", "a-b"}),
        (r"a.b\z", {"a.b", "a-b", "aab"}),
        ("[a-z&&[^b]]+", {"a"}),
        ("[a-b[.]]+", {"a", "b", "a.b", "aab"}),
        (r"\p{Lower}", {"a", "b"}),
        ("^(?!a).*$", {"b"}),
        ("(?!a).*|a-b", {"b", "a-b"}),
    ],
)
def test_java_patterns(pattern: str, selected: set[str]) -> None:
    """A pattern is one of Java's, as Spark's own source takes it, and must match the whole name."""
    subscription = PATTERN.read("subscribePattern", pattern)
    assert set(requested_topics(subscription, ["a", "b", "a.b", "a-b", "aab"])) == selected


@each(
    ("pattern", "part"),
    [
        (
            r"(a)-\1",
            "a Java regular expression that matches in bounded time .a reference to a group, at character 4",
        ),
        ("", "that is not empty"),
    ],
)
def test_patterns_that_are_refused(pattern: str, part: str) -> None:
    """A pattern that is empty, or that the filter of topics refuses, is refused for the filter's reason."""
    with pytest.raises(ValueError, match=part):
        PATTERN.read("subscribePattern", pattern)


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
