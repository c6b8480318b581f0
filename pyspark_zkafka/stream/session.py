"""Connections and state of a stream's planner between micro-batches: cluster snapshot, brokers, group."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.cluster import bootstrap_servers, current_snapshot, describe_migration
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, OptionError, ZKafkaError
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.model import NO_LEADER, Claim, ClaimOwner, ClusterSnapshot, TopicPartition
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
from pyspark_zkafka.stream.freshness import has_same_topics, max_age_s, moved_topics

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership, OffsetStore
    from pyspark_zkafka.group.offset_store import GroupOffsets
    from pyspark_zkafka.options.model import GroupOptions, ZooKeeperConfig
    from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

__all__ = ["ANSWER_S", "StreamSession"]

_log = logging.getLogger(__name__)

_RECONNECTED_AGE_S = 0.5
_RESTARTED_S = 30.0  # longer than a broker takes to restart, or to replace an expired session
_SAMPLE_S = 3.0
ANSWER_S = 5.0  # a leader that does not answer in time is asked again later, so that the others do not wait
_UNCLAIMED = Claim("", 0)

EndsAndErrors = tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]
"""The ends of logs, and the errors of leaders that do not answer."""


class StreamSession:
    """A planner's session, open from ``__enter__`` to ``close``; for one thread, in the process that created it."""

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
        self._is_cut_off = False
        self._is_polled = False
        self._is_migration_reported = False
        self._have_brokers_left = False
        self._left_at: float | None = None
        self._deleted: set[str] = set()
        self._servers: str | None = None
        self._read_at = 0.0
        self._max_age_s = 0.0
        self._zookeeper: ZooKeeperClient | None = None
        self.member: Membership | None = None
        self._member_offsets: OffsetStore | None = None
        self._brokers: KafkaAdmin | None = None

    def __enter__(self) -> StreamSession:
        """Connect, and join the group if the options require it; raises ZKafkaError if either is refused or impossible."""
        connection = self._read.connection
        membership = "none" if self._group is None else self._group.membership
        if connection.zookeeper is None:
            self._brokers = self._opened.enter_context(KafkaAdmin.of(connection))
        elif membership not in ("auto", "zookeeper") or not self._join_in_zookeeper(connection.zookeeper):
            self._open_zookeeper(connection.zookeeper)
            membership = "kafka" if membership == "auto" else membership
        if membership == "kafka":
            self._join_in_kafka()
        return self

    def _open_zookeeper(self, ensemble: ZooKeeperConfig) -> None:
        from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

        client = ZooKeeperClient(ensemble)
        self.retry(client.__enter__)
        self._opened.callback(client.close)
        self._zookeeper = client

    def _join_in_zookeeper(self, ensemble: ZooKeeperConfig) -> bool:
        """Join, unless the options leave it open who coordinates the group, and all brokers have left ZooKeeper."""
        from pyspark_zkafka.group.member import GroupMember

        group = self._required_group
        member = GroupMember(ensemble, group, self._subscription)
        self.retry(member.join)
        with ExitStack() as leaving:
            leaving.callback(member.leave)
            if group.membership == "auto" and self.retry(member.client.is_left):
                from pyspark_zkafka.group.joining import refuse_unmigrated

                if "kafka" not in self._read.stores:
                    self.retry(lambda: refuse_unmigrated(member.client, group.name))
                return False
            leaving.pop_all()
        self._opened.callback(member.leave)
        self.member, self._zookeeper = member, member.client
        _log.info("%s joined group %s in ZooKeeper (groupMembership=%s)", member.consumer, group.name, group.membership)
        return True

    def _join_in_kafka(self) -> None:
        from pyspark_zkafka.group.joining import KafkaJoin

        servers = self.servers(self.snapshot())
        join = KafkaJoin(self._read.connection, servers, self._required_group, self._subscription)
        self.member, self._member_offsets = join.open(self._opened, self._zookeeper)
        group = self._required_group
        _log.info("joining group %s in Kafka (groupMembership=%s)", group.name, group.membership)

    def close(self) -> None:
        """Leave the group at once, and close all connections; idempotent; blocks for some seconds at the most."""
        self._opened.close()

    @property
    def brokers(self) -> KafkaAdmin:
        """The brokers' admin client; created with those of the first snapshot as bootstrap servers."""
        if self._brokers is None:
            admin = KafkaAdmin.of(self._read.connection, self.servers(self.snapshot()))
            self._brokers = self._opened.enter_context(admin)
        return self._brokers

    @cached_property
    def offsets(self) -> OffsetStore:
        """The group's offsets, in their stores."""
        return self._member_offsets or self._stored_offsets

    @cached_property
    def _stored_offsets(self) -> GroupOffsets:
        from pyspark_zkafka.group.offset_store import GroupOffsets

        name, servers = self._required_group.name, self.servers(self.snapshot())
        offsets = GroupOffsets(self._read.connection, servers, name, self._read.stores, self._zookeeper, self._sleep)
        return self._opened.enter_context(offsets)

    def level(self, partitions: Collection[TopicPartition], owner: ClaimOwner | None) -> None:
        """Commit the offsets of a group with two stores to the one that lags; see `GroupOffsets.level`."""
        if self._member_offsets is None:
            self._stored_offsets.level(partitions, owner)

    @property
    def commits_as_member(self) -> bool:
        """True if only the member itself can commit, as in a group that Kafka coordinates."""
        return self._member_offsets is not None

    @property
    def _required_group(self) -> GroupOptions:
        if self._group is None:
            raise OptionError("INVALID_OPTION", "Offsets of a group are read, and no group is named; set group.id")
        return self._group

    def servers(self, snapshot: ClusterSnapshot) -> str:
        """Bootstrap servers, ``host:port,...``; while no broker is registered, the last ones that were."""
        if snapshot.brokers or self._servers is None:
            self._servers = bootstrap_servers(self._read.connection, snapshot)
        return self._servers

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        """The cluster with the subscribed topics that exist.

        Read again now (`anew`), when a watch reports a change of brokers or topics, when the connection is back, while a
        partition has no leader, and once a minute; without ZooKeeper, once a second. If that fails with a retriable error,
        the last one is used for longer. The deletion of an `expected` topic is confirmed by another read.
        """
        found = self._snapshot
        if found is None:
            found = self._snapshot = self.retry(self._read_cluster)
        elif anew or self._is_old():
            found = self._refresh(found)
        missing = set(expected) - found.topics.keys()
        self._deleted &= missing
        return found if missing <= self._deleted else self._confirm_deleted(missing, found)

    def settled_snapshot(self) -> ClusterSnapshot:
        """A snapshot in which all leaders are registered, if the controller replaces the others within the retries."""
        found = self.snapshot()  # until it has, another leader may come back in the same epoch
        for _ in range(self._read.retries):
            if not any(s.leader != NO_LEADER and s.leader not in found.brokers for s in found.states.values()):
                break
            self._sleep(self._read.retry_interval_ms / 1000)
            found = self.snapshot(anew=True)
        return found

    def is_still(self, snapshot: ClusterSnapshot) -> bool:
        """True if the topics are still those of a snapshot; brokers are queried, ZooKeeper's watches report changes."""
        return has_same_topics(snapshot, self.snapshot(anew=self._is_polled))

    def log_ends(self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]) -> EndsAndErrors:
        """The ends of logs; adds their leader epochs to `epochs`. Blocks for 5 s or a little more."""
        return self.brokers.list_offsets_each(dict.fromkeys(partitions, LATEST), ANSWER_S, epochs)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> EndsAndErrors:
        """The ends of logs including open transactions, where `log_ends` stops before these."""
        return self.brokers.list_offsets_each(dict.fromkeys(partitions, HIGH_WATERMARK), ANSWER_S)

    def _is_old(self) -> bool:
        age_s = self._clock() - self._read_at
        if self._is_cut_off and self._zookeeper is not None and self._zookeeper.connected and age_s > _RECONNECTED_AGE_S:
            return True
        return self._stale.is_set() or age_s > self._max_age_s

    def _refresh(self, before: ClusterSnapshot) -> ClusterSnapshot:
        """A new snapshot, or the same one if it cannot be read."""
        problem: object = "there is no connection to ZooKeeper"
        ensemble = self._ensemble
        if ensemble is None or ensemble.connected:
            try:
                found = self._snapshot = self._read_cluster()
            except ZKafkaError as error:
                if not error.retriable:
                    raise
                problem = error
            else:
                self._is_cut_off = False
                if ensemble is not None and self._brokers is not None:
                    self._brokers.refresh_metadata(moved_topics(before, found))
                return found
        if not self._is_cut_off:
            _log.warning("using the last snapshot of the cluster: %s", problem)
        self._stale.clear()
        self._is_cut_off, self._read_at = ensemble is not None, self._clock()
        return before

    def _confirm_deleted(self, missing: Collection[str], found: ClusterSnapshot) -> ClusterSnapshot:
        """Confirm that topics are deleted: ZooKeeper knows, but a broker that has just started may know none yet."""
        for _ in range(self._read.retries if self._is_polled else 1):
            if self._is_polled:
                self._sleep(self._read.retry_interval_ms / 1000)
            found = self._refresh(found)
            if found.topics.keys() >= set(missing):
                break
        self._deleted = set(missing) - found.topics.keys()
        return found

    def first_after_epoch(self, partition: TopicPartition, epoch: int, offsets: range) -> int | None:
        """The first offset in a range that was written in a later leader epoch; see `kafka.leader_epochs`."""
        from pyspark_zkafka.kafka.leader_epochs import first_after_epoch

        return first_after_epoch(self.consumer_properties(), partition, epoch, offsets, ANSWER_S)

    def record_bytes(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """The mean sizes of records from each position on; blocks for 3 s at the most. See `kafka.record_sizes`."""
        from pyspark_zkafka.kafka.record_sizes import sample_record_bytes

        return sample_record_bytes(self.consumer_properties(), starts, _SAMPLE_S)

    def consumer_properties(self, records: int | None = None) -> dict[str, Any]:
        """librdkafka's properties for a consumer that reads so many records."""
        from pyspark_zkafka.kafka.consumer_properties import consumer_properties

        servers = self.servers(self.snapshot())
        return consumer_properties(self._read.connection, servers, self._read.client_group, records)

    def younger(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions created after the group subscribed to their topics; none without membership."""
        if self.member is None or not partitions:
            return set()
        if self._member_offsets is not None or self._zookeeper is None:
            return self._without_start(partitions)
        from pyspark_zkafka.group.subscription import subscribed_since, younger

        by_pattern = not isinstance(self._subscription, Subscribe)
        topics = sorted({tp.topic for tp in partitions})
        since = subscribed_since(self._zookeeper, self.member.group, topics, by_pattern=by_pattern)
        return younger(partitions, self.snapshot(), since)

    def _without_start(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions without an offset in topics of which the group has some, in Kafka: it began before them.

        A member that begins to read a topic commits its starts in all partitions that it owns.
        """
        topics = {tp.topic for tp in partitions}
        states = self.snapshot().states
        committed = self.offsets.committed([tp for tp in states if tp.topic in topics])
        begun = {tp.topic for tp in committed}
        return {tp for tp in partitions if tp.topic in begun and tp not in committed}

    def owned(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """The partitions to read: those that the member owns, or, without membership, all that are subscribed to."""
        if self.member is not None:
            return self.member.owned()
        if self._subscribed is None or self._subscribed[0] is not snapshot:
            everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
            if isinstance(self._subscription, Assign):
                everything = [tp for tp in self._subscription.partitions if tp in snapshot.states]
            self._subscribed = snapshot, dict.fromkeys(everything, _UNCLAIMED)
        return self._subscribed[1]

    def _read_cluster(self) -> ClusterSnapshot:
        self._stale.clear()
        self._read_at = self._clock()
        ensemble = self._ensemble
        snapshot = self._query_brokers() if ensemble is None else self._read_znodes(ensemble)
        self._is_polled = ensemble is None or snapshot.is_outdated
        if snapshot.brokers:
            self._left_at = None
        if snapshot.is_outdated:
            snapshot = self._complete(snapshot)
        self._max_age_s = max_age_s(snapshot, is_watched=not self._is_polled)
        return snapshot

    def _complete(self, outdated: ClusterSnapshot) -> ClusterSnapshot:
        """The cluster whose brokers leave ZooKeeper for KRaft; ends a group's member once all have left."""
        if self.member is not None and self._member_offsets is None and not outdated.brokers:
            raise self._without_brokers(self.member.group)
        if self._brokers is None:
            self._brokers = self._opened.enter_context(KafkaAdmin.of(self._read.connection, self.servers(outdated)))
        if not self._is_migration_reported:
            self._is_migration_reported = True
            _log.warning("%s", describe_migration(outdated))
        if outdated.brokers:
            return current_snapshot(outdated, self._brokers, self._read.connection, ())
        self._have_brokers_left = True
        return current_snapshot(outdated, self._brokers, self._read.connection, self._wanted_of(self._brokers))

    def _without_brokers(self, group: str) -> ClusterStateError:
        """The error for a member in ZooKeeper where no broker is; retriable while the last one may have restarted.

        No topic or partition that is created after the last one has left appears in ZooKeeper, where members divide them.
        """
        if self._left_at is None:
            self._left_at = self._clock()
        if self._snapshot is not None and self._clock() - self._left_at < _RESTARTED_S:
            return BrokersUnavailable(
                "BROKERS_UNAVAILABLE",
                "No broker is registered in ZooKeeper, during a migration to KRaft: the last one restarts, or has left; "
                f"waiting {_RESTARTED_S:.0f} s for one",
            )
        return ClusterStateError(
            "MIGRATED_TO_KRAFT",
            f"All brokers have left ZooKeeper for KRaft; group {group} has its members there, who would not see new "
            "partitions; stop all of them, copy the offsets with zkafka groups migrate, and start them with "
            "groupMembership=kafka and kafka.bootstrap.servers",
        )

    @property
    def _ensemble(self) -> ZooKeeperClient | None:
        """ZooKeeper, if the cluster's state is there; None without it, and once all brokers have left it."""
        return None if self._have_brokers_left else self._zookeeper

    def _read_znodes(self, zookeeper: ZooKeeperClient) -> ClusterSnapshot:
        by_name = isinstance(self._subscription, (Subscribe, Assign))
        lists = [broker_znodes.BROKER_IDS] if by_name else [broker_znodes.BROKER_IDS, znodes.TOPICS]
        found = zookeeper.children_many(lists, self._on_event)
        topics = wanted_topics(self._subscription, found.get(znodes.TOPICS, ()))
        zookeeper.exists_many(map(znodes.topic_path, topics), self._on_event)
        return zookeeper.snapshot(topics)

    def _query_brokers(self) -> ClusterSnapshot:
        return self.brokers.snapshot(self._wanted_of(self.brokers))

    def _wanted_of(self, brokers: KafkaAdmin) -> Collection[str]:
        by_pattern = isinstance(self._subscription, (SubscribePattern, SubscribeExcept))
        return wanted_topics(self._subscription, brokers.topic_names() if by_pattern else ())

    def _on_event(self, event: object) -> None:
        """Mark the snapshot as stale; called on kazoo's thread."""
        self._stale.set()

    @property
    def _subscription(self) -> Subscription:
        return self._read.require_subscription()
