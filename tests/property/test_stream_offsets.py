"""Offsets of streams: reading returns what was written, and equal offsets have equal text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.checkpoint import PlannedRange, StreamOffset, TopicIdentity
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name

NUMBER = st.integers(0, 2**63 - 1)
NAME = st.text("abcXYZ019._-", min_size=1, max_size=5).filter(is_topic_name)
TOPIC_ID = st.none() | st.text(max_size=22)


@st.composite
def spans(draw: st.DrawFn) -> PlannedRange:
    """Draw a half-open range, with or without a committed offset."""
    start, until = sorted((draw(NUMBER), draw(NUMBER)))
    committed = draw(st.none() | st.just(start) | NUMBER)
    if committed is None:
        return PlannedRange(start, until)
    return PlannedRange(start, until, committed, draw(st.none() | NUMBER), draw(st.none() | NUMBER))


MARKS = st.builds(TopicIdentity, TOPIC_ID, st.none() | NUMBER, st.integers(0, 2**31 - 1))
OFFSETS = st.builds(
    StreamOffset,
    st.dictionaries(st.builds(TopicPartition, NAME, st.integers(0, 2**31 - 1)), spans(), max_size=8),
    st.dictionaries(NAME, MARKS, max_size=4),
)


def told(offset: StreamOffset) -> StreamOffset:
    """Return the offset with an unknown identity for each topic that has none, as in the text."""
    return replace(offset, topics={**{tp.topic: TopicIdentity() for tp in offset.ranges}, **offset.topics})


@given(OFFSETS)
def test_round_trip(offset: StreamOffset) -> None:
    """Reading the text returns the offset, and writing it again gives the same text."""
    text = json.dumps(offset.to_json())
    found = StreamOffset.from_json(json.loads(text))
    assert found == told(offset)
    assert json.dumps(found.to_json()) == text


@given(OFFSETS, st.randoms())
def test_equal_offsets_give_equal_text(offset: StreamOffset, random: Any) -> None:
    """The order of insertion of partitions and topics does not change the text."""
    spans, topics = list(offset.ranges.items()), list(offset.topics.items())
    random.shuffle(spans)
    random.shuffle(topics)
    assert json.dumps(StreamOffset(dict(spans), dict(topics)).to_json()) == json.dumps(offset.to_json())


@given(OFFSETS, OFFSETS)
def test_other_offsets_give_other_text(one: StreamOffset, other: StreamOffset) -> None:
    """Different offsets have different texts."""
    assert (json.dumps(one.to_json()) == json.dumps(other.to_json())) is (told(one) == told(other))
