"""Session, brokers, group and member of a stream's planner, as values that a test changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyspark_zkafka.errors import NoLeader, ZKafkaError
from pyspark_zkafka.group.commits import CommitResult
from pyspark_zkafka.model.nouns import (
    Broker,
    Claim,
    ClaimOwner,
    ClusterSnapshot,
    Endpoint,
    OffsetRange,
    PartitionState,
    Topic,
    TopicPartition,
)
from pyspark_zkafka.model.offsets import EARLIEST, AtTimestamp, Position
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.cluster_state import has_same_topics
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.retries import Retry

__all__ = ["T0", "T1", "T2", "U0", "Member", "Session", "driver"]

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
U0 = TopicPartition("u", 0)
BROKER = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "broker1", 9092),))


class Session:
    """A planner's session with its brokers and group offsets. Logs span [10, end), or start at an offset in `firsts`. A
    record's offset is its timestamp.

    Partitions in `offline` have no leader, leaders of those in `silent` do not answer when ends are requested, those in
    `mute` not when positions are, and other members own those in `others`. No records are left in those in `recordless`;
    `lookups` counts the searches for records. Topics were created in transaction `czxid`, or in `czxids`. `expected`
    collects the topics that the planner expected to exist.
    Without a member, the query reads the partitions in `assigned`, or all, except topics in `unsubscribed`.
    `while_waiting` is called whenever the planner waits, `while_asking` before leaders answer, and `while_reading_offsets`
    before the group's offsets are returned. Commits raise `commit_error`.
    """

    stores = ("zookeeper",)

    def __init__(self, member: Member | None = None) -> None:
        self.logs = {T0: 100, T1: 100}
        self.firsts: dict[TopicPartition, int] = {}
        self.offline: set[TopicPartition] = set()
        self.silent: set[TopicPartition] = set()
        self.mute: set[TopicPartition] = set()
        self.assigned: set[TopicPartition] | None = None
        self.unsubscribed: set[str] = set()
        self.czxid = 7
        self.czxids: dict[str, int] = {}
        self.expected: set[str] = set()
        self.member = member
        if member is not None:
            member.session = self
        self.stored: dict[TopicPartition, StoredOffset] = {}
        self.leveled: list[TopicPartition] = []
        self.others: dict[TopicPartition, str] = {}
        self.recordless: set[TopicPartition] = set()
        self.lookups = 0
        self.error: ZKafkaError | None = None
        self.opened = self.closed = 0
        self.now = 0.0
        self.while_waiting: Callable[[], None] = lambda: None
        self.retry = Retry(3, 1.0, self.sleep)
        self.while_asking: Callable[[], None] = lambda: None
        self.while_reading_offsets: Callable[[], None] = lambda: None
        self.commit_error: ZKafkaError | None = None

    def open(self) -> None:
        self.opened += self.opened == self.closed

    def close(self) -> None:
        self.closed += 1

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        if self.error is not None:
            raise self.error
        assert not self.unsubscribed & set(expected)
        self.expected |= set(expected)
        return self.snapshot_of({tp.topic for tp in self.logs} - self.unsubscribed)

    def snapshot_of(self, topics: Collection[str]) -> ClusterSnapshot:
        found = [tp for tp in self.logs if tp.topic in topics]
        czxids = {tp.topic: self.czxids.get(tp.topic, self.czxid) for tp in found}
        states = {tp: PartitionState(-1 if tp in self.offline else 1, 0, (1,), czxid=czxids[tp.topic]) for tp in found}
        parts = {name: {tp.partition: (1,) for tp in found if tp.topic == name} for name in czxids}
        return ClusterSnapshot({1: BROKER}, {n: Topic(n, parts[n], czxid=czxids[n]) for n in parts}, states)

    def settled_snapshot(self) -> ClusterSnapshot:
        return self.snapshot()

    def topic_names(self) -> list[str]:
        return ["t", "orders"]

    def has_same_topics_as(self, snapshot: ClusterSnapshot) -> bool:
        return has_same_topics(snapshot, self.snapshot())

    def subscribed(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
        return {tp: Claim("", 0) for tp in everything if self.assigned is None or tp in self.assigned}

    def servers(self, snapshot: ClusterSnapshot) -> str:
        return "broker1:9092"

    def created_after_subscription(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return set()

    @property
    def cluster(self) -> Session:
        return self

    @property
    def brokers(self) -> Session:
        return self

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        if mute := sorted(self.mute.intersection(wanted)):
            raise NoLeader("NO_LEADER", f"the leaders of {mute} are silent")
        return {tp: self._offset(tp, position) for tp, position in wanted.items()}

    def _offset(self, partition: TopicPartition, position: Position) -> int:
        first, end = self.firsts.get(partition, 10), self.logs[partition]
        if isinstance(position, AtTimestamp):
            return max(first, position.timestamp_ms) if position.timestamp_ms < end else -1
        return first if position == EARLIEST else end

    def high_watermarks(self, partitions: Collection[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {}

    def log_ends(self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]) -> Any:
        self.while_asking()
        failed = {tp: NoLeader("NO_LEADER", f"the leader of {tp} is silent") for tp in partitions if tp in self.silent}
        return {tp: self.logs[tp] for tp in partitions if tp not in failed}, failed

    def sleep(self, seconds: float) -> None:
        """Let time pass, and let the test change something meanwhile."""
        self.now += seconds
        self.while_waiting()

    def set_reading(self, partitions: Iterable[TopicPartition]) -> None:
        if self.member is not None:
            self.member.set_reading(list(partitions))

    def owners(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        return {tp: self.others[tp] for tp in partitions if tp in self.others}

    def without_records(self, ranges: Collection[OffsetRange]) -> set[TopicPartition]:
        self.lookups += 1
        return {found.partition for found in ranges if found.partition in self.recordless}

    def group_offsets(self) -> Session:
        return self

    def committed(
        self, partitions: Collection[TopicPartition], *, skip_malformed: bool = False, left: object = None
    ) -> Any:
        self.while_reading_offsets()
        return {tp: self.stored[tp] for tp in partitions if tp in self.stored}

    def commit(self, offsets: Mapping[TopicPartition, int], owner: object, resets: object) -> CommitResult:
        if self.commit_error is not None:
            raise self.commit_error
        self.stored |= {tp: StoredOffset(offset) for tp, offset in offsets.items()}
        return CommitResult(dict(offsets))

    def begin(self, starts: Mapping[TopicPartition, int]) -> Any:
        self.stored = {**{tp: StoredOffset(offset) for tp, offset in starts.items()}, **self.stored}
        return self.committed(starts)

    def copy_to_lagging_store(self, partitions: Collection[TopicPartition], owner: object) -> None:
        self.leveled += partitions


class Member:
    """A member with partitions assigned by the test, which records the partitions being read."""

    group, consumer, settled, rebalances, expiry_s = "g", "c", True, 0, 6.0
    owner: ClaimOwner | None = ClaimOwner("c", 1)
    session: Session

    def __init__(self, *assigned: TopicPartition) -> None:
        self.claims = {tp: Claim("c-0", n) for n, tp in enumerate(assigned)}
        self.reading: list[TopicPartition] = []
        self.waits = self.requests = 0

    def owned(self) -> Mapping[TopicPartition, Claim]:
        return dict(self.claims)

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        return self.owned()

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        self.reading = sorted(partitions)

    def wait(self, timeout_s: float) -> None:
        self.waits += 1
        self.session.sleep(timeout_s)

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        for _ in range(10):
            if not self.settled:
                self.wait(1.0)
        return self.settled

    def request_rebalance(self, event: object = None) -> None:
        """Count the request: the test assigns partitions."""
        self.requests += 1


def driver(session: Any, **options: str) -> StreamDriver:
    """Return the driver of a query, which by default starts at the beginning of the logs."""
    connection = {"kafka.bootstrap.servers": "broker1:9092"}
    if session.member is not None:
        connection = {"zookeeper.connect": "zk1:2181", "group.id": "g"}
    given = {**connection, "startingOffsets": "earliest", **options}
    if not given.keys() & {"subscribe", "subscribePattern", "assign"}:
        given["subscribe"] = "t"
    given = {name: value for name, value in given.items() if value}
    return StreamDriver(parse_stream(given), lambda: session.now, session.sleep, session)
