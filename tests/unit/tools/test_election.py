"""Partitions whose preferred replica is to be elected."""

from __future__ import annotations

from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.admin import AdminState
from pyspark_zkafka.tools.election import candidates

SNAPSHOT = ClusterSnapshot(
    brokers={n: Broker(n, ()) for n in (0, 1)},
    topics={
        "t": Topic("t", {0: (0, 1), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (0, 1)}),
        "gone": Topic("gone", {0: (0, 1)}),
    },
    states={
        TopicPartition("t", 0): PartitionState(1, 5, (0, 1)),
        TopicPartition("t", 1): PartitionState(1, 5, (0, 1)),
        TopicPartition("t", 2): PartitionState(0, 5, (0,)),
        TopicPartition("t", 3): PartitionState(1, 5, (1,)),
        TopicPartition("gone", 0): PartitionState(1, 5, (0, 1)),
    },
)


def test_candidates() -> None:
    """An election is due where the preferred replica is in the ISR and does not lead; each other partition has a reason."""
    partitions = [tp for topic in ("t", "gone") for tp in SNAPSHOT.partitions(topic)]
    found = candidates(reversed(partitions), SNAPSHOT, AdminState(deletions=("gone",)))
    assert [(str(c.partition), c.leader, c.preferred, c.obstacle) for c in found] == [
        ("gone-0", 1, 0, "the topic is being deleted"),
        ("t-0", 1, 0, None),
        ("t-1", 1, 1, "the preferred replica leads already"),
        ("t-2", 0, 2, "broker 2 is not live"),
        ("t-3", 1, 0, "broker 0 is not in the ISR"),
        ("t-4", -1, 0, "the partition is being created"),
    ]
