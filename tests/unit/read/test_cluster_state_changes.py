"""Comparisons of a cluster's snapshots."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.read.cluster_state import has_same_topics, max_age_s, moved_topics

T0 = TopicPartition("t", 0)


def cluster(leader: int = 1, topic_id: str | None = None, czxid: int | None = 7) -> ClusterSnapshot:
    """Return a cluster with brokers 1 and 2, and a topic of one partition."""
    topics = {"t": Topic("t", {0: (1, 2)}, topic_id, czxid)}
    return ClusterSnapshot({1: Broker(1, ()), 2: Broker(2, ())}, topics, {T0: PartitionState(leader, 0, (1, 2))})


@pytest.mark.parametrize(
    ("leader", "is_watched", "age_s"), [(1, True, 60.0), (1, False, 1.0), (-1, True, 0.5), (9, True, 0.5), (-1, False, 0.5)]
)
def test_age(leader: int, is_watched: bool, age_s: float) -> None:
    """With watches a snapshot lasts longer, unless a partition has no registered leader."""
    assert max_age_s(cluster(leader), is_watched=is_watched) == age_s


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        (cluster(leader=2), True),
        (cluster(czxid=8), False),
        (cluster(topic_id="id"), False),
        (ClusterSnapshot({}), False),
    ],
)
def test_same_topics(now: ClusterSnapshot, is_same: bool) -> None:
    """A topic that was deleted or created again is not the same; another leader makes no difference."""
    assert has_same_topics(cluster(), now) is is_same


@pytest.mark.parametrize(
    ("before", "now", "topics"),
    [
        (cluster(1), cluster(1), set()),
        (cluster(1), cluster(2), {"t"}),
        (cluster(-1), cluster(1), {"t"}),
        (cluster(1), cluster(-1), set()),
        (ClusterSnapshot({}), cluster(1), {"t"}),
    ],
)
def test_moved_topics(before: ClusterSnapshot, now: ClusterSnapshot, topics: set[str]) -> None:
    """A topic has moved if a partition has a leader that it did not have before."""
    assert moved_topics(before, now) == topics
