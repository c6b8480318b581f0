"""Partitions, topics, brokers and other nouns of a Kafka cluster, as frozen values: hashable and pickle-safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pyspark_zkafka.errors import CodecError

OffsetStore = Literal["zookeeper", "kafka"]
"""A store of a group's offsets: ``/consumers/<group>/offsets`` or ``__consumer_offsets``."""

WITHOUT_LEADER = -1
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, where Python's datetime ends. Later times in znodes are ignored."""
_SESSION = re.compile("0x[0-9a-fA-F]{1,16}")


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then by number.

    A tuple hashes and compares several times as fast as a dataclass, and plans look up tens of thousands of partitions.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a partition: the owner's thread, and a number that is new each time the partition is claimed."""

    thread: str
    sequence: int


def session_text(session: int) -> str:
    """Format a ZooKeeper session's id as ZooKeeper shows it: 64 bits in hexadecimal, without a sign.

    Ids are signed in memory, as in Java. Servers with a ``myid`` of 128 or more generate negative ids.

    >>> session_text(65546), session_text(-0x37FF_FFFF_FFFF_FFFF)
    ('0x1000a', '0xc800000000000001')
    """
    return f"0x{session & (2**64 - 1):x}"


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The member of a group that owns a claim: its consumer id and its ZooKeeper session.

    For a member in Kafka, `session` is the number of its incarnation.

    >>> str(ClaimOwner("billing_c1", 0x1000A))
    'billing_c1@0x1000a'
    >>> ClaimOwner.parse("billing_c1@0x1000a").session
    65546
    """

    consumer: str
    session: int

    @classmethod
    def parse(cls, text: str) -> ClaimOwner:
        """Parse the result of `str`. Raises ValueError for any other text."""
        consumer, _, session = text.rpartition("@")
        if not consumer or not _SESSION.fullmatch(session):
            raise ValueError("a member and its session: consumer@0x1000a")
        number = int(session, 16)
        return cls(consumer, number - (number >> 63 << 64))

    def __str__(self) -> str:
        return f"{self.consumer}@{session_text(self.session)}"


def host_port(host: str, port: int) -> str:
    """Format an address as in options, with brackets around an IPv6 address.

    >>> host_port("kafka1", 9092), host_port("::1", 9092)
    ('kafka1:9092', '[::1]:9092')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """The address of one of a broker's listeners."""

    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker: its id, its endpoints in the order of its registration, and its rack if it has one."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's replica assignment and identity.

    `partitions` maps ascending partitions to their replicas, the preferred leader first. `topic_id` is Kafka's, 22
    characters of URL-safe base64, from 2.8 on. `czxid` is the transaction that created the topic's znode. Both change when
    a topic is deleted and created again, and are None if unknown.
    """

    name: str
    partitions: Mapping[int, tuple[int, ...]]
    topic_id: str | None = None
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's leader, epochs and ISR; `leader` is -1 when the partition is offline.

    `czxid` is the transaction that created the partition's state in ZooKeeper, before its first record; None if unknown.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = -1
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment, read from ZooKeeper or from a broker's metadata.

    - `topics`: the requested topics that exist.
    - `states`: the states of their partitions. A partition that is being created has no state yet.
    - `kraft_epoch`: the epoch of KRaft's controller, which ZooKeeper records during and after a migration; otherwise -1.
    - `unreadable`: the errors of malformed znodes, by path. The snapshot leaves out their brokers and topics.
    """

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic] = field(default_factory=dict)
    states: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    controller: int | None = None
    cluster_id: str | None = None
    kraft_epoch: int = -1
    unreadable: Mapping[str, CodecError] = field(default_factory=dict)

    @property
    def is_outdated(self) -> bool:
        """Return True if brokers have left ZooKeeper for KRaft, so that leaders are missing from this snapshot.

        Brokers in KRaft mode do not register in ZooKeeper. Topics and leaders are written there until the last broker has
        left, and are not updated afterwards.
        """
        if self.kraft_epoch < 0:
            return False
        return not self.brokers or any(s.leader not in (WITHOUT_LEADER, *self.brokers) for s in self.states.values())

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions in numeric order; empty if the topic is not in the snapshot."""
        found = self.topics.get(topic)
        return [] if found is None else [TopicPartition(topic, p) for p in sorted(found.partitions)]

    def all_partitions(self) -> list[TopicPartition]:
        """Return the partitions of all topics, by topic in the snapshot's order and by number."""
        return [tp for topic in self.topics for tp in self.partitions(topic)]

    def leader(self, partition: TopicPartition) -> Broker | None:
        """Return the live broker that leads a partition, None if the partition is offline."""
        state = self.states.get(partition)
        return None if state is None else self.brokers.get(state.leader)

    def led(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions that have a live leader, in numeric order."""
        return [tp.partition for tp in self.partitions(topic) if self.leader(tp) is not None]

    def without_leader(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the given partitions that have no live leader, in the given order."""
        return [tp for tp in partitions if self.leader(tp) is None]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The records `[start, until)` of one partition."""

    partition: TopicPartition
    start: int
    until: int

    @property
    def size(self) -> int:
        """The number of offsets in the range; 0 for an empty or inverted range."""
        return max(0, self.until - self.start)
