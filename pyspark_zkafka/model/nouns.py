"""The nouns of a Kafka cluster, as frozen values: ordered, hashable, pickle-safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark_zkafka.errors import CodecError

NO_LEADER = -1
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, where Python's datetime ends: a later time, which others wrote, is none."""
_SESSION = re.compile("0x[0-9a-fA-F]{1,16}")


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then by number.

    A tuple, as plans look up tens of thousands of them: it hashes and compares several times as fast as a dataclass.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a partition: the thread that it names, and a number that is new each time the partition is claimed."""

    thread: str
    sequence: int


def session_text(session: int) -> str:
    """A ZooKeeper session's id as ZooKeeper itself shows it: 64 bits in hexadecimal, without a sign.

    In memory an id is signed, as in Java: servers whose ``myid`` is 128 or more generate negative ones.

    >>> session_text(65546), session_text(-0x37FF_FFFF_FFFF_FFFF)
    ('0x1000a', '0xc800000000000001')
    """
    return f"0x{session & (2**64 - 1):x}"


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """A member of a consumer group, as its claims name it: its id, and the ZooKeeper session that they live with.

    >>> str(ClaimOwner("billing_c1", 0x1000A))
    'billing_c1@0x1000a'
    >>> ClaimOwner.parse("billing_c1@0x1000a").session
    65546
    """

    consumer: str
    session: int

    @classmethod
    def parse(cls, text: str) -> ClaimOwner:
        """The owner whose `str` is the text; ValueError if there is none."""
        consumer, _, session = text.rpartition("@")
        if not consumer or not _SESSION.fullmatch(session):
            raise ValueError("a member and its session: consumer@0x1000a")
        number = int(session, 16)
        return cls(consumer, number - (number >> 63 << 64))

    def __str__(self) -> str:
        return f"{self.consumer}@{session_text(self.session)}"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """The address of one of a broker's listeners.

    >>> str(Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092))
    'kafka1:9092'
    >>> str(Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092))
    '[::1]:9092'
    """

    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker: its id, its endpoints in the order of its registration, and its rack if it has one."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's replica assignment and identity.

    `partitions` maps partitions, in order, to their replicas, the preferred leader first. `topic_id` is Kafka's (22
    characters of URL-safe base64; from 2.8 on), `czxid` the id of the transaction that created the topic's znode: either
    changes when a topic is deleted and created again. None where unknown.
    """

    name: str
    partitions: Mapping[int, tuple[int, ...]]
    topic_id: str | None = None
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's leader, epochs and ISR; `leader` is -1 when the partition is offline.

    `czxid` is the id of the transaction that created the partition's state in ZooKeeper, before its first record; None
    where unknown.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = -1
    czxid: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment, read from ZooKeeper or from a broker's metadata.

    `topics` has the requested topics that exist; `states` has an entry for each of their partitions that has a
    state (a partition that is being created has none yet). `kraft_epoch` is the epoch of KRaft's controller as ZooKeeper
    records it while a cluster is migrated to KRaft, and ever after; otherwise -1. `unreadable` has the errors of malformed
    znodes by path: their brokers, and topics with one, are missing from the snapshot.
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
        """True if brokers have left ZooKeeper for KRaft, so that leaders seem to be missing from this snapshot of it.

        Brokers in KRaft mode do not register there. While others do, topics and leaders are still written to ZooKeeper;
        after the last one has left, ZooKeeper keeps a state of the past.
        """
        if self.kraft_epoch < 0:
            return False
        return not self.brokers or any(s.leader not in (NO_LEADER, *self.brokers) for s in self.states.values())

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic in numeric order; empty for a topic that is not in the snapshot."""
        found = self.topics.get(topic)
        return [] if found is None else [TopicPartition(topic, p) for p in sorted(found.partitions)]

    def leader(self, partition: TopicPartition) -> Broker | None:
        """The live broker that leads a partition, or None when the partition is offline."""
        state = self.states.get(partition)
        return None if state is None else self.brokers.get(state.leader)

    def led(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions that have a live leader, in numeric order."""
        return [tp.partition for tp in self.partitions(topic) if self.leader(tp) is not None]

    def without_leader(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the given partitions that have no live leader, in the given order."""
        return [tp for tp in partitions if self.leader(tp) is None]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The records `[start, until)` of one partition."""

    partition: TopicPartition
    start: int
    until: int

    @property
    def size(self) -> int:
        """The number of offsets in the range; 0 for an empty or inverted one."""
        return max(0, self.until - self.start)
