"""Offsets of a stream as its checkpoint stores them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.checkpoint import LeftOffset, StreamOffset, TopicIdentity, first_identity, identity_after
from pyspark_zkafka.model.checkpoint import PlannedRange as Range
from pyspark_zkafka.model.nouns import OffsetStore, Topic, TopicPartition

A0, A2, A10, B0 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0)
OFFSET = StreamOffset(
    {B0: Range(7, 7, 3), A10: Range(10, 25), A2: Range(0, 2**62, 0), A0: Range(5, 9, 4)},
    {"b": TopicIdentity("Lq4", None, 1), "a": TopicIdentity("xYz", 77, 11), "c": TopicIdentity()},
)
TEXT = (
    '{"version": 1, "topics": {'
    '"a": {"czxid": 77, "id": "xYz", "known": 11, "partitions": '
    '{"0": [5, 9, 4], "2": [0, 4611686018427387904, 0], "10": [10, 25]}}, '
    '"b": {"id": "Lq4", "known": 1, "partitions": {"0": [7, 7, 3]}}, '
    '"c": {"known": 0, "partitions": {}}}}'
)  # fmt: skip


def valid(**changes: Any) -> dict[str, Any]:
    """Return an offset of one topic, with some of the topic's fields changed."""
    return {"version": 1, "topics": {"a": {"czxid": 7, "id": "i", "known": 1, "partitions": {"0": [1, 5]}, **changes}}}


def test_text() -> None:
    """The text has a version, topics by name, partitions by number, and committed offsets if known."""
    assert json.dumps(OFFSET.to_json()) == TEXT
    assert StreamOffset.from_json(json.loads(TEXT)) == OFFSET


def test_stores() -> None:
    """The text has the group's stores, and what the query has left in other stores."""
    left = LeftOffset("kafka", 3, None, (5,)), LeftOffset("zookeeper", None, 9, (0, 7))
    ranges = {A0: Range(5, 9, 4, 7, None, left[:1]), A2: Range(0, 1, elsewhere=left), A10: Range(1, 2)}
    offset = StreamOffset(ranges, {}, frozenset({"zookeeper", "kafka"}))
    found = offset.to_json()
    assert found["stores"] == ["kafka", "zookeeper"]
    assert found["topics"]["a"]["left"] == {"kafka": {"0": [3, -1, 5], "2": [3, -1, 5]}, "zookeeper": {"2": [-1, 9, 0, 7]}}
    assert StreamOffset.from_json(json.loads(json.dumps(found))).ranges == ranges
    assert json.dumps(StreamOffset.from_json(found).to_json()) == json.dumps(found)
    never = StreamOffset(stores=frozenset())
    assert never.to_json() == {"version": 1, "stores": [], "topics": {}}
    assert StreamOffset.from_json(never.to_json()) == never != StreamOffset.from_json({"version": 1, "topics": {}})


@pytest.mark.parametrize("found", [Range(5, 9, None, 7), Range(5, 9, None, None, 6)])
def test_range_without_a_committed_offset(found: Range) -> None:
    """Before the version of a znode, or an end in a group that was left, the start is written for an unknown offset."""
    text = json.dumps(StreamOffset({A0: found}, {}).to_json())
    assert StreamOffset.from_json(json.loads(text)).ranges == {A0: found._replace(committed=5)}


IN_ZOOKEEPER, IN_KAFKA = Range(10, 20, 10, 7), Range(10, 20, 5)
LEFT_ZOOKEEPER, LEFT_KAFKA = LeftOffset("zookeeper", 10, 7, (20,)), LeftOffset("kafka", 5, None, (10, 20))
HAS_LEFT_KAFKA = IN_ZOOKEEPER._replace(elsewhere=(LEFT_KAFKA,))
HAS_LEFT_BOTH = Range(20, 20, elsewhere=(LEFT_KAFKA, LEFT_ZOOKEEPER))


