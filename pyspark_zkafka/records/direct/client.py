"""Connections to a cluster's brokers, the sizes of fetches, and the broker to fetch a partition from."""

from __future__ import annotations

import logging
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import Unsupported
from pyspark_zkafka.records.direct.connection import Address, Buffer, Connection, Deadline
from pyspark_zkafka.records.direct.messages import (
    FETCH,
    METADATA,
    NONE,
    Leader,
    Metadata,
    metadata_request,
    read_metadata,
)
from pyspark_zkafka.records.direct.settings import parse_servers, settings_of, tls_context
from pyspark_zkafka.records.direct.wire import ConnectionLost

_log = logging.getLogger(__name__)

_FIRST_SETUP_S = 3.0
# Some records are larger than the mean, and a batch that does not fit whole is fetched again.
_MARGIN = 1.1
# Of what is known already: a single fetch of unusual records must not decide how large the next one is.
_DECAY = 0.9
# On a slow link, a response must not take longer, so that records keep arriving.
_MOST_WAIT_S = 1.0

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


class _Seen(NamedTuple):
    offsets: float
    size_bytes: float


@dataclass
class FetchSizes:
    """Sizes of fetches by topic, in bytes: at least `first`, at most `most`, unless `first` is more.

    Each request costs the broker and the client about the same, whatever it brings. So a range is best read in few fetches,
    none of which brings much from beyond its end.

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
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _arriving_bytes: float = math.inf

    def note(self, topic: str, offsets: int, size_bytes: int) -> None:
        """Learn from a fetch of a topic, whose records took so many offsets, gaps included, and bytes."""
        seen = self._seen.get(topic, _Seen(0.0, 0.0))
        self._seen[topic] = _Seen(_DECAY * seen.offsets + offsets, _DECAY * seen.size_bytes + size_bytes)

    def note_wait(self, size_bytes: int, waited_s: float) -> None:
        """Learn how long the client had to wait for so many bytes of records; of few it says nothing."""
        if size_bytes < self.first:
            return
        self._arriving_bytes = size_bytes * _MOST_WAIT_S / waited_s if waited_s > 0 else math.inf

    def next(self, topic: str, offsets: int) -> int:
        """The size of the next fetch, where so many offsets are left."""
        seen = self._seen.get(topic)
        needed = 0.0 if seen is None else _MARGIN * offsets * seen.size_bytes / seen.offsets
        return max(round(min(needed, self.most, self._arriving_bytes)), self.first)


class DirectClient:
    """Connections by broker, open for a ``with`` block, and used by one `DirectConsumer` after the other.

    Create it where it is used, after any fork. The constructor raises Unsupported for a property that is not honoured, and
    ``with`` for one that cannot be used. No version of Fetch after `newest_fetch` is used. Fetches grow from the size that
    the properties name to `most_fetch_bytes`, if that is more, where there are so many bytes to read.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        newest_fetch: int = FETCH.newest,
        most_fetch_bytes: int = 0,
    ) -> None:
        self.settings = settings_of(properties)
        self.clock = clock
        self.newest_fetch = newest_fetch
        self.buffers = (Buffer(), Buffer())
        # In addition to the records, a response has lists of partitions and of aborted transactions.
        room = self.settings.socket.most_response_bytes // 2
        self.fetch_sizes = FetchSizes(self.settings.wanted.partition_max_bytes, min(most_fetch_bytes, room))
        self.brokers: Mapping[int, Address] = {}
        self._context: ssl.SSLContext | None = None
        self._connections: dict[Address, Connection] = {}
        self._failures: dict[Address, int] = {}
        self._next_server = 0
        self._asked: Address | None = None

    def __enter__(self) -> DirectClient:
        self._context = None if self.settings.tls is None else tls_context(self.settings.tls)
        return self

    def __exit__(self, *exc: object) -> None:
        self.disconnect()

    def deadline(self, seconds: float) -> Deadline:
        """A deadline in so many seconds, by the client's clock."""
        return Deadline.after(seconds, self.clock)

    def disconnect(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connected(self, address: Address) -> Connection | None:
        """The connection to a broker, if it is open, and no response is due: that would be taken for another one."""
        found = self._connections.get(address)
        return found if found is not None and found.is_open and found.is_idle else None

    def connect(self, address: Address) -> Connection:
        """The connection to a broker; opened now if it is not, for which it may block for some seconds.

        Raises ConnectionLost and Unsupported.
        """
        while (connection := self.try_connect(address, Deadline(math.inf, self.clock))) is None:
            pass
        return connection

    def try_connect(self, address: Address, deadline: Deadline) -> Connection | None:
        """The connection to a broker; None if it is not open at the deadline: another call continues to open it.

        Raises ConnectionLost and Unsupported.
        """
        found = self.connected(address)
        if found is not None:
            return found
        connection = self._opening(address)
        try:
            if not connection.open_further(deadline):
                return None
        except ConnectionLost:
            self._failures[address] = self._failures.get(address, 0) + 1
            raise
        self._failures.pop(address, None)
        return connection

    def _opening(self, address: Address) -> Connection:
        """The connection that is being opened, or a new one."""
        found = self._connections.get(address)
        if found is not None and found.is_opening:
            return found
        if found is not None:
            found.close()
        made = self._connections[address] = Connection(address, self.settings, self._context, self.clock)
        limit_s = _FIRST_SETUP_S * 2 ** min(self._failures.get(address, 0), 10)
        made.begin_opening(self.deadline(min(limit_s, self.settings.socket.setup_timeout_s)))
        return made

    def metadata(self, topic: str, deadline: Deadline | None = None) -> Metadata | None:
        """The state of a topic by one broker; after a failure, the next call asks another one.

        None if there is no connection at the deadline: another call continues. With one, it blocks for a round trip. Raises
        ConnectionLost and Unsupported.
        """
        server = self._asked or self._server_to_ask()
        self._asked = None
        connection = self.try_connect(server, deadline or Deadline(math.inf, self.clock))
        if connection is None:
            self._asked = server
            return None
        # Another broker may know more, if this one is asked again.
        self._next_server += 1
        version = connection.version(METADATA)
        try:
            response = connection.ask(metadata_request(version, topic), self.deadline(_FIRST_SETUP_S))
        except ConnectionLost:
            self._failures[server] = self._failures.get(server, 0) + 1
            raise
        found = read_metadata(response, version, topic)
        self.brokers = found.brokers
        return found

    def _server_to_ask(self) -> Address:
        """The next of the brokers that have failed least."""
        servers = list(dict.fromkeys([*self.settings.servers, *self.brokers.values()]))
        if not servers:
            raise ConnectionLost("there are no bootstrap servers")
        first = self._next_server % len(servers)
        return min(servers[first:] + servers[:first], key=lambda server: self._failures.get(server, 0))


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

    def connect(self, deadline: Deadline) -> Connection | None:
        """The connection to fetch from; None if it is not open at the deadline. The leader must have been found."""
        if self._replica is not None and self._client.clock() > self._replica_until:
            self._replica = None
        try:
            return self._client.try_connect(self._replica or self._known_leader(), deadline)
        except ConnectionLost:
            if self._replica is not None:
                self._avoid_replicas()
            raise

    def connect_leader(self) -> Connection:
        """The connection to the leader, which must have been found. Blocks while it is opened."""
        return self._client.connect(self._known_leader())

    def find(self, deadline: Deadline | None = None) -> int | None:
        """Request the leader, unless it is known; returns the broker's error if there is none, else 0.

        None if no broker could be asked before the deadline: another call continues.
        """
        if self._leader is not None:
            return NONE
        found = self._client.metadata(self._partition.topic, deadline)
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
        """Look the leader up again before the next fetch."""
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
