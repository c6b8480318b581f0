"""Topics and threads of a group's members, in Java's order of strings."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.model.assignors import java_hash, java_order, threads_by_topic, topics_of
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, Pattern, decode_registration

NAMES = ["__consumer_offsets", "__transaction_state", "orders", "orders-eu", "peer.w1", "peerXw1"]


@pytest.mark.parametrize(
    ("pattern", "subscribed", "expected"),
    [
        ("static", ["orders", "absent", "__consumer_offsets"], ["__consumer_offsets", "absent", "orders"]),
        ("static", ["orders.*"], ["orders.*"]),
        ("static", [], []),
        ("white_list", ["orders"], ["orders"]),
        ("white_list", ["orders|orders-eu"], ["orders", "orders-eu"]),
        ("white_list", [' "orders , peer.*" '], ["orders", "peer.w1", "peerXw1"]),
        ("white_list", [".*"], ["orders", "orders-eu", "peer.w1", "peerXw1"]),
        ("white_list", ["__consumer_offsets"], []),
        ("white_list", [r"peer\.w.*"], ["peer.w1"]),
        ("white_list", ["peer[.]w.*"], ["peer.w1"]),
        ("white_list", [], []),
        ("black_list", ["orders"], ["orders-eu", "peer.w1", "peerXw1"]),
        ("black_list", ["nothing"], ["orders", "orders-eu", "peer.w1", "peerXw1"]),
        ("black_list", [".*"], []),
        ("black_list", [], []),
    ],
)
def test_topics_of(pattern: Pattern, subscribed: list[str], expected: list[str]) -> None:
    """Named topics count even if they do not exist; a filter selects existing ones by whole name, except internal ones."""
    assert topics_of(ConsumerRegistration(dict.fromkeys(subscribed, 1), pattern), iter([*NAMES, *NAMES])) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        # 0.8.2.2 to 1.0.0 escape once. 1.0.1 to 1.1.1 escape twice, which matches names with a backslash, but no topic has
        # one.
        (rb'{"version":1,"subscription":{"peer\\.w.*":1},"pattern":"white_list","timestamp":"0"}', ["peer.w1"]),
        (rb'{"version":1,"subscription":{"peer\\\\.w.*":1},"pattern":"white_list","timestamp":"0"}', []),
    ],
)
def test_a_regex_that_was_escaped_twice_matches_nothing(stored: bytes, expected: list[str]) -> None:
    """A filter stored by Kafka 1.0.1 to 1.1.1 is read as those consumers read it."""
    assert topics_of(decode_registration("/consumers/g/ids/c", stored), NAMES) == expected


def test_a_filter_that_is_no_regex_once_normalised() -> None:
    """A filter that is no regex after commas became alternatives is an error that shows the resulting regex."""
    with pytest.raises(GroupError, match=r"\[BAD_FILTER\] .* found '\[\|-a\]'\. ") as caught:
        topics_of(ConsumerRegistration({"[,-a]": 1}, "black_list"), NAMES)
    assert caught.value.parameters == {"regex": "[,-a]"}


def test_threads_by_topic() -> None:
    """Static and filtering members mix, each with its own number of threads, and thread 10 comes before thread 2."""
    members = {
        "g_c2": ConsumerRegistration({"orders.*": 1}, "white_list"),
        "g_c1": ConsumerRegistration({"orders": 11, "absent": 1}),
    }
    assert threads_by_topic(members, iter(NAMES)) == {
        "absent": ("g_c1-0",),
        "orders": ("g_c1-0", "g_c1-1", "g_c1-10", *(f"g_c1-{n}" for n in range(2, 10)), "g_c2-0"),
        "orders-eu": ("g_c2-0",),
    }


@pytest.mark.parametrize(("excluded", "topics"), [({"orders"}, [*NAMES[:2], *NAMES[3:]]), ((), NAMES)])
def test_excluded_topics(excluded: Collection[str], topics: list[str]) -> None:
    """A filter selects no excluded topic, and without exclusions also internal topics."""
    members = {"g_c": ConsumerRegistration({".*": 1}, "white_list")}
    assert threads_by_topic(members, NAMES, excluded) == dict.fromkeys(topics, ("g_c-0",))


def test_threads_come_in_the_order_of_utf_16() -> None:
    """Threads are sorted by UTF-16 code units as in Java, so a character above U+FFFF precedes U+FF5E."""
    members = {name: ConsumerRegistration({"orders": 1}) for name in ("c\uff5e", "c\U0001f600", "c")}
    assert threads_by_topic(members, []) == {"orders": ("c-0", "c\U0001f600-0", "c\uff5e-0")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("orders-0", 1234322248),
        ("[orders,0]", -1093576615),
        ("polygenelubricants", -(2**31)),
        ("\u00e4-1", 220552),
        ("\U0001f600-0", 1703757382),
        ("\ud83d", 55357),
        ("BB-0", 2031075),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    """Hashes equal those of String.hashCode in Java 17."""
    assert java_hash(text) == expected


def test_java_order() -> None:
    """Strings are ordered as in Java 17."""
    ordered = ["B", "a", "a\U0001f600", "a\uff5e", "c1-1", "c1-10", "c1-2"]
    assert sorted(reversed(ordered), key=java_order) == ordered