@pytest.mark.parametrize(
    ("before", "stores", "now", "moved"),  # None: an earlier version wrote the checkpoint
    [
        (IN_ZOOKEEPER, "zookeeper", "zookeeper", IN_ZOOKEEPER),
        (IN_ZOOKEEPER, "zookeeper", "kafka", Range(10, 20, elsewhere=(LEFT_ZOOKEEPER,))),
        (IN_ZOOKEEPER, None, "kafka", Range(10, 20, elsewhere=(LEFT_ZOOKEEPER,))),
        (IN_ZOOKEEPER, None, "zookeeper", IN_ZOOKEEPER),
        (IN_ZOOKEEPER, "zookeeper", "kafka zookeeper", IN_ZOOKEEPER),
        (IN_ZOOKEEPER, "kafka zookeeper", "kafka", Range(10, 20, 10, elsewhere=(LEFT_ZOOKEEPER,))),
        (
            IN_ZOOKEEPER,
            "kafka zookeeper",
            "zookeeper",
            IN_ZOOKEEPER._replace(elsewhere=(LeftOffset("kafka", 10, None, (20,)),)),
        ),
        (IN_KAFKA, "kafka", "zookeeper", Range(10, 20, elsewhere=(LEFT_KAFKA,))),
        (IN_KAFKA, None, "zookeeper", Range(10, 20, elsewhere=(LEFT_KAFKA,))),
        (IN_KAFKA, "kafka zookeeper", "zookeeper", IN_KAFKA._replace(elsewhere=(LEFT_KAFKA,))),
        # What the query has left in a store is kept until it commits there again.
        (HAS_LEFT_KAFKA, "zookeeper", "kafka", Range(10, 20, elsewhere=(LEFT_KAFKA, LEFT_ZOOKEEPER))),
        (HAS_LEFT_KAFKA, "zookeeper", "kafka zookeeper", HAS_LEFT_KAFKA),
        (HAS_LEFT_BOTH, "kafka", "zookeeper", HAS_LEFT_BOTH),
        # Nothing is left in a store in which the group had no offset, and nothing was committed without a group.
        (Range(10, 20), "kafka", "zookeeper", Range(10, 20)),
        (Range(10, 20), None, "zookeeper", Range(10, 20)),
        (Range(10, 20), None, "kafka", Range(10, 20)),
        (Range(10, 20), "", "zookeeper", Range(20, 20)),
        (Range(10, 20), "", "kafka zookeeper", Range(20, 20)),
        # The query has left its group.
        (Range(30, 40, 10, 7, 20), "zookeeper", "kafka", Range(30, 40, elsewhere=(LEFT_ZOOKEEPER,))),
    ],
)
def test_other_stores(before: Range, stores: str | None, now: str, moved: Range) -> None:
    """A query that commits to other stores than before remembers what it has left behind."""
    names: dict[str, OffsetStore] = {"kafka": "kafka", "zookeeper": "zookeeper"}
    known = None if stores is None else frozenset(names[name] for name in stores.split())
    offset = StreamOffset({A0: before}, {}, known)
    wanted = frozenset(names[name] for name in now.split())
    assert offset.committed_to(wanted) == StreamOffset({A0: moved}, {}, wanted)


def test_order_of_insertion() -> None:
    """Equal offsets give equal text, since Spark compares offsets by their text."""
    turned = StreamOffset(dict(reversed(OFFSET.ranges.items())), dict(reversed(OFFSET.topics.items())))
    assert turned == OFFSET
    assert json.dumps(turned.to_json()) == TEXT


def test_partitions_without_a_topic() -> None:
    """Partitions of a topic without an identity are written, too."""
    assert StreamOffset({A0: Range(1, 2)}).to_json() == {
        "version": 1,
        "topics": {"a": {"known": 0, "partitions": {"0": [1, 2]}}},
    }


@pytest.mark.parametrize(
    "identity", [TopicIdentity("i", -(2**63), 0), TopicIdentity("i", 2**63 - 1, 2**31)], ids=["least", "greatest"]
)
def test_extreme_numbers(identity: TopicIdentity) -> None:
    """Numbers of 64 bits, and as many partitions as Kafka can number, are written and read."""
    offset = StreamOffset({TopicPartition("a", 2**31 - 1): Range(0, 2**63 - 1)}, {"a": identity})
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_empty() -> None:
    """A stream that does not read anything yet has an offset."""
    assert StreamOffset().to_json() == {"version": 1, "topics": {}}
    assert StreamOffset.from_json({"version": 1, "topics": {}}) == StreamOffset()


def test_planned_range() -> None:
    """A planned range is half-open."""
    assert Range(3, 9).size == 6
    assert Range(3, 3).size == 0


def test_first_identity() -> None:
    """A new query knows the partitions that have a state, up to the first that is still being created."""
    topic = Topic("a", dict.fromkeys(range(11), (1,)), "xYz", 77)
    created = {TopicPartition("a", n) for n in range(11)}
    assert first_identity(topic, created) == TopicIdentity("xYz", 77, 11)
    assert first_identity(topic, created - {A2}) == TopicIdentity("xYz", 77, 2)


@pytest.mark.parametrize(
    ("positions", "known"), [(set(), 1), ({1}, 2), ({1, 2}, 3), ({2}, 1), ({1, 3}, 2), ({1, 2, 3, 4}, 4)]
)
def test_identity_after(positions: set[int], known: int) -> None:
    """New partitions become known up to the first one without a range."""
    topic = Topic("a", dict.fromkeys(range(4), (1,)), "xYz", 77)
    before = TopicIdentity("old", 7, 1)
    found = identity_after(topic, before, {TopicPartition("a", n) for n in positions})
    assert found == TopicIdentity("xYz", 77, known)


@pytest.mark.parametrize(("positions", "known"), [({0, 1, 2, 3}, 4), ({0, 1, 3}, 0), (set(), 0)])
def test_identity_of_a_new_topic(positions: set[int], known: int) -> None:
    """The partitions of a new topic become known together."""
    topic = Topic("a", dict.fromkeys(range(4), (1,)), "xYz", 77)
    found = identity_after(topic, TopicIdentity(), {TopicPartition("a", n) for n in positions})
    assert found == TopicIdentity("xYz", 77, known)


