"""Filters of topics against Python's own matcher, which understands more, and takes longer."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_zkafka.protocol.regex_nodes import LONGEST, Text
from pyspark_zkafka.protocol.topic_filters import MAX_COST, FilterError, topic_filter

ATOMS = st.sampled_from(
    [
        r"a",
        r"b",
        r"c",
        r"x",
        r".",
        r"[ab]",
        r"[^a]",
        r"[a-c]",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\.",
        r"[.]",
        r"-",
        r"_",
        r"0",
        r"\b",
        r"\B",
        r"[\d_]",
        r"[]a]",
        r"[^]]",
        r"[a-]",
        r"(?:)",
        r"()",
        r"\x61",
        r"^",
        r"$",
        r"\A",
        r"\Z",
    ]
)
COUNTS = st.sampled_from(["", "", "", "?", "*", "+", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{0}"])
BEHIND = st.sampled_from(["a", "ab", "[ab]", r"\d", ".", "a|b", "$", r"\b"])
NAMES = st.text("abc.-_0Ax", min_size=1, max_size=9)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(st.sampled_from(["(?:", "("]), inner, COUNTS).map(lambda t: f"{t[0]}{t[1]}){t[2]}"),
        st.tuples(st.sampled_from(["(?=", "(?!"]), inner).map(lambda t: f"{t[0]}{t[1]})"),
        st.tuples(st.sampled_from(["(?<=", "(?<!"]), BEHIND).map(lambda t: f"{t[0]}{t[1]})"),
    )


REGEXES = st.recursive(st.one_of(ATOMS, st.tuples(ATOMS, COUNTS).map("".join)), _larger, max_leaves=8)


@given(st.sampled_from(["", "", "(?i)"]), REGEXES, st.lists(NAMES, max_size=6))
@example("", "(ab|a)(bc|c)?", ["abc", "ac", "ab", "abcc"])
@example("", ".*(?<!-test)", ["a-test", "a-tes"])
@example("", "(?!__).*", ["__a", "a__"])
def test_equal(flags: str, regex: str, names: list[str]) -> None:
    """What both understand matches the same names."""
    try:
        expected = re.compile(flags + regex)
        found = topic_filter(flags + regex)
    except (re.error, FilterError):
        return
    assert [found.matches(name) for name in names] == [expected.fullmatch(name) is not None for name in names]


@given(st.text(r"ab\()[]{}|*+?.^$-,:=!<>dwPxi012&", max_size=12))
def test_any_text(text: str) -> None:
    """Any text is a filter, or is refused as one."""
    try:
        found = topic_filter(text)
    except FilterError:
        return
    assert found.node.cost <= MAX_COST
    assert found.matches("ab0") in (True, False)


@given(REGEXES, st.text("ab0", min_size=LONGEST, max_size=LONGEST))
def test_positions(regex: str, text: str) -> None:
    """The longest name, with which a matcher that backtracks might never be done, has ends that are positions of it."""
    try:
        node = topic_filter(regex).node
    except FilterError:
        return
    assert 0 <= node.ends(1, Text(text)) <= Text(text).everywhere
