"""Topics and partitions that operations are given."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import ClusterSnapshot, Topic, TopicPartition
from pyspark_zkafka.tools.topics import parse_scope, require_topics, scope_partitions
from tests.support.cases import each


@pytest.mark.parametrize("topics", [[], ["a"], ["b", "a", "a"]])
def test_topics_that_exist(topics: list[str]) -> None:
    """Topics may be named in any order, and more than once."""
    require_topics(topics, ["a", "b", "c"])


def test_topics_that_do_not_exist() -> None:
    """All topics that do not exist are named, each once and in order, with the command that lists those that do."""
    with pytest.raises(UnknownTopic, match=r"UNKNOWN_TOPIC\] Topics do not exist: x, y; see zkafka topics list$"):
        require_topics(["y", "a", "x", "y"], {"a"})


def test_scope() -> None:
    """Topics stand for all of their partitions; unknown topics and partitions are all named in one error."""
    snapshot = ClusterSnapshot({}, {"t": Topic("t", {0: (1,), 1: (1,)}), "u": Topic("u", {0: (1,)})})
    assert scope_partitions(parse_scope(["t", "t:1", "u:0"]), snapshot) == [
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("u", 0),
    ]
    assert [tp.partition for tp in scope_partitions(parse_scope(["t:0", "t:1"]), snapshot)] == [0, 1]
    with pytest.raises(UnknownTopic, match="no x, u-3;"):
        scope_partitions(parse_scope(["t", "x", "u:3"]), snapshot)


@each("text", ["", ":1", "t:", "t:a", "t:1,", "t:-1", "t:1,-2", "t:1:2"])
def test_malformed_scope(text: str) -> None:
    """A scope is a topic, or a topic and numbers."""
    with pytest.raises(OptionError, match="write TOPIC"):
        parse_scope([text])
