"""Election of preferred replicas: the partitions that need one, and why others are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_zkafka.model.nouns import NO_LEADER, ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.znodes.admin import PREFERRED_REPLICA_ELECTION, AdminState, encode_preferred_election
from pyspark_zkafka.tools.controller import submit
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

__all__ = ["LEADS_ALREADY", "Candidate", "candidates", "is_requested", "start"]

LEADS_ALREADY = "the preferred replica leads already"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition, its leader and its preferred replica (-1 for none); `obstacle` is why no election is due, or None."""

    partition: TopicPartition
    leader: int
    preferred: int
    obstacle: str | None


def candidates(partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, state: AdminState) -> list[Candidate]:
    """All of the partitions, in order, with what stands in the way of an election; `snapshot` has their topics."""
    return [_candidate(tp, snapshot, state) for tp in sorted(set(partitions))]


def _candidate(tp: TopicPartition, snapshot: ClusterSnapshot, state: AdminState) -> Candidate:
    found = snapshot.states.get(tp)
    leader = NO_LEADER if found is None else found.leader
    preferred = next(iter(snapshot.topics[tp.topic].partitions[tp.partition]), NO_LEADER)
    obstacle: str | None = None
    if tp.topic in state.deletions:
        obstacle = "the topic is being deleted"
    elif found is None:
        obstacle = "the partition is being created"
    elif leader == preferred:
        obstacle = LEADS_ALREADY
    elif preferred not in snapshot.brokers:
        obstacle = f"broker {preferred} is not live"
    elif preferred not in found.isr:
        obstacle = f"broker {preferred} is not in the ISR"
    return Candidate(tp, leader, preferred, obstacle)


def start(client: ZooKeeperClient, partitions: Iterable[TopicPartition]) -> None:
    """Request the election of the controller; raises ClusterStateError if one is under way."""
    submit(client, [Create(PREFERRED_REPLICA_ELECTION, encode_preferred_election(partitions))], "The election")


def is_requested(client: ZooKeeperClient) -> bool:
    """True while the controller has not performed a requested election; blocks for one round."""
    return PREFERRED_REPLICA_ELECTION in client.exists_many([PREFERRED_REPLICA_ELECTION])
