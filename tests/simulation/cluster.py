"""In-memory Kafka cluster: topics that are created, grow and are deleted; of logs, only the length counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark_zkafka.errors import NoLeader, UnknownTopic
from pyspark_zkafka.model.nouns import (
    WITHOUT_LEADER,
    Broker,
    ClusterSnapshot,
    Endpoint,
    PartitionState,
    Topic,
    TopicPartition,
)
from pyspark_zkafka.model.offsets import EARLIEST
from pyspark_zkafka.model.planning import Subscription, requested_topics
from pyspark_zkafka.zookeeper.connection import Znode
from tests.simulation.ensemble import Ensemble

BROKER = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092),))


class Cluster:
    """Topics by name. A partition is announced first; the controller creates its state, and with it its log, later.

    Attributes
    ----------
    ends : dict
        The number of records of each partition that has a state.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.announced: dict[str, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._offline: set[TopicPartition] = set()

    def grow(self, topic: str, by: int = 1) -> None:
        """Create a topic, or announce more partitions of it."""
        self.announced[topic] = self.announced.get(topic, 0) + by
        self.ensemble.ensure(f"/brokers/topics/{topic}")

    def delete(self, topic: str) -> None:
        """Delete a topic and its logs; a later topic of the same name has another czxid."""
        del self.announced[topic]
        self.ensemble.remove(f"/brokers/topics/{topic}")
        self._offline = {tp for tp in self._offline if tp.topic != topic}
        for tp in [tp for tp in self.ends if tp.topic == topic]:
            del self.ends[tp], self._epochs[tp]

    def created(self, topic: str) -> int | None:
        """Return the czxid of a topic, or None if it does not exist."""
        return self.ensemble.nodes[f"/brokers/topics/{topic}"].stat.czxid if topic in self.announced else None

    def elect(self) -> None:
        """Elect a leader for the first partition that waits for one."""
        waiting = [tp for tp in self.partitions() if tp not in self.ends or tp in self._offline]
        if not waiting:
            return
        if waiting[0] not in self.ends:
            self.ensemble.ensure(_state(waiting[0]))
            self.ends[waiting[0]] = 0
        self._epochs[waiting[0]] = self._epochs.get(waiting[0], -1) + 1
        self._offline.discard(waiting[0])

    def lose_leader(self, partition: TopicPartition) -> None:
        """Take a partition offline, as the controller does: in a new epoch."""
        if partition not in self._offline:
            self._offline.add(partition)
            self._epochs[partition] += 1

    def produce(self, partition: TopicPartition, records: int) -> None:
        """Append records if the partition has a leader."""
        if partition not in self._offline:
            self.ends[partition] += records

    def partitions(self) -> list[TopicPartition]:
        """Return all announced partitions."""
        return [TopicPartition(topic, n) for topic, number in sorted(self.announced.items()) for n in range(number)]

    def snapshot(self, subscription: Subscription) -> ClusterSnapshot:
        """Return the topics of a subscription as ZooKeeper shows them."""
        nodes = self.ensemble.nodes
        names = [name for name in requested_topics(subscription, self.announced) if name in self.announced]
        topics = {
            name: Topic(name, {n: (1,) for n in range(self.announced[name])}, None, self.created(name)) for name in names
        }
        states = {
            tp: PartitionState(WITHOUT_LEADER if tp in self._offline else 1, self._epochs[tp], (1,), 1, _czxid(nodes, tp))
            for tp in self.ends
            if tp.topic in topics
        }
        return ClusterSnapshot({1: BROKER}, topics, states)

    def list_offsets(self, wanted: Mapping[TopicPartition, Any], timeout_s: float = 0) -> dict[TopicPartition, int]:
        """Return the bounds of logs, which all start at 0."""
        if wanted.keys() - self.ends.keys():
            raise UnknownTopic("UNKNOWN_TOPIC", "a partition does not exist")
        if self._offline & wanted.keys():
            raise NoLeader("NO_LEADER", "a partition has no leader")
        return {tp: 0 if position == EARLIEST else self.ends[tp] for tp, position in wanted.items()}

    def high_watermarks(self, partitions: Collection[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
        """Return no partitions: there are no transactions."""
        return {}


def _czxid(nodes: Mapping[str, Znode], partition: TopicPartition) -> int:
    return nodes[_state(partition)].stat.czxid


def _state(partition: TopicPartition) -> str:
    return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