def test_pickle() -> None:
    """Offsets can be pickled."""
    assert pickle.loads(pickle.dumps(OFFSET)) == OFFSET


@pytest.mark.parametrize(
    ("identity", "topic_id", "czxid", "other"),
    [
        (TopicIdentity("i", 7), "i", 7, False),
        (TopicIdentity("i", 7), "j", 7, True),
        (TopicIdentity("i", 7), "i", 8, False),
        (TopicIdentity("i", 7), "j", None, True),
        (TopicIdentity("i", 7), None, 8, True),
        (TopicIdentity("i", 7), None, 7, False),
        (TopicIdentity("i", 7), None, None, False),
        (TopicIdentity("i", None), None, 7, False),
        (TopicIdentity("i", None), "j", None, True),
        (TopicIdentity(None, 7), "j", 8, True),
        (TopicIdentity(None, 7), "j", None, False),
        (TopicIdentity(), "j", 8, False),
    ],
)
def test_another_topic_of_the_same_name(
    identity: TopicIdentity, topic_id: str | None, czxid: int | None, other: bool
) -> None:
    """Topics are compared by id, or else by czxid, and unknown values are not compared."""
    assert identity.differs_from(Topic("a", {}, topic_id, czxid)) is other


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        "earliest",
        7,
        {},
        {"topics": {}},
        {"version": 1},
        {"version": 1, "topics": None},
        {"version": 1, "topics": []},
        {"version": "1", "topics": {}},
        {"version": True, "topics": {}},
        {"version": 0, "topics": {}},
        {"version": 1, "topics": {"a": None}},
        {"version": 1, "topics": {"a": [1, 5]}},
        {"version": 1, "topics": {"a": {"known": 1}}},
        {"version": 1, "topics": {"a": {"partitions": {}}}},
        {"orders": {"0": 5}},
        *(
            valid(partitions=bad)
            for bad in (
                None,
                [],
                [[1, 5]],
                {"0": 5},
                {"0": None},
                {"0": []},
                {"0": [1]},
                {"0": [1, 5, 5, 5, 5, 5]},
                {"0": [1, 5, 5, None]},
                {"0": [5, 1]},
                {"0": [-1, 5]},
                {"0": [1, 5, -1]},
                {"0": [1, 5, 5, -1]},
                {"0": [1, 5, 5, -1, -1]},
                {"0": [1.0, 5]},
                {"0": ["1", "5"]},
                {"0": "15"},
                {"0": [False, True]},
                {"0": [1, 2**63]},
            )
        ),
        *(valid(partitions={number: [1, 5]}) for number in ("x", "", "-1", "+0", "0 ", "00", "\u0663", str(2**31))),
        *(valid(known=bad) for bad in (None, "1", 1.0, -1, True, 2**31 + 1)),
        *(valid(id=bad) for bad in (7, ["i"])),
        *(valid(czxid=bad) for bad in ("7", 7.0, False, 2**63, -(2**63) - 1)),
        *(valid(left=bad) for bad in (None, [], {"kafka": None}, {"kafka": {"0": None}}, {"redis": {"0": [1, -1]}})),
        *(
            valid(left={"kafka": {"0": bad}})
            for bad in ([], [1], [1, -2], [1, -2, 3], [-2, -1, 3], [1, -1, -1], [1, -1, 2.0], ["1", -1])
        ),
        *({**valid(), "stores": bad} for bad in (7, None, "kafka", ["redis"], [["kafka"]])),
        # Of a development version, for partitions that had no leader at the start.
        valid(waiting={"3": [17, 1700000000000]}),
    ],
)
def test_damaged(found: object) -> None:
    """An offset that this package did not write is refused and quoted."""
    with pytest.raises(
        CheckpointError, match=r"\[UNKNOWN_CHECKPOINT\] An offset in the checkpoint (is damaged|has version 0)"
    ) as caught:
        StreamOffset.from_json(found)
    assert str(found)[:200] in str(caught.value)
    assert "use the version that wrote it, or a new checkpointLocation" in str(caught.value)


def test_deep_json() -> None:
    """An offset that is nested too deeply to be quoted is refused, too."""
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    with pytest.raises(CheckpointError, match=": JSON that is nested too deeply; use the version that wrote it"):
        StreamOffset.from_json(found)


def test_another_version() -> None:
    """A newer version is named together with the expected one, and a long offset is quoted in part."""
    newer = {"version": 2, "topics": {"a": {"known": 1, "partitions": {str(n): [1, 5] for n in range(500)}}}}
    with pytest.raises(CheckpointError, match=r"has version 2 instead of 1") as caught:
        StreamOffset.from_json(newer)
    assert f"instead of 1: {str(newer)[:200]}; use the version that wrote it" in str(caught.value)
