"""Names of topics in options: a name that Kafka does not allow is a problem of the option that contains it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream

ZK = {"zookeeper.connect": "zk:2181"}
GROUP = {**ZK, "group.id": "g"}
NAMES = ["orders\0archive", "x" * 600, "a/b", "..", "bl\u00e4tter", "two words"]


def by_partition(name: str, number: int) -> str:
    return json.dumps({name: {"0": number}})


def subscribed(name: str) -> dict[str, str]:
    return {**ZK, "subscribe": f"orders,{name}"}


READS: dict[str, Callable[[str], dict[str, str]]] = {
    "subscribe": subscribed,
    "assign": lambda name: {**ZK, "assign": json.dumps({name: [0]})},
    "startingOffsets": lambda name: {**subscribed("t"), "startingOffsets": by_partition(name, 5)},
    "startingOffsetsByTimestamp": lambda name: {**subscribed("t"), "startingOffsetsByTimestamp": by_partition(name, 5)},
}
ENDS: dict[str, Callable[[str], dict[str, str]]] = {
    "endingOffsets": lambda name: {**subscribed("t"), "endingOffsets": json.dumps({name: "latest"})},
    "endingOffsetsByTimestamp": lambda name: {**subscribed("t"), "endingOffsetsByTimestamp": by_partition(name, 5)},
}
WRITES: dict[str, Callable[[str], dict[str, str]]] = {
    "topic": lambda name: {**ZK, "topic": name},
    "commitOffsets": lambda name: {**GROUP, "topic": "t", "commitOffsets": by_partition(name, 5)},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("parse", "option", "options"),
    [
        *((parse_read, option, given) for option, given in {**READS, **ENDS}.items()),
        *((parse_stream, option, given) for option, given in READS.items()),
        *((parse_write, option, given) for option, given in WRITES.items()),
        (parse_read, "subscribe", lambda name: {**subscribed(name), "view": "partitions"}),
    ],
)
def test_names_that_kafka_does_not_allow(
    parse: Callable[[dict[str, str]], Any], option: str, options: Callable[[str], dict[str, str]], name: str
) -> None:
    """The error has the option, the name in quotes, escaped and shortened, and the characters that Kafka allows."""
    with pytest.raises(OptionError) as caught:
        parse(options(name))
    assert f"{option} names the topic {name[:60]!r}" in str(caught.value)
    assert "Kafka allows 1 to 255 of the characters a-z, A-Z, 0-9, '.', '_' and '-'" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_all_bad_names_are_in_one_error() -> None:
    """One problem reports all bad names of a list."""
    with pytest.raises(OptionError, match=r"1 problem.*the topics 'a/b' and 'c d'"):
        parse_read({**ZK, "subscribe": "a/b,orders,c d"})


@pytest.mark.parametrize("name", ["a" * 255, "A.b_c-9", "...", "__consumer_offsets"])
def test_names_that_kafka_allows(name: str) -> None:
    """Names that Kafka allows are accepted unchanged."""
    assert parse_write({**ZK, "topic": name}).topic == name


@pytest.mark.parametrize("name", [*NAMES, "", "a,b", " orders"])
def test_topics_of_a_consumer_group(name: str) -> None:
    """A ConsumerGroup neither splits a topic's name at a comma nor removes blanks from it."""
    with pytest.raises(OptionError, match=r"subscribe names the topic '"):
        ConsumerGroup("zk:2181", "g", subscribe=["orders", name])
