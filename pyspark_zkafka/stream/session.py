"""Connections and state of a stream's planner between micro-batches: cluster snapshot, brokers, group."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark_zkafka.cluster import bootstrap_servers
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.model import NO_LEADER, Claim, ClusterSnapshot, TopicPartition
from pyspark_zkafka.protocol.offsets import HIGH_WATERMARK, LATEST
from pyspark_zkafka.protocol.planning import (
    Assign,
    Subscribe,
    SubscribeExcept,
    SubscribePattern,
    Subscription,
    wanted_topics,
)
from pyspark_zkafka.protocol.znodes import brokers as broker_znodes
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.retries import Retry

if TYPE_CHECKING:
    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.group.offset_store import GroupOffsets
    from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

__all__ = ["ANSWER_S", "StreamSession"]

_log = logging.getLogger(__name__)

_WATCHED_AGE_S = 60.0  # watches report changes
_TOLD_AGE_S = 1.0  # brokers must be polled
_LEADERLESS_AGE_S = 0.5
_BLIND_AGE_S = 0.5
ANSWER_S = 5.0  # a leader that does not answer in time is asked again later, so that the others do not wait


class StreamSession:
    """A planner's session, open from ``__enter__`` to ``close``; for one thread, in the process that created it.

    Parameters
    ----------
    options : StreamOptions
    clock, sleep : callable
        Monotonic seconds; wait for some seconds.
    """

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = options.read
        self._group = options.group
        self._clock = clock
        self._sleep = sleep
        self.retry = Retry(options.read.retries, options.read.retry_interval_ms / 1000, sleep)
        self._opened = ExitStack()
        self._stale = threading.Event()
        self._snapshot: ClusterSnapshot | None = None
        self._subscribed: tuple[ClusterSnapshot, Mapping[TopicPartition, Claim]] | None = None
        self._blind = False
        self._missed: set[str] = set()
        self._servers: str | None = None
        self._looked_at = 0.0
        self._max_age_s = 0.0
        self._zookeeper: ZooKeeperClient | None = None
        self.member: GroupMember | None = None
        self._brokers: KafkaAdmin | None = None
        self._offsets: GroupOffsets | None = None

    def __enter__(self) -> StreamSession:
        """Connect, and join the group if the options require it.

        Raises
        ------
        ZKafkaError
            ZooKeeper or the brokers cannot be reached, or refuse; the group rejects the member.
        """
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group at once, and close all connections; idempotent; blocks for some seconds at the most."""
        self._opened.close()

    def _open(self) -> None:
        connection = self._read.connection
        if connection.zookeeper is None:
            self._brokers = self._opened.enter_context(
                KafkaAdmin(connection.bootstrap_servers or "", connection.kafka, read_committed=connection.read_committed)
            )
        elif self._group is not None and self._group.join:
            from pyspark_zkafka.group.member import GroupMember

            member = GroupMember(connection.zookeeper, self._group, self._subscription)
            self.retry(member.join)
            self._opened.callback(member.leave)
            self.member, self._zookeeper = member, member.client
        else:
            from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

            client = ZooKeeperClient(connection.zookeeper)
            self.retry(client.__enter__)
            self._opened.callback(client.close)
            self._zookeeper = client

    @property
    def brokers(self) -> KafkaAdmin:
        """The brokers' admin client; created with those of the first snapshot as bootstrap servers."""
        if self._brokers is None:
            read = self._read.connection
            admin = KafkaAdmin(self.servers(self.snapshot()), read.kafka, read_committed=read.read_committed)
            self._brokers = self._opened.enter_context(admin)
        return self._brokers

    @property
    def offsets(self) -> GroupOffsets:
        """The group's offsets, in their stores."""
        if self._group is None:
            raise OptionError("INVALID_OPTION", "Offsets of a group are read, and no group is named; set group.id")
        if self._offsets is None:
            from pyspark_zkafka.group.offset_store import GroupOffsets

            servers = self.servers(self.snapshot())
            offsets = GroupOffsets(self._read.connection, servers, self._group.name, self._read.stores, self._zookeeper)
            self._offsets = self._opened.enter_context(offsets)
        return self._offsets

    def servers(self, snapshot: ClusterSnapshot) -> str:
        """Bootstrap servers, ``host:port,...``; while no broker is registered, the last ones that were."""
        if snapshot.brokers or self._servers is None:
            self._servers = bootstrap_servers(self._read.connection, snapshot)
        return self._servers

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        """The cluster with the subscribed topics that exist.

        Read again when a watch reports a change of brokers or topics, when the connection is back, while a partition has no
        leader, and once a minute; without ZooKeeper, once a second. If that fails, the last one is used for longer.

        Parameters
        ----------
        anew : bool
            Read again now.
        expected : collection of str
            Topics that existed: the deletion of one of them is confirmed by another look.

        Raises
        ------
        ZKafkaError
            No snapshot was read before, or the error is not retriable.
        """
        found = self._snapshot
        if found is None:
            found = self._snapshot = self.retry(self._look)
        elif anew or self._is_old():
            found = self._look_again(found)
        missing = set(expected) - found.topics.keys()
        self._missed &= missing
        return found if missing <= self._missed else self._look_for(missing, found)

    def settled_snapshot(self) -> ClusterSnapshot:
        """A snapshot in which the leaders are registered, as far as the controller has replaced others after some retries.

        Until it has, a partition has an unregistered leader, and an epoch in which that leader may come back.
        """
        found = self.snapshot()
        for _ in range(self._read.retries):
            if not any(s.leader != NO_LEADER and s.leader not in found.brokers for s in found.states.values()):
                break
            self._sleep(self._read.retry_interval_ms / 1000)
            found = self.snapshot(anew=True)
        return found

    def is_still(self, snapshot: ClusterSnapshot) -> bool:
        """True if the topics are still those of a snapshot; brokers are queried, ZooKeeper's watches report changes."""
        now = self.snapshot(anew=self._zookeeper is None)
        return all(_identity(now, topic) == _identity(snapshot, topic) for topic in snapshot.topics)

    def log_ends(
        self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int] | None = None
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        """The ends of logs, and the errors of leaders that do not answer; blocks for 5 s or a little more.

        `epochs` receives the leader epochs of the logs, as far as brokers return them.
        """
        return self.brokers.list_offsets_each(dict.fromkeys(partitions, LATEST), ANSWER_S, epochs)

    def high_watermarks(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        """The ends of logs including open transactions, where `log_ends` stops before these."""
        return self.brokers.list_offsets_each(dict.fromkeys(partitions, HIGH_WATERMARK), ANSWER_S)

    def _is_old(self) -> bool:
        age_s = self._clock() - self._looked_at
        back = self._blind and self._zookeeper is not None and self._zookeeper.connected and age_s > _BLIND_AGE_S
        return back or self._stale.is_set() or age_s > self._max_age_s

    def _look_again(self, before: ClusterSnapshot) -> ClusterSnapshot:
        """A new snapshot, or the same one if it cannot be read."""
        if self._zookeeper is not None and not self._zookeeper.connected:
            self._go_on_blind("there is no connection to ZooKeeper")
            return before
        try:
            found = self._look()
        except ZKafkaError as error:
            if not error.retriable:
                raise
            self._go_on_blind(str(error))
            return before
        self._blind = False
        self._snapshot = found
        if self._zookeeper is not None and self._brokers is not None:
            self._brokers.refresh_metadata(_moved(before, found))
        return found

    def _go_on_blind(self, reason: str) -> None:
        if not self._blind:
            _log.warning("using the last snapshot of the cluster: %s", reason)
        self._stale.clear()
        self._blind, self._looked_at = self._zookeeper is not None, self._clock()

    def _look_for(self, missing: Collection[str], found: ClusterSnapshot) -> ClusterSnapshot:
        """Confirm that topics are deleted: ZooKeeper knows, but a broker that has just started may know none yet."""
        for _ in range(1 if self._zookeeper is not None else self._read.retries):
            if self._zookeeper is None:
                self._sleep(self._read.retry_interval_ms / 1000)
            found = self._look_again(found)
            if found.topics.keys() >= set(missing):
                break
        self._missed = set(missing) - found.topics.keys()
        return found

    def first_after_epoch(self, partition: TopicPartition, epoch: int, offsets: range) -> int | None:
        """The first offset in a range that was written in a later leader epoch; see `kafka.leader_epochs`."""
        from pyspark_zkafka.kafka.consumer_properties import consumer_properties
        from pyspark_zkafka.kafka.leader_epochs import first_after_epoch

        properties = consumer_properties(self._read.connection, self.servers(self.snapshot()), self._read.client_group)
        return first_after_epoch(properties, partition, epoch, offsets, ANSWER_S)

    def younger(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions created after the group subscribed to their topics; none without membership."""
        if self.member is None or self._zookeeper is None or not partitions:
            return set()
        from pyspark_zkafka.group.subscription import subscribed_since, younger

        by_pattern = not isinstance(self._subscription, Subscribe)
        topics = sorted({tp.topic for tp in partitions})
        since = subscribed_since(self._zookeeper, self.member.group, topics, by_pattern=by_pattern)
        return younger(partitions, self.snapshot(), since)

    def owned(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """The partitions to read: those that the member owns, or, without membership, all that are subscribed to."""
        if self.member is not None:
            return self.member.owned()
        if self._subscribed is None or self._subscribed[0] is not snapshot:
            self._subscribed = snapshot, self._all_of(snapshot)
        return self._subscribed[1]

    def _all_of(self, snapshot: ClusterSnapshot) -> dict[TopicPartition, Claim]:
        if isinstance(self._subscription, Assign):
            return {tp: _ALWAYS for tp in self._subscription.partitions if tp in snapshot.states}
        return {tp: _ALWAYS for topic in snapshot.topics for tp in snapshot.partitions(topic)}

    def _look(self) -> ClusterSnapshot:
        self._stale.clear()
        self._looked_at = self._clock()
        snapshot = self._told() if self._zookeeper is None else self._read_znodes(self._zookeeper)
        self._max_age_s = self._age_limit_s(snapshot)
        return snapshot

    def _read_znodes(self, zookeeper: ZooKeeperClient) -> ClusterSnapshot:
        by_name = isinstance(self._subscription, (Subscribe, Assign))
        lists = [broker_znodes.BROKER_IDS] if by_name else [broker_znodes.BROKER_IDS, znodes.TOPICS]
        found = zookeeper.children_many(lists, self._on_event)
        topics = wanted_topics(self._subscription, found.get(znodes.TOPICS, ()))
        zookeeper.exists_many(map(znodes.topic_path, topics), self._on_event)
        return zookeeper.snapshot(topics)

    def _told(self) -> ClusterSnapshot:
        by_pattern = isinstance(self._subscription, (SubscribePattern, SubscribeExcept))
        names = self.brokers.topic_names() if by_pattern else ()
        return self.brokers.snapshot(wanted_topics(self._subscription, names))

    def _age_limit_s(self, snapshot: ClusterSnapshot) -> float:
        partitions = (tp for topic in snapshot.topics for tp in snapshot.partitions(topic))
        if any(snapshot.leader(tp) is None for tp in partitions):
            return _LEADERLESS_AGE_S
        return _WATCHED_AGE_S if self._zookeeper is not None else _TOLD_AGE_S

    def _on_event(self, event: object) -> None:
        """Mark the snapshot as stale; called on kazoo's thread."""
        self._stale.set()

    @property
    def _subscription(self) -> Subscription:
        if self._read.subscription is None:
            text = "No topics are given; give one of subscribe, subscribePattern, subscribeExceptPattern and assign"
            raise OptionError("INVALID_OPTION", text)
        return self._read.subscription


def _identity(snapshot: ClusterSnapshot, topic: str) -> tuple[str | None, int | None] | None:
    found = snapshot.topics.get(topic)
    return None if found is None else (found.topic_id, found.czxid)


def _moved(before: ClusterSnapshot, now: ClusterSnapshot) -> set[str]:
    """The topics of which a partition's leader has changed, or been elected for the first time."""
    return {tp.topic for tp in now.states if (leader := now.leader(tp)) is not None and leader != before.leader(tp)}


_ALWAYS = Claim("", 0)
