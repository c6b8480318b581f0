"""Partitions and offsets that a plan leaves out because of pushed-down filters."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.pushdown import Comparison, Operator, PushedFilters, pushed_filters

OPERATORS: tuple[Operator, ...] = ("=", ">", ">=", "<", "<=")
T3 = TopicPartition("m", 3)


@pytest.mark.parametrize(
    ("operator", "value", "admitted"),
    [
        ("=", 3, True),
        ("=", 2, False),
        ("in", (1, 3), True),
        ("in", (1, 2), False),
        ("in", (), False),
        (">", 2, True),
        (">", 3, False),
        (">=", 3, True),
        (">=", 4, False),
        ("<", 4, True),
        ("<", 3, False),
        ("<=", 3, True),
        ("<=", 2, False),
    ],
)
def test_partitions_are_left_out(operator: Operator, value: Any, admitted: bool) -> None:
    """Each operator on the partition number keeps or leaves out partition 3."""
    assert pushed_filters([Comparison("partition", operator, value)]).admits(T3) is admitted


@pytest.mark.parametrize(
    ("operator", "value", "admitted"),
    [
        ("=", "m", True),
        ("=", "M", False),
        ("in", ("a", "m"), True),
        ("in", ("a",), False),
        (">", "l", True),
        (">", "m", False),
        (">=", "m", True),
        ("<", "m", False),
        ("<=", "m", True),
        ("<=", "l", False),
    ],
)
def test_topics_are_left_out(operator: Operator, value: Any, admitted: bool) -> None:
    """Each operator on the topic's name keeps or leaves out topic m."""
    assert pushed_filters([Comparison("topic", operator, value)]).admits(T3) is admitted


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("column", "value"), [("partition", "2"), ("partition", None), ("partition", Decimal(2)), ("topic", 5), ("topic", None)]
)
def test_what_cannot_be_compared_is_left_to_the_engine(column: str, operator: Operator, value: Any) -> None:
    """A value of another type leaves nothing out, whatever the operator."""
    assert pushed_filters([Comparison(column, operator, value)]).admits(T3)


@pytest.mark.parametrize(("column", "values"), [("partition", (1, None)), ("partition", ("1",)), ("topic", (7, "a"))])
def test_lists_with_strangers_are_left_to_the_engine(column: str, values: tuple[Any, ...]) -> None:
    """A list with a value of another type leaves nothing out."""
    assert pushed_filters([Comparison(column, "in", values)]).admits(T3)


@pytest.mark.parametrize(
    ("comparisons", "expected"),
    [
        ([("=", 50)], (50, 51)),
        ([("in", (50, 40, 60))], (40, 61)),
        ([(">", 50)], (51, 100)),
        ([(">=", 50)], (50, 100)),
        ([("<", 50)], (10, 50)),
        ([("<=", 50)], (10, 51)),
        ([(">=", 20), (">", 30), ("<", 90), ("<=", 79)], (31, 80)),
        ([("=", 5)], (10, 10)),
        ([("=", 100)], (100, 100)),
        ([("<", 5)], (10, 10)),
        ([(">", 500)], (501, 501)),
        ([(">", 60), ("<", 40)], (61, 61)),
        ([("=", 20), ("=", 30)], (30, 30)),
        ([("<", -5)], (10, 10)),
        ([(">", -5)], (10, 100)),
        ([("in", ())], (10, 100)),
        ([("in", (50, None))], (10, 100)),
        ([("=", "50")], (10, 100)),
        ([(">", 50.5)], (10, 100)),
        ([("<", None)], (10, 100)),
    ],
)
def test_offsets_are_cut(comparisons: list[tuple[Operator, Any]], expected: tuple[int, int]) -> None:
    """Filters on the offset cut the range [10, 100), contradictions make it empty, and other types leave it unchanged."""
    pushed = pushed_filters(Comparison("offset", operator, value) for operator, value in comparisons)
    cut = pushed.cut(OffsetRange(T3, 10, 100))
    if expected[0] == expected[1]:
        assert cut.size == 0
        assert cut.until >= cut.start
    else:
        assert cut == OffsetRange(T3, *expected)


def test_all_filters_must_hold() -> None:
    """Filters on several columns are combined, and filters on other columns are ignored."""
    pushed = pushed_filters(
        [
            Comparison("topic", "=", "m"),
            Comparison("partition", ">", 1),
            Comparison("partition", "<", 4),
            Comparison("offset", ">=", 20),
            Comparison("key", "=", b"k"),
            Comparison("timestamp", ">=", datetime(2024, 1, 2, tzinfo=timezone.utc)),
        ]
    )
    admitted = [n for n in range(6) if pushed.admits(TopicPartition("m", n))]
    assert admitted == [2, 3]
    assert not pushed.admits(TopicPartition("x", 3))
    assert pushed.from_offset == 20
    assert pushed.until_offset is None


def test_no_filters_leave_everything() -> None:
    """Without filters, nothing is left out."""
    pushed = pushed_filters([])
    assert pushed == PushedFilters()
    assert pushed.admits(T3)
    for start in (0, 10):
        assert pushed.cut(OffsetRange(T3, start, 100)) == OffsetRange(T3, start, 100)
