"""Filters of topics: what they understand, and what they refuse."""

from __future__ import annotations

import pytest

from pyspark_zkafka.protocol.topic_filters import FilterError, matcher, topic_filter


@pytest.mark.parametrize(
    ("regex", "yes", "no"),
    [
        ("orders", ["orders"], ["order", "orders2", "Orders"]),
        ("orders|audit|billing.*", ["orders", "audit", "billing", "billing-eu"], ["auditor", "bill"]),
        ("(?i)orders[.][a-z]+", ["ORDERS.eu", "Orders.EU"], ["orders.1", "orders"]),
        ("(?!__|test).*", ["a__", "atest"], ["__a", "test-1"]),
        (".*(?<!-dlq)", ["orders"], ["orders-dlq"]),
        ("(?P<team>a|b)-(?<kind>x|y)", ["a-x", "b-y"], ["a-", "x-a"]),
        (r"\w+\.\d{3}", ["a.123"], ["a.12", "a.1234", "a-123"]),
        (r"[\w.-]+-v\x31", ["a.b-c-v1"], ["-v1", "a-v2"]),
        (r"a\-b\u002ec", ["a-b.c"], ["a-b-c"]),
        (r"^a$|\Ab\z|c\Z", ["a", "b", "c"], ["aa"]),
        (r"\bab\b.*", ["ab", "ab.c", "ab-c"], ["ab_c", "abc"]),
        ("(a{0}b){2,}", ["bb", "bbb"], ["b", "abab"]),
        ("a{3,3}", ["aaa"], ["aa", "aaaa"]),
        ("[^a-c&]", ["d", "-"], ["b", "dd"]),
        ("", [], ["a"]),
        ("a||b", ["a", "b"], ["ab"]),
        ("x.*y.*z", ["xyz", "x1y2z"], ["xzy"]),
        ("(" * 20 + "a" + ")" * 20, ["a"], ["aa"]),
        ("a|ab|abc|b.|abd+|(?:abe|abf)g", ["a", "ab", "abc", "bx", "abdd", "abeg"], ["abe", "b", "abdc"]),
        ("|".join(["b" * n for n in range(400)] + ["b{401}"]), ["b" * 9, "b" * 255], ["c"]),
    ],
)
def test_matches(regex: str, yes: list[str], no: list[str]) -> None:
    """The whole name must match."""
    topics = topic_filter(regex)
    assert [name for name in [*yes, *no] if topics.matches(name)] == yes


@pytest.mark.parametrize(
    ("regex", "says"),
    [
        ("a)", r"a \) without its \( before character 1"),
        ("(a", r"a \( without its \) before character 2"),
        ("[a", "an end before character 2"),
        ("a\\", "an end"),
        ("*a", "nothing to repeat"),
        ("a{,3}", "nothing to repeat"),
        ("a{3,2}", "a repetition whose most is less than its least"),
        ("a**", "a repetition of a repetition"),
        ("a*+", "a possessive repetition"),
        ("(?>a)", "a group of an unknown kind"),
        ("(?P=a)", "a group of an unknown kind"),
        ("a(?i)b", "a group of an unknown kind"),
        (r"(a)\1", r"\\1, which has no meaning here"),
        (r"\p{Alpha}", r"\\p, which has no meaning here"),
        (r"\x4", "an incomplete number of a character"),
        ("[a-c[d]]", "a class within a class"),
        ("[a-c&&[^b]]", "a class within a class"),
        ("[c-a]", "a range that ends before it begins"),
        (r"[\d-a]", "a range from a class"),
        ("(" * 21 + "a" + ")" * 21, "more than 20 groups in each other"),
        ("(((((a+)+b)+c)+d)+e)+", "it would take too long to match"),
        ("((a{999}b){999}c){999}", "it would take too long to match"),
        ("[a]" * 100_000, "it would take too long to match"),
    ],
)
def test_refused(regex: str, says: str) -> None:
    """What is no regex, what not all members would read alike, and what may take long, is refused, with the reason."""
    with pytest.raises(FilterError, match=says):
        topic_filter(regex)


def test_deep() -> None:
    """The deepest filter that is understood, and one of long alternatives, need no more of the stack than there is."""
    regex, steps = "x", "|".join("b" * n for n in range(1, 12))
    for _ in range(20):
        regex = f"(?:{steps}|{'b' * 11}{regex})"
    assert topic_filter(regex).matches("b" * 220 + "x")
    assert topic_filter("|".join("a" * 5000 + end for end in (".", "[b]", "c"))).matches("a") is False


def test_no_topic() -> None:
    """A text that is too long for a topic's name is none that a filter chooses."""
    assert topic_filter(".*").matches("a" * 255)
    assert not topic_filter(".*").matches("a" * 256)


def test_of_python_alone() -> None:
    """Where only Python is to understand a pattern, its own matcher takes what a filter refuses, and nothing else."""
    matches = matcher(r"(a+)-\1")
    assert (matches("aa-aa"), matches("aa-a")) == (True, False)
    assert matcher("(a+)+[.]")("a" * 100) is False
