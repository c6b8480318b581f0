"""Queries that switch between a group in ZooKeeper and one in Kafka on one checkpoint, also after a kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.commit_history import commit_history, went_back
from tests.support.eventually import eventually
from tests.support.members import SESSION_S
from tests.support.memberships import SESSION_MS
from tests.support.moving_query import MovingQuery
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.support.stream import Stream

PARTITIONS, RECORDS = range(3), 5


@pytest.fixture
def query(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], stream: Callable[..., Stream]) -> MovingQuery:
    """A query that has not run yet."""
    topic = new_topic(partitions=len(PARTITIONS))
    return MovingQuery(zkafka_cluster, topic, f"switching-{topic}", PARTITIONS, stream({}, connection={}))


def options_of(query: MovingQuery, kind: str) -> dict[str, str]:
    """Return the options of a query whose group is in Kafka, or in ZooKeeper with offsets in both."""
    if kind == "kafka":
        return query.options("brokers", groupMembership="kafka", session_timeout_ms=str(SESSION_MS))
    session = {"zookeeper_session_timeout_ms": str(int(SESSION_S * 1000)), "offsets_storage": "kafka"}
    return query.options("zookeeper", groupMembership="zookeeper", **session)


@pytest.mark.long
def test_there_and_back(query: MovingQuery) -> None:
    """A query that moves to Kafka, back and to Kafka again reads each record once; no committed offset decreases."""
    query.step(options_of(query, "zookeeper"))
    for kind in ("kafka", "zookeeper", "kafka"):
        assert query.migrate(kind).exit_code == 0
        query.step(options_of(query, kind))
    assert query.twice() == []
    assert set(query.read()) == query.all()
    assert went_back(commit_history(query.cluster, query.group)) == {}


@pytest.mark.parametrize(
    ("old", "new", "recorded"),
    [
        ("zookeeper", "kafka", False),
        *seldom(("zookeeper", "kafka", True), ("kafka", "zookeeper", False), ("kafka", "zookeeper", True)),
    ],
)
def test_killed_before_the_switch(
    query: MovingQuery, planner_pid: Callable[[], int], old: str, new: str, recorded: bool
) -> None:
    """A query killed before the switch loses no record, and reads only the unfinished micro-batch twice."""

    def kill(frame: object, number: int) -> None:
        os.kill(planner_pid(), signal.SIGKILL)
        if not recorded:
            raise ConnectionError("the driver was killed")

    query.step(options_of(query, old))
    query.stream.in_batch = kill
    query.write(RECORDS)  # before the start, so that one micro-batch holds all of them
    running = query.start(options_of(query, old))
    eventually(running.exception, 120)
    query.stream.in_batch = lambda frame, number: None
    last = {(row.partition, row.offset) for row in query.stream.batches[-1]}
    query.migrate(new)
    query.step(options_of(query, new))
    assert set(query.read()) == query.all()
    assert len(last) == RECORDS * len(PARTITIONS)
    assert set(query.twice()) == (set() if recorded else last)
