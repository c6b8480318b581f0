"""Limits of a micro-batch."""

from __future__ import annotations

import pickle
from math import inf

import pytest

from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.planning import TriggerLimits

A, B, C = (TopicPartition(name, 0) for name in "abc")
ENDS = dict[TopicPartition, tuple[int, int]]


def ranges(ends: ENDS) -> dict[TopicPartition, OffsetRange]:
    return {tp: OffsetRange(tp, *pair) for tp, pair in ends.items()}


def ends(found: dict[TopicPartition, OffsetRange]) -> list[tuple[str, int, int]]:
    return [(tp.topic, r.start, r.until) for tp, r in found.items()]


@pytest.mark.parametrize(
    ("given", "limit", "expected"),
    [
        pytest.param({A: (10, 110)}, 30, [("a", 10, 40)], id="one partition"),
        # 10 * 100 / 400 = 2.5 -> 2; 10 * 300 / 400 = 7.5 -> 7
        pytest.param({A: (0, 100), B: (50, 350)}, 10, [("a", 0, 2), ("b", 50, 57)], id="in proportion, rounded down"),
        # 10 * 1 / 1001 = 0.01 -> 1; 10 * 1000 / 1001 = 9.99 -> 9
        pytest.param({A: (7, 8), B: (0, 1000)}, 10, [("a", 7, 8), ("b", 0, 9)], id="a small one does not starve"),
        # 2 * 100 / 300 = 0.67 -> 1 each
        pytest.param({A: (0, 100), B: (0, 100), C: (0, 100)}, 2, [("a", 0, 1), ("b", 0, 1), ("c", 0, 1)], id="one each"),
        pytest.param({A: (0, 5), B: (0, 5)}, 10, [("a", 0, 5), ("b", 0, 5)], id="all of it fits"),
        pytest.param({A: (0, 5), B: (0, 5)}, 2**70, [("a", 0, 5), ("b", 0, 5)], id="far more than there is"),
        pytest.param({B: (9, 9), A: (0, 8), C: (9, 3)}, 4, [("b", 9, 9), ("a", 0, 4), ("c", 9, 3)], id="empty ranges stay"),
        pytest.param({}, 4, [], id="nothing at all"),
        # as doubles, 2 ** 62 + 1 and 2 ** 62 would be equal, and the end 2 ** 63
        pytest.param({A: (0, 2**62 + 1)}, 2**62, [("a", 0, 2**62)], id="exact beyond the precision of a double"),
        pytest.param({A: (2**63 - 9, 2**63 - 1)}, 2**63 - 1, [("a", 2**63 - 9, 2**63 - 1)], id="no offset overflows"),
    ],
)
def test_limit_records(given: ENDS, limit: int, expected: list[tuple[str, int, int]]) -> None:
    """Shares equal those of KafkaMicroBatchStream.rateLimit (calculated by hand)."""
    assert ends(TriggerLimits(max_records=limit).apply(ranges(given), {})) == expected


@pytest.mark.parametrize(
    ("record_bytes", "limit", "expected"),
    [
        # 100 * 10 + 100 * 30 = 4000 bytes; with 1000, each loses three quarters
        pytest.param({A: 10.0, B: 30.0}, 1000, [25, 25], id="the same proportion of each"),
        # b counts as 10, like a
        pytest.param({A: 10.0}, 1000, [50, 50], id="an unknown size is the mean of the known ones"),
        pytest.param({A: 10.0, C: 50.0}, 1000, [25, 25], id="also of those that are not read"),
        pytest.param({}, 10 * 1024, [5, 5], id="1 KiB where none is known"),
        pytest.param({A: 0.0, B: 0.0}, 100, [50, 50], id="a record counts for a byte or more"),
        pytest.param({A: 1e6, B: 1e6}, 10, [1, 1], id="at least one record of each"),
        pytest.param({A: 0.1, B: 1.5}, 250, [100, 100], id="all of it fits"),
    ],
)
def test_limit_bytes(record_bytes: dict[TopicPartition, float], limit: int, expected: list[int]) -> None:
    """Bytes are converted to records by each partition's mean record size."""
    found = TriggerLimits(max_bytes=limit).apply(ranges({A: (0, 100), B: (1000, 1100)}), record_bytes)
    assert [r.size for r in found.values()] == expected


@pytest.mark.parametrize(
    ("minimum", "available", "since_last_ms", "expected"),
    [
        (None, 0, 1, False),
        (None, 0, inf, False),
        (10, 9, 59_999, True),
        (10, 10, 59_999, False),
        (10, 9, 60_000, False),
        (10, 0, 0, True),
        (10, 0, inf, False),
    ],
)
def test_holds_back(minimum: int | None, available: int, since_last_ms: float, expected: bool) -> None:
    """A micro-batch waits for the minimum until the delay is over, but the first one of a run never waits."""
    limits = TriggerLimits(min_records=minimum, max_delay_ms=60_000)
    assert limits.holds_back(available, since_last_ms) is expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (TriggerLimits(), [100, 100]),
        (TriggerLimits(max_records=20), [10, 10]),
        (TriggerLimits(max_bytes=400), [10, 10]),
        (TriggerLimits(max_records=8, max_bytes=400), [4, 4]),
        (TriggerLimits(max_records=40, max_bytes=400), [10, 10]),
    ],
)
def test_the_stricter_limit_holds(limits: TriggerLimits, expected: list[int]) -> None:
    """Each partition ends at the stricter of both limits."""
    found = limits.apply(ranges({A: (0, 100), B: (0, 100)}), {A: 10.0, B: 30.0})
    assert [r.size for r in found.values()] == expected


def test_limits_without_sizes() -> None:
    """Sizes can be left out, and limits can be pickled."""
    limits = pickle.loads(pickle.dumps(TriggerLimits(max_bytes=4096)))
    assert limits.apply(ranges({A: (0, 100)}), {}) == ranges({A: (0, 4)})
