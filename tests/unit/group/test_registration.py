"""A member's id, and the content of its registration."""

from __future__ import annotations

import re

import pytest

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.group.registration import consumer_id_of, registration_of
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Assign, Subscribe, SubscribeExcept, SubscribePattern
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration


def test_topics() -> None:
    """Each named topic is registered with the number of threads."""
    found = registration_of(GroupOptions("g", threads=2), Subscribe(("a", "b")))
    assert found == ConsumerRegistration({"a": 2, "b": 2})


def test_filters() -> None:
    """A filter is registered as the JVM consumer normalises it."""
    assert registration_of(GroupOptions("g"), SubscribePattern("a, b")) == ConsumerRegistration({"a|b": 1}, "white_list")
    assert registration_of(GroupOptions("g"), SubscribeExcept("a")) == ConsumerRegistration({"a": 1}, "black_list")


def test_assigned_partitions() -> None:
    """A member cannot name its partitions."""
    with pytest.raises(GroupError, match=r"\[ASSIGN_IN_GROUP\]"):
        registration_of(GroupOptions("g"), Assign((TopicPartition("t", 0),)))


def test_ids() -> None:
    """The id is the one that the options name, else made of the host's name, the time and a random number."""
    assert consumer_id_of(GroupOptions("g", consumer_id="c1")) == "g_c1"
    generated = consumer_id_of(GroupOptions("g"), lambda: 1.5)
    assert re.fullmatch(r"g_.+-1500-[0-9a-f]{1,8}", generated)
