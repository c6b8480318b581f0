"""Topic filters compared with Python's own matcher."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_zkafka.model.topic_names import topic_filter

ATOMS = st.sampled_from(
    ["a", "b", "x", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\D", r"\w", r"\W", r"\.", "[.]", "-", "_", "0", r"[\d_]", "[]a]"]
)
COUNTS = st.sampled_from(["", "", "?", "*", "+", "*?", "+?", "{2}", "{0,2}", "{1,}"])
NAMES = st.text("abc.-_0Ax", min_size=1, max_size=9)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(st.sampled_from(["(?:", "("]), inner, COUNTS).map(lambda t: f"{t[0]}{t[1]}){t[2]}"),
    )


PATTERNS = st.recursive(st.tuples(ATOMS, COUNTS).map("".join), _larger, max_leaves=6)
AHEAD = st.sampled_from(["", "", "(?!a)", "(?=[ab])", "(?!a|b-)", "(?!.*x)"])
BEHIND = st.sampled_from(["", "", "(?<!a)", "(?<=[ab])", "(?<!-x)"])


@given(AHEAD, PATTERNS, BEHIND, st.lists(NAMES, max_size=8))
@example("(?!a)", "(?:b|a)+", "(?<!b)", ["ba", "ab"])
def test_like_python(ahead: str, pattern: str, behind: str, names: list[str]) -> None:
    """A filter selects the names that Python's matcher matches completely."""
    regex = f"{ahead}(?:{pattern}){behind}"
    assert topic_filter(regex).select(names) == {name for name in names if re.fullmatch(regex, name)}


@given(PATTERNS, st.lists(NAMES, max_size=8))
def test_alternatives(pattern: str, names: list[str]) -> None:
    """A regex with alternatives, including plain names, selects the same names as Python's matcher."""
    regex = f"abc|{pattern}|x-0"
    assert topic_filter(regex).select(["abc", *names]) == {n for n in ["abc", *names] if re.fullmatch(regex, n)}
