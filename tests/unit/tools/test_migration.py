"""Copies of offsets between two stores, as values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.tools.migration import Compared, LiveRounds, compare, report, to_copy

TPS = [TopicPartition("t", n) for n in range(4)]
P0, P1, *_ = TPS


def states(source: dict[TopicPartition, int], target: dict[TopicPartition, int], **facts: Any) -> list[str]:
    """Return the states of the partitions."""
    return [c.state for c in compare(source, target, **{"existing": TPS, **facts})]


@pytest.mark.parametrize(
    ("source", "target", "state"),
    [
        (5, 5, "equal"),
        (5, 4, "behind"),
        (5, None, "behind"),
        (5, 6, "ahead"),
        (None, 6, "ahead"),
        (0, None, "behind"),
        (0, 0, "equal"),
    ],
)
def test_states(source: int | None, target: int | None, state: str) -> None:
    """A target is equal, behind or ahead, and is ahead if only the target has an offset."""
    there = ({P0: offset} if offset is not None else {} for offset in (source, target))
    assert states(*there) == [state]


def test_partitions_that_are_not_copied() -> None:
    """Partitions that the cluster lacks are skipped; unreadable and outdated offsets fail; force copies outdated ones."""
    other = TopicPartition("gone", 0)
    legacy = [LegacyPartition("t", 1, 0)]
    found = compare({P0: 5, other: 7}, {P1: 9}, TPS, unreadable={P1: "garbage"}, legacy=legacy, outdated=[P0])
    assert [(c.partition, c.state) for c in found] == [
        (other, "skipped"),
        (P0, "failed"),
        (P1, "failed"),
        (LegacyPartition("t", 1, 0), "skipped"),
    ]
    assert to_copy(found) == {}
    assert to_copy(found, force=True) == {P0: 5}


def test_an_outdated_zero_is_harmless() -> None:
    """An outdated offset of 0 may be copied, since it means the same in a topic that was created again."""
    assert states({P0: 0}, {}, outdated=[P0]) == ["behind"]


OFFSETS = st.dictionaries(st.sampled_from(TPS), st.integers(0, 5))


@given(OFFSETS, OFFSETS, st.booleans())
def test_copies(source: dict[TopicPartition, int], target: dict[TopicPartition, int], force: bool) -> None:
    """A copy decreases offsets only with force, does not copy equal offsets, and leaves nothing to copy."""
    before = compare(source, target, TPS)
    copies = to_copy(before, force=force)
    assert force or all(offset > target.get(tp, -1) for tp, offset in copies.items())
    after = compare(source, {**target, **copies}, TPS)
    assert to_copy(after, force=force) == {}
    found = {c.partition: c for c in report(before, after, copies)}
    assert {tp for tp, c in found.items() if c.state == "copied"} == copies.keys()
    assert all(c.target == c.source for c in found.values() if c.state in ("copied", "equal"))
    assert not any(c.state in ("failed", "skipped") for c in found.values())


def test_report_of_what_was_not_written() -> None:
    """A refused partition fails with the reason, and a partition whose source has moved fails with advice to run again."""
    before = compare({P0: 5, P1: 5}, {}, TPS)
    after = compare({P0: 5, P1: 9}, {P1: 5}, TPS)
    found = report(before, after, [P1], {P0: "refused"})
    assert [(c.state, c.before, c.target) for c in found] == [("failed", None, None), ("failed", None, 5)]
    assert found[0].reason == "refused"
    assert "run this again" in str(found[1].reason)


# --- live ------------------------------------------------------------------------------------------------------------


def look(source: dict[TopicPartition, int], target: dict[TopicPartition, int]) -> list[Compared]:
    """Return a comparison of both stores."""
    return compare(source, target, TPS)


def test_only_what_nobody_moves_is_written() -> None:
    """A partition is written once two comparisons in a row find the same offset in the target."""
    rounds = LiveRounds()
    first = look({P0: 5, P1: 5}, {P0: 3, P1: 3})
    assert rounds.writes(first) == {}
    rounds = rounds.seen(first, wrote=False)
    assert rounds.writes(look({P0: 6, P1: 5}, {P0: 3, P1: 4})) == {P0: 6}


def test_caught_up_only_at_the_look_after_the_last_write() -> None:
    """Equal stores at the first comparison, or right after a write, do not count as caught up."""
    equal = look({P0: 5}, {P0: 5})
    rounds = LiveRounds()
    assert not rounds.is_caught_up(equal)
    assert not rounds.seen(look({P0: 5}, {}), wrote=True).is_caught_up(equal)
    assert rounds.seen(equal, wrote=False).is_caught_up(equal)


def test_a_target_that_stays_ahead() -> None:
    """A target that is ahead may be a commit in progress, and counts as final only after several comparisons."""
    ahead, rounds, looks = look({P0: 5}, {P0: 6}), LiveRounds(), 0
    while not rounds.is_caught_up(ahead):
        rounds, looks = rounds.seen(ahead, wrote=False), looks + 1
    assert looks > 2


@given(st.data())
def test_live_ends_equal(data: st.DataObject) -> None:
    """In any order of comparisons, copies and commits to Kafka, then ZooKeeper, both stores end at the last commit."""
    kafka, zookeeper = {P0: 0}, {P0: 0}
    rounds, pending = LiveRounds(), 0
    for _ in range(data.draw(st.integers(0, 12))):
        step = data.draw(st.sampled_from(["kafka", "zookeeper", "look"]))
        if step == "kafka":
            kafka[P0] = pending = max(kafka[P0], zookeeper[P0], pending) + 1
        elif step == "zookeeper":
            zookeeper[P0] = max(zookeeper[P0], pending)
        else:
            found = look(zookeeper, kafka)
            copies = rounds.writes(found)
            if data.draw(st.booleans()):  # a commit crosses with the write
                kafka[P0] = pending = max(kafka[P0], zookeeper[P0], pending) + 1
            kafka.update(copies)
            rounds = rounds.seen(found, wrote=bool(copies))
    zookeeper[P0] = max(zookeeper[P0], pending)
    for _ in range(10):
        found = look(zookeeper, kafka)
        if rounds.is_caught_up(found) and found[0].state == "equal":
            break
        copies = rounds.writes(found)
        kafka.update(copies)
        rounds = rounds.seen(found, wrote=bool(copies))
    assert kafka == zookeeper
