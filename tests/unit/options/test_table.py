"""The table of options, compared with the parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.kinds import INT32
from pyspark_zkafka.options.option import STREAM, Option, Rule, Scope
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import BY_NAME, TABLE, is_connection_option
from pyspark_zkafka.options.values import options_of_fields
from tests.support.numeric_limits import LIMITS
from tests.support.option_examples import EXAMPLES, completed, example
from tests.support.option_problems import problems

PARSERS: dict[Scope, Callable[[dict[str, str]], object]] = {
    "read": parse_read,
    "stream": parse_stream,
    "write": parse_write,
}


@pytest.mark.parametrize("option", [o for o in TABLE if o.name != "kafka.*"])
def test_scopes(option: Option) -> None:
    """Each option is accepted in its scopes and refused in others, except that a batch ignores the options of streams."""
    for scope, parse in PARSERS.items():
        given = example(option, scope)
        if scope in option.scopes or (scope == "read" and option.scopes == STREAM):
            parse(given)
        else:
            refusal = f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {scope}"
            assert refusal in problems(parse, given)


def values_by_option(found: Any, column: str = "") -> dict[str, object]:
    """Return the values of the fields, at any depth, that are annotated with an option, by the option's name."""
    column = getattr(found, "column", column)
    values = {name.format(column=column): getattr(found, field) for field, name in options_of_fields(type(found)).items()}
    for field in fields(found):
        value = getattr(found, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            values |= values_by_option(part) if is_dataclass(part) else {}
    return values


@pytest.mark.parametrize("option", [o for o in TABLE if o.name != "kafka.*"])
def test_fields(option: Option) -> None:
    """A field that is annotated with an option has the value that the option's row reads."""
    for scope in option.scopes:
        found = values_by_option(PARSERS[scope](example(option, scope)))
        if option.name in found:
            assert found[option.name] == option.kind.read(option.name, EXAMPLES[option.name])


@pytest.mark.parametrize(("option", "rule"), [(option, rule) for option in TABLE for rule in option.rules])
def test_rules(option: Option, rule: Rule) -> None:
    """An option is refused if an option that it needs is missing, or if an option that it excludes is set."""
    scope = next(scope for scope in option.scopes if scope in BY_NAME[rule.names[0].lower()].scopes)
    given = example(option, scope)
    if rule.when:
        given = completed({**given, option.name: rule.when[0]})
    if rule.excludes:
        given[rule.names[0]] = rule.values[0] if rule.values else EXAMPLES[rule.names[0]]
    else:
        given = {name: value for name, value in given.items() if name not in rule.names}
    expected = f"{option.name}{'=' * bool(rule.when)}{''.join(rule.when[:1])} {rule.problem.partition('{found}')[0]}"
    assert any(problem.startswith(expected) for problem in problems(PARSERS[scope], given))


@pytest.mark.parametrize("name", LIMITS)
def test_numeric_limits(name: str) -> None:
    """A numeric option accepts its limits, and names them in the error for the next number beyond each."""
    option = BY_NAME[name.lower()]
    least, most = LIMITS[name]
    longest = most if not option.kind.form.endswith(" ms") else min(most, INT32)  # longer waits would overflow
    assert [option.kind.read(name, str(value)) for value in (least, most)] == [least, longest]
    with pytest.raises(ValueError, match=f"^a whole number, {least} or more$"):
        option.kind.read(name, str(least - 1))
    for value in (most + 1, 10**40):
        with pytest.raises(ValueError, match=f"^a whole number from {least} to {most}$"):
            option.kind.read(name, str(value))


def test_all_numeric_options_have_limits() -> None:
    """The table of limits has each option whose value is a number."""
    assert {option.name for option in TABLE if "integer" in option.kind.form} == LIMITS.keys()


def test_example_values() -> None:
    """Each option of the table has an example value."""
    assert set(EXAMPLES) == {option.name for option in TABLE}


def test_names_are_unique() -> None:
    """Names are unique regardless of case, and each option is documented in sentences."""
    assert len(BY_NAME) == len(TABLE)
    assert all(option.doc.endswith(".") or option.doc.endswith(")") for option in TABLE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ZooKeeper.Connect", True),
        ("listener.name", True),
        ("kafka.bootstrap.servers", True),
        ("Kafka.Ssl.Truststore.Location", True),
        ("kafka.fetch.min.bytes", False),
        ("group.id", False),
        ("no.such", False),
    ],
)
def test_connection_options(name: str, expected: bool) -> None:
    """Connection options include the client properties of sockets, TLS and SASL, in any case."""
    assert is_connection_option(name) is expected


def test_documented_redaction() -> None:
    """Spark's redaction, as docs/security.md sets it, masks each option that may hold a secret."""
    security = Path(__file__).parents[3] / "docs" / "security.md"
    documented = re.search(r"spark\.redaction\.regex=([^']*)'", security.read_text(encoding="utf-8"))
    assert documented is not None
    secrets = [option.name for option in TABLE if option.secret]
    secrets += [f"kafka.{row.name}" for row in PROPERTIES if is_secret(f"kafka.{row.name}")]
    assert len(secrets) > 10
    assert [name for name in secrets if not re.search(documented[1], name)] == []
