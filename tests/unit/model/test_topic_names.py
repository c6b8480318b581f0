"""Names of topics, and filters on them."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.model import topic_names
from pyspark_zkafka.model.topic_names import (
    MAX_PATTERN_CHARS,
    RULE,
    FilterError,
    describe_bad_names,
    is_topic_name,
    require_topic_name,
    shown_name,
    topic_filter,
)


@pytest.fixture(autouse=True)
def _no_kept_filters() -> None:
    """Forget translated filters, which mutmut's processes inherit, so that each test translates its own filters."""
    topic_names._kept.cache_clear()


@pytest.mark.parametrize("name", ["a", "0", "A.b_c-9", "...", "-", "__consumer_offsets", "x" * 249, "x" * 255])
def test_names_that_kafka_allows(name: str) -> None:
    """Up to 255 letters, digits, dots, underscores and hyphens are allowed, as in Kafka before 0.10."""
    assert is_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 256, "a b", "a/b", "a\0b", "a,b", "a\n", "\u00e4", "\u0663", "\ud800", "a:b"]
)
def test_names_that_kafka_refuses(name: str) -> None:
    """Other characters and the names '.' and '..' are refused."""
    assert not is_topic_name(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\0b", r"'a\x00b'"),
        ("\udcff\ud800", r"'\udcff\ud800'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 60}'... (61 characters)"),
    ],
)
def test_shown(name: str, shown: str) -> None:
    """A name is shown in quotes and escaped, and a long name is shortened and shown with its length."""
    assert shown_name(name) == shown


def test_description() -> None:
    """Only invalid names are described, at most five."""
    assert describe_bad_names("subscribe", ["a", "b"]) is None
    assert describe_bad_names("subscribe", ["a", "."]) == f"subscribe names the topic '.'; {RULE}. Correct it"
    many = describe_bad_names("subscribe", [f"{n}/" for n in range(7)])
    assert many == f"subscribe names the topics '0/', '1/', '2/', '3/', '4/' and 2 more; {RULE}. Correct it"
    five = describe_bad_names("subscribe", [f"{n}/" for n in range(5)])
    assert five == f"subscribe names the topics '0/', '1/', '2/', '3/' and '4/'; {RULE}. Correct it"


def test_a_required_name() -> None:
    """The error for an invalid name shows the name and the rule."""
    require_topic_name("a")
    with pytest.raises(InvalidRow) as caught:
        require_topic_name("a/b")
    assert caught.value.message == f"The name 'a/b' is not valid for a topic; {RULE}. Correct the name"


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
        (r"[]a]+|[^]b]", ["aa", "c"], ["b"]),
        (r"a\-b[.]c", ["a-b.c"], ["a-b-c"]),
        (r"^a$|\Ab\z", ["a", "b"], ["aa"]),
        (r"((?!test).)*", ["orders", "tes"], ["test", "my-test-1"]),
        (r"^(?:(?!-dlq|test).)+$", ["orders"], ["orders-dlq", "a-test"]),
        (r"((?!s\b$|^x).)*", ["s.a", "ax"], ["orders", "x"]),
        (r"(?=a)(?:.*-x|.*-y)(?<!b-x)", ["a-x", "ab-y"], ["ab-x", "b-y"]),
        (r"\Qa.b\E[.]c", ["a.b.c"], ["axb.c"]),
        (r"\bab\b.*", ["ab", "ab.c", "ab-c"], ["ab_c", "abc"]),
        ("(a{0}b){2,}", ["bb", "bbb"], ["b", "abab"]),
        ("a{3,3}", ["aaa"], ["aa", "aaaa"]),
        ("[^a-c&]", ["d", "-"], ["b", "dd"]),
        ("", [], ["a"]),
        ("a||b", ["a", "b"], ["ab"]),
        ("a.+|b.+|c", ["ax", "bx", "c"], ["a", "b", "cx"]),
        ("[a|b|c]d", ["ad", "bd", "cd"], ["a", "b", "d"]),
        (r"a\|b|c", ["c"], ["a", "b"]),
        ("x.*y.*z", ["xyz", "x1y2z"], ["xzy"]),
        ("(" * 20 + "a" + ")" * 20, ["a"], ["aa"]),
        ("[a-c[x]]", ["a", "x"], ["d"]),
        ("[a-c&&[^b]]", ["a", "c"], ["b", "d"]),
        ("[^a-c&&[^b]]", ["b", "d"], ["a", "c"]),
        ("(?!a)b.*|a.c", ["b", "bc", "a.c"], ["ab"]),
        ("^(?!__)(?!test).*(?<!-dlq)$", ["orders"], ["__x", "test-1", "orders-dlq"]),
        ("(?i)[^a]b(?-i)c", ["xbc", "XBc"], ["abc", "Abc", "xbC"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"\p{Alpha}\h*\x2e\u0061\0142", ["x.ab"], ["x-ab"]),
        ("a|ab|abc|b.|abd+|(?:abe|abf)g", ["a", "ab", "abc", "bx", "abdd", "abeg"], ["abe", "b", "abdc"]),
        ("|".join(["b" * n for n in range(400)] + ["b{401}"]), ["b" * 9, "b" * 255], ["c"]),
    ],
)
def test_matches(regex: str, yes: list[str], no: list[str]) -> None:
    """A regex must match the whole name."""
    assert topic_filter(regex).select([*yes, *no]) == set(yes)


