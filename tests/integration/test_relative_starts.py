"""Starts and ends relative to the log or to the current time, on real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fill import fill
from tests.support.tiers import seldom
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
NewStream = Callable[..., Any]
Read = Callable[..., "DataFrame"]

HOUR_MS = 3_600_000


@pytest.fixture
def hours(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> tuple[str, int]:
    """A topic with one record per hour in partition 0, the first two of ten deleted, and the current time in ms."""
    topic, now_ms = new_topic(partitions=2, config=KEPT), time.time_ns() // 1_000_000
    ages = [{"partition": 0, "timestamp": now_ms - (10 - n) * HOUR_MS + HOUR_MS // 2} for n in range(10)]
    zkafka_cluster.produce(topic, [*ages, *({"partition": 1, "timestamp": now_ms} for _ in range(3))])
    zkafka_cluster.delete_records(topic, {0: 2})
    return topic, now_ms


def iso(ms: int, zone: timezone) -> str:
    """Return the time in ISO 8601 with its zone."""
    return datetime.fromtimestamp(ms / 1000, zone).isoformat(timespec="milliseconds")


def test_batch(read: Read, hours: tuple[str, int]) -> None:
    """Starts and ends are counted from an edge of each log, and times are accepted in every form."""
    topic, now_ms = hours
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    cases: list[tuple[dict[str, str], dict[int, list[int]]]] = [
        ({"startingOffsets": "latest-2"}, {0: [8, 9], 1: [1, 2]}),
        ({"startingOffsets": "latest-100", "endingOffsets": "earliest+1"}, {0: [2], 1: [0]}),
        ({"startingOffsets": "earliest+2", "endingOffsets": "latest-1"}, {0: [4, 5, 6, 7, 8]}),
        ({"startingOffsets": f'{{"{topic}": {{"0": "latest-1", "1": 1}}}}'}, {0: [9], 1: [1, 2]}),
        ({"startingOffsets": f'{{"{topic}": "earliest+7"}}'}, {0: [9]}),
        ({"startingTimestamp": "3 hours ago"}, {0: [7, 8, 9], 1: [0, 1, 2]}),
        ({"startingTimestamp": "4 hours ago", "endingTimestamp": "7200 seconds ago"}, {0: [6, 7]}),
        ({"startingTimestamp": iso(now_ms - 3 * HOUR_MS, timezone.utc)}, {0: [7, 8, 9], 1: [0, 1, 2]}),
        ({"startingTimestamp": iso(now_ms - 2 * HOUR_MS, timezone(timedelta(hours=5.5)))}, {0: [8, 9], 1: [0, 1, 2]}),
        ({"startingTimestamp": str(now_ms - HOUR_MS)}, {0: [9], 1: [0, 1, 2]}),
        ({"startingTimestamp": "2020-01-31", "endingTimestamp": "9 hours ago"}, {}),
        ({"startingTimestamp": iso(now_ms + 2 * HOUR_MS, timezone.utc), **latest}, {}),
    ]
    for options, expected in cases:
        found: dict[int, list[int]] = {}
        for row in sorted(read({"subscribe": topic, **options}).collect(), key=lambda r: r.offset):
            found.setdefault(row.partition, []).append(row.offset)
        assert found == expected, options


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ({"startingOffsets": "latest-2"}, {0: [8, 9], 1: [1, 2]}),
        *seldom(({"startingTimestamp": "90 minutes ago"}, {0: [9], 1: [0, 1, 2]})),
    ],
)
@pytest.mark.only_on("spark")
def test_stream(
    stream: NewStream,
    zkafka_cluster: LocalCluster,
    hours: tuple[str, int],
    start: dict[str, str],
    first: dict[int, list[int]],
) -> None:
    """A relative start is resolved once: a restart continues at the checkpoint."""
    topic, _ = hours
    made = stream({"subscribe": topic, **start})
    made.run()
    fill(zkafka_cluster, topic, 5)
    made.run()
    found: dict[int, list[int]] = {}
    for row in sorted((row for rows in made.batches for row in rows), key=lambda r: (r.partition, r.offset)):
        found.setdefault(row.partition, []).append(row.offset)
    assert found == {0: [*first[0], 10, 11, 12, 13, 14], 1: first[1]}
