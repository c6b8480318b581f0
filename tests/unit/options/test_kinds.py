"""Kinds of option values, and the rows that use them."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.kinds import BOOLEAN, DURATION, Choice, Integer, Kind, Text
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import TABLE, Derived, Option


@pytest.mark.parametrize(
    ("kind", "takes"),
    [
        (Integer(0), "integer >= 0"),
        (Integer(1, "ms"), "integer > 0, ms"),
        (BOOLEAN, "true or false"),
        (Choice({"on": 1, "off": 0}, "on (or off)"), "on (or off)"),
        (Text("PEM file"), "PEM file"),
    ],
)
def test_what_a_kind_takes(kind: Kind, takes: str) -> None:
    """A kind says how its values are written."""
    assert kind.takes == takes


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(Integer(1), "+7", 7), (BOOLEAN, "TRUE", True), (DURATION, "15m", 900_000), (Text(), "a b", "a b")],
)
def test_reading(kind: Kind, text: str, value: object) -> None:
    """A kind reads what is written as it says."""
    assert kind.read("x", text) == value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Integer(1), "0", "^a whole number, 1 or more$"),
        (BOOLEAN, "yes", "^true or false$"),
        (DURATION, "soon", "^a duration such as"),
    ],
)
def test_expectations(kind: Kind, text: str, expected: str) -> None:
    """A kind says what it expects of a text that it cannot read."""
    with pytest.raises(ValueError, match=expected):
        kind.read("x", text)


def test_empty_text() -> None:
    """Text that may not be empty is reported by the option's name."""
    with pytest.raises(OptionError, match="x must not be empty; set a value or leave it out"):
        Text().read("x", "")


@pytest.mark.parametrize("option", [o for o in TABLE if isinstance(o.default, str)], ids=lambda o: o.name)
def test_a_default_is_a_value_that_a_user_could_give(option: Option) -> None:
    """The parser returns the same for an option that was not given as for its default in so many words."""
    scope = option.scopes[0]
    given, silent = OptionParser({option.name: str(option.default)}, scope), OptionParser({}, scope)
    assert given.value(option.name) == silent.value(option.name) == option.default_value()
    assert given.problems == silent.problems == []


@pytest.mark.parametrize("option", [o for o in TABLE if isinstance(o.default, Derived)], ids=lambda o: o.name)
def test_a_derived_default_is_the_caller_s(option: Option) -> None:
    """Where the table has only words for a default, the parser returns the one that it is called with."""
    assert OptionParser({}, option.scopes[0]).value(option.name, "worked out") == "worked out"


def test_secret_values_are_not_quoted() -> None:
    """A problem with the value of a secret option leaves the value out."""
    parser = OptionParser({"zookeeper.auth": "open-sesame"}, "read")
    assert parser.value("zookeeper.auth") is None
    [problem] = parser.problems
    assert problem.startswith("zookeeper.auth is malformed; expected digest:user:password")
    assert "open-sesame" not in problem
