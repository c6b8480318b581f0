"""The broker to fetch a partition from: its leader, or the nearest replica that the leader has named."""

from __future__ import annotations

import logging
import math

from confluent_kafka import KafkaError

from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.direct.client import DirectClient
from pyspark_zkafka.transport.direct.connection import Connection
from pyspark_zkafka.transport.direct.errors import ConnectionLost, Unsupported
from pyspark_zkafka.transport.direct.link import Address
from pyspark_zkafka.transport.direct.messages import NONE, Leader
from pyspark_zkafka.transport.direct.settings import parse_servers

__all__ = ["RETRIABLE", "PartitionBroker", "planned_leader"]

_log = logging.getLogger(__name__)

RETRIABLE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which the metadata is requested again, as in Java's ``FetchCollector`` (3.9.1)."""


class PartitionBroker:
    """Finds the broker to fetch a split's partition from.

    `epoch` is the leader's epoch, -1 where unknown. All methods but `forget` may raise ConnectionLost and Unsupported.
    """

    def __init__(self, client: DirectClient, split: Split) -> None:
        self._client = client
        self._partition = split.partition
        self._leader = planned_leader(split, client.settings.wanted.rack)
        self._replica: Address | None = None
        self._replica_until = 0.0
        self._avoided_until = 0.0
        self.epoch = split.leader_epoch

    @property
    def is_replica(self) -> bool:
        """True if a follower is fetched from."""
        return self._replica is not None

    @property
    def avoids_replicas(self) -> bool:
        """True if the leader must not name a replica, since the one that it named is out of reach."""
        return self._client.clock() < self._avoided_until

    def connected(self) -> Connection | None:
        """The connection to fetch from, if it is known, and open."""
        target = self._replica or self._leader
        return None if target is None else self._client.connected(target)

    def connect(self, wait_until: float) -> Connection | None:
        """The connection to fetch from; None if it is not open at `wait_until`. The leader must have been found."""
        if self._replica is not None and self._client.clock() > self._replica_until:
            self._replica = None
        try:
            return self._client.try_connect(self._replica or self._known_leader(), wait_until)
        except ConnectionLost:
            if self._replica is not None:
                self._avoid_replicas()
            raise

    def connect_leader(self) -> Connection:
        """The connection to the leader, which must have been found. Blocks while it is opened."""
        return self._client.connect(self._known_leader())

    def find(self, wait_until: float = math.inf) -> int | None:
        """Request the leader, unless it is known; returns the broker's error if there is none, else 0.

        None if no broker could be asked before `wait_until`: another call goes on with it.
        """
        if self._leader is not None:
            return NONE
        found = self._client.metadata(self._partition.topic, wait_until)
        if found is None:
            return None
        state = found.partitions.get(self._partition.partition, Leader(KafkaError.UNKNOWN_TOPIC_OR_PART, -1, -1))
        # That a replica is not available does no harm.
        code = found.error or (NONE if state.error == KafkaError.REPLICA_NOT_AVAILABLE else state.error)
        if code != NONE and code not in RETRIABLE:
            raise Unsupported(f"the metadata of {self._partition.topic} has error {code}")
        if code == NONE and state.leader in found.brokers:
            self._leader, self.epoch = found.brokers[state.leader], state.epoch
        return NONE if self._leader is not None else code or int(KafkaError.LEADER_NOT_AVAILABLE)

    def prefer(self, replica: int) -> None:
        """Fetch from a replica by its broker id, until the metadata is old (KIP-392)."""
        if replica not in self._client.brokers:
            self._client.metadata(self._partition.topic)
        self._replica = self._client.brokers.get(replica)
        if self._replica is None:
            self._avoid_replicas()
            return
        _log.debug("%s: fetches go to the preferred replica %d", self._partition, replica)
        self._replica_until = self._client.clock() + self._client.settings.metadata_age_s

    def leave_replica(self) -> None:
        """Fetch from the leader again."""
        self._replica = None

    def forget(self) -> None:
        """Request the leader before the next fetch."""
        self._leader = self._replica = None

    def _avoid_replicas(self) -> None:
        self._avoided_until = self._client.clock() + self._client.settings.metadata_age_s

    def _known_leader(self) -> Address:
        if self._leader is None:
            raise RuntimeError("the leader has not been found")
        return self._leader


def planned_leader(split: Split, rack: str) -> Address | None:
    """The first endpoint of a split, which is the leader's unless a rack counts; a wrong one is refused by the broker."""
    if rack or not split.endpoints:
        return None
    addresses = parse_servers(split.endpoints[0])
    return addresses[0] if len(addresses) == 1 else None
