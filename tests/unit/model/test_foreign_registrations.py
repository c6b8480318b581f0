"""Registrations that would block a whole group: too many threads, and regexes that take unbounded time."""

from __future__ import annotations

import json

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.assignors import threads_by_topic, topics_of
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, decode_registration

PATH = "/consumers/g/ids/g_bad"


def encoded(subscription: dict[str, int], pattern: str = "static") -> bytes:
    """Return a registration that any client may write."""
    return json.dumps({"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "0"}).encode()


@pytest.mark.parametrize(
    "data",
    [
        encoded({"t": 2_000_000_000}),
        encoded({"t": 100_001}),
        encoded({f"t{n}": 1001 for n in range(100)}),
        encoded({"t.*": 2_000_000_000}, "white_list"),
        b"*2000000000*t.*",
        b'{ "t": 2000000000 }',
    ],
)
def test_too_many_threads(data: bytes) -> None:
    """A registration with more threads than a consumer can have is unreadable."""
    with pytest.raises(CodecError, match="at most 100000 threads in all"):
        decode_registration(PATH, data)


@pytest.mark.parametrize("data", [encoded({"t": 100_000}), encoded({f"t{n}": 1000 for n in range(100)})])
def test_many_threads(data: bytes) -> None:
    """The largest allowed number of threads is accepted."""
    assert sum(decode_registration(PATH, data).subscription.values()) == 100_000


def test_threads_of_many_topics() -> None:
    """Topics with the same readers share a single list of threads."""
    members = {"g_c1": ConsumerRegistration({"t.*": 50_000}, "white_list"), "g_c2": ConsumerRegistration({"t1": 1})}
    found = threads_by_topic(members, [f"t{n}" for n in range(5000)])
    assert len(found) == 5000
    assert len({id(threads) for threads in found.values()}) == 2
    assert len(found["t0"]) == 50_000
    assert len(found["t1"]) == 50_001


@pytest.mark.parametrize(
    "regex",
    ["(a+)+[.]", "(a|a)*[.]", "(.*)*[.]", "(((((a+)+b?)+c?)+d?)+e?)+[.]", "(a?){60}a{60}[.]", "(.*.*.*.*.*.*.*.*)[.]"],
)
def test_regexes_that_backtrack(regex: str) -> None:
    """A regex that would never end in a backtracking matcher is matched like any other."""
    names = ["a" * 249, "a" * 100 + "."]
    assert topics_of(decode_registration(PATH, encoded({regex: 1}, "white_list")), names) == names[1:]


@pytest.mark.parametrize("regex", ["(a)\\1", "(?>a+)", "((a{999}b){999}c){999}", "(a|" + "b" * 300_000 + ")"])
@pytest.mark.parametrize("pattern", ["white_list", "black_list"])
def test_regexes_that_nobody_can_judge(regex: str, pattern: str) -> None:
    """A regex that takes unbounded time makes a registration unreadable."""
    with pytest.raises(CodecError, match="is a regex that takes a bounded time"):
        decode_registration(PATH, encoded({regex: 1}, pattern))
