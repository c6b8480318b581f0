"""Queries that share a topic of 2,000 partitions in a Kafka group, with time limits."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.testing import LocalCluster
from tests.support.fill import fill
from tests.support.memberships import MemberGroup
from tests.support.stream import Stream

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PARTITIONS = range(2000)
LIMITS_S = {"the first query joins": 60, "reads": 120, "commits": 60, "a second one joins": 60, "both read and commit": 120}
"""The longest time of each step when everything runs on two cores."""


class Steps:
    """Stopwatch that writes the duration of each step to standard output."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def take(self, name: str, query: Stream, probe: Callable[[], object]) -> None:
        """Wait for the end of a step of a query, up to its limit."""
        query.wait_until(probe, LIMITS_S[name], f"{name}: not done", poll_s=0.2)
        now = time.monotonic()
        sys.stdout.write(f"{name}: {now - self._begin:.1f} s\n")
        self._begin = now


@pytest.mark.parametrize("kind", ["cooperative-sticky", "consumer"])
def test_wide_topic(faulty_kafka4: LocalCluster, stream: Callable[..., Stream], kind: str) -> None:
    """A query joins, reads and commits 2,000 partitions in time; a second one gets half, and nothing is read twice."""
    topic = f"wide-{secrets.token_hex(4)}"
    faulty_kafka4.create_topic(topic, partitions=len(PARTITIONS))
    fill(faulty_kafka4, topic, 1, PARTITIONS)
    group = MemberGroup(faulty_kafka4, kind, topic)
    options = {**group.options(), "minRecordsPerPartition": "500"}  # four tasks instead of one per partition
    queries = [stream(options, connection={}, name=name) for name in ("first", "second")]
    with GroupAdmin(faulty_kafka4.bootstrap_servers, {}) as brokers:

        def shares() -> list[int]:
            state = brokers.group_states([group.name])[group.name]
            return sorted(len(m.partitions) for m in state.members.values()) if state.name == "Stable" else []

        def committed(offset: int) -> bool:
            found = brokers.committed(group.name)
            return len(found) == len(PARTITIONS) and set(found.values()) == {offset}

        def read() -> Counter[tuple[int, int]]:
            return Counter((row.partition, row.offset) for query in queries for row in query.rows)

        steps = Steps()
        queries[0].start(processingTime="1 second")
        steps.take("the first query joins", queries[0], lambda: shares() == [2000])
        steps.take("reads", queries[0], lambda: len(read()) == len(PARTITIONS))
        steps.take("commits", queries[0], lambda: committed(1))
        queries[1].start(processingTime="1 second")
        steps.take("a second one joins", queries[1], lambda: shares() == [1000, 1000])
        fill(faulty_kafka4, topic, 1, PARTITIONS)
        steps.take("both read and commit", queries[1], lambda: len(read()) == 2 * len(PARTITIONS) and committed(2))
    assert set(read().values()) == {1}
    assert all({row.offset for row in query.rows} >= {1} for query in queries)
