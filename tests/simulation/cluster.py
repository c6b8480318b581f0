"""A Kafka cluster of values: topics that come into being and grow, and logs of records, of which only the number counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_zkafka.protocol.model import Broker, ClusterSnapshot, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST
from tests.simulation.ensemble import Ensemble

BROKER = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092),))


class Cluster:
    """Topics by name; a partition is announced first, and gets its state, and so its log, later, as the controller does it.

    Attributes
    ----------
    ends : dict
        How many records each partition has that has a state.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.announced: dict[str, int] = {}
        self.ends: dict[TopicPartition, int] = {}

    def grow(self, topic: str, by: int = 1) -> None:
        """Announce more partitions of a topic, or the topic."""
        self.announced[topic] = self.announced.get(topic, 0) + by
        self.ensemble.ensure(f"/brokers/topics/{topic}")

    def elect(self) -> None:
        """Give a leader to the first partition that waits for one."""
        waiting = [tp for tp in self.partitions() if tp not in self.ends]
        if waiting:
            self.ensemble.ensure(_state(waiting[0]))
            self.ends[waiting[0]] = 0

    def partitions(self) -> list[TopicPartition]:
        """All that are announced."""
        return [TopicPartition(topic, n) for topic, number in sorted(self.announced.items()) for n in range(number)]

    def snapshot(self) -> ClusterSnapshot:
        """What ZooKeeper shows of all topics."""
        nodes = self.ensemble.nodes
        topics = {
            name: Topic(name, {n: (1,) for n in range(number)}, None, nodes[f"/brokers/topics/{name}"].stat.czxid)
            for name, number in self.announced.items()
        }
        states = {tp: PartitionState(1, 0, (1,), 1, nodes[_state(tp)].stat.czxid) for tp in self.ends}
        return ClusterSnapshot({1: BROKER}, topics, states)

    def list_offsets(self, wanted: Mapping[TopicPartition, Any], timeout_s: float = 0) -> dict[TopicPartition, int]:
        """The ends of logs; all begin at 0."""
        return {tp: 0 if position == EARLIEST else self.ends[tp] for tp, position in wanted.items()}


def _state(partition: TopicPartition) -> str:
    return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
