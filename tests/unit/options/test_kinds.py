"""Kinds of option values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.planning import requested_topics
from pyspark_zkafka.options.kinds import BOOLEAN, DURATION, PATTERN, RESET_POLICY, Kind, choice, integer, text


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (integer(0), "integer >= 0"),
        (integer(1, "ms"), "integer > 0, ms"),
        (integer(1, "ms", at_most=9), "integer from 1 to 9, ms"),
        (BOOLEAN, "true or false"),
        (choice(on=1, off=0), "on or off"),
        (choice("on", "off", form="on (or off)"), "on (or off)"),
        (text("PEM file"), "PEM file"),
    ],
)
def test_forms(kind: Kind, form: str) -> None:
    """A kind describes the written form of its values."""
    assert kind.form == form


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (integer(1), "+7", 7),
        (integer(1), "9223372036854775807", 2**63 - 1),
        (BOOLEAN, "TRUE", True),
        (DURATION, "15m", 900_000),
        (text(), "a b", "a b"),
        (choice("on", "off"), "OFF", "off"),
        (choice("ON", "off"), "on", "ON"),
        (RESET_POLICY, "Smallest", "earliest"),
        (RESET_POLICY, "error", "error"),
    ],
)
def test_reading(kind: Kind, written: str, value: object) -> None:
    """A kind reads values in its form."""
    assert kind.read("x", written) == value


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        *((integer(1), text, "^a whole number, 1 or more$") for text in ("0", "", "1_000", "1 MiB", "\u0663")),
        (integer(1), "-9223372036854775809", "^a whole number, 1 or more$"),
        (integer(1, at_most=9), "10", "^a whole number from 1 to 9$"),
        (integer(1), "9223372036854775808", "^a whole number from 1 to 9223372036854775807$"),
        (integer(1), "1" + "0" * 30, "^a whole number from 1 to 9223372036854775807$"),
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
    """Empty text is reported with the option's name."""
    with pytest.raises(OptionError, match="x must not be empty; set a value or leave it out"):
        text().read("x", "")


@pytest.mark.parametrize(
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
    """A pattern is a Java pattern, as for Spark's own source, and must match the whole name."""
    subscription = PATTERN.read("subscribePattern", pattern)
    assert set(requested_topics(subscription, ["a", "b", "a.b", "a-b", "aab"])) == selected


@pytest.mark.parametrize(
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
    """An empty pattern, or one that the filter of topics refuses, is refused with the reason."""
    with pytest.raises(ValueError, match=part):
        PATTERN.read("subscribePattern", pattern)
