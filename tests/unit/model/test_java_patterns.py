"""Java's patterns, as RE2 matches their translation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_zkafka.model.topic_names import FilterError, topic_filter

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "java_patterns.json").read_text(encoding="utf-8"))
NOT_SUPPORTED = {"[&&&a]", "[a&&]", "{2}", "((?!a$|).)*"}


@pytest.mark.parametrize(("pattern", "expected"), [row for row in VECTORS["patterns"] if row[0] not in NOT_SUPPORTED])
def test_like_java(pattern: str, expected: list[str] | None) -> None:
    """A pattern matches the names that Java's Pattern matches, and is refused if Java refuses it."""
    if expected is None:
        with pytest.raises(FilterError):
            topic_filter(pattern)
    else:
        assert topic_filter(pattern).select(VECTORS["names"]) == set(expected)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"), [("o{01}rders", "orders", True), ("o{002,010}", "oo", True), ("o{10}", "o{10}", False)]
)
def test_leading_zeros(pattern: str, name: str, matches: bool) -> None:
    """A count may have leading zeros as in Java, although RE2 would read it as literal text."""
    assert bool(topic_filter(pattern).select([name])) is matches


@pytest.mark.parametrize("pattern", [r"\p{}", r"\P{}", r"\p", r"[\p{}]"])
def test_a_class_without_a_name(pattern: str) -> None:
    """A class without a name is a malformed pattern."""
    with pytest.raises(FilterError, match="an unknown class"):
        topic_filter(pattern)
