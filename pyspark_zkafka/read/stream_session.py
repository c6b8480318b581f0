"""Connections of a stream to the cluster, the group and the group's offsets, and the stream's warnings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark_zkafka.conditions import INVALID_OPTION, report_data_loss
from pyspark_zkafka.errors import Condition, DataLoss, ZKafkaError
from pyspark_zkafka.model.nouns import (
    Claim,
    ClaimOwner,
    ClusterSnapshot,
    OffsetRange,
    OffsetStore,
    TopicPartition,
    session_text,
)
from pyspark_zkafka.model.offsets import HIGH_WATERMARK, LATEST
from pyspark_zkafka.model.planning import Assign, Split, Subscribe, describe_missing, make_splits, missing_topics
from pyspark_zkafka.model.znodes.groups import owner_path
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.cluster_state import RESTARTED_S, ClusterState
from pyspark_zkafka.retries import OncePerMinute

if TYPE_CHECKING:
    from pyspark_zkafka.brokers.admin import LogPosition
    from pyspark_zkafka.group.membership import Membership
    from pyspark_zkafka.group.offsets import GroupOffsets, KafkaMemberOffsets
    from pyspark_zkafka.options.values import GroupOptions, ZooKeeperConfig
    from pyspark_zkafka.wire.offset_messages import EpochEndOffset
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_SAMPLE_S = 3.0
ANSWER_S = 5.0  # short, so that other partitions need not wait for a leader without an answer
_UNCLAIMED = Claim("", 0)

EndsAndErrors = tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]
"""Ends of logs, and errors of leaders that do not answer."""


class StreamSession:
    """Connections of one run of a query, from `open` to `close`. For one thread of one process.

    While the session is open, `cluster` is the state of the cluster, and `member` the member of the group, None without
    membership.
    """

    cluster: ClusterState

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.retry = options.read.retry(sleep)
        self._read = options.read
        self._group = options.group
        self._subscription = options.read.require_subscription()
        self._clock = clock
        self._sleep = sleep
        self._opened = ExitStack()
        self._is_open = False
        self._zookeeper: ZooKeeperClient | None = None
        self._subscribed: tuple[ClusterSnapshot, Mapping[TopicPartition, Claim]] | None = None
        self.member: Membership | None = None
        self._member_offsets: KafkaMemberOffsets | None = None

    def open(self) -> None:
        """Connect, and join the group if required. Idempotent. Raises ZKafkaError on failure, and leaves nothing open."""
        if self._is_open:
            return
        with ExitStack() as failed:
            failed.callback(self.close)
            self._connect()
            failed.pop_all()
        self._is_open = True

    def _connect(self) -> None:
        ensemble = self._read.connection.zookeeper
        membership = "none" if self._group is None else self._group.membership
        if ensemble is not None:
            if membership == "auto":
                membership = "kafka" if self._is_migrated(ensemble) else "zookeeper"
            if membership == "zookeeper":
                self._join_in_zookeeper(ensemble)
            else:
                self._zookeeper = self._open_zookeeper(ensemble, self._opened)
        group = None if self.member is None else self.member.group
        self.cluster = ClusterState(self._read, self._zookeeper, group, self._clock, self.retry)
        self._opened.callback(self.cluster.close)
        if membership == "kafka":
            self._join_in_kafka()

    def _open_zookeeper(self, ensemble: ZooKeeperConfig, opened: ExitStack) -> ZooKeeperClient:
        from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

        client = ZooKeeperClient(ensemble)
        self.retry(client.__enter__)
        opened.callback(client.close)
        return client

    def _join_in_zookeeper(self, ensemble: ZooKeeperConfig) -> None:
        from pyspark_zkafka.group.member import GroupMember

        group = self._required_group
        member = GroupMember(ensemble, group, self._subscription)
        self.retry(member.join)
        self._opened.callback(member.leave)
        self.member, self._zookeeper = member, member.client
        _log.info("%s joined group %s in ZooKeeper (groupMembership=%s)", member.consumer, group.name, group.membership)

    def _is_migrated(self, ensemble: ZooKeeperConfig) -> bool:
        """Return True if all brokers have left ZooKeeper. Raises an error if the group's offsets have stayed there."""
        with ExitStack() as opened:
            zookeeper = self._open_zookeeper(ensemble, opened)
            if not self._have_brokers_left(zookeeper):
                return False
            if "zookeeper" in self._read.stores:
                from pyspark_zkafka.group.membership import refuse_unmigrated

                self.retry(lambda: refuse_unmigrated(zookeeper, self._required_group.name, self._read))
        return True

    def _have_brokers_left(self, zookeeper: ZooKeeperClient) -> bool:
        """Return True if all brokers have left ZooKeeper for KRaft, and no broker returns within half a minute."""
        left_at = None
        while self.retry(zookeeper.all_brokers_migrated):
            if left_at is None:
                left_at = self._clock()
                _log.warning(
                    "No broker is registered in ZooKeeper, after a migration to KRaft: waiting %.0f s for one. Leave out "
                    "zookeeper.connect if all have left",
                    RESTARTED_S,
                )
            if self._clock() - left_at >= RESTARTED_S:
                return True
            self._sleep(_LOOK_S)
        return False

    def _join_in_kafka(self) -> None:
        from pyspark_zkafka.group.membership import KafkaJoin

        self.cluster.servers()
        join = KafkaJoin(self._read.connection, lambda: self.cluster.last_servers, self._required_group, self._subscription)
        self.member, self._member_offsets = join.open(self._opened, self._zookeeper)
        group = self._required_group
        _log.info("Joining group %s in Kafka (groupMembership=%s)", group.name, group.membership)

    def close(self) -> None:
        """Leave the group at once, and close all connections. Idempotent. Blocks for at most some seconds."""
        self._opened.close()

    def group_offsets(self) -> GroupOffsets | KafkaMemberOffsets:
        """Return the group's offsets, with clients that follow the present brokers."""
        offsets = self._stored_offsets if self._member_offsets is None else self._member_offsets
        if "kafka" in self._read.stores:
            offsets.follow(self.cluster.servers())
        return offsets

    @cached_property
    def _stored_offsets(self) -> GroupOffsets:
        from pyspark_zkafka.group.offsets import GroupOffsets

        name, servers = self._required_group.name, self.cluster.servers()
        offsets = GroupOffsets(self._read.connection, servers, name, self._read.stores, self._zookeeper, self._sleep)
        return self._opened.enter_context(offsets)

    @property
    def stores(self) -> tuple[OffsetStore, ...]:
        """The stores of the group's offsets."""
        return self._read.stores

    def copy_to_lagging_store(self, partitions: Collection[TopicPartition], owner: ClaimOwner | None) -> None:
        """Commit offsets of a group with two stores to the store that lags."""
        if self._member_offsets is None:
            self._stored_offsets.copy_to_lagging_store(partitions, owner)

    @property
    def commits_as_member(self) -> bool:
        """True if only the member itself can commit, as in a group that Kafka coordinates."""
        return self._member_offsets is not None

    @property
    def _required_group(self) -> GroupOptions:
        if self._group is None:
            raise INVALID_OPTION("Offsets of a group are read, and no group is named; set group.id")
        return self._group

    def set_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Have the member, if there is one, keep the partitions that the running micro-batch reads."""
        if self.member is not None:
            self.member.set_reading(list(partitions))

    def log_ends(self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]) -> EndsAndErrors:
        """Return the ends of logs, and add their leader epochs to `epochs`. Blocks for little more than 5 s."""
        return self.cluster.brokers.list_offsets_each(dict.fromkeys(partitions, LATEST), ANSWER_S, epochs)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> EndsAndErrors:
        """Return the ends of logs, including open transactions. `log_ends` stops before open transactions."""
        return self.cluster.brokers.list_offsets_each(dict.fromkeys(partitions, HIGH_WATERMARK), ANSWER_S)

    def truncated(
        self, positions: Mapping[TopicPartition, LogPosition], epochs: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, EpochEndOffset], set[TopicPartition]]:
        """Return the truncated logs, and the logs without an answer; see `KafkaAdmin.find_truncated`."""
        return self.cluster.brokers.find_truncated(positions, epochs, ANSWER_S)

    def record_bytes(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, float]:
        """Return the mean size of the first records of each range, in bytes. Blocks for at most 3 s; see `LogSamples`."""
        from pyspark_zkafka.read.log_samples import LogSamples

        return LogSamples(self._read, self.cluster.servers(), _SAMPLE_S).mean_bytes(self._splits(ranges))

    def _splits(self, ranges: Iterable[OffsetRange]) -> list[Split]:
        snapshot, connection = self.cluster.snapshot(), self._read.connection
        existing = [found for found in ranges if found.partition in snapshot.states]
        return make_splits(existing, snapshot, connection.client_rack, connection.listener)

    def created_after_subscription(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions created after the group subscribed to their topics. Empty without membership."""
        if self.member is None or not partitions:
            return set()
        if self._member_offsets is not None or self._zookeeper is None:
            return self._without_start(partitions)
        from pyspark_zkafka.group.registration import created_after_subscription, subscribed_since

        by_pattern = not isinstance(self._subscription, Subscribe)
        topics = sorted({tp.topic for tp in partitions})
        since = subscribed_since(self._zookeeper, self.member.group, topics, by_pattern=by_pattern)
        return created_after_subscription(partitions, self.cluster.snapshot(), since)

    def owners(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the member that owns, or is being assigned, each partition: its id in Kafka, its session in ZooKeeper.

        Partitions without an owner, or with a claim without a session, are absent. Blocks for one or two requests.
        """
        group = self._required_group.name
        if self._member_offsets is None and self._zookeeper is not None:
            paths = {owner_path(group, tp): tp for tp in partitions}
            found = {paths[path]: stat.ephemeral_owner for path, stat in self._zookeeper.exists_many(paths).items()}
            return {tp: f"session {session_text(session)}" for tp, session in found.items() if session}
        from pyspark_zkafka.brokers.groups import GroupAdmin

        with GroupAdmin.of(self._read.connection, self.cluster.servers()) as admin:
            members = admin.group_state(group).members
        return {tp: member for member, theirs in members.items() for tp in theirs.partitions.intersection(partitions)}

    def without_records(self, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Return the partitions whose range holds no record, if that is certain. Blocks for at most 3 s."""
        from pyspark_zkafka.read.log_samples import LogSamples

        samples = LogSamples(self._read, self.cluster.servers(), _SAMPLE_S)
        return set(samples.without_records(self._splits(ranges)))

    def _without_start(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions without an offset in topics with other offsets of the group in Kafka.

        The group subscribed before they were created: a member that starts to read a topic commits the starts of all
        partitions that it owns.
        """
        topics = {tp.topic for tp in partitions}
        committed = self.group_offsets().committed([tp for tp in self.cluster.snapshot().states if tp.topic in topics])
        started = {tp.topic for tp in committed}
        return {tp for tp in partitions if tp.topic in started and tp not in committed}

    def subscribed(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """Return all subscribed partitions, which a stream without membership reads."""
        if self._subscribed is None or self._subscribed[0] is not snapshot:
            everything = snapshot.all_partitions()
            if isinstance(self._subscription, Assign):
                everything = [tp for tp in self._subscription.partitions if tp in snapshot.states]
            self._subscribed = snapshot, dict.fromkeys(everything, _UNCLAIMED)
        return self._subscribed[1]


class StreamWarnings:
    """Reports of data loss, and warnings that are repeated at most once a minute. `clock` is monotonic."""

    def __init__(self, fail_on_data_loss: bool, clock: Callable[[], float]) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self._limit = OncePerMinute(clock)
        self._complete: ClusterSnapshot | None = None

    def lose(self, condition: Condition[DataLoss], text: str) -> None:
        """Raise DataLoss, or, without failOnDataLoss, log a warning."""
        report_data_loss(condition, f"{text}; some records may be lost", fail=self._fail_on_data_loss)

    def warn(self, subject: str, text: str) -> None:
        """Log a warning, unless one on the same subject was logged within the last minute."""
        if self._limit.is_due(subject):
            _log.warning("%s", text)

    def due(self, subject: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions to warn of now: warnings on a subject name each partition at most once a minute."""
        return [tp for tp in partitions if self._limit.is_due(f"{subject}: {tp}")]

    def report_missing(
        self,
        read: ReadOptions,
        snapshot: ClusterSnapshot,
        names: Callable[[], Collection[str]],
        *,
        may_fail: bool,
        has_end: bool = False,
    ) -> None:
        """Warn of subscribed topics that do not exist, or raise UnknownTopic if `may_fail`.

        Raises only if `missingTopics` is fail, or if it is not set and the query `has_end`, because such a query cannot
        wait. `names` returns the names of all topics, to suggest the nearest name. It is called at most once a minute.
        """
        if snapshot is self._complete:
            return
        subscription = read.require_subscription()
        missing = missing_topics(subscription, snapshot)
        self._complete = None if missing else snapshot
        fails = may_fail and (read.missing_topics == "fail" or (has_end and read.missing_topics is None))
        if not missing or not (fails or self._limit.is_due(f"missing: {missing}")):
            return
        error = describe_missing(subscription, missing, names(), may_wait=not fails)
        if fails:
            raise error
        _log.warning("%s: %s", "Topics are left out" if has_end else "Waiting for topics", error)
