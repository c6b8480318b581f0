"""Workloads: readers, groups, transports and sinks: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pyspark_zkafka.testing.spec import version_tuple
from tests.faults.harness.history import Terms

__all__ = ["ENGINES", "KINDS", "PARTITIONS", "TRANSPORTS", "Workload", "kinds_of", "workload"]

Kind = Literal[
    "batch",
    "stream-zookeeper",
    "stream-kafka",
    "sink-at-least-once",
    "sink-exactly-once",
    "sink-exactly-once-foreach",
]

TRANSPORTS = ("direct", "librdkafka")
ENGINES = ("spark", "sail")
"""Engines, next to versions of pyspark other than the installed one; Sail runs batches only."""
SESSION_MS = 6000
PARTITIONS = 4
"""The partitions of a topic."""
BROKERS_LISTENER = "WIRED"
"""The brokers' listener behind the proxies."""


@dataclass(frozen=True)
class Workload:
    """Members of one group that read one topic; `kafka` is the version of the brokers unless it is the usual one."""

    kind: Kind
    transport: str
    members: int
    engine: str = "spark"
    kafka: str = ""

    @property
    def name(self) -> str:
        """The name of the workload, its topic and its group."""
        engine = "" if self.engine == "spark" else f"-{self.engine}"
        return f"{self.kind}-{self.transport}{engine}" + (f"-kafka-{self.kafka}" if self.kafka else "")

    @property
    def has_zookeeper(self) -> bool:
        """Whether the cluster has ZooKeeper."""
        return not self.kafka or version_tuple(self.kafka) < (4,)

    @property
    def has_idempotence(self) -> bool:
        """Whether the brokers accept idempotent producers."""
        return not self.kafka or version_tuple(self.kafka) >= (0, 11)

    @property
    def has_limits(self) -> bool:
        """Whether micro-batches can be limited: Spark does it from 4.2 on."""
        return self.kind != "batch" and (self.engine in ENGINES or version_tuple(self.engine) >= (4, 2))

    @property
    def is_sink(self) -> bool:
        """Whether the records go to a sink instead of the journal."""
        return self.kind.startswith("sink")

    @property
    def is_exactly_once(self) -> bool:
        """Whether the sink must have each row once."""
        return self.kind.startswith("sink-exactly-once")

    @property
    def in_foreach(self) -> bool:
        """Whether ``foreachBatch`` writes to the sink, after a shuffle, instead of the stream's own writer."""
        return self.kind == "sink-exactly-once-foreach"

    @property
    def cores(self) -> int:
        """The tasks of a member that run at once. With fewer cores than slots, a repeated micro-batch may have to wait."""
        return PARTITIONS if self.is_exactly_once else 2

    @property
    def in_kafka(self) -> bool:
        """Whether Kafka coordinates the group."""
        return self.kind == "stream-kafka" or not self.has_zookeeper

    @property
    def traits(self) -> set[str]:
        """The traits for `nemesis.kinds`."""
        cluster = {"ensemble"} if self.has_zookeeper else set()
        cluster |= {"leader epochs"} if self.has_idempotence else set()  # both came with Kafka 0.11
        return {"sink" if self.is_sink else "reader", "kafka" if self.in_kafka else "zookeeper", *cluster}

    @property
    def member_names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(f"{self.name}-{number}" for number in range(self.members))

    def terms(self) -> Terms:
        """Return the terms by which the workload is judged."""
        return Terms(reads=not self.is_sink, checkpoint=self.kind != "batch", session_s=SESSION_MS / 1000)

    def source(self, member: str, zookeeper: str, brokers: str) -> dict[str, str]:
        """Return the options of a member's source, given the addresses of any ZooKeeper, and of the brokers."""
        shared = {
            "subscribe": self.name,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "transport": self.transport,
            "listener.name": BROKERS_LISTENER,
            "kafkaConsumer.pollTimeoutMs": "25000",  # so that a task fails within `Terms.settle_s` of a lost answer
        }
        limit = {"maxOffsetsPerTrigger": "2000"} if self.has_limits else {}
        return {**shared, **limit, **(_kafka(member, brokers) if self.in_kafka else _zookeeper(member, zookeeper))}

    def sink(self, zookeeper: str, brokers: str) -> dict[str, str]:
        """Return the options of the sink."""
        once = {"deliveryGuarantee": "exactly-once", "kafka.transaction.timeout.ms": "60000"}
        connect = {"zookeeper.connect": zookeeper} if self.has_zookeeper else {"kafka.bootstrap.servers": brokers}
        to = {**connect, "topic": self.sink_topic, "listener.name": BROKERS_LISTENER}
        return {**to, **(once if self.is_exactly_once else {"transport": self.transport})}

    @property
    def sink_topic(self) -> str:
        """The topic of the sink."""
        return f"{self.name}-sink"


def workload(kind: Kind, transport: str = "direct", engine: str = "spark", kafka: str = "") -> Workload:
    """Return a workload with its usual number of members: a sink has one, others two."""
    return Workload(kind, transport, 1 if kind.startswith("sink") else 2, engine, kafka)


KINDS: tuple[Kind, ...] = get_args(Kind)


def kinds_of(kafka: str) -> tuple[Kind, ...]:
    """Return the kinds that a version of the brokers can have; all for the usual version.

    >>> kinds_of("0.10.2.2")
    ('batch', 'stream-zookeeper', 'stream-kafka', 'sink-at-least-once')
    >>> kinds_of("4.3.1")[:2]
    ('batch', 'stream-kafka')
    """
    possible = [workload(kind, kafka=kafka) for kind in KINDS]
    return tuple(
        one.kind
        for one in possible
        if (one.has_zookeeper or one.kind != "stream-zookeeper") and (one.has_idempotence or not one.is_exactly_once)
    )


def _zookeeper(member: str, connect: str) -> dict[str, str]:
    return {
        "zookeeper.connect": connect,
        "consumer.id": member,
        "rebalance.backoff.ms": "500",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }


def _kafka(member: str, brokers: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": brokers,
        "groupMembership": "kafka",
        "session.timeout.ms": str(SESSION_MS),
        "kafka.client.id": member,
    }
