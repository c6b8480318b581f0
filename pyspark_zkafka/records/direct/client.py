"""Sizes of fetches, and the broker to fetch each partition from."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark_zkafka.brokers.errors import NO_LEADER_CODES
from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.direct.settings import ReadSettings
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.client import Client
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.metadata_messages import PartitionMetadata
from pyspark_zkafka.wire.protocol import Address, ConnectionLost, Unsupported
from pyspark_zkafka.wire.settings import parse_servers

_log = logging.getLogger(__name__)

# Room for records above the mean size: a batch that does not fit must be fetched again.
_MARGIN = 1.1
# The weight of earlier fetches: a single fetch of unusual records must not determine the size of the next.
_DECAY = 0.9
# The longest time that a response may take on a slow link, to keep records arriving.
_MOST_WAIT_S = 1.0

RETRIABLE_FETCH = NO_LEADER_CODES | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors after which metadata is requested again, as in Java's ``FetchCollector`` (3.9.1)."""


@dataclass
class FetchSizes:
    """Sizes of fetches by topic, in bytes: at least `first`, and at most `most` unless `first` is more.

    A request costs the broker and the client about the same, whatever its size. A range is best read in few fetches, unless
    they return many records beyond its end.

    >>> sizes = FetchSizes(first=1_000, most=50_000)
    >>> sizes.next("clicks", 300)
    1000
    >>> sizes.note("clicks", offsets=10, size_bytes=1_000)
    >>> sizes.next("clicks", 5), sizes.next("clicks", 300), sizes.next("clicks", 1_000_000)
    (1000, 33000, 50000)
    >>> sizes.note_wait(1_000, waited_s=0.05)
    >>> sizes.next("clicks", 1_000_000)
    20000
    """

    first: int
    most: int
    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)  # weighted offsets and bytes
    _arriving_bytes: float = math.inf

    def note(self, topic: str, offsets: int, size_bytes: int) -> None:
        """Learn the number of offsets, gaps included, and the bytes of records in a fetch of a topic."""
        seen_offsets, seen_bytes = self._seen.get(topic, (0.0, 0.0))
        self._seen[topic] = _DECAY * seen_offsets + offsets, _DECAY * seen_bytes + size_bytes

    def note_wait(self, size_bytes: int, waited_s: float) -> None:
        """Learn how long the client waited for a response with this many bytes of records. Ignores small responses."""
        if size_bytes >= self.first:
            self._arriving_bytes = size_bytes * _MOST_WAIT_S / waited_s if waited_s > 0 else math.inf

    def next(self, topic: str, offsets: int) -> int:
        """The size of the next fetch when this many offsets are left."""
        seen_offsets, seen_bytes = self._seen.get(topic, (1.0, 0.0))
        needed = _MARGIN * offsets * seen_bytes / seen_offsets
        return max(round(min(needed, self.most, self._arriving_bytes)), self.first)


class DirectClient(Client):
    """Connections and buffers for one `DirectConsumer` after the other.

    Fetches grow from the size in the properties to `most_fetch_bytes` if there are enough bytes to read.
    """

    def __init__(
        self,
        settings: ReadSettings,
        clock: Callable[[], float] = time.monotonic,
        most_fetch_bytes: int = 0,
    ) -> None:
        super().__init__(settings.client, clock)
        self.fetch = settings.fetch
        self.propagation_s = settings.propagation_s
        self.buffers = (Buffer(), Buffer())
        # A response also has lists of partitions and of aborted transactions.
        room = settings.client.socket.most_response_bytes // 2
        self.fetch_sizes = FetchSizes(settings.fetch.partition_max_bytes, min(most_fetch_bytes, room))


class PartitionBroker:
    """Finds the broker to fetch the partition of a split from.

    `epoch` is the leader's epoch, or -1 if unknown. Methods may raise ConnectionLost and Unsupported.
    """

    def __init__(self, client: DirectClient, split: Split) -> None:
        self._client = client
        self._partition = split.partition
        self._leader = planned_leader(split, client.fetch.rack)
        self._replica: Address | None = None
        self._replica_until = 0.0
        self._avoided_until = 0.0
        self.epoch = split.leader_epoch

    @property
    def is_replica(self) -> bool:
        """True if a follower is the broker to fetch from."""
        return self._replica is not None

    @property
    def avoids_replicas(self) -> bool:
        """True if fetches must not ask for a replica, because the preferred replica was not reachable, or stood still."""
        return self._client.clock() < self._avoided_until

    def connected(self) -> Connection | None:
        """The connection to fetch from, if the broker is known and the connection open."""
        target = self._replica or self._leader
        return None if target is None else self._client.connected(target)

    def connect(self, deadline: Deadline) -> Connection | None:
        """The connection to fetch from; None if it is not open at the deadline. Call `find` first."""
        if self._replica is not None and self._client.clock() > self._replica_until:
            self._replica = None
        try:
            return self._client.try_connect(self._replica or self._known_leader(), deadline)
        except ConnectionLost:
            if self._replica is not None:
                self.avoid_replicas()
            raise

    def connect_leader(self, deadline: Deadline) -> Connection | None:
        """The connection to the leader; None if it is not open at the deadline. Call `find` first."""
        return self._client.try_connect(self._known_leader(), deadline)

    def find(self, deadline: Deadline | None = None) -> int | None:
        """Request the leader unless it is known. Returns 0, or the broker's error if there is no leader.

        Returns None if no broker could be asked before the deadline. The next call continues.
        """
        if self._leader is not None:
            return NONE
        found = self._client.metadata([self._partition.topic], deadline)
        if found is None:
            return None
        topic = found.topics[self._partition.topic]
        missing = PartitionMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        state = topic.partitions.get(self._partition.partition, missing)
        # An unavailable replica does not affect fetches from the leader.
        code = topic.error or (NONE if state.error == ErrorCode.REPLICA_NOT_AVAILABLE else state.error)
        if code != NONE and code not in RETRIABLE_FETCH:
            raise Unsupported(f"the metadata of {self._partition.topic} has error {code}")
        if code == NONE and state.leader in found.brokers:
            self._leader, self.epoch = found.brokers[state.leader].address, state.epoch
        return NONE if self._leader is not None else code or ErrorCode.LEADER_NOT_AVAILABLE

    def prefer(self, replica: int) -> None:
        """Fetch from the replica on this broker until the metadata expires (KIP-392)."""
        if replica not in self._client.brokers:
            self._client.metadata([self._partition.topic])
        self._replica = self._client.brokers.get(replica)
        if self._replica is None:
            self.avoid_replicas()
            return
        _log.debug("%s: fetches go to the preferred replica %d", self._partition, replica)
        self._replica_until = self._client.clock() + self._client.settings.metadata_age_s

    def leave_replica(self) -> None:
        """Fetch from the leader again."""
        self._replica = None

    def avoid_replicas(self) -> None:
        """Fetch from the leader, and ask for no replica, until the metadata expires."""
        self._replica = None
        self._avoided_until = self._client.clock() + self._client.settings.metadata_age_s

    def forget(self) -> None:
        """Look the leader up again before the next fetch."""
        self._leader = self._replica = None

    def _known_leader(self) -> Address:
        if self._leader is None:
            raise RuntimeError("the leader has not been found")
        return self._leader


def planned_leader(split: Split, rack: str) -> Address | None:
    """The first endpoint of a split: the leader's, if it was alive. None with a rack: the metadata then has the leader."""
    if rack or not split.endpoints:
        return None
    addresses = parse_servers(split.endpoints[0])
    return addresses[0] if len(addresses) == 1 else None
