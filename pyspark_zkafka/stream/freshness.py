"""Age and agreement of a stream's cluster snapshots; pure."""

from __future__ import annotations

from pyspark_zkafka.protocol.model import ClusterSnapshot

__all__ = ["has_same_topics", "max_age_s", "moved_topics"]

_WATCHED_AGE_S = 60.0  # watches report changes
_POLLED_AGE_S = 1.0  # brokers must be polled
_LEADERLESS_AGE_S = 0.5


def max_age_s(snapshot: ClusterSnapshot, *, is_watched: bool) -> float:
    """The seconds after which to read the cluster again, although no watch has reported a change."""
    if any(snapshot.leader(tp) is None for topic in snapshot.topics for tp in snapshot.partitions(topic)):
        return _LEADERLESS_AGE_S
    return _WATCHED_AGE_S if is_watched else _POLLED_AGE_S


def has_same_topics(snapshot: ClusterSnapshot, now: ClusterSnapshot) -> bool:
    """True if each topic of a snapshot is still there, and not another one of its name."""
    found = now.topics
    topics = snapshot.topics.items()
    return all(n in found and (found[n].topic_id, found[n].czxid) == (t.topic_id, t.czxid) for n, t in topics)


def moved_topics(before: ClusterSnapshot, now: ClusterSnapshot) -> set[str]:
    """The topics of which a partition's leader has changed, or been elected for the first time."""
    return {tp.topic for tp in now.states if (leader := now.leader(tp)) is not None and leader != before.leader(tp)}