@pytest.mark.parametrize(
    ("regex", "says"),
    [
        ("a)", r"a \) without its \(, at character 1"),
        ("(a", r"a \( without its \), at character 0"),
        ("(?!a", r"a \( without its \), at character 0"),
        ("(?!\\).*", r"a \( without its \), at character 0"),
        ("[a", r"a \[ without its \], at character 0"),
        ("[", r"a \[ without its \], at character 0"),
        ("orders-[0-9]{1|2}", r"a \{ that begins no repetition, at character 12"),
        *(
            (f"((?!{part}).)*", "a part to leave out that can match no characters")
            for part in ("a$|", r"\b$", r"\B", "a?$")
        ),
        ("a\\", r"a \\ at the end"),
        ("*a", r"a \* that repeats nothing, at character 0"),
        ("a{,3}", r"a \{ that begins no repetition, at character 1"),
        ("a**", "a repetition of a repetition, at character 0"),
        ("a*+", "a possessive repetition, at character 0"),
        ("(?>a)", "an atomic group, at character 0"),
        ("a(?!b)c", "a lookahead that is not at the start, at character 1"),
        ("x|(a(?<!b))", "a lookbehind that is not at the end, at character 4"),
        (".*(?<=a)b", "a lookbehind that is not at the end, at character 2"),
        (".*(?<!a+)", "a lookbehind of any length, at character 6"),
        ("(?!a)?b", "a repeated lookaround, at character 0"),
        (r"(a)\1", "a reference to a group, at character 3"),
        (r"(?<x>a)\k<x>", "a reference to a group, at character 7"),
        ("[a-c&&]", "an intersection of classes without one of its sides"),
        ("[c-a]", "a range of characters without an end, at character 1"),
        ("(?x)a", "the flag x, at character 0"),
        ("(?y)a", "an unknown flag y, at character 0"),
        ("(?#a)", "an unknown kind of group, at character 0"),
        (r"\y", r"an unknown escape \\y, at character 0"),
        (r"\p{InGreek}", r"an unknown class \\p\{InGreek\}, at character 0"),
        ("a{1001}", "a repetition of more than 1000 times, at character 1"),
        (r"\p{Nothing}", r"an unknown class \\p\{Nothing\}, at character 0"),
        ("((a{999}b){999}c){999}", "repetitions of more than 2000 parts in all, at character 1"),
        ("(?:a|b|c|[a-z]){0,1000}" * 300, "repetitions of more than 2000 parts in all, at character 0"),
        ("(" * 101 + ")" * 101, "more than 100 groups or classes within each other"),
        ("[" * 101 + "a", "more than 100 groups or classes within each other"),
        ("[a]" * 10_000, "30000 characters, of which no more than 10000"),
    ],
)
def test_regexes_that_are_refused(regex: str, says: str) -> None:
    """A malformed, ambiguous or slow regex is refused with the reason."""
    with pytest.raises(FilterError, match=says):
        topic_filter(regex)


def test_many_names() -> None:
    """A list of plain names may be as long as a znode, since it needs no pattern."""
    names = [f"topic-{n}" for n in range(20_000)]
    found = topic_filter("|".join(names))
    assert found.select(["topic-7", "topic-x"]) == {"topic-7"}
    assert not found.alternatives


def test_the_longest_pattern() -> None:
    """A pattern may have 10,000 characters, in addition to plain names."""
    longest = "[a-z]+|" * 1428 + "b.+1"
    assert len(longest) == MAX_PATTERN_CHARS
    assert topic_filter(longest).select(["a", "b-1", "c-1"]) == {"a", "b-1"}
    with pytest.raises(FilterError, match="10001 characters, of which no more than 10000 are allowed"):
        topic_filter(f"{longest}.")
